"""A rescan of what a hint names sees what a whole scan would see, whatever happened to the host."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.discovery.scan import Scanner, scan
from tests.support.hardware import CONNECTX6, E810
from tests.support.host_builder import HostBuilder, Port

PFS = ("0000:3b:00.0", "0000:3b:00.1", "0000:5e:00.0")
HARDWARE = (E810, CONNECTX6, E810)
MOST_VFS = 3
Touched = set[str]


@attrs.define
class Machine:
    """A host that changes as hosts do; each change names what uevents and links would name."""

    host: HostBuilder
    count: int = 0

    def name(self, stem: str) -> str:
        """A name that nothing else has."""
        self.count += 1
        return f"{stem}{self.count}"

    def exists(self, owner: str) -> bool:
        return (self.host.root / "sys/bus/pci/devices" / owner).is_symlink()

    def vfs(self, pf: str) -> tuple[str, ...]:
        return self.host.vfs(pf) if self.exists(pf) else ()

    # Changes

    def plug(self, number: int, _: int) -> Touched:
        pf = PFS[number]
        if not self.exists(pf):
            self.host.pf(pf, self.name("ens"), HARDWARE[number])
        return {pf}

    def unplug(self, number: int, _: int) -> Touched:
        pf, vfs = PFS[number], self.vfs(PFS[number])
        if self.exists(pf):
            self.forget_parts(pf)
            self.make_fewer(number, 0)
            self.host.remove(pf)
        return {pf, *vfs}

    def make_vfs(self, number: int, count: int) -> Touched:
        pf, before = PFS[number], set(self.vfs(PFS[number]))
        if not self.exists(pf):
            return set()
        return set(self.host.add_vfs(pf, max(count, len(before)), HARDWARE[number].vf)) - before

    def make_fewer(self, number: int, _: int) -> Touched:
        pf, vfs = PFS[number], self.vfs(PFS[number])
        for vf in vfs:
            self.forget_parts(vf)
        if vfs:
            self.host.remove_vfs(pf)
        return set(vfs)

    def renumber(self, number: int, _: int) -> Touched:
        """VFs that are destroyed and made again as a PF's first function would be named."""
        return self.make_fewer(number, 0) | self.make_vfs(number, 1)

    def bind(self, number: int, index: int) -> Touched:
        return self.at_vf(number, index, lambda vf: self.host.set_driver(vf, "vfio-pci"))

    def unbind(self, number: int, index: int) -> Touched:
        return self.at_vf(number, index, lambda vf: self.host.set_driver(vf, None))

    def bind_pf(self, number: int, index: int) -> Touched:
        pf = PFS[number]
        if self.exists(pf):
            self.host.set_driver(pf, ("ice", None)[index % 2])
        return {pf}

    def regroup(self, number: int, index: int) -> Touched:
        return self.at_vf(
            number, index, lambda vf: self.host.iommu_group(vf, noiommu=bool(index % 2))
        )

    def give_netdev(self, number: int, index: int) -> Touched:
        return self.at_vf(number, index, lambda vf: self.host.netdev(self.name("eth"), vf))

    def take_netdevs(self, number: int, index: int) -> Touched:
        return self.at_vf(number, index, self.without_netdevs)

    def swap_netdevs(self, number: int, index: int) -> Touched:
        """Two functions' netdevs change their names for one another's."""
        owners = [o for o in (PFS[number], *self.vfs(PFS[number])) if self.exists(o)]
        names = [n for o in owners for n in self.host.netdevs(o)[:1]]
        if len(names) < 2:
            return set()
        holders = [o for o in owners if self.host.netdevs(o)]
        first, second = holders[0], holders[1 + index % (len(holders) - 1)]
        one, other = self.host.netdevs(first)[0], self.host.netdevs(second)[0]
        self.without_netdevs(first)
        self.without_netdevs(second)
        self.host.netdev(other, first)
        self.host.netdev(one, second)
        return {first, second}

    def pull_cable(self, number: int, index: int) -> Touched:
        pf = PFS[number]
        for name in self.host.netdevs(pf) if self.exists(pf) else ():
            self.host.set_admin(name, up=bool(index % 2))
        return {pf}

    def give_rdma(self, number: int, index: int) -> Touched:
        return self.at_vf(number, index, lambda vf: self.host.rdma(vf, self.name("mlx5_")))

    def take_rdma(self, number: int, index: int) -> Touched:
        return self.at_vf(number, index, self.without_rdma)

    def make_vdpa(self, number: int, index: int) -> Touched:
        return self.at_vf(number, index, self.host.vdpa)

    def make_sf(self, number: int, index: int) -> Touched:
        pf = PFS[number]
        if self.exists(pf):
            self.host.sf(pf, self.count * 10 + index, self.name("sf"))
        return {pf}

    def make_representor(self, number: int, index: int) -> Touched:
        """Switchdev mode: the uplink gets a port, and VFs representors below the PF."""
        pf = PFS[number]
        if self.exists(pf):
            for name in self.host.netdevs(pf)[:1]:
                net = self.host.folder(pf) / "net" / name
                self.host.write(net / "phys_port_name", f"p{number}")
                self.host.write(net / "phys_switch_id", f"switch{number // 2}")
            port = Port(f"pf{pf[-1]}vf{index}", f"switch{number // 2}")
            self.host.netdev(self.name("rep"), pf, port=port)
        return {pf}

    def make_stray_representor(self, number: int, index: int) -> Touched:
        port = Port(f"pf{PFS[number][-1]}vf{index}", f"switch{number // 2}")
        self.host.netdev(self.name("stray"), port=port)
        return set()

    def enslave(self, number: int, _: int) -> Touched:
        pf = PFS[number]
        for name in self.host.netdevs(pf)[:1] if self.exists(pf) else ():
            if not (self.host.root / "sys/class/net" / name / "master").is_symlink():
                self.host.enslave(name, self.name("bond"))
        return {pf}

    def route(self, number: int, _: int) -> Touched:
        for name in self.host.netdevs(PFS[number])[:1] if self.exists(PFS[number]) else ():
            self.host.default_route(name)
        return set()

    def plug_other(self, number: int, index: int) -> Touched:
        """A function of a class that is nobody's business here, and one that is half gone."""
        bdf = f"0000:{number:02x}:1f.{index}"
        folder = self.host.folder(bdf)
        if not folder.exists():
            self.host.write(folder / "class", "0x060400" if index else "0x020000")
            self.host.link(self.host.root / "sys/bus/pci/devices" / bdf, folder)
        return {bdf}

    # Parts

    def at_vf(self, number: int, index: int, change: Callable[[str], object]) -> Touched:
        vfs = self.vfs(PFS[number])
        if not vfs:
            return set()
        vf = vfs[index % len(vfs)]
        change(vf)
        return {vf}

    def forget_parts(self, owner: str) -> None:
        """What classes and buses list of a function goes before the function does."""
        self.without_rdma(owner)
        for bus in ("vdpa", "auxiliary"):
            for link in (self.host.root / f"sys/bus/{bus}/devices").glob("*"):
                if self.host.folder(owner) in link.resolve().parents:
                    for netdev in (link.resolve() / "net").glob("*"):
                        self.host.remove_netdev(netdev.name)
                    shutil.rmtree(link.resolve())
                    link.unlink()

    def without_netdevs(self, owner: str) -> None:
        for name in self.host.netdevs(owner):
            self.host.remove_netdev(name)

    def without_rdma(self, owner: str) -> None:
        for folder in (self.host.folder(owner) / "infiniband").glob("*"):
            for class_name in ("infiniband_verbs", "infiniband_mad"):
                for node in (self.host.root / "sys/class" / class_name).glob("*"):
                    if (node / "ibdev").read_text().strip() == folder.name:
                        shutil.rmtree(node)
            (self.host.root / "sys/class/infiniband" / folder.name).unlink()
            shutil.rmtree(folder)


CHANGES = (
    *(Machine.plug, Machine.unplug, Machine.make_vfs, Machine.make_vfs, Machine.make_fewer),
    *(Machine.renumber, Machine.bind, Machine.unbind, Machine.bind_pf, Machine.regroup),
    *(Machine.give_netdev, Machine.take_netdevs, Machine.swap_netdevs, Machine.pull_cable),
    *(Machine.give_rdma, Machine.take_rdma, Machine.make_vdpa, Machine.make_sf),
    *(Machine.make_representor, Machine.make_stray_representor, Machine.enslave),
    *(Machine.route, Machine.plug_other),
)
STEPS = st.tuples(
    st.sampled_from(CHANGES), st.integers(0, len(PFS) - 1), st.integers(0, MOST_VFS), st.booleans()
)


@contextmanager
def machine() -> Iterator[Machine]:
    """Two adapters of two ports and one, with VFs, SFs and RDMA devices."""
    with TemporaryDirectory(prefix="rescan-") as folder:
        made = Machine(HostBuilder(Path(folder)))
        for number in range(len(PFS)):
            made.plug(number, 0)
            made.make_vfs(number, 2)
        made.give_rdma(1, 0)
        made.make_sf(1, 5)
        yield made


Step = tuple[Callable[[Machine, int, int], Touched], int, int, bool]
SETTINGS = settings(
    max_examples=30, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
LISTED = st.sampled_from(
    (
        *(Machine.plug, Machine.unplug, Machine.make_vfs, Machine.make_fewer, Machine.give_netdev),
        *(Machine.take_netdevs, Machine.give_rdma, Machine.take_rdma, Machine.make_vdpa),
        *(Machine.make_sf, Machine.route),
    )
)
"""Changes after which some class or bus lists another entry."""


@SETTINGS
@given(st.lists(STEPS, max_size=12))
def test_after_any_changes_with_their_hints_a_rescan_equals_a_full_scan(
    steps: list[Step],
) -> None:
    with machine() as at:
        roots = at.host.roots
        scanner = Scanner(roots)
        scanner.scan()
        touched: Touched = set()
        for change, number, index, is_last_of_burst in steps:
            touched |= change(at, number, index)
            if is_last_of_burst:
                assert scanner.scan(touched=touched) == scan(roots)
                touched = set()
        assert scanner.scan(touched=touched) == scan(roots)
        assert scanner.whole == 1


@SETTINGS
@given(st.lists(st.tuples(LISTED, st.integers(0, 2), st.integers(0, MOST_VFS)), max_size=8))
def test_changes_in_classes_and_buses_are_seen_by_a_rescan_without_touched_functions(
    steps: list[tuple[Callable[[Machine, int, int], Touched], int, int]],
) -> None:
    with machine() as at:
        roots = at.host.roots
        scanner = Scanner(roots)
        scanner.scan()
        for change, number, index in steps:
            change(at, number, index)
            assert scanner.scan(touched=()) == scan(roots)
        assert scanner.whole == 1


def devlink_shows(facts: dict[str, dict[str, object]]) -> Callable[[Machine], object]:
    """A change of what devlink shows, by the file of a laid-out host."""
    return lambda at: at.host.write(at.host.roots.host / "devlink.json", json.dumps(facts))


PROFILE = {"versions": {"running": {"fw.app.name": "GTP"}}}
ENABLED = [{"name": "enable_rdma", "values": [{"value": True}]}]
UNNAMED: dict[str, Callable[[Machine], object]] = {
    "a PF comes": lambda at: at.host.pf("0000:af:00.0", "ens9", E810),
    "a PF goes": lambda at: at.unplug(2, 0),
    "VFs come": lambda at: at.make_vfs(0, 3),
    "VFs go": lambda at: at.make_fewer(0, 0),
    "a netdev comes": lambda at: at.give_netdev(0, 0),
    "a netdev goes": lambda at: at.without_netdevs(PFS[1]),
    "an RDMA device comes": lambda at: at.give_rdma(0, 1),
    "an RDMA device goes": lambda at: at.take_rdma(1, 0),
    "the RDMA device of a PF comes": lambda at: at.host.rdma(PFS[0], "mlx5_7"),
    "a vDPA device comes": lambda at: at.make_vdpa(0, 0),
    "a sub-function comes": lambda at: at.make_sf(0, 1),
    "a sub-function goes": lambda at: at.forget_parts(PFS[1]),
    "a DDP profile": devlink_shows({"info": {f"pci/{PFS[0]}": PROFILE}}),
    "RDMA is enabled": devlink_shows({"param": {f"pci/{PFS[0]}": ENABLED}}),
    "a route": lambda at: at.route(0, 0),
}


@pytest.mark.parametrize("change", UNNAMED.values(), ids=UNNAMED)
def test_each_change_of_a_list_is_seen_by_a_rescan_that_no_hint_names(
    change: Callable[[Machine], object],
) -> None:
    with machine() as at:
        scanner = Scanner(at.host.roots)
        before = scanner.scan()
        change(at)
        after = scanner.scan(touched=())
        assert after == scan(at.host.roots)
        assert after != before
        assert scanner.whole == 1


def test_a_pf_that_counts_removed_vfs_is_read_by_every_rescan() -> None:
    """The kernel counts none a second after it took the last one away, and sends no event then."""
    with machine() as at:
        host = at.host
        scanner = Scanner(host.roots)
        scanner.scan()
        gone = at.make_fewer(0, 0)
        host.write(host.folder(PFS[0]) / "sriov_numvfs", 2)
        assert scanner.scan(touched=gone).pfs[PFS[0]].num_vfs == 2
        host.write(host.folder(PFS[0]) / "sriov_numvfs", 0)
        assert scanner.scan(touched={PFS[1]}).pfs[PFS[0]].num_vfs == 0


def test_nodes_that_appear_with_their_module_are_seen_by_a_rescan_of_their_function() -> None:
    with machine() as at:
        host, (vf, *_) = at.host, at.vfs(PFS[0])
        host.rdma(vf, "mlx5_9", umad=False)
        scanner = Scanner(host.roots)
        scanner.scan()
        host.write(host.root / "sys/class/infiniband_mad/umad9/ibdev", "mlx5_9")
        after = scanner.scan(touched={vf})
        assert after == scan(host.roots)
        assert after.by_id[vf].rdma[0].umad == ("/dev/infiniband/umad9",)


def test_nodes_that_return_with_other_numbers_are_seen_by_a_rescan_of_their_function() -> None:
    with machine() as at:
        host, (vf, *_) = at.host, at.vfs(PFS[0])
        before = host.rdma(vf, "mlx5_9")
        scanner = Scanner(host.roots)
        scanner.scan()
        verbs = host.root / "sys/class/infiniband_verbs"
        (verbs / before.uverbs[0].rpartition("/")[2]).rename(verbs / "uverbs77")
        after = scanner.scan(touched={vf})
        assert after == scan(host.roots)
        assert after.by_id[vf].rdma[0].uverbs == ("/dev/infiniband/uverbs77",)


@pytest.mark.parametrize("owner", ["a VF", "a PF", "a sub-function"])
def test_nodes_that_return_with_other_numbers_are_seen_once_the_classes_are_listed_again(
    owner: str,
) -> None:
    with machine() as at:
        host, (vf, *_), (_, other, *_) = at.host, at.vfs(PFS[0]), at.vfs(PFS[1])
        holder = {"a VF": vf, "a PF": PFS[0], "a sub-function": host.sf(PFS[0], 8, "ens1s8")}[owner]
        host.rdma(other, "mlx5_8", umad=False)
        before = host.rdma(holder, "mlx5_9")
        scanner = Scanner(host.roots)
        scanner.scan()
        verbs = host.root / "sys/class/infiniband_verbs"
        (verbs / before.uverbs[0].rpartition("/")[2]).rename(verbs / "uverbs77")
        after = scanner.scan(touched={other})
        assert after == scan(host.roots)
        assert after.by_id[holder].rdma[0].uverbs == ("/dev/infiniband/uverbs77",)


def test_the_name_of_a_netdev_that_went_may_come_back_as_a_bond() -> None:
    with machine() as at:
        host, (vf, *_) = at.host, at.vfs(PFS[0])
        (name, *_) = host.netdevs(vf)
        (uplink, *_) = host.netdevs(PFS[0])
        scanner = Scanner(host.roots)
        scanner.scan()
        at.without_netdevs(vf)
        host.stack(uplink, name)
        after = scanner.scan(touched={vf, PFS[0]})
        assert after == scan(host.roots)
        assert after.netdev_parents == ((name, (uplink,)),)
