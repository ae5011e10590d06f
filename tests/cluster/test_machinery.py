"""The machinery itself: what the other tests of this folder take for granted of the cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.kubelet import release
from tests.kubelet.image import BUSYBOX
from tests.kubelet.kubelet import NODE_NAME
from tests.kubelet.tools import PACKAGES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubelet.node import Cluster

# In the pod network: the node's own is what the other tests use.
_POD = {
    "terminationGracePeriodSeconds": 1,
    "containers": [{"name": "main", "image": BUSYBOX, "imagePullPolicy": "Never"}],
}


def _all_run(pods: dict[str, Any]) -> bool:
    phases = [pod["status"]["phase"] for pod in pods["items"]]
    return bool(phases) and set(phases) == {"Running"}


def test_the_node_and_the_control_plane_are_of_the_pinned_release(cluster: Cluster) -> None:
    node = cluster.control_plane.read("node", NODE_NAME)
    told = json.loads(cluster.control_plane.kubectl("get", "--raw", "/version"))
    assert node["status"]["nodeInfo"]["kubeletVersion"] == release.version()
    assert told["gitVersion"] == release.version()


def test_a_pod_is_scheduled_and_runs_with_an_address_of_the_pod_network(cluster: Cluster) -> None:
    plane = cluster.control_plane
    labels = {"app": "scheduled"}
    metadata = {"name": "scheduled", "labels": labels}
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _POD})
    pods = plane.eventually(_all_run, "pods", "--selector=app=scheduled")
    assert [pod["status"]["podIP"].startswith("198.51.100.") for pod in pods["items"]] == [True]
    plane.kubectl("delete", "pod", "scheduled")


@pytest.mark.parametrize("major", sorted(PACKAGES))
def test_helm_installs_a_daemon_set_that_runs(cluster: Cluster, major: int, tmp_path: Path) -> None:
    plane = cluster.control_plane
    name = f"by-helm-{major}"
    labels = {"app": name}
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _POD},
        },
    }
    chart = {"apiVersion": "v2", "name": name, "version": "1.0.0"}
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text(json.dumps(chart), encoding="utf-8")
    (tmp_path / "templates/one.yaml").write_text(json.dumps(daemon_set), encoding="utf-8")
    plane.helm(major, "install", name, tmp_path)
    plane.eventually(_all_run, "pods", f"--selector=app={name}")
    plane.helm(major, "uninstall", name)
    plane.eventually(lambda pods: not pods["items"], "pods", f"--selector=app={name}")
