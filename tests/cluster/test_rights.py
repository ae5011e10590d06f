"""What each feature needs of the capabilities, measured in the pod that the chart makes.

`charts/rights.yaml` is the table that people read. Here each of its rows is looked at without any
capability, and those that name one also with that one alone and with every other. Where the kernel
tells (6.14 and later), it also says which capabilities it was asked for at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import yaml

from agent.host.link_socket import RECEIVE_BUFFER_BYTES
from charts.generate import RIGHTS
from tests.cluster.capabilities import bounding, refusals
from tests.cluster.rig import KERNEL_VFS, PF, UPLINK_PF, Rig
from tests.kubelet.waiting import eventually

Pod = dict[str, Any]

NEEDED: dict[str, str | None] = {
    row["key"]: row.get("capability") for row in yaml.safe_load(RIGHTS.read_text("utf-8"))
}
NAMED = frozenset(filter(None, NEEDED.values()))
# The kernel asks for it at every mapping of memory, to know whether the last of it may be used:
# `__vm_enough_memory` in mm/util.c.
ASKED_OF_EVERYBODY = "SYS_ADMIN"
POOLS = [
    {"resourceName": "net", "selectors": {"drivers": ["iavf"]}},
    {"resourceName": "dpdk", "selectors": {"drivers": ["vfio-pci"]}},
]
VALUES = {
    "config": {"resourceList": POOLS},
    "cdi": {"enabled": True},
    # Probes would ask port 80 in vain where it cannot be opened.
    "http": {"enabled": False},
    "extraArgs": ["--http-address=127.0.0.1:80", "--rescan-seconds=0"],
}


def registers(rig: Rig, pod: Pod) -> bool:
    rig.allocatable("intel.com/net", KERNEL_VFS)
    rig.allocatable("intel.com/dpdk", 2)
    return True


def sees_who_holds_what(rig: Rig, pod: Pod) -> bool:
    rig.workload("user", "intel.com/net")
    told = partial(rig.execute, pod, "sriov-agent", "explain", "intel.com/net")
    return eventually(lambda: "default/user (main)" in told().text, "the holder is seen")


def locks_the_node(rig: Rig, pod: Pod) -> bool:
    rig.said(pod, "agent.ready")
    return "lock.unavailable" not in rig.log(pod)


def writes_into(folder: str, rig: Rig, pod: Pod) -> bool:
    return any(rig.cluster.node.inside.path(folder).iterdir())


def sees_every_function(rig: Rig, pod: Pod) -> bool:
    told = json.loads(rig.execute(pod, "sriov-agent", "discover", "-o", "json").text)
    return {d["id"] for d in told["devices"]} == {PF, UPLINK_PF, *rig.host.vfs(PF)}


def keeps_the_uplink(rig: Rig, pod: Pod) -> bool:
    return "default route" in rig.execute(pod, "sriov-agent", "explain", UPLINK_PF).text


def follows_links(rig: Rig, pod: Pod) -> bool:
    rig.cable(plugged=False)
    rig.allocatable("intel.com/net", 0)
    rig.cable(plugged=True)
    rig.allocatable("intel.com/net", KERNEL_VFS)
    return True


def follows_uevents(rig: Rig, pod: Pod) -> bool:
    rig.said(pod, "netlink.open")
    vf = rig.host.vfs(PF)[-1]
    for driver, count in ((None, 1), ("vfio-pci", 2)):
        rig.host.set_driver(vf, driver)
        rig.uevent()
        rig.allocatable("intel.com/dpdk", count)
    return True


def has_the_whole_buffer(rig: Rig, pod: Pod) -> bool:
    return f"receive_buffer_bytes={RECEIVE_BUFFER_BYTES}" in rig.said(pod, "netlink.open")


def opens_port_80(rig: Rig, pod: Pod) -> bool:
    return "http.listening" in rig.said(pod, " http.")


WORKS: dict[str, Callable[[Rig, Pod], bool]] = {
    "registration": registers,
    "holders": sees_who_holds_what,
    "device-info": partial(writes_into, "/run/k8s.cni.cncf.io/devinfo/dp"),
    "cdi": partial(writes_into, "/run/cdi"),
    "lock": locks_the_node,
    "scan": sees_every_function,
    "routes": keeps_the_uplink,
    "links": follows_links,
    "uevents": follows_uevents,
    "burst": has_the_whole_buffer,
    "low-port": opens_port_80,
}


@contextmanager
def released(rig: Rig, capabilities: Iterable[str] = ()) -> Iterator[Pod]:
    """The chart's release with these capabilities added to none, until the end of the block."""
    security = {"capabilities": sorted(capabilities)}
    yield rig.helm("install", values={**VALUES, "security": security})
    rig.uninstall()


def test_each_feature_works_without_a_capability_unless_its_row_names_one(rig: Rig) -> None:
    rig.empty("/run/cdi", "/run/k8s.cni.cncf.io/devinfo/dp")
    with refusals() as refused, released(rig) as pod:
        working = {key for key, works in WORKS.items() if works(rig, pod)}
        assert working == {key for key, needed in NEEDED.items() if needed is None}
        if refused is not None:
            assert refused.of(rig.process(pod)) - {ASKED_OF_EVERYBODY} == NAMED
        rig.retire("user")


@pytest.mark.parametrize("key", [key for key, needed in NEEDED.items() if needed])
def test_a_row_names_the_one_capability_that_its_feature_needs(rig: Rig, key: str) -> None:
    needed = str(NEEDED[key])
    for given in ({needed}, bounding() - {needed}):
        with released(rig, given) as pod:
            assert WORKS[key](rig, pod) is (needed in given), given
