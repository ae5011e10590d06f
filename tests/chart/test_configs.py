"""The rendered arguments and configurations are those of the real command line and loader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from agent.cli.arguments import parse
from agent.config.load import load_config
from agent.config.schema import POOL_KEYS
from agent.http.address import parse_address
from agent.selectors import SELECTORS
from tests.chart.helm import CHART, EXAMPLES, Document, Helm, container, one
from tests.chart.values import MATRIX

MANIFESTS = sorted((Path(__file__).parent / "manifests").glob("*.yaml"))
PREFIX = "example.com"


@pytest.mark.parametrize("name", MATRIX)
def test_the_rendered_arguments_are_accepted_by_the_command_line(
    newest_helm: Helm, name: str
) -> None:
    values = MATRIX[name]
    arguments = parse(container(newest_helm.documents(values))["args"])
    assert arguments.command == "run"
    assert arguments.resource_prefix == values.get("resourcePrefix", "intel.com")
    assert arguments.kubelet_dir == values.get("kubelet", {}).get("dir", "/var/lib/kubelet")
    assert arguments.registration == values.get("kubelet", {}).get("registration", "auto")
    assert arguments.use_cdi is values.get("cdi", {}).get("enabled", False)
    assert arguments.cdi_mode == values.get("cdi", {}).get("mode", "field")
    assert arguments.strict is values.get("config", {}).get("strict", False)
    assert arguments.allocation_policy == values.get("allocationPolicy", "")
    assert arguments.log_level == str(values.get("log", {}).get("level", "info"))
    assert arguments.log_format == values.get("log", {}).get("format", "text")
    assert bool(arguments.http_address) is values.get("http", {}).get("enabled", True)


@pytest.mark.parametrize(
    ("values", "address"),
    [
        ({}, "127.0.0.1:9811"),
        ({"http": {"port": 80}}, "127.0.0.1:80"),
        ({"metrics": {"podMonitor": {"enabled": True}}}, "[$(NODE_IP)]:9811"),
        ({"http": {"address": "[::1]"}}, "[::1]:9811"),
        ({"http": {"address": "[::]"}}, "[::]:9811"),
    ],
    ids=["default", "port", "monitor", "IPv6", "everywhere"],
)
def test_kubelet_probes_where_the_agent_listens(
    newest_helm: Helm, values: Document, address: str
) -> None:
    rendered = container(newest_helm.documents(values))
    assert parse(rendered["args"]).http_address == address
    for node_ip in ("192.0.2.10", "2001:db8::10"):
        parse_address(address.replace("$(NODE_IP)", node_ip))
    local = {"127.0.0.1": "127.0.0.1", "[::1]": "::1"}.get(address.rpartition(":")[0])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert rendered[probe]["httpGet"].get("host") == local
    variables = {variable["name"] for variable in rendered["env"]}
    assert ("NODE_IP" in variables) is ("$(NODE_IP)" in address)


def test_an_operators_switch_turns_probes_and_port_off(newest_helm: Helm) -> None:
    rendered = container(newest_helm.documents({"http": {"enabled": False}}))
    assert not {"startupProbe", "livenessProbe", "readinessProbe", "ports"} & set(rendered)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_configuration_of_an_example_loads_without_a_message(
    newest_helm: Helm, example: Path
) -> None:
    documents = newest_helm.documents(example)
    prefix = parse(container(documents)["args"]).resource_prefix
    configured = [d["data"] for d in documents if d["metadata"]["name"].endswith("-config")]
    existing = yaml.safe_load(example.read_text("utf-8")).get("config", {}).get("existingConfigMap")
    assert len(configured) == (0 if existing else 1)
    for key, text in [item for data in configured for item in data.items()]:
        loaded = load_config(text.encode(), source=key, default_prefix=prefix, strict=True)
        assert loaded.lines() == ()
        assert loaded.usable


def test_pools_reach_the_agent_as_they_were_written(newest_helm: Helm) -> None:
    values = MATRIX["pools"]["config"]
    data = one(newest_helm.documents(MATRIX["pools"]), "ConfigMap")["data"]
    assert {key: json.loads(text) for key, text in data.items()} == {
        "config.json": {"resourceList": values["resourceList"]},
        "node-1.example.com": {"resourceList": values["nodes"]["node-1.example.com"]},
    }


def test_a_text_reaches_the_agent_byte_for_byte(newest_helm: Helm) -> None:
    text = '{"ResourceList": null,\t"resourceList": [\n\n]} '
    data = one(newest_helm.documents({"config": {"text": text}}), "ConfigMap")["data"]
    assert data == {"config.json": text}


def test_every_key_of_a_pool_can_be_set_in_values(newest_helm: Helm) -> None:
    keys = {key.name: key.example for key in POOL_KEYS.values()}
    run_all = {s.key: s.example for s in SELECTORS.values() if s.key != "vdpaType"}
    pools = [
        {**keys, "selectors": run_all},
        {**keys, "resourceName": "other", "selectors": [{"vdpaType": "vhost"}]},
    ]
    data = one(newest_helm.documents({"config": {"resourceList": pools}}), "ConfigMap")["data"]
    assert json.loads(data["config.json"]) == {"resourceList": pools}


def test_a_pool_that_the_loader_refuses_is_invalid_by_the_schema() -> None:
    """The schema is made from the loader's tables; each key it knows, the loader knows."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    assert list(schema["definitions"]["pool"]["properties"]) == list(POOL_KEYS)
    assert list(schema["definitions"]["selectors"]["properties"]) == list(SELECTORS)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_the_configurations_of_the_drop_in_manifests_load(manifest: Path) -> None:
    documents = list(yaml.safe_load_all(manifest.read_text("utf-8")))
    for key, text in one(documents, "ConfigMap")["data"].items():
        loaded = load_config(text.encode(), source=key, default_prefix=PREFIX)
        assert loaded.errors == ()
        assert loaded.usable
