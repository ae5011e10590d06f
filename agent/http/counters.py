"""Counts events of the bus for the metrics, while HTTP is on."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from contextlib import ExitStack

import attrs

from agent.attrs_classes import define
from agent.bus import Bus
from agent.events.allocation import AllocationMade, AllocationRefused
from agent.events.config import ConfigIdle, ConfigLoaded, ConfigReloaded
from agent.events.devices import DevicesHealthy, DevicesUnhealthy
from agent.events.event import LogEvent
from agent.events.plugin import ListPushed, Registered, RegistrationFailed
from agent.model.events import DevicesAllocated

PUSH_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
ALLOCATION_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
SCAN_BOUNDS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0)


class Histogram:
    """A histogram with Prometheus' cumulative buckets."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.sum = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        """Add one observation."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def buckets(self) -> tuple[tuple[str, int], ...]:
        """(upper bound as text, observations up to it) for each bucket; the last is ``+Inf``."""
        total, found = 0, []
        for bound, count in zip((*self.bounds, None), self._counts, strict=True):
            total += count
            found.append(("+Inf" if bound is None else repr(bound), total))
        return tuple(found)


@define
class Counters:
    """Counts since the start."""

    transitions: Counter[tuple[str, str, str]] = attrs.field(factory=Counter)
    """(resource, ``Healthy`` or ``Unhealthy``, cause) -> devices that changed to it."""
    registrations: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    """(resource, ``success`` or ``failure``) -> attempts."""
    pushed: Counter[str] = attrs.field(factory=Counter)
    allocated: Counter[str] = attrs.field(factory=Counter)
    """Resource -> devices given to containers."""
    allocations: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    """(resource, ``success`` or ``refused``) -> containers."""
    allocation_s: Histogram = attrs.field(factory=lambda: Histogram(ALLOCATION_BOUNDS_S))
    push_s: Histogram = attrs.field(factory=lambda: Histogram(PUSH_BOUNDS_S))
    scan_s: Histogram = attrs.field(factory=lambda: Histogram(SCAN_BOUNDS_S))
    config_loaded_at: float = 0.0
    """When a configuration was last loaded, in seconds since 1970."""


class Recorder:
    """Updates :class:`Counters` from events of the bus, while it is entered."""

    def __init__(self, bus: Bus) -> None:
        self.counters = Counters()
        self._bus = bus
        self._stack = ExitStack()

    def __enter__(self) -> Counters:
        on, leave = self._bus.on, self._stack.callback
        leave(on(DevicesUnhealthy, self._unhealthy))
        leave(on(DevicesHealthy, self._healthy))
        leave(on(ListPushed, self._push))
        leave(on(Registered, lambda e: self._registration(e.resource, "success")))
        leave(on(RegistrationFailed, lambda e: self._registration(e.resource, "failure")))
        leave(on(DevicesAllocated, self._allocated))
        leave(on(AllocationMade, self._allocation_made))
        leave(on(AllocationRefused, self._allocation_refused))
        for loaded in (ConfigLoaded, ConfigReloaded, ConfigIdle):
            leave(on(loaded, self._config_loaded))
        return self.counters

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _unhealthy(self, event: DevicesUnhealthy) -> None:
        self.counters.transitions[event.resource, "Unhealthy", event.cause or ""] += event.count

    def _healthy(self, event: DevicesHealthy) -> None:
        self.counters.transitions[event.resource, "Healthy", ""] += event.count

    def _push(self, event: ListPushed) -> None:
        self.counters.pushed[event.resource] += 1
        if event.seen_at is not None:
            self.counters.push_s.observe(_now() - event.seen_at)

    def _registration(self, resource: str, result: str) -> None:
        self.counters.registrations[resource, result] += 1

    def _allocated(self, event: DevicesAllocated) -> None:
        self.counters.allocated[event.resource] += len(event.device_ids)

    def _allocation_made(self, event: AllocationMade) -> None:
        self.counters.allocations[event.resource, "success"] += 1
        self.counters.allocation_s.observe(event.took_ms / 1000)

    def _allocation_refused(self, event: AllocationRefused) -> None:
        self.counters.allocations[event.resource, "refused"] += 1

    def _config_loaded(self, _: LogEvent) -> None:
        self.counters.config_loaded_at = time.time()


def _now() -> float:
    return asyncio.get_running_loop().time()
