from __future__ import annotations

from pathlib import Path

import pytest

from agent.discovery.uevents import is_relevant
from agent.host.netlink import Uevent
from agent.model.snapshot import Snapshot
from agent.roots import Roots
from tests.support.devices import pf

NODE = Snapshot(
    devices=(pf("0000:3b:00.0", "pf0"),),
    netdev_parents=(("bond0", ("pf0",)), ("vlan5", ("bond0",))),
)
PCI = "/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"


def relevant(event: Uevent, root: Path = Path("/nowhere")) -> bool:
    return is_relevant(event, NODE, Roots(root))


def net(action: str, name: str) -> Uevent:
    return Uevent(action, f"/devices/virtual/net/{name}", "net")


@pytest.mark.parametrize(
    "subsystem",
    [
        "pci",
        "auxiliary",
        "vdpa",
        "vfio",
        "uio",
        "infiniband",
        "infiniband_verbs",
        "infiniband_mad",
        "misc",
        "virtio",
    ],
)
@pytest.mark.parametrize("action", ["add", "remove", "change", "bind", "unbind", "move"])
def test_events_of_devices_that_a_scan_reads_count(action: str, subsystem: str) -> None:
    assert relevant(Uevent(action, f"{PCI}/x", subsystem))


@pytest.mark.parametrize(
    "subsystem", ["block", "usb", "cgroup", "module", "queues", "drivers", "bdi", "", "thermal"]
)
def test_events_of_anything_else_are_passed_by(subsystem: str) -> None:
    assert not relevant(Uevent("add", f"{PCI}/x", subsystem))


@pytest.mark.parametrize("action", ["add", "remove", "move"])
def test_interfaces_of_hardware_count(action: str) -> None:
    assert relevant(Uevent(action, f"{PCI}/0000:3b:02.0/net/ens1v0", "net"))


@pytest.mark.parametrize("action", ["add", "remove", "move"])
def test_interfaces_that_each_pod_makes_do_not_count(tmp_path: Path, action: str) -> None:
    (tmp_path / "sys/class/net/veth1234").mkdir(parents=True)
    assert not relevant(net(action, "veth1234"), tmp_path)


@pytest.mark.parametrize("name", ["pf0", "bond0", "vlan5"])
@pytest.mark.parametrize("action", ["add", "remove", "move"])
def test_interfaces_without_hardware_that_the_snapshot_knows_count(action: str, name: str) -> None:
    assert relevant(net(action, name))


def test_a_new_interface_that_rests_on_another_counts(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/net/br0"
    folder.mkdir(parents=True)
    (folder / "lower_eno1").symlink_to("../eno1")
    assert relevant(net("add", "br0"), tmp_path)
    assert not relevant(net("remove", "br0"), tmp_path)
