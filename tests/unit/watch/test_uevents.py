from __future__ import annotations

from pathlib import Path

import pytest

from agent.host.uevents import Uevent
from agent.model.snapshot import Snapshot
from agent.roots import Roots
from agent.watch.uevents import is_relevant, may_become_relevant, touched_by
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
def test_events_of_anything_else_are_ignored(subsystem: str) -> None:
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


def test_a_new_interface_with_a_lower_interface_counts(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/net/br0"
    folder.mkdir(parents=True)
    (folder / "lower_eno1").symlink_to("../eno1")
    assert relevant(net("add", "br0"), tmp_path)
    assert not relevant(net("remove", "br0"), tmp_path)


@pytest.mark.parametrize(
    ("path", "subsystem"),
    [
        ("", "pci"),
        ("/net/ens1v0", "net"),
        ("/virtio3/net/eth0", "net"),
        ("/infiniband/mlx5_0", "infiniband"),
        ("/infiniband_verbs/uverbs0", "infiniband_verbs"),
        ("/mlx5_core.sf.2", "auxiliary"),
        ("/mlx5_core.sf.2/net/sf0", "net"),
        ("/vfio-dev/vfio0", "vfio-dev"),
        ("/uio/uio0", "uio"),
        ("/vdpa0/vhost-vdpa-0", "vhost-vdpa"),
    ],
)
def test_an_event_names_the_function_in_its_path(path: str, subsystem: str) -> None:
    event = Uevent("change", f"/devices/pci0000:3a/0000:3a:00.0/0000:3b:02.1{path}", subsystem)
    assert touched_by(event) == frozenset({"0000:3b:02.1"})


def test_domains_of_more_than_four_digits_are_addresses_too() -> None:
    event = Uevent("bind", "/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0", "pci")
    assert touched_by(event) == frozenset({"10000:e0:06.0"})


@pytest.mark.parametrize(
    ("path", "subsystem"),
    [
        ("vfio/12", "vfio"),
        ("vfio/noiommu-3", "vfio"),
        ("misc/rdma_cm", "misc"),
        ("infiniband_cm/ucm0", "infiniband_cm"),
        ("vhost-vdpa-0", "vhost-vdpa"),
    ],
)
def test_an_event_on_facts_that_every_scan_reads_names_no_function(
    path: str, subsystem: str
) -> None:
    assert touched_by(Uevent("add", f"/devices/virtual/{path}", subsystem)) == frozenset()


@pytest.mark.parametrize(
    ("path", "subsystem"),
    [("net/bond0", "net"), ("infiniband/rxe0", "infiniband"), ("x/y", "virtio"), ("z", "pci")],
)
def test_an_event_without_a_function_in_its_path_causes_a_full_scan(
    path: str, subsystem: str
) -> None:
    assert touched_by(Uevent("add", f"/devices/virtual/{path}", subsystem)) is None


@pytest.mark.parametrize(
    ("event", "is_awaited"),
    [
        (net("add", "vlan7"), True),
        (net("remove", "vlan7"), False),
        (Uevent("add", f"{PCI}/net/pf0", "net"), False),
        (Uevent("add", "/devices/virtual/net/vlan7/queues/rx-0", "queues"), False),
    ],
)
def test_only_a_created_virtual_interface_may_get_a_lower_interface_later(
    event: Uevent,
    is_awaited: bool,  # noqa: FBT001
) -> None:
    assert may_become_relevant(event) is is_awaited
