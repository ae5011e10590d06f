"""Brings together who holds what: what kubelet says, and answers of our own that it has not listed.

A device is held while any witness says so: kubelet's pod-resources, kubelet's checkpoint file, and
our own record of what was given. It is free once kubelet is sure: by a complete answer of
pod-resources without it, or by a checkpoint without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import attrs

from agent.attrs_classes import frozen
from agent.config.schema import SelectorObject
from agent.kubelet.checkpoint import Claim
from agent.model.device import Device
from agent.pools.allocated import AllocatedDevices, PodOwner

CONFIRM_WITHIN_S = 10.0
"""Kubelet lists a device as soon as Allocate has returned; one that it does not list in a reply
that was asked for this much later was not given to a pod after all."""
CHECKPOINT_WITHIN_S = 60.0
"""Kubelet writes its checkpoint once all plugins have answered for a container."""
SHORT_LIFE_S = 90.0
"""A pod that gives a device back sooner after its Allocate may have failed because of it."""
REST_S = 300.0
"""For so long other devices are preferred to one that came back so soon."""
_LONG_AGO = float("-inf")


@frozen
class Unconfirmed:
    """A device that was answered for, and that kubelet has not told of yet."""

    resource: str
    since: float
    """Loop time (s) of the answer."""


@frozen
class KubeletReport:
    """What kubelet said in one moment."""

    pods: Mapping[str, PodOwner] | None = None
    """Device id -> its pod, by pod-resources; None = no answer."""
    is_complete: bool = False
    """Whether a device that is not among ``pods`` is held by no pod."""
    claims: frozenset[Claim] | None = None
    """What the checkpoint says is given; None = it cannot be read."""


@frozen
class AllocationTracker:
    """Every device in the hands of a pod, as far as is known; a value, pure transitions."""

    told: Mapping[str, PodOwner] = attrs.field(factory=dict)
    """What pod-resources listed last, as far as nothing says that it was freed since."""
    pending: Mapping[str, Unconfirmed] = attrs.field(factory=dict)
    """Our own answers: of this run, and those that an earlier run recorded."""
    claims: frozenset[Claim] = frozenset()
    """What the checkpoint said last."""
    stale: frozenset[Claim] = frozenset()
    """Those of the claims whose pods have ended, as a complete answer of pod-resources showed."""
    remembered: Mapping[str, Device] = attrs.field(factory=dict)
    """The last known facts of held devices."""
    chosen: Mapping[str, SelectorObject] = attrs.field(factory=dict)
    """The selector objects that chose the devices of our own answers, while pods hold them."""
    given_at: Mapping[str, float] = attrs.field(factory=dict)
    """Loop time (s) of our own answers, while pods hold the devices."""
    resting: Mapping[str, float] = attrs.field(factory=dict)
    """Devices that came back soon after they were given -> until when (loop time, s) others are
    preferred."""
    complete: bool = False
    """Whether kubelet has said what is held since the start."""
    awaited: bool = False
    """Whether kubelet is still expected to say so for the first time."""

    @property
    def held(self) -> AllocatedDevices:
        """What assigning needs to know."""
        holders = {
            **self._claimed(),
            **{i: PodOwner(p.resource) for i, p in self.pending.items()},
            **self.told,
        }
        return AllocatedDevices(holders, self.remembered, self.chosen, self.complete, self.awaited)

    @property
    def held_ids(self) -> frozenset[str]:
        """Ids of all devices in the hands of pods."""
        claimed = (c.device_id for c in self.claims if c not in self.stale)
        return frozenset((*self.told, *self.pending, *claimed))

    def _claimed(self) -> Mapping[str, PodOwner]:
        """Who holds a device by the checkpoint; the first by resource where it names several."""
        found: dict[str, PodOwner] = {}
        for claim in self.claims - self.stale:
            before = found.get(claim.device_id)
            if before is None or claim.order < (before.resource, before.uid or ""):
                found[claim.device_id] = PodOwner(claim.resource, uid=claim.pod_uid)
        return found

    def recorded(self, given: Mapping[str, str]) -> AllocationTracker:
        """The same with what an earlier run of the agent gave: device id -> resource."""
        earlier = {i: Unconfirmed(resource, _LONG_AGO) for i, resource in given.items()}
        return attrs.evolve(self, pending={**earlier, **self.pending})

    def allocated(
        self,
        resource: str,
        device_ids: Iterable[str],
        now: float,
        chosen: Mapping[str, SelectorObject] | None = None,
    ) -> AllocationTracker:
        """The same after an answer to Allocate at ``now``; ``chosen`` tells what chose a device."""
        fresh = {i: Unconfirmed(resource, now) for i in device_ids}
        return attrs.evolve(
            self,
            pending={**self.pending, **fresh},
            chosen={**self.chosen, **(chosen or {})},
            given_at={**self.given_at, **dict.fromkeys(fresh, now)},
        )

    def returned(self, device_ids: Iterable[str], now: float) -> AllocationTracker:
        """The same after a pod failed, perhaps because of these devices: another takes its place.

        Kubelet would choose the same devices for it.
        """
        return attrs.evolve(
            self, resting={**self.resting, **dict.fromkeys(device_ids, now + REST_S)}
        )

    def confirmed(self, told: Mapping[str, PodOwner], asked_at: float) -> AllocationTracker:
        """The same after a complete answer of pod-resources, asked for at ``asked_at``."""
        return self.heard(KubeletReport(told, is_complete=True), asked_at)

    def heard(self, word: KubeletReport, asked_at: float) -> AllocationTracker:
        """The same after what kubelet said, asked for at ``asked_at`` (loop time, s)."""
        listed = word.pods or {}
        claims = self.claims if word.claims is None else word.claims
        refuted = {c for c in claims if c.device_id not in listed} if word.is_complete else set()
        free = self._free(word, asked_at)
        told = {i: h for i, h in self.told.items() if i not in free}
        pending = {i: p for i, p in self.pending.items() if i not in free and i not in listed}
        after = attrs.evolve(
            self,
            told={**told, **listed},
            pending=pending,
            claims=claims,
            stale=(self.stale | refuted) & claims,
            complete=self.complete or word.is_complete or word.claims is not None,
        )
        return after.trimmed(asked_at)

    def _free(self, word: KubeletReport, asked_at: float) -> AbstractSet[str]:
        """The devices that nobody holds any more by what kubelet said."""
        if word.is_complete:
            doubtful_s, held = CONFIRM_WITHIN_S, set(word.pods or ())
        elif word.claims is not None:
            doubtful_s = CHECKPOINT_WITHIN_S
            held = {*(word.pods or ()), *(c.device_id for c in word.claims - self.stale)}
        else:
            return frozenset()
        young = {i for i, p in self.pending.items() if asked_at - p.since < doubtful_s}
        return (self.told.keys() | self.pending.keys()) - held - young

    def trimmed(self, now: float) -> AllocationTracker:
        """The same without what is known of devices that are free now; some of them rest."""
        held = self.held_ids
        back = {i for i, at in self.given_at.items() if i not in held and now - at < SHORT_LIFE_S}
        resting = {i: until for i, until in self.resting.items() if until > now}
        return attrs.evolve(
            self,
            remembered={i: d for i, d in self.remembered.items() if i in held},
            chosen={i: s for i, s in self.chosen.items() if i in held},
            given_at={i: at for i, at in self.given_at.items() if i in held},
            resting={**resting, **dict.fromkeys(back, now + REST_S)},
            awaited=self.awaited and not self.complete,
        )

    def remembering(self, devices: Iterable[Device]) -> AllocationTracker:
        """The same with the facts of those ``devices`` that are held."""
        held = self.held_ids
        seen = {d.id: d for d in devices if d.id in held}
        return attrs.evolve(self, remembered={**self.remembered, **seen}) if seen else self
