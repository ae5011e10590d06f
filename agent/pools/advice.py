"""Why a pool is empty: the step of its funnel that left nothing, what was there, and the fix.

Notes speak of each selector alone; this speaks of the functions that really came to the step. One
sentence for each selector object, in words for ``explain``, the log at the start, and the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from agent.attrs_classes import frozen
from agent.config.schema import Criterion, PoolConfig
from agent.kinds import NET_DEVICE
from agent.model.device import Device, Role
from agent.model.pci_class import ON_REQUEST, class_text, is_needed
from agent.model.snapshot import Snapshot
from agent.pools.pool import Pool, Pools
from agent.selectors import SELECTORS
from agent.selectors.classes import criteria_for
from agent.selectors.drivers import remedy
from agent.selectors.link_types import link_types_of
from agent.selectors.pf_hints import means_pf
from agent.selectors.present_values import first_texts, present, present_values, some

_SHOWN_IDS = 3


@frozen
class Advice:
    """What to tell people about a pool."""

    why_empty: tuple[str, ...] = ()
    """A sentence for each selector object of an empty pool; nothing for one that has devices."""
    notes: tuple[str, ...] = ()
    """What else in its selectors can match nothing on this host."""


def advise(pool: Pool, pools: Pools) -> Advice:
    """Cause and fix for an empty pool, and those of its notes that say something more; pure."""
    if pool.members:
        return Advice(notes=pool.notes)
    empty = _EmptyPool(pool.config, pools)
    causes = empty.sentences()
    return Advice(causes, tuple(n for n in pool.notes if n.partition(":")[0] not in empty.refusing))


class _EmptyPool:
    """Goes down the funnel of each selector object with the functions that are left."""

    def __init__(self, config: PoolConfig, pools: Pools) -> None:
        self.config = config
        self.pools = pools
        self.snapshot = pools.snapshot
        of_kind = [d for d in self.snapshot.devices if d.kind is config.kind]
        self.functions = [d for d in of_kind if not d.has_vfs]
        self.all_functions = of_kind
        self.refusing: set[str] = set()
        """Keys of the selectors that left nothing, as far as was looked."""

    def sentences(self) -> tuple[str, ...]:
        if not self.functions:
            return (self._nothing_of_the_kind(),)
        several = len(self.config.selectors) > 1
        found = []
        for number, selectors in enumerate(self.config.selectors):
            place = f"selector object {number + 1}: " if several else ""
            criteria = criteria_for(selectors, self.config.kind, self.all_functions)
            found.append(place + self._object(criteria))
        return tuple(dict.fromkeys(found))

    def _nothing_of_the_kind(self) -> str:
        kind = self.config.kind
        others = Counter(str(d.kind) for d in self.snapshot.devices)
        if not others and not self.snapshot.passed_over:
            return (
                "this host has no network function and no accelerator; in a container, is the "
                "host's /sys visible?"
            )
        what = f"no {kind.noun_with_class} on this host"
        if kind.takes_other_classes and (classes := other_classes(self.snapshot)):
            return f"{what}; {classes}"
        if not others:
            return f"{what}, and no accelerator: all functions are of other PCI classes"
        if kind.how_to_create:
            return f"{what}: {kind.how_to_create}"
        return f'{what}; there are {present(others)}: is "deviceType": "{kind}" what you want?'

    def _object(self, criteria: tuple[Criterion, ...]) -> str:
        left = self.functions
        for criterion in criteria:
            selector = SELECTORS[criterion.key]
            after = [d for d in left if selector.matches(d, criterion.wanted, self.snapshot)]
            if not after:
                self.refusing.add(criterion.key)
                return self._refused_by(criterion, left)
            left = after
        return self._refused_after(left)

    def _refused_by(self, criterion: Criterion, left: list[Device]) -> str:
        key = criterion.key
        if not (wanted := SELECTORS[key].to_text(criterion.wanted)):
            return f"none of the values of {key} can match: see what `validate` says of them"
        many = f"{len(left)} functions" if len(left) > 1 else left[0].id
        text = f"{key} {wanted} leaves none of {many}: {self._found(criterion, left)}"
        return "; ".join([text, *self._fixes(criterion, left)])

    def _found(self, criterion: Criterion, left: list[Device]) -> str:
        """What the functions have in place of what was wanted."""
        if criterion.key in _BY_PF:
            return present(Counter(_belongs(d, _BY_PF[criterion.key]) for d in left))
        actual = SELECTORS[criterion.key].actual
        return present(Counter(actual(d, self.snapshot) for d in left))

    def _fixes(self, criterion: Criterion, left: list[Device]) -> Iterator[str]:
        if criterion.key in _NOTES_KNOW_BEST:
            counted = present_values(self.config.kind, self.snapshot)
            for text in first_texts(SELECTORS[criterion.key].diagnose(criterion.wanted, counted)):
                yield text.removeprefix(f"{criterion.key}: ")
        if remedy := _REMEDIES.get(criterion.key):
            yield from remedy(criterion, left, self.pools)
        if criterion.key in _HARDWARE:
            yield from self._other_kinds(criterion)
        if criterion.key in _VFS_COULD_HAVE and all(d.role is Role.PF for d in left):
            yield from _without_vfs(left)

    def _other_kinds(self, criterion: Criterion) -> Iterator[str]:
        """Hardware that is here, only not of this pool's device type."""
        matches = SELECTORS[criterion.key].matches
        kinds = Counter(
            d.kind.name
            for d in self.snapshot.devices
            if d.kind is not self.config.kind and not d.has_vfs
            if matches(d, criterion.wanted, self.snapshot)
        )
        if self.config.kind.takes_other_classes and (classes := other_classes(self.snapshot)):
            yield classes
        if self.config.kind is NET_DEVICE and criterion.key == "devices":
            yield from _accelerators_of_other_classes(self.snapshot)
        for name, count in sorted(kinds.items()):
            yield f'of "deviceType": "{name}" {count} would match: is that the type you want?'

    def _refused_after(self, left: list[Device]) -> str:
        """All selectors match something: it has no driver, or the host or another pool has it."""
        if all(d.id in self.pools.without_driver for d in left):
            return _unbound(left)
        left = [d for d in left if d.id not in self.pools.without_driver]
        if sub_functions := self.pools.sub_functions_in_use:
            usable = [d for d in left if d.id not in sub_functions]
            if not usable:
                how = _listed(f"{d.id} ({sub_functions[d.id]})" for d in left)
                return f"a PF whose sub-functions pods use is never a device: {how}"
            left = usable
        in_use = {} if self.config.allow_in_use else self.pools.in_use
        free = [d for d in left if d.id not in in_use]
        if not free:
            how = _listed(f"{d.id} ({in_use[d.id]})" for d in left)
            return (
                f"in use by the host: {how}; select other functions, or set "
                '"allowInUse": true if the host can do without'
            )
        taken = Counter(self._owner(d) for d in free)
        return (
            f"the {len(free)} functions that match are taken: {present(taken)}; the pool that "
            "stands first in the file has them: make the selectors disjoint, or change the order"
        )

    def _owner(self, device: Device) -> str:
        if winner := self.pools.resource_of.get(device.id):
            return f"by {winner}"
        holder = self.pools.held.holders.get(device.id)
        return f"by {holder} as {holder.resource}" if holder else "by nobody"


def other_classes(snapshot: Snapshot) -> str:
    """The functions of classes that pools may ask for, and how to; empty where there are none."""
    counts, example = _passed_over(snapshot, ON_REQUEST)
    if not counts:
        return ""
    return (
        f"passed over for their PCI class: {counts}; functions of other classes than 0x12 are "
        f'taken if the selectors name them, for example "classes": ["{example}"]'
    )


def _accelerators_of_other_classes(snapshot: Snapshot) -> Iterator[str]:
    """Crypto engines and the like, which are no network functions: disks and displays are not told.

    Nearly every host has those, so they say nothing about what a pool of netDevices lacks.
    """
    counts, example = _passed_over(snapshot, tuple(set(ON_REQUEST) - _ON_EVERY_HOST))
    if counts:
        yield (
            f"passed over for their PCI class: {counts}; such functions are taken by pools of "
            f'"deviceType": "accelerator" with "classes": ["{example}"] in their selectors'
        )


def _passed_over(snapshot: Snapshot, classes: tuple[str, ...]) -> tuple[str, str]:
    """How many functions of each of the classes there are, and the first class; empty for none."""
    found = Counter(c >> 8 for _, c in snapshot.passed_over if is_needed(c, classes))
    ranked = sorted(found.items())
    counts = ", ".join(f"{class_text(code << 8)}: {count}" for code, count in ranked)
    return counts, f"{ranked[0][0]:04x}" if ranked else ""


def _listed(texts: Iterator[str]) -> str:
    known = tuple(texts)
    more = len(known) - _SHOWN_IDS
    shown = ", ".join(known[:_SHOWN_IDS])
    return f"{shown} and {more} more" if more > 0 else shown


def _belongs(device: Device, pf_of: Callable[[Device], str | None]) -> str:
    name = pf_of(device)
    if device.role is Role.PF:
        return f"the PF {name} itself" if name else f"the PF {device.id} itself, without a netdev"
    if name:
        return f"functions of {name}"
    if device.pf_address:
        return f"functions of {device.pf_address}, which has no netdev here"
    return "functions whose PF is not on this host"


def _unbound(left: list[Device]) -> str:
    """Functions that match, and that no driver serves."""
    if len(left) > 1:
        who, them, their = f"the {len(left)} functions that match", "them", "the"
    else:
        who, them, their = left[0].id, "it", "its"
    text = f"no driver is bound to {who}, so no pod could use {them}; load the module of {their}"
    if not left[0].kind.on_pci:
        return f"{text} driver (for mlx5 SFs: `modprobe mlx5_core`)"
    first = left[0].id
    return (
        f"{text} driver, then bind one: `echo {first} > /sys/bus/pci/drivers_probe`, or "
        f"`driverctl set-override {first} vfio-pci`"
    )


def _without_vfs(left: list[Device]) -> Iterator[str]:
    """Nothing but PFs came so far: VFs were wanted, in all likelihood."""
    if spare := [d for d in left if d.total_vfs]:
        names = some(f"{d.pf_name} ({d.id})" if d.pf_name else d.id for d in spare)
        most = max(d.total_vfs for d in spare)
        yield (
            f"these are PFs without VFs, which could have up to {most}: {names}: write a number "
            "to /sys/bus/pci/devices/ADDRESS/sriov_numvfs"
        )


def _bind(criterion: Criterion, left: list[Device], pools: Pools) -> Iterator[str]:
    """Unbound functions want a driver; bound ones another, or another selector."""
    free = [d for d in left if d.id not in pools.in_use] or left
    first = min(free, key=lambda d: d.role is Role.PF).id
    driver = "vfio-pci" if "vfio-pci" in criterion.wanted else min(criterion.wanted)
    bound = Counter(d.driver for d in left if d.driver)
    if driver != "vfio-pci" and (known := remedy(driver, bound)):
        yield known.removeprefix("; ")
    elif not bound:
        yield f"bind one: `modprobe {driver}`, then `echo {first} > /sys/bus/pci/drivers_probe`"
    else:
        yield f"bind them to it, for example `driverctl set-override {first} {driver}`"
        yield f'or ask for "drivers": ["{bound.most_common(1)[0][0]}"]'


def _link_types(_: Criterion, left: list[Device], pools: Pools) -> Iterator[str]:
    snapshot = pools.snapshot
    kinds = sorted({kind for d in left for kind in link_types_of(d, snapshot.pf_of(d))})
    if not kinds:
        yield (
            "neither these functions nor their PFs have a netdev here that tells a link type: "
            "leave linkTypes out"
        )
    else:
        yield f'ask for "linkTypes": ["{kinds[0]}"], or change the port\'s type in its firmware'


def _rdma(_: Criterion, left: list[Device], __: Pools) -> Iterator[str]:
    address = left[0].pci_address
    yield (
        f"see `rdma dev` and `devlink dev param show pci/{address} name enable_rdma`, or leave "
        "isRdma out"
    )


def _ids(criterion: Criterion, _: list[Device], __: Pools) -> Iterator[str]:
    yield f"write one of these into {criterion.key}; `lspci -nn` shows the ids of all functions"


def _by_pf(criterion: Criterion, _: list[Device], pools: Pools) -> Iterator[str]:
    pf_of, entries = _BY_PF[criterion.key], criterion.wanted.entries
    pfs = pools.snapshot.pfs.values()
    named = [p for p in pfs if any(means_pf(criterion.key, e, p) for e in entries)]
    if not named and criterion.key == "pfNames" and pools.snapshot.has_no_nic:
        return
    passed_over = dict(pools.snapshot.passed_over)
    if criterion.key == "rootDevices" and all(e.key in passed_over for e in entries):
        return  # the notes say which pool can have their functions
    if not named and not any(pf.port_names or criterion.key == "rootDevices" for pf in pfs):
        return  # there is no name here that could be written
    if not named:
        yield f"write {_PF_WRITTEN[criterion.key]}"
    elif more := [p for p in named if 0 < p.num_vfs < p.total_vfs]:
        most = ", ".join(f"{pf_of(p)} {p.total_vfs}" for p in more)
        yield f"use an index that exists, or make more VFs by sriov_numvfs (at most {most})"


_ON_EVERY_HOST = frozenset({"01", "03", "0801"})
"""PCI classes of disks, displays and DMA engines."""
_HARDWARE = frozenset({"vendors", "devices", "pciAddresses", "acpiIndexes"})
_BY_PF: Mapping[str, Callable[[Device], str | None]] = {
    "pfNames": lambda d: d.pf_name,
    "rootDevices": lambda d: d.pf_address,
}
_PF_WRITTEN = {
    "pfNames": "the name of one of these, or a pattern that fits it",
    "rootDevices": "the PCI address of one of these",
}
_NOTES_KNOW_BEST = frozenset(
    {
        *_BY_PF,
        "acpiIndexes",
        "auxTypes",
        "ddpProfiles",
        "isRdma",
        "pKeys",
        "pciAddresses",
        "vdpaType",
    }
)
"""Selectors whose notes name the fix; it is told here too, so that one sentence says all."""
_VFS_COULD_HAVE = frozenset({"devices", "drivers"})
_Remedy = Callable[[Criterion, list[Device], Pools], Iterator[str]]
_REMEDIES: Mapping[str, _Remedy] = {
    "vendors": _ids,
    "devices": _ids,
    "pfNames": _by_pf,
    "rootDevices": _by_pf,
    "drivers": _bind,
    "linkTypes": _link_types,
    "isRdma": _rdma,
}
