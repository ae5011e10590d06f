from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import attrs
import looptime
from hypothesis import given
from hypothesis import strategies as st

from agent.bus import Bus
from agent.config.schema import Config
from agent.config.watcher import ConfigChanged
from agent.model.device import Device
from agent.model.events import LinksChanged, SnapshotTaken
from agent.model.link import LinkFact, Links
from agent.model.snapshot import Snapshot
from agent.reconcile import Reconciler
from tests.fuzz.profile import fuzz
from tests.support.devices import host
from tests.support.pools import config, pool
from tests.support.reconciling import UPLINK, family
from tests.support.scripted import RecordingFleet, ScriptedSpecs

SETTLE_S = 60.0
VFS = 4
CONFIGS = (
    config(),
    config(pool("vf")),
    config(pool("a", {"drivers": ["iavf"]}), pool("b", {"drivers": ["vfio-pci"]})),
    config(pool("b", {"drivers": ["vfio-pci"]}), pool("a")),
    config(pool("a", {"pfNames": ["pf0#1-2"]}, health={"link": False}), pool("vf")),
    config(pool("vf", health={"recoveryHoldSeconds": 5}, excludeTopology=True)),
)


@attrs.frozen
class Truth:
    """What the agent is told of the world at one moment."""

    drivers: tuple[str | None, ...] = ("iavf",) * VFS
    """Of each VF; its device is not there where there is ``gone``."""
    carrier: bool | None = None
    """What netlink told; None = nothing so far."""
    admin_up: bool = True
    config: Config = CONFIGS[1]

    @property
    def snapshot(self) -> Snapshot:
        """What a scan sees."""
        parent, *vfs = family(VFS)
        netdev = attrs.evolve(UPLINK, admin_up=self.admin_up)
        bound = zip(vfs, self.drivers, strict=True)
        kept = [attrs.evolve(vf, driver=driver) for vf, driver in bound if driver != "gone"]
        pf = attrs.evolve(parent, num_vfs=len(kept), netdevs=(netdev,))
        return host(*self.visible(pf), *kept)

    @staticmethod
    def visible(pf: Device) -> tuple[Device, ...]:
        """A PF without VFs would be a device itself."""
        return (pf,) if pf.num_vfs else ()

    @property
    def links(self) -> Links:
        """What netlink told."""
        if self.carrier is None:
            return Links()
        fact = LinkFact(5, "pf0", admin_up=self.admin_up, carrier=self.carrier)
        return Links({5: fact})


DELAYS = st.sampled_from((0.0, 0.0, 0.01, 0.2, 1.0, 7.0))
STEPS = st.one_of(
    st.tuples(
        st.just("driver"),
        st.integers(0, VFS - 1),
        st.sampled_from(("iavf", "vfio-pci", None, "gone")),
    ),
    st.tuples(st.just("carrier"), st.booleans(), st.booleans()),
    st.tuples(st.just("config"), st.sampled_from(CONFIGS), st.none()),
    st.tuples(st.just("unsettled"), st.none(), st.none()),
)


def after(truth: Truth, kind: str, first: Any, second: Any) -> Truth:  # noqa: ANN401
    if kind == "driver":
        drivers = list(truth.drivers)
        drivers[first] = second
        return attrs.evolve(truth, drivers=tuple(drivers))
    if kind == "carrier":
        return attrs.evolve(truth, carrier=first, admin_up=second)
    return attrs.evolve(truth, config=first) if kind == "config" else truth


@asynccontextmanager
async def started(truth: Truth) -> AsyncIterator[tuple[Bus, RecordingFleet]]:
    """A reconciler that has told the first lists of this world."""
    bus, fleet = Bus(), RecordingFleet()
    reconciler = Reconciler(bus, fleet, ScriptedSpecs(write_s=0.01))
    bus.publish(ConfigChanged(truth.config))
    bus.publish(SnapshotTaken(truth.snapshot, settled=True))
    bus.publish(LinksChanged(truth.links))
    await reconciler.reconcile()
    running = asyncio.create_task(reconciler.run())
    await asyncio.sleep(0)
    try:
        yield bus, fleet
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def newest(fleet: RecordingFleet) -> dict[str, tuple[Any, ...]]:
    """The last list of each pool; a pool that had devices once is shown with none."""
    return {o.resource: o.devices for o in fleet.applied[-1][1] if o.devices}


async def lived_through(steps: list[Any]) -> tuple[dict[str, Any], Truth]:
    truth = Truth()
    async with started(truth) as (bus, fleet):
        for delay_s, (kind, first, second) in steps:
            truth = after(truth, kind, first, second)
            if kind == "config":
                bus.publish(ConfigChanged(truth.config))
            elif kind == "carrier":
                bus.publish(LinksChanged(truth.links))
            if kind in {"driver", "carrier", "unsettled"}:
                bus.publish(SnapshotTaken(truth.snapshot, settled=kind == "carrier"))
            await asyncio.sleep(delay_s)
        bus.publish(SnapshotTaken(truth.snapshot, settled=True))
        await asyncio.sleep(SETTLE_S)
        return newest(fleet), truth


async def begun_with(truth: Truth) -> dict[str, Any]:
    async with started(truth) as (_, fleet):
        return newest(fleet)


def in_virtual_time(work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - what the work gives
    make = looptime.make_event_loop_class(asyncio.SelectorEventLoop)
    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(work)


@fuzz(30)
@given(st.lists(st.tuples(DELAYS, STEPS), max_size=15))
def test_after_any_changes_the_last_list_equals_that_of_a_new_start(steps: list[Any]) -> None:
    told, truth = in_virtual_time(lived_through(steps))
    assert told == in_virtual_time(begun_with(truth))
