"""The machinery itself: what the other tests of this folder take for granted of the node."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import release
from .pods import Container

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .node import Node

# Whatever kubelet and containerd write at fixed places, or for the whole machine.
_PLACES = (
    "/opt/containerd",
    "/run/containerd",
    "/usr/libexec/kubernetes",
    "/var/lib/kubelet",
    "/var/log/pods",
)
_SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")


def _host() -> dict[str, object]:
    sysctls = {key: Path("/proc/sys", key).read_text("ascii") for key in _SYSCTLS}
    places = {place: Path(place).exists() for place in _PLACES}
    return {
        **sysctls,
        **places,
        "mounts": _node_mounts(Path("/proc/self/mounts").read_text("utf-8")),
    }


def _node_mounts(mounts: str) -> list[str]:
    """The mounts that `namespace.sh` makes, which it names."""
    return [line for line in mounts.splitlines() if line.startswith("node-")]


_HOST_BEFORE = _host()


@pytest.fixture
def pod(node: Node, request: pytest.FixtureRequest) -> Iterator[str]:
    """A pod that runs, named after its test."""
    name = request.node.name.replace("_", "-")
    node.pods.write(name, Container(environ={"GREETING": "hello there"}))
    node.pods.running(name)
    yield name
    node.pods.remove(name)


def test_the_kubelet_is_the_pinned_release(node: Node) -> None:
    assert node.kubelet.version() == f"Kubernetes {release.version()}"


def test_the_runtime_is_containerd_2(node: Node) -> None:
    assert node.containerd.version().startswith("2.")


def test_a_static_pod_runs_with_the_environment_of_its_manifest(node: Node, pod: str) -> None:
    assert node.pods.environ(pod)["GREETING"] == "hello there"


def test_a_pod_without_a_request_has_only_the_devices_of_every_container(
    node: Node, pod: str
) -> None:
    usual = {"full", "null", "pts/ptmx", "random", "tty", "urandom", "zero"}
    assert node.pods.device_nodes(pod) == {f"/dev/{name}" for name in usual}
    assert node.pods.holds(pod) == frozenset()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_pod_outlives_a_restart_of_kubelet(node: Node, number: signal.Signals) -> None:
    name = f"outlives-{number.name.lower()}"
    node.pods.write(name)
    before = node.pods.running(name)
    node.kubelet.restart(number)
    assert node.pods.running(name) == before
    node.pods.remove(name)


def test_a_container_that_ends_is_started_again(node: Node, pod: str) -> None:
    before = node.pods.running(pod).containers["main"]
    after = node.pods.end_container(pod).containers["main"]
    assert (after.restarts, after.id != before.id) == (before.restarts + 1, True)


def test_a_pod_that_asks_for_an_unknown_resource_runs_without_it(node: Node) -> None:
    """The trap of static pods: write the manifest only when the resource is there."""
    node.pods.write("unknown-resource", Container(asks={"example.com/none": 1}))
    node.pods.running("unknown-resource")
    assert node.pods.holds("unknown-resource") == frozenset()
    node.pods.remove("unknown-resource")


def test_the_node_is_not_visible_on_the_host(node: Node, pod: str) -> None:
    assert _node_mounts(node.inside.run("cat", "/proc/mounts"))
    assert _host() == _HOST_BEFORE
