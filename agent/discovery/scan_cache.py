"""The result of a scan by function, and which parts of it the next scan may keep.

A rescan after a hint reads only functions that may have changed (docs/adr/0012-partial-rescan.md
says when that is safe). The host's tables are always listed, and a function whose entries in them
differ from before counts as changed too, even if the hint does not name it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain

import attrs

from agent.attrs_classes import frozen
from agent.discovery.functions import Pf, ScanContext, Skipped
from agent.host.auxiliary import AuxiliaryBus
from agent.host.devlink import DevlinkFacts
from agent.host.rdma import RdmaHost
from agent.model.device import Device, VdpaDevice

Outcome = Pf | Device | Skipped
"""The result of reading one function: a PF, a VF, or a function that the agent skips."""


def _device_of(outcome: Outcome) -> Device | None:
    """The device of a function, if the agent manages it."""
    if isinstance(outcome, Pf):
        return outcome.device
    return outcome if isinstance(outcome, Device) else None


@frozen
class HostTables:
    """The facts that were read once for all functions, by owner."""

    listed: tuple[str, ...] = ()
    """The entries of the PCI bus, in the spelling and order of its folder."""
    bus_inode: int | None = None
    """Inode of the folder that lists them."""
    folders: Mapping[str, str] = attrs.field(factory=dict)
    interfaces: tuple[str, ...] = ()
    """The entries of the class of netdevs."""
    rdma: RdmaHost = RdmaHost()
    vdpa: Mapping[str, tuple[VdpaDevice, ...]] = attrs.field(factory=dict)
    auxiliary: AuxiliaryBus = AuxiliaryBus()
    devlink: DevlinkFacts = DevlinkFacts()


@frozen(eq=False)
class _Without:
    """A large collection without some members, for few lookups: nothing is copied."""

    known: Container[str]
    excluded: Container[str]

    def __contains__(self, name: object) -> bool:
        return name in self.known and name not in self.excluded


@frozen(slots=False, eq=False)
class ScanCache:
    """Everything that a scan read, from which the snapshot is made."""

    tables: HostTables = HostTables()
    functions: Mapping[str, Outcome] = attrs.field(factory=dict)
    """By PCI address; functions that could not be read are absent, so that they are read again."""
    pfs: Mapping[str, Pf] = attrs.field(factory=dict)
    """Those of them that are not VFs."""
    auxiliary: Mapping[str, tuple[Device, ...]] = attrs.field(factory=dict)
    """Function -> its auxiliary devices, for those that have any."""
    detached_representors: frozenset[str] = frozenset()
    """Representors whose netdevs are below no PF."""

    owner_of: Mapping[str, str] = attrs.field(factory=dict)
    """Netdev -> the function that it belongs to, directly or through an auxiliary device."""
    unowned: frozenset[str] = frozenset()
    """Interfaces that neither belong to a function nor are representors."""

    def netdevs_at(self, functions: Iterable[str]) -> Iterator[tuple[str, str]]:
        """(netdev, function) for all netdevs of these functions and of their auxiliary devices."""
        for bdf in functions:
            outcome = self.functions.get(bdf)
            if type(outcome) is Device:
                for netdev in outcome.netdevs:
                    yield netdev.name, bdf
            elif isinstance(outcome, Pf):
                yield from ((name, bdf) for name in outcome.eswitch.names)
            if self.auxiliary and bdf in self.auxiliary:
                yield from ((n.name, bdf) for d in self.auxiliary[bdf] for n in d.netdevs)

    def netdevs_of_vfs_and_sfs(self) -> Container[str]:
        """The netdevs of all devices except PFs, whose uppers and master are read with the PF."""
        of_pfs = frozenset(chain.from_iterable(pf.eswitch.names for pf in self.pfs.values()))
        return _Without(self.owner_of, of_pfs)

    def _devices(self) -> Iterator[Device]:
        yield from (d for o in self.functions.values() if (d := _device_of(o)) is not None)
        yield from chain.from_iterable(self.auxiliary.values())

    @cached_property
    def parent_of(self) -> Mapping[str, str]:
        """Auxiliary device -> the folder above it, by the links of the bus."""
        children = self.tables.auxiliary.children
        return {name: parent for parent, names in children.items() for name in names}

    def owners_at(self, touched: Collection[str]) -> AbstractSet[str]:
        """These functions and the auxiliary devices below them."""
        return {*touched, *(name for name, home in self.parent_of.items() if home in touched)}

    def netdevs_of_others(self, touched: Iterable[str]) -> Mapping[str, str]:
        """Netdev -> function, for all functions that were not touched."""
        others = dict(self.owner_of)
        for name, _ in self.netdevs_at(touched):
            others.pop(name, None)
        return others

    def parents_of_others(self, touched: Collection[str]) -> Mapping[str, str]:
        """Auxiliary device -> the folder above it, of all functions that were not touched."""
        return {name: home for name, home in self.parent_of.items() if home not in touched}

    def affected_by(self, touched: Iterable[str]) -> set[str]:
        """The functions to read again if these functions and auxiliary devices changed.

        For a VF its PF is read too, which has the VF's index and the number of VFs. PFs whose
        number of VFs differs from their links are read as well: the kernel waits a second between
        removing the last VF and setting ``sriov_numvfs`` to 0, and sends no event then.
        """
        functions = {self.parent_of.get(name, name) for name in touched}
        functions.update(bdf for bdf, pf in self.pfs.items() if _is_unfinished(pf))
        return functions | {
            vf.pf_address
            for bdf in functions
            if isinstance(vf := self.functions.get(bdf), Device) and vf.pf_address is not None
        }

    def gone_from(self, host: ScanContext) -> set[str]:
        """Functions that the bus no longer lists."""
        if host.folders is self.tables.folders:
            return set()
        return self.functions.keys() - host.folders.keys()

    def changed_in(self, host: ScanContext, now: HostTables) -> set[str]:
        """Owners of table entries that differ from before."""
        before = self.tables
        rdma, aux, devlink = host.rdma, host.auxiliary, host.devlink
        changed: set[str] = set()
        if now.interfaces is not before.interfaces:
            vanished = set(before.interfaces).difference(now.interfaces)
            changed.update(self.owner_of.get(name, "") for name in vanished)
        for owner, netdevs in host.net.below.items():
            home = self.parent_of.get(owner, owner)
            if any(self.owner_of.get(name) != home for name, _ in netdevs):
                changed.add(home)
        changed |= _differing(before.rdma.below, rdma.below)
        renewed = _differing(before.rdma.devices, rdma.devices)
        if renewed:
            changed |= {d.id for d in self._devices() if any(r.name in renewed for r in d.rdma)}
        changed |= _differing(before.vdpa, host.vdpa)
        changed |= _differing(before.auxiliary.children, aux.children)
        changed |= _differing(before.devlink.ddp, devlink.ddp)
        return changed | _differing(before.devlink.enable_rdma, devlink.enable_rdma)


def _is_unfinished(pf: Pf) -> bool:
    return pf.device is not None and pf.device.num_vfs != len(pf.index_of)


def _differing(before: Mapping[str, object], now: Mapping[str, object]) -> set[str]:
    """The keys whose values differ between two tables."""
    if before is now or before == now:
        return set()
    return {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
