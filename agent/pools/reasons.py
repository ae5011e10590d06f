"""Why a device is in its pool or in none, for ``discover``, ``explain``, status and the log."""

from __future__ import annotations

from enum import StrEnum

from agent.attrs_classes import frozen
from agent.config.schema import PoolConfig
from agent.model.device import Device
from agent.pools.pool import Pools
from agent.pools.usable import NO_DRIVER
from agent.selectors import Verdict, evaluate


class Refusal(StrEnum):
    """Why a device is in no pool, or not in one pool."""

    NO_POOL_OF_KIND = "kind"
    HAS_VFS = "has-vfs"
    NO_DRIVER = "no-driver"
    SUB_FUNCTIONS = "sub-functions"
    IN_USE = "in-use"
    HELD = "held"
    SELECTOR = "selector"
    TAKEN = "taken"
    UNSETTLED = "unsettled"


@frozen
class Reason:
    """Why a device is in its pool, or in none."""

    device_id: str
    resource: str | None
    """The pool that has it; None = none."""
    refusal: Refusal | None
    """None = it is in a pool."""
    text: str
    """One sentence."""


@frozen
class ObjectVerdict:
    """The verdict of one selector object of a pool on a device."""

    selector_object: int
    verdicts: tuple[Verdict, ...]
    refusal: Refusal | None
    text: str


@frozen
class PoolVerdict:
    """The verdict of one pool on a device, with that of each selector object."""

    resource: str
    chosen: bool
    refusal: Refusal | None
    text: str
    objects: tuple[ObjectVerdict, ...] = ()


def reason(device: Device, pools: Pools) -> Reason:
    """Why this device is in its pool or in none; if in none, by the nearest pool."""
    resource = pools.resource_of.get(device.id)
    if resource is not None:
        return Reason(device.id, resource, None, _selected(device, resource, pools))
    if device.has_vfs:
        text = f"a PF with VFs ({device.num_vfs}): pods get its VFs, never the PF itself"
        return Reason(device.id, None, Refusal.HAS_VFS, text)
    of_kind = [p for p in pools.config.pools if p.kind is device.kind]
    use = pools.in_use.get(device.id)
    if use and not any(p.allow_in_use for p in of_kind):
        override = ' ("allowInUse": true would override)' if of_kind else ""
        return Reason(device.id, None, Refusal.IN_USE, f"in use by the host: {use}{override}")
    if not of_kind:
        text = f"no pool of deviceType {device.kind}"
        return Reason(device.id, None, Refusal.NO_POOL_OF_KIND, text)
    nearest = max((pool_verdict(device, p, pools) for p in of_kind), key=_nearness)
    return Reason(device.id, None, nearest.refusal, _reason_text(nearest))


def pool_verdict(device: Device, config: PoolConfig, pools: Pools) -> PoolVerdict:
    """The verdict of one pool on a device, with that of each selector in order."""
    chosen = pools.resource_of.get(device.id) == config.resource
    if chosen:
        text = _selected(device, config.resource, pools)
        return PoolVerdict(config.resource, True, None, text, _objects(device, config, pools))
    if device.kind is not config.kind:
        text = f"has deviceType {device.kind}, the pool has {config.kind}"
        return PoolVerdict(config.resource, False, Refusal.NO_POOL_OF_KIND, text)
    if device.has_vfs:
        text = f"a PF with VFs ({device.num_vfs}): pods get its VFs, never the PF itself"
        return PoolVerdict(config.resource, False, Refusal.HAS_VFS, text)
    objects = _objects(device, config, pools)
    nearest = max(objects, key=_nearness)
    return PoolVerdict(config.resource, False, nearest.refusal, nearest.text, objects)


def _objects(device: Device, config: PoolConfig, pools: Pools) -> tuple[ObjectVerdict, ...]:
    return tuple(_object(device, config, number, pools) for number in range(len(config.selectors)))


def _object(device: Device, config: PoolConfig, number: int, pools: Pools) -> ObjectVerdict:
    verdicts = evaluate(device, config.selectors[number], pools.snapshot)
    refused = next((v for v in verdicts if not v.passed), None)
    if refused is not None:
        text = f"{refused.key}: {refused.actual}, wanted {refused.wanted}"
        return ObjectVerdict(number, verdicts, Refusal.SELECTOR, text)
    if unfit := _unfit(device, config, pools):
        return ObjectVerdict(number, verdicts, *unfit)
    winner = pools.resource_of.get(device.id)
    if winner not in {None, config.resource}:
        return ObjectVerdict(number, verdicts, Refusal.TAKEN, f"taken by the earlier pool {winner}")
    if winner is None and (holder := pools.held.holders.get(device.id)):
        text = f"held by {holder} as {holder.resource}, which is not a configured resource"
        return ObjectVerdict(number, verdicts, Refusal.HELD, text)
    if winner is None:
        text = "matches; will join once the host settles"
        if pools.held.awaited:
            text = "matches; will join once kubelet has reported which devices pods hold"
        return ObjectVerdict(number, verdicts, Refusal.UNSETTLED, text)
    return ObjectVerdict(number, verdicts, None, "matches")


def _unfit(device: Device, config: PoolConfig, pools: Pools) -> tuple[Refusal, str] | None:
    """Why a matching device must not be allocated; None for one that a pod holds from the pool."""
    if device.id in pools.held.of(config.resource):
        return None
    if device.id in pools.without_driver:
        return Refusal.NO_DRIVER, NO_DRIVER
    if use := pools.sub_functions_in_use.get(device.id):
        return Refusal.SUB_FUNCTIONS, f"{use}: such a PF is never allocated"
    use = None if config.allow_in_use else pools.in_use.get(device.id)
    if use:
        return Refusal.IN_USE, f'in use by the host: {use} ("allowInUse": true would override)'
    return None


def _selected(device: Device, resource: str, pools: Pools) -> str:
    holder = pools.held.holders.get(device.id)
    member = pools.by_resource[resource].by_id[device.id]
    where = f"selected by {resource}"
    if len(pools.by_resource[resource].config.selectors) > 1:
        where += f", selector object {member.selector_object + 1}"
    return f"{where}; held by {holder}" if holder else where


def _nearness(verdict: ObjectVerdict | PoolVerdict) -> tuple[int, int]:
    """How narrowly a device misses a pool: refusals after all selectors are the narrowest."""
    order = {
        Refusal.SELECTOR: 1,
        Refusal.TAKEN: 2,
        Refusal.HELD: 3,
        Refusal.NO_DRIVER: 3,
        Refusal.SUB_FUNCTIONS: 3,
        Refusal.IN_USE: 3,
        Refusal.UNSETTLED: 4,
        None: 4,
    }
    objects = (verdict,) if isinstance(verdict, ObjectVerdict) else verdict.objects
    passed = max((sum(v.passed for v in o.verdicts) for o in objects), default=0)
    return order.get(verdict.refusal, 0), passed


def _reason_text(nearest: PoolVerdict) -> str:
    if nearest.refusal is Refusal.IN_USE:
        return nearest.text
    return f"not in {nearest.resource}: {nearest.text}"
