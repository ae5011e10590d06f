"""Manifests made for the Go plugin, and our own, start the agent with the arguments they have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from agent.cli.arguments import parse
from tests.chart.helm import Document, Helm, container, one
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

MANIFESTS = Path(__file__).parent / "manifests"
NODE = "node1"
PF = "0000:3b:00.0"
VALUES = {
    "resourcePrefix": "acme.org",
    "http": {"enabled": False},
    "config": {"resourceList": [{"resourceName": "nics", "selectors": {"drivers": ["iavf"]}}]},
}


def arguments(documents: list[Document], config: Path) -> list[str]:
    """The container's arguments as kubelet passes them, with its ConfigMap at `config`."""
    for key, text in one(documents, "ConfigMap")["data"].items():
        (config / key).write_text(text, encoding="utf-8")
    written = container(documents)["args"]
    expanded = (re.sub(r"\$\((\w+)\)", lambda name: _VARIABLES[name[1]], word) for word in written)
    return [word.replace("/etc/pcidp", str(config)) for word in expanded]


_VARIABLES = {"NODE_NAME": NODE, "NODE_IP": "127.0.0.1"}


def serves(
    host: HostBuilder, config: Path, words: list[str], env: Mapping[str, str], resource: str
) -> Kubelet:
    """Start the agent on a host with two VFs and wait until kubelet has both; the kubelet."""
    host.pf(PF, "ens1f0", vfs=2)
    with (
        Kubelet(host.roots.kubelet) as kubelet,
        AgentProcess(host.root, config / "config.json", *words, env=dict(env)) as agent,
    ):
        kubelet.wait_for(lambda k: len(k.allocatable(resource)) == 2, f"2 of {resource}")
        assert agent.stop() == 0
    return kubelet


@pytest.mark.parametrize(
    ("name", "resource"),
    [("go-plugin", "intel.com/intel_sriov_netdevice"), ("operator", "openshift.io/nics")],
)
def test_a_manifest_of_the_go_plugin_starts_the_agent_if_only_its_image_is_changed(
    host: HostBuilder, tmp_path: Path, name: str, resource: str
) -> None:
    documents = list(yaml.safe_load_all((MANIFESTS / f"{name}.yaml").read_text("utf-8")))
    words = arguments(documents, tmp_path)
    assert parse(words).command == "run"
    # As the container is: the default config file is not there unless the ConfigMap has it.
    kubelet = serves(host, tmp_path, words, {"NODE_NAME": NODE}, resource)
    assert [registration.way for registration in kubelet.registrations] == ["legacy"]


def test_the_rendered_daemonset_starts_the_agent(
    host: HostBuilder, tmp_path: Path, helm: Helm
) -> None:
    words = arguments(helm.documents(VALUES), tmp_path)
    serves(host, tmp_path, words, {"NODE_NAME": NODE}, "acme.org/nics")


def test_the_list_of_a_node_comes_before_the_list_for_all_nodes(
    host: HostBuilder, tmp_path: Path, newest_helm: Helm
) -> None:
    own = {"nodes": {NODE: [{"resourceName": "own", "selectors": {"drivers": ["iavf"]}}]}}
    words = arguments(newest_helm.documents(VALUES, {"config": own}), tmp_path)
    kubelet = serves(host, tmp_path, words, {"NODE_NAME": NODE}, "acme.org/own")
    assert {registration.resource for registration in kubelet.registrations} == {"acme.org/own"}
