"""Reads the functions of a host, PFs before VFs: all of them, or those that a rescan must read.

Both use the same code, so that a rescan and a full scan of a function have the same result.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import filterfalse
from typing import TypeVar

import attrs

from agent.discovery.functions import (
    DeferredVf,
    Pf,
    ScanContext,
    Skipped,
    Unreadable,
    derived,
    read_auxiliary,
    read_pf,
    read_vf,
)
from agent.discovery.representors import with_ports
from agent.discovery.scan_cache import HostTables, Outcome, ScanCache
from agent.host import auxiliary, sysfs
from agent.kinds import NET_DEVICE
from agent.model.device import Device

OutcomeT = TypeVar("OutcomeT", bound=Outcome)


class FunctionScan:
    """The functions of one scan, while they are being read.

    ``before`` is the previous scan: unchanged records stay the same objects, so that snapshots can
    be compared by identity. The functions in ``kept`` are not read again.
    """

    def __init__(self, host: ScanContext, before: ScanCache, kept: dict[str, Outcome]) -> None:
        self._host = host
        self._before = before
        self.functions = kept
        """By PCI address, in no order."""
        self.pfs = {bdf: pf for bdf, pf in before.pfs.items() if bdf in kept}
        """Those of them that are not VFs."""
        self.devices: tuple[Device, ...] = ()
        """The functions in bus order, each followed by its auxiliary devices."""
        self.skipped: list[Skipped] = []
        self.unreadable: list[tuple[str, str]] = []
        self.auxiliary: dict[str, tuple[Device, ...]] = {}
        self.detached_representors: frozenset[str] = frozenset()
        self._faults: dict[str, OSError] = {}
        """Functions whose folders exist but cannot be opened."""
        self._fresh = dict.fromkeys(filterfalse(kept.__contains__, host.folders))
        self._keeps_any = bool(kept)
        self._moved = set(filterfalse(kept.__contains__, before.functions))
        """Functions whose netdevs, or those of their auxiliary devices, may have changed."""
        self._renewed: set[str] = set()
        """PFs whose records changed."""
        self._pf_of: dict[str, str] = {}
        """VF that is not kept -> its PF, by the PF's links to VFs or the VF's link to its PF."""

    def run(self) -> None:
        """Read the functions that are not kept, then update the kept ones that depend on them.

        Raises OSError if no function can be read.
        """
        for pf in self.pfs.values():
            self._pf_of.update(dict.fromkeys(pf.index_of.keys() & self._fresh, pf.address))
        self._read_pfs()
        self._place_representors()
        self._read_vfs()
        self._raise_if_all_fail()
        if self._keeps_any:
            self._derive_kept()
        functions = self._in_bus_order()
        self._read_auxiliary(functions)
        self.devices = tuple(self._with_auxiliary(functions) if self.auxiliary else functions)

    def cache(self, tables: HostTables) -> ScanCache:
        """The result of this scan, for the next one."""
        seen = ScanCache(
            tables, self.functions, self.pfs, self.auxiliary, self.detached_representors
        )
        if self._keeps_any:
            moved = self._moved | self._fresh.keys()
            homes = {**self._before.netdevs_of_others(moved), **dict(seen.netdevs_at(moved))}
        else:
            homes = dict(seen.netdevs_at(self.functions))
        unowned = (
            frozenset(filterfalse(homes.__contains__, tables.interfaces))
            - self.detached_representors
        )
        return ScanCache(
            tables,
            self.functions,
            self.pfs,
            self.auxiliary,
            self.detached_representors,
            homes,
            unowned,
        )

    def _in_bus_order(self) -> list[Device]:
        """The devices among the functions; records the functions that are skipped."""
        devices: list[Device] = []
        for outcome in map(self.functions.get, self._host.folders):
            if type(outcome) is Device:  # as almost all are
                devices.append(outcome)
            elif type(outcome) is Skipped:
                self.skipped.append(outcome)
            elif type(outcome) is Pf and outcome.device is not None:
                devices.append(outcome.device)
        return devices

    def _with_auxiliary(self, functions: list[Device]) -> Iterator[Device]:
        for function in functions:
            yield function
            yield from self.auxiliary.get(function.id, ())

    def _put(self, bdf: str, outcome: Outcome | None) -> None:
        """Store the outcome of a function; None = it cannot be read."""
        self.pfs.pop(bdf, None)
        if outcome is None:
            self.functions.pop(bdf, None)
        else:
            self.functions[bdf] = outcome
            if isinstance(outcome, Pf):
                self.pfs[bdf] = outcome

    def _claim(self, pf: Pf) -> None:
        """Record the PF of its VFs; kept VFs with another PF are read again."""
        self._pf_of.update(dict.fromkeys(pf.index_of, pf.address))
        for vf in pf.index_of.keys() & self.functions.keys():
            kept = self.functions[vf]
            if not isinstance(kept, Device) or kept.pf_address != pf.address:
                self._put(vf, None)
                self._fresh[vf] = None

    def _read_pfs(self) -> None:
        """Read the functions that are not known to be VFs, former PFs first.

        PFs list their VFs, so new VFs need not be opened to be recognised as such.
        """
        former_pfs = [bdf for bdf in self._before.pfs if bdf in self._fresh]
        pfs_with_new_vfs: dict[str, None] = {}
        for bdf in (*former_pfs, *self._fresh):
            if bdf in self._pf_of or bdf in self.functions:
                continue
            outcome = self._read_pf(bdf)
            if isinstance(outcome, DeferredVf):
                self._pf_of[bdf] = outcome.pf_address
                pfs_with_new_vfs[outcome.pf_address] = None
            else:
                self._note(bdf, outcome)
        for bdf in pfs_with_new_vfs:  # a kept PF that has a new VF
            if bdf not in self._fresh and isinstance(self.functions.get(bdf), Pf):
                self._fresh[bdf] = None
                self._moved.add(bdf)
                outcome = self._read_pf(bdf)
                self._note(bdf, None if isinstance(outcome, DeferredVf) else outcome)

    def _read_pf(self, bdf: str) -> Outcome | DeferredVf | Unreadable | None:
        """Read a function that is not known to be a VF."""
        try:
            return read_pf(self._host, bdf)
        except OSError as error:
            return self._as_before(bdf, error)

    def _as_before(self, bdf: str, error: OSError) -> Outcome | Unreadable:
        """The previous outcome of a function whose folder exists but cannot be opened now.

        Raises OSError if the process is out of descriptors or memory: the function is not at fault.
        """
        sysfs.raise_if_exhausted(error)
        self._faults[bdf] = error
        return self._before.functions.get(bdf) or Unreadable(bdf, "folder")

    def _raise_if_all_fail(self) -> None:
        """Raise OSError if no function can be read: the fault is the host's, not the functions'."""
        if self._faults and len(self._faults) == len(self._fresh):
            raise next(iter(self._faults.values()))

    def _note(self, bdf: str, outcome: Outcome | Unreadable | None) -> None:
        """Store the result of reading one function."""
        if isinstance(outcome, Unreadable):
            self.unreadable.append((outcome.bdf, outcome.attribute))
            outcome = None
        if outcome is not None:
            outcome = _same(self._before.functions.get(bdf), outcome)
        self._put(bdf, outcome)
        if isinstance(outcome, Pf):
            self._claim(outcome)

    def _place_representors(self) -> None:
        owned = {name for pf in self.pfs.values() for name in pf.eswitch.names}
        below_pfs = frozenset(owned)
        self.pfs = dict(with_ports(self._host, self.pfs, owned, self._no_representors()))
        self.functions.update(self.pfs)
        self.detached_representors = frozenset(owned - below_pfs)
        before = self._before.pfs
        for bdf in (*self.pfs, *(self._moved & before.keys())):
            if self.functions.get(bdf) is not before.get(bdf):
                self._renewed.add(bdf)

    def _no_representors(self) -> AbstractSet[str]:
        """The netdevs of kept functions, which are known not to be representors."""
        if not any(pf.eswitch.switch_id for pf in self.pfs.values()):
            return frozenset()
        return (
            self._before.netdevs_of_others(self._fresh).keys() - self._before.detached_representors
        )

    def _read_vfs(self) -> None:
        functions_before, host = self._before.functions, self._host
        for bdf in tuple(self._fresh):
            pf_address = self._pf_of.get(bdf)
            if pf_address is None or bdf not in host.folders:
                continue
            outcome: Outcome | Unreadable | None
            try:
                outcome = read_vf(host, bdf, self.pfs.get(pf_address) or Pf(pf_address))
            except OSError as error:
                outcome = self._as_before(bdf, error)
            if type(outcome) is Device:  # as almost all are
                before = functions_before.get(bdf)
                self.functions[bdf] = outcome if before is None or before != outcome else before
            else:
                self._note(bdf, outcome)

    def _pf(self, address: str) -> Pf:
        """A PF, or a record with only its address if it is not among this host's devices."""
        return self.pfs.get(address) or Pf(address)

    def _derive_kept(self) -> None:
        """Update kept VFs whose PF changed: they take its name, their index and so on from it."""
        if not self._renewed:
            return
        for bdf, vf in self.functions.items():
            if isinstance(vf, Device) and vf.pf_address in self._renewed and bdf not in self._fresh:
                self.functions[bdf] = derived(self._host, vf, self._pf(vf.pf_address))

    def _read_auxiliary(self, parents: list[Device]) -> None:
        """Read the auxiliary devices directly below network functions, not below accelerators."""
        if self._host.auxiliary.is_empty:
            return
        for parent in parents:
            bdf = parent.id
            if parent.kind is not NET_DEVICE:
                continue
            if bdf in self._fresh or parent.pf_address in self._renewed:
                self._moved.add(bdf)
                children = tuple(self._below(parent))
            else:
                children = self._before.auxiliary.get(bdf, ())
            if children:
                self.auxiliary[bdf] = children

    def _below(self, parent: Device) -> Iterator[Device]:
        pf = self._pf(parent.pf_address or parent.id)
        bus = self._host.auxiliary
        names = pf.aux_names if pf.device is parent else bus.below(parent.id)
        before = {d.id: d for d in self._before.auxiliary.get(parent.id, ())}
        for name in sorted(names, key=auxiliary.order):
            device = read_auxiliary(self._host, name, parent, pf)
            if device is not None:
                yield _same(before.get(name), device)


def _same(before: Outcome | None, current: OutcomeT) -> OutcomeT:
    """The previous record if it equals the current one, else the current one."""
    if isinstance(current, Pf) and isinstance(before, Pf):
        with_old_ports = attrs.evolve(current, ports=before.ports)  # representors are read later
        return before if with_old_ports == before else current
    return before if before == current else current
