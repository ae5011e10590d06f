"""Tracks which pod holds which device: by kubelet's reports and by our own allocations.

A device is held while any source says so: kubelet's pod-resources, kubelet's checkpoint file, or
our own record of allocations. It is free once a complete answer of pod-resources or a checkpoint
does not contain it.
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
"""Kubelet lists a device as soon as Allocate has returned; a device that is missing in an answer
that was requested this much later did not go to a pod."""
CHECKPOINT_WITHIN_S = 60.0
"""The same for the checkpoint, which kubelet writes once all plugins of a container answered."""
SHORT_LIFE_S = 90.0
"""A pod that ends sooner after the Allocate of a device may have failed because of it."""
REST_S = 300.0
"""How long other devices are preferred to a device that came back so soon."""
_LONG_AGO = float("-inf")


@frozen
class Unconfirmed:
    """A device that was allocated and that kubelet has not reported yet."""

    resource: str
    since: float
    """Loop time (s) of the answer to Allocate."""


@frozen
class KubeletReport:
    """What kubelet reported at one time."""

    pods: Mapping[str, PodOwner] | None = None
    """Device id -> its pod, by pod-resources; None = no answer."""
    is_complete: bool = False
    """Whether a device that is not among ``pods`` is held by no pod."""
    claims: frozenset[Claim] | None = None
    """The allocations in the checkpoint; None = it cannot be read."""


@frozen
class AllocationTracker:
    """Every device that a pod holds, as far as is known: a value with pure transitions."""

    reported: Mapping[str, PodOwner] = attrs.field(factory=dict)
    """The last list of pod-resources, without devices that were freed since."""
    pending: Mapping[str, Unconfirmed] = attrs.field(factory=dict)
    """Our own allocations: those of this run, and those that an earlier run recorded."""
    claims: frozenset[Claim] = frozenset()
    """The allocations in the last checkpoint."""
    stale: frozenset[Claim] = frozenset()
    """Claims whose pods have ended, as a complete answer of pod-resources showed."""
    remembered: Mapping[str, Device] = attrs.field(factory=dict)
    """The last known facts of held devices."""
    chosen: Mapping[str, SelectorObject] = attrs.field(factory=dict)
    """The selector objects that chose the devices of our allocations, while pods hold them."""
    given_at: Mapping[str, float] = attrs.field(factory=dict)
    """Loop time (s) of our allocations, while pods hold the devices."""
    resting: Mapping[str, float] = attrs.field(factory=dict)
    """Devices that came back soon after their allocation -> loop time (s) until which other
    devices are preferred."""
    complete: bool = False
    """Whether kubelet has reported since the start."""
    awaited: bool = False
    """Whether kubelet's first report is still expected."""

    @property
    def held(self) -> AllocatedDevices:
        """The devices that pods hold, as the assignment takes them."""
        holders = {
            **self._claimed(),
            **{i: PodOwner(p.resource) for i, p in self.pending.items()},
            **self.reported,
        }
        return AllocatedDevices(holders, self.remembered, self.chosen, self.complete, self.awaited)

    @property
    def held_ids(self) -> frozenset[str]:
        """Ids of all devices that pods hold."""
        claimed = (c.device_id for c in self.claims if c not in self.stale)
        return frozenset((*self.reported, *self.pending, *claimed))

    def _claimed(self) -> Mapping[str, PodOwner]:
        """Device id -> its pod by the checkpoint; the first by resource if there are several."""
        owners: dict[str, PodOwner] = {}
        for claim in self.claims - self.stale:
            other = owners.get(claim.device_id)
            if other is None or claim.order < (other.resource, other.uid or ""):
                owners[claim.device_id] = PodOwner(claim.resource, uid=claim.pod_uid)
        return owners

    def recorded(self, given: Mapping[str, str]) -> AllocationTracker:
        """Adds the allocations of an earlier run of the agent: device id -> resource."""
        earlier = {i: Unconfirmed(resource, _LONG_AGO) for i, resource in given.items()}
        return attrs.evolve(self, pending={**earlier, **self.pending})

    def allocated(
        self,
        resource: str,
        device_ids: Iterable[str],
        now: float,
        chosen: Mapping[str, SelectorObject] | None = None,
    ) -> AllocationTracker:
        """Adds an allocation at ``now``; ``chosen`` has the selector object of each device."""
        fresh = {i: Unconfirmed(resource, now) for i in device_ids}
        return attrs.evolve(
            self,
            pending={**self.pending, **fresh},
            chosen={**self.chosen, **(chosen or {})},
            given_at={**self.given_at, **dict.fromkeys(fresh, now)},
        )

    def returned(self, device_ids: Iterable[str], now: float) -> AllocationTracker:
        """Lets these devices rest, since a pod failed and they may be the cause.

        Otherwise kubelet would choose the same devices for the pod that replaces it.
        """
        return attrs.evolve(
            self, resting={**self.resting, **dict.fromkeys(device_ids, now + REST_S)}
        )

    def heard(self, report: KubeletReport, asked_at: float) -> AllocationTracker:
        """Applies a report of kubelet that was requested at ``asked_at`` (loop time, s)."""
        listed = report.pods or {}
        claims = self.claims if report.claims is None else report.claims
        refuted = {c for c in claims if c.device_id not in listed} if report.is_complete else set()
        free = self._free(report, asked_at)
        reported = {i: h for i, h in self.reported.items() if i not in free}
        pending = {i: p for i, p in self.pending.items() if i not in free and i not in listed}
        after = attrs.evolve(
            self,
            reported={**reported, **listed},
            pending=pending,
            claims=claims,
            stale=(self.stale | refuted) & claims,
            complete=self.complete or report.is_complete or report.claims is not None,
        )
        return after.trimmed(asked_at)

    def _free(self, report: KubeletReport, asked_at: float) -> AbstractSet[str]:
        """The devices that no pod holds any longer, according to a report."""
        if report.is_complete:
            doubtful_s, held = CONFIRM_WITHIN_S, set(report.pods or ())
        elif report.claims is not None:
            doubtful_s = CHECKPOINT_WITHIN_S
            held = {*(report.pods or ()), *(c.device_id for c in report.claims - self.stale)}
        else:
            return frozenset()
        young = {i for i, p in self.pending.items() if asked_at - p.since < doubtful_s}
        return (self.reported.keys() | self.pending.keys()) - held - young

    def trimmed(self, now: float) -> AllocationTracker:
        """Removes what is recorded of devices that are free now; some of them rest."""
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
        """Records the facts of those ``devices`` that are held."""
        held = self.held_ids
        seen = {d.id: d for d in devices if d.id in held}
        return attrs.evolve(self, remembered={**self.remembered, **seen}) if seen else self
