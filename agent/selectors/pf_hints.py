"""Why ``pfNames`` and ``rootDevices`` match nothing on this host, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

from agent.kinds import Kind
from agent.model.device import Device
from agent.model.pci_class import passed_over
from agent.selectors.present_values import MOST_HINTS, Hint, PresentValues, some
from agent.selectors.ranges import FunctionRange, FunctionRanges, spans_text
from agent.selectors.selector import EmptyStep

_Name = Callable[[Device], str | None]


def pf_name_hints(wanted: FunctionRanges, present_values: PresentValues) -> tuple[Hint, ...]:
    """Entries of ``pfNames`` without a PF, without functions, or beyond the last one."""
    return tuple(_hints("pfNames", wanted, present_values, lambda pf: pf.pf_name))


def root_device_hints(wanted: FunctionRanges, present_values: PresentValues) -> tuple[Hint, ...]:
    """Entries of ``rootDevices`` without a PF, without functions, or beyond the last one."""
    return tuple(_hints("rootDevices", wanted, present_values, lambda pf: pf.id))


def pf_name_fix(step: EmptyStep) -> Iterator[str]:
    """The value to write into ``pfNames``, or that the named PFs support more VFs."""
    pfs = step.snapshot.pfs.values()
    named = [pf for pf in pfs if any(means_pf("pfNames", e, pf) for e in step.wanted.entries)]
    if named:
        yield from _more_vfs({str(pf.pf_name): pf for pf in named})
    elif not step.snapshot.has_no_nic and any(pf.port_names for pf in pfs):
        yield "write the name of one of these, or a pattern that matches it"


def root_device_fix(step: EmptyStep) -> Iterator[str]:
    """The value to write into ``rootDevices``, or that the named PFs support more VFs."""
    entries, skipped = step.wanted.entries, dict(step.snapshot.passed_over)
    if all(entry.key in skipped for entry in entries):
        return  # the diagnosis says which pool can have their functions
    pfs = step.snapshot.pfs.values()
    named = [pf for pf in pfs if any(means_pf("rootDevices", e, pf) for e in entries)]
    if named:
        yield from _more_vfs({pf.id: pf for pf in named})
    elif pfs:
        yield "write the PCI address of one of these"


def _more_vfs(pfs: Mapping[str, Device]) -> Iterator[str]:
    spare = [f"{name} {pf.total_vfs}" for name, pf in pfs.items() if 0 < pf.num_vfs < pf.total_vfs]
    if spare:
        yield (
            "use an index that exists, or make more VFs by sriov_numvfs "
            f"(at most {', '.join(spare)})"
        )


def _hints(
    key: str, wanted: FunctionRanges, present_values: PresentValues, name: _Name
) -> Iterator[Hint]:
    """Hints for each entry; after MOST_HINTS entries without a PF, these hints have no text."""
    count = 0
    for entry in wanted.entries:
        pfs = [pf for pf in present_values.pfs if means_pf(key, entry, pf)]
        if not pfs and not _has_orphans(key, entry, present_values):
            count += 1
            text = _no_pf(key, entry, present_values) if count <= MOST_HINTS else ""
            yield Hint(text, str(entry))
            continue
        for pf in pfs:
            if hint := _functions_hint(key, entry, pf, present_values, name):
                yield Hint(hint)


def means_pf(key: str, entry: FunctionRange, pf: Device) -> bool:
    """Whether an entry of ``rootDevices`` or ``pfNames`` names this PF."""
    if key == "rootDevices":
        return entry.names(pf.id)
    if any(map(entry.names, pf.port_names)):
        return True
    return not entry.is_pattern and any(map(entry.names, pf.altnames))


def _has_orphans(key: str, entry: FunctionRange, present_values: PresentValues) -> bool:
    """Whether functions have this PF although it is not listed: renamed, or another class."""
    if key == "rootDevices":
        return any(map(entry.names, present_values.indexes))
    return any(map(entry.names, present_values.count("pfNames", _pf_names)))


def _pf_names(device: Device) -> Iterator[str]:
    if device.pf_name:
        yield device.pf_name


def _no_pf(key: str, entry: FunctionRange, present_values: PresentValues) -> str:
    if (
        key == "rootDevices"
        and (pci_class := present_values.other_class.get(entry.key)) is not None
    ):
        return f"{key}: {passed_over(entry.key, pci_class, 'its functions')}"
    if key == "pfNames":
        names = [known for pf in present_values.pfs for known in pf.port_names]
    else:
        names = [pf.id for pf in present_values.pfs]
    what = f"matches {entry.name}" if entry.is_pattern else f"is named {entry.name}"
    if key == "rootDevices":
        what = f"has the address {entry.name}"
    can_guess = key == "pfNames" and not entry.is_pattern
    by_key = {name.lower(): name for name in names}
    near = get_close_matches(entry.key, by_key, n=1) if can_guess else ()
    guess = f"; did you mean {by_key[near[0]]}?" if near else ""
    hint = f"{key}: no PF on this host {what}; PFs here: {some(names)}{guess}"
    if key == "pfNames" and present_values.has_no_nic:
        addresses = some(pf.id for pf in present_values.pfs)
        hint = (
            f"{key}: no PF here has a name: no NIC's netdev is in the agent's network namespace, "
            "only PCI functions are seen; run the agent in the host's network namespace "
            f"(hostNetwork: true), or select by rootDevices: {addresses}"
        )
    nameless = [
        pf.id for pf in present_values.pfs if not pf.port_names and pf.id in present_values.indexes
    ]
    if key == "pfNames" and nameless and not present_values.has_no_nic:
        hint += f"; select PFs without a netdev here by rootDevices: {some(nameless)}"
    vf = present_values.by_id.get(entry.name)
    if vf is not None and vf.pf_address not in {None, vf.id}:
        hint += f"; {vf.id} is a function of {vf.pf_address} itself: use pciAddresses for it"
    owner = present_values.netdev_owner.get(entry.key)
    if key == "pfNames" and owner is not None and owner not in present_values.pfs:
        hint += f"; {entry.name} is the netdev of {owner.id}, which is not a PF: use pciAddresses"
    if key == "pfNames" and (owner := present_values.rdma_owner.get(entry.name)) is not None:
        label = owner.pf_name or "none here"
        hint += f"; {entry.name} is the RDMA device of {owner.id}: the netdev of its PF is {label}"
    return hint


def _functions_hint(
    key: str, entry: FunctionRange, pf: Device, present_values: PresentValues, name: _Name
) -> str | None:
    label = name(pf)
    indexes = present_values.indexes.get(pf.id)
    if indexes is None:
        return _no_functions(key, str(label), pf, present_values.kind)
    if entry.spans is None or not indexes:
        return None
    beyond = tuple(s for s in entry.spans if not any(s[0] <= i <= s[1] for i in indexes))
    if beyond:
        return (
            f"{key}: {label}#{spans_text(beyond)} covers functions that do not exist: "
            f"{label} has {len(indexes)} (index {indexes[0]} to {indexes[-1]})"
        )
    return _tail_hint(key, entry, str(label), indexes, present_values.kind)


def _tail_hint(
    key: str, entry: FunctionRange, label: str, indexes: tuple[int, ...], kind: Kind
) -> str | None:
    """A range that extends beyond the last VF; an sfnum may be any number, with gaps."""
    last = indexes[-1]
    highest = max(high for _, high in entry.spans or ())
    if not kind.on_pci or highest <= last:
        return None
    count = len(indexes)
    return f"{key}: {entry} extends beyond the last VF: {label} has {count} (up to index {last})"


def _no_functions(key: str, label: str, pf: Device, kind: Kind) -> str:
    if not kind.on_pci:
        return f"{key}: {label} ({pf.id}) has no auxiliary network devices on this host"
    hint = (
        f"{key}: {label} has no VFs: {key} selects a PF's functions, never the PF itself; "
        f'to offer the PF use pciAddresses ["{pf.id}"]'
    )
    if pf.total_vfs and not pf.num_vfs:
        hint += f", for VFs write a number up to {pf.total_vfs} to its sriov_numvfs"
    return hint
