"""Brings together who holds what: kubelet's word, and answers that it has not told of yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from agent.config.schema import SelectorSet
from agent.model.device import Device
from agent.pools.held import Held, Holder
from agent.records import frozen

CONFIRM_WITHIN_S = 10.0
"""Kubelet lists a device as soon as Allocate has returned; one that it does not list in a reply
that was asked for this much later was not given to a pod after all."""


@frozen
class Pending:
    """A device that was answered for, and that kubelet has not told of yet."""

    resource: str
    since: float
    """Loop time (s) of the answer."""


@frozen
class Ledger:
    """Every device in the hands of a pod, as far as is known; a value, pure transitions."""

    told: Mapping[str, Holder] = attrs.field(factory=dict)
    """Kubelet's last word (pod-resources)."""
    pending: Mapping[str, Pending] = attrs.field(factory=dict)
    remembered: Mapping[str, Device] = attrs.field(factory=dict)
    """The last known facts of held devices."""
    chosen: Mapping[str, SelectorSet] = attrs.field(factory=dict)
    """The selector objects that chose the devices of our own answers, while pods hold them."""
    complete: bool = False
    """Whether kubelet has told anything since the start."""

    @property
    def held(self) -> Held:
        """What assigning needs to know."""
        answered = {i: Holder(p.resource) for i, p in self.pending.items()}
        holders = {**answered, **self.told}
        return Held(holders, self.remembered, self.chosen, self.complete)

    def allocated(
        self,
        resource: str,
        device_ids: Iterable[str],
        now: float,
        chosen: Mapping[str, SelectorSet] | None = None,
    ) -> Ledger:
        """The same after an answer to Allocate at ``now``; ``chosen`` tells what chose a device."""
        fresh = {i: Pending(resource, now) for i in device_ids}
        return attrs.evolve(
            self, pending={**self.pending, **fresh}, chosen={**self.chosen, **(chosen or {})}
        )

    def confirmed(self, told: Mapping[str, Holder], asked_at: float) -> Ledger:
        """The same after kubelet's whole word, asked for at ``asked_at`` (loop time, s)."""
        pending = {
            i: p
            for i, p in self.pending.items()
            if i not in told and asked_at - p.since < CONFIRM_WITHIN_S
        }
        held = told.keys() | pending.keys()
        kept = {i: d for i, d in self.remembered.items() if i in held}
        chosen = {i: s for i, s in self.chosen.items() if i in held}
        return Ledger(told, pending, kept, chosen, complete=True)

    def remembering(self, devices: Iterable[Device]) -> Ledger:
        """The same with the facts of those ``devices`` that are held."""
        seen = {d.id: d for d in devices if d.id in self.told or d.id in self.pending}
        return attrs.evolve(self, remembered={**self.remembered, **seen}) if seen else self
