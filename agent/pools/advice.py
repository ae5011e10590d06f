"""Why a pool is empty: the step of its funnel that left nothing, what was there, and the fix.

Notes are about each selector alone; this is about the functions that were left before the step.
There is one sentence for each selector object, for ``explain``, the log at the start, and the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from agent.attrs_classes import frozen
from agent.config.schema import Criterion, PoolConfig
from agent.model.device import Device, Role
from agent.pools.pool import Pool, Pools
from agent.selectors import SELECTORS, Selector
from agent.selectors.classes import criteria_for, other_classes
from agent.selectors.present_values import first_texts, present, present_values, some
from agent.selectors.selector import EmptyStep

_SHOWN_IDS = 3


@frozen
class Advice:
    """Sentences about a pool: cause and fix."""

    why_empty: tuple[str, ...] = ()
    """One for each selector object of an empty pool; none for a pool that has devices."""
    notes: tuple[str, ...] = ()
    """What else in its selectors matches nothing on this host."""


def advise(pool: Pool, pools: Pools) -> Advice:
    """Why a pool is empty, and its notes on selectors that are not already the reason; pure."""
    if pool.members:
        return Advice(notes=pool.notes)
    empty = _EmptyPool(pool.config, pools)
    causes = empty.sentences()
    return Advice(causes, tuple(n for n in pool.notes if n.partition(":")[0] not in empty.refusing))


class _EmptyPool:
    """Follows the funnel of each selector object to the step that leaves no function."""

    def __init__(self, config: PoolConfig, pools: Pools) -> None:
        self.config = config
        self.pools = pools
        self.snapshot = pools.snapshot
        of_type = [d for d in self.snapshot.devices if d.kind is config.kind]
        self.functions = [d for d in of_type if not d.has_vfs]
        self.all_functions = of_type
        self.refusing: set[str] = set()
        """Keys of the selectors that left nothing."""

    def sentences(self) -> tuple[str, ...]:
        if not self.functions:
            return (self._nothing_of_the_type(),)
        several = len(self.config.selectors) > 1
        texts = []
        for number, selectors in enumerate(self.config.selectors):
            place = f"selector object {number + 1}: " if several else ""
            criteria = criteria_for(selectors, self.config.kind, self.all_functions)
            texts.append(place + self._object(criteria))
        return tuple(dict.fromkeys(texts))

    def _nothing_of_the_type(self) -> str:
        kind = self.config.kind
        others = Counter(str(d.kind) for d in self.snapshot.devices)
        if not others and not self.snapshot.passed_over:
            return (
                "this host has no network function and no accelerator; if the agent runs in a "
                "container, check that the host's /sys is mounted"
            )
        what = f"no {kind.noun_with_class} on this host"
        if kind.takes_other_classes and (classes := other_classes(self.snapshot)):
            return f"{what}; {classes}"
        if not others:
            return f"{what}, and no accelerator: all functions have other PCI classes"
        if kind.how_to_create:
            return f"{what}: {kind.how_to_create}"
        return f'{what}; there are {present(others)}: is "deviceType": "{kind}" intended?'

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

    def _refused_by(self, criterion: Criterion, devices: list[Device]) -> str:
        selector = SELECTORS[criterion.key]
        if not (wanted := selector.to_text(criterion.wanted)):
            return f"none of the values of {selector.key} can match: `validate` shows why"
        step = EmptyStep(
            criterion.wanted, self.config.kind, tuple(devices), self.snapshot, self.pools.in_use
        )
        many = f"{len(devices)} functions" if len(devices) > 1 else devices[0].id
        present_here = present(Counter(selector.summary(d, self.snapshot) for d in devices))
        text = f"{selector.key} {wanted} leaves none of {many}: {present_here}"
        return "; ".join([text, *self._fixes(selector, step)])

    def _fixes(self, selector: Selector, step: EmptyStep) -> Iterator[str]:
        if selector.is_fixed_by_diagnosis:
            values = present_values(step.kind, self.snapshot)
            for text in first_texts(selector.diagnose(step.wanted, values)):
                yield text.removeprefix(f"{selector.key}: ")
        yield from selector.fix(step)
        if selector.identifies_hardware:
            yield from self._other_types(selector, step)
        if selector.differs_between_pf_and_vf and all(d.role is Role.PF for d in step.devices):
            yield from _without_vfs(step.devices)

    def _other_types(self, selector: Selector, step: EmptyStep) -> Iterator[str]:
        """Matching hardware on this host that is not of the pool's device type."""
        types = Counter(
            d.kind.name
            for d in self.snapshot.devices
            if d.kind is not step.kind and not d.has_vfs
            if selector.matches(d, step.wanted, self.snapshot)
        )
        if step.kind.takes_other_classes and (classes := other_classes(self.snapshot)):
            yield classes
        for name, count in sorted(types.items()):
            yield f'of "deviceType": "{name}" {count} would match: is that the intended type?'

    def _refused_after(self, left: list[Device]) -> str:
        """All selectors match, but the functions have no driver, are in use or taken."""
        if all(d.id in self.pools.without_driver for d in left):
            return _unbound(left)
        left = [d for d in left if d.id not in self.pools.without_driver]
        if sub_functions := self.pools.sub_functions_in_use:
            usable = [d for d in left if d.id not in sub_functions]
            if not usable:
                how = _listed(f"{d.id} ({sub_functions[d.id]})" for d in left)
                return f"PFs are not allocated while pods use their sub-functions: {how}"
            left = usable
        in_use = {} if self.config.allow_in_use else self.pools.in_use
        free = [d for d in left if d.id not in in_use]
        if not free:
            how = _listed(f"{d.id} ({in_use[d.id]})" for d in left)
            return (
                f"in use by the host: {how}; select other functions, or set "
                '"allowInUse": true if the host does not need them'
            )
        taken = Counter(self._owner(d) for d in free)
        return (
            f"the {len(free)} functions that match are taken: {present(taken)}; the first pool in "
            "the file gets a function: make the selectors disjoint, or change the order of pools"
        )

    def _owner(self, device: Device) -> str:
        if winner := self.pools.resource_of.get(device.id):
            return f"by {winner}"
        holder = self.pools.held.holders.get(device.id)
        return f"by {holder} as {holder.resource}" if holder else "by no pod"


def _listed(texts: Iterator[str]) -> str:
    every = tuple(texts)
    more = len(every) - _SHOWN_IDS
    shown = ", ".join(every[:_SHOWN_IDS])
    return f"{shown} and {more} more" if more > 0 else shown


def _unbound(left: list[Device]) -> str:
    """The fix for matching functions without a driver."""
    if len(left) > 1:
        what, them, their = f"the {len(left)} functions that match", "them", "the"
    else:
        what, them, their = left[0].id, "it", "its"
    text = f"no driver is bound to {what}, so no pod could use {them}; load the module of {their}"
    if not left[0].kind.on_pci:
        return f"{text} driver (for mlx5 SFs: `modprobe mlx5_core`)"
    first = left[0].id
    return (
        f"{text} driver, then bind one: `echo {first} > /sys/bus/pci/drivers_probe`, or "
        f"`driverctl set-override {first} vfio-pci`"
    )


def _without_vfs(devices: Sequence[Device]) -> Iterator[str]:
    """Only PFs were left before the step: probably VFs are wanted."""
    if spare := [d for d in devices if d.total_vfs]:
        names = some(f"{d.pf_name} ({d.id})" if d.pf_name else d.id for d in spare)
        most = max(d.total_vfs for d in spare)
        yield (
            f"these PFs have no VFs and support up to {most}: {names}: write a number "
            "to /sys/bus/pci/devices/ADDRESS/sriov_numvfs"
        )
