"""The chart on a real cluster, with the built image: one release, looked at from all sides.

The rights are exactly those that are rendered; containerd and the kernel enforce them.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart.helm import CHART
from tests.cluster.rig import KERNEL_VFS, NAMESPACE, PF, SELECTOR, Rig

_VFIO = os.makedev(10, 196)  # Documentation/admin-guide/devices.txt: /dev/vfio/vfio
POOLS = [
    {"resourceName": "net", "selectors": {"drivers": ["iavf"]}},
    {"resourceName": "dpdk", "selectors": {"drivers": ["vfio-pci"]}},
]


@pytest.fixture(scope="module")
def pod(rig: Rig) -> Iterator[dict[str, Any]]:
    yield rig.helm("install", values={"config": {"resourceList": POOLS}})
    rig.uninstall()


def test_a_ready_pod_means_that_kubelet_has_both_pools(rig: Rig, pod: dict[str, Any]) -> None:
    rig.allocatable("intel.com/net", KERNEL_VFS)
    rig.allocatable("intel.com/dpdk", 2)
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


def test_the_process_has_no_capability_and_cannot_gain_one(rig: Rig, pod: dict[str, Any]) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in rig.execute(pod, "cat", "/proc/1/status").text.splitlines()
        if ":\t" in line
    )
    assert {status[f"Cap{which}"] for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["Uid"].split() == ["0"] * 4


@pytest.mark.parametrize("path", ["/x", "/opt/sriov-agent/x", "/dev/x", "/sys/x", "/etc/pcidp/x"])
def test_nothing_but_its_own_folders_can_be_written(
    rig: Rig, pod: dict[str, Any], path: str
) -> None:
    output = rig.execute(pod, "touch", path)
    assert output.status != 0
    assert "Read-only file system" in output.errors


def test_device_nodes_are_seen_and_cannot_be_opened(rig: Rig, pod: dict[str, Any]) -> None:
    node = rig.cluster.node.inside.path("/dev/vfio/later")
    os.mknod(node, stat.S_IFCHR | 0o666, _VFIO)
    assert "later" in rig.execute(pod, "ls", "/dev/vfio").text.split()
    assert "Operation not permitted" in rig.execute(pod, "cat", "/dev/vfio/later").errors


def test_no_file_remains_in_the_nodes_dev(rig: Rig, pod: dict[str, Any]) -> None:
    assert not rig.cluster.node.inside.path("/dev/termination-log").exists()


def test_discover_works_as_the_notes_say(rig: Rig, pod: dict[str, Any]) -> None:
    told = json.loads(rig.execute(pod, "sriov-agent", "discover", "-o", "json").text)
    assert len(told["devices"]) >= KERNEL_VFS + 2


def test_the_health_check_of_the_image_asks_the_running_agent(
    rig: Rig, pod: dict[str, Any]
) -> None:
    answer = rig.execute(pod, "sriov-agent", "status")
    assert (answer.status, "intel.com/net" in answer.text) == (0, True), answer.errors


def test_a_pod_is_scheduled_for_its_device_and_finds_it(rig: Rig, pod: dict[str, Any]) -> None:
    found = rig.environ(rig.workload("user", "intel.com/dpdk"))
    device = found["PCIDEVICE_INTEL_COM_DPDK"]
    assert device in rig.host.vfs(PF)[KERNEL_VFS:]
    rig.retire("user")


def test_link_events_arrive_on_the_nodes_network_without_a_capability(
    rig: Rig, pod: dict[str, Any]
) -> None:
    rig.cable(plugged=False)
    rig.allocatable("intel.com/net", 0)
    rig.cable(plugged=True)
    rig.allocatable("intel.com/net", KERNEL_VFS)


def test_metrics_have_all_series_of_alerts_and_dashboard(rig: Rig, pod: dict[str, Any]) -> None:
    exposed = rig.get("/metrics")
    asked = (CHART / "files/alerts.yaml").read_text("utf-8")
    asked += (CHART / "files/dashboard.json").read_text("utf-8")
    for name in set(re.findall(r"(?:sriov_agent|process)_\w+", asked)):
        assert re.search(rf"^(?:# TYPE )?{name}\b", exposed, re.MULTILINE), name


def test_an_edited_configmap_is_loaded_without_a_restart(rig: Rig, pod: dict[str, Any]) -> None:
    pools = [*POOLS[:1], {**POOLS[1], "resourceName": "renamed"}]
    rig.helm("upgrade", values={"config": {"resourceList": pools}})
    # Kubelet looks at a pod's volumes once a minute, or when the pod changes.
    rig.cluster.control_plane.kubectl(
        *("annotate", "pod", pod["metadata"]["name"], f"--namespace={NAMESPACE}", "look=now")
    )
    rig.allocatable("intel.com/renamed", 2)
    after = rig.pod(SELECTOR)
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
