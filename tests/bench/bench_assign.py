"""What putting devices into pools costs, against the scan of the same host, and how it grows.

Processor time, the best of some rounds that take turns. ``N pools by X`` are disjoint pools that
divide a host of 16 PFs; growth is set against twice the devices and twice the pools: 2 is the sum,
4 would be the product. Last, the loop's longest wait during a whole pass of the reconciler.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import attrs

from agent.bus import Bus
from agent.config.load import load_config
from agent.config.schema import Config
from agent.config.watcher import ConfigChanged
from agent.discovery.scan import scan
from agent.model.answers import DeviceListing
from agent.model.device import Device, Role
from agent.model.events import SnapshotTaken
from agent.model.snapshot import Snapshot
from agent.pools.assign import assign
from agent.pools.pool import Pools
from agent.reconcile import Reconciler
from tests.bench import harness, stall
from tests.bench.bench_scan import rounds_s, typical_s
from tests.bench.harness import Curve, Figure, Result

Json = dict[str, Any]
_VFS = 16 * harness.VFS_PER_PF
_MOST_PERCENT = 15.0
_MOST_GROWTH = 2.6
_MOST_STALL_MS = 10.0
_ROUNDS = 5


def configured(pools: list[Json]) -> Config:
    """These selectors as the loader makes pools of them."""
    resources = [{"resourceName": f"r{n}", "selectors": s} for n, s in enumerate(pools)]
    data = json.dumps({"resourceList": resources}).encode()
    config = load_config(data, source="bench", default_prefix=harness.PREFIX).config
    assert config is not None
    return config


def dealt(snapshot: Snapshot, pools: int) -> Snapshot:
    """The host with its VFs dealt out to vendors, devices and drivers as many as pools."""
    vfs = [d for d in snapshot.devices if d.role is Role.VF]
    share = -(-len(vfs) // pools)

    def renamed(number: int, vf: Device) -> Device:
        which = number // share
        return attrs.evolve(vf, vendor=f"{which:04x}", driver=f"driver{which}")

    fresh = {vf.id: renamed(number, vf) for number, vf in enumerate(vfs)}
    return Snapshot(devices=tuple(fresh.get(d.id, d) for d in snapshot.devices))


def ranges(pools: int, vfs: int) -> list[Json]:
    """Each pool one range of one PF, several pools to a PF."""
    pfs = max(1, vfs // harness.VFS_PER_PF)
    each = -(-pools // pfs)
    size = min(vfs, harness.VFS_PER_PF) // each
    return [
        {"pfNames": [f"ens{n % pfs}#{n // pfs * size}-{n // pfs * size + size - 1}"]}
        for n in range(pools)
    ]


def one_pf(pools: int, _vfs: int) -> list[Json]:
    """All pools ranges of the first PF."""
    size = harness.VFS_PER_PF // pools
    return [
        {"rootDevices": [f"{harness.pf_address(0)}#{n * size}-{n * size + size - 1}"]}
        for n in range(pools)
    ]


SHAPES: Mapping[str, Callable[[int, int], list[Json]]] = {
    "vendor": lambda pools, _: [{"vendors": [f"{n:04x}"]} for n in range(pools)],
    "driver": lambda pools, _: [{"drivers": [f"driver{n}"]} for n in range(pools)],
    "ranges of PFs": ranges,
    "ranges of one PF": one_pf,
}


def cost_ms(snapshot: Snapshot, config: Config) -> float:
    """Processor time of one assignment; look-up tables are made anew as after a scan."""
    return min(t for (t,) in rounds_s(lambda: assign(attrs.evolve(snapshot), config))) * 1e3


def against_scan(vfs: int, pools: int) -> Figure:
    """In percent of the scan of the same host."""
    host = harness.laid_out(vfs)
    snapshot, config = scan(host.roots), configured(ranges(pools, vfs))
    floor, took = typical_s(
        lambda: scan(host.roots), lambda: assign(attrs.evolve(snapshot), config)
    )
    percent = took / floor * 100
    return Figure(
        "assign",
        f"{vfs} VFs to {pools} pools, in percent of the scan",
        percent,
        "%",
        aim=f"at most {_MOST_PERCENT:.0f} %",
        met=percent <= _MOST_PERCENT,
    )


def growth(shape: str, vfs: int, pools: int) -> list[Figure]:
    """Twice the devices and twice the pools."""
    runs = []
    for factor in (1, 2):
        host = dealt(scan(harness.laid_out(vfs * factor // 2).roots), pools * factor // 2)
        config = configured(SHAPES[shape](pools * factor // 2, vfs * factor // 2))
        # Look-up tables are made anew, as after a scan.
        runs.append(lambda host=host, config=config: assign(attrs.evolve(host), config))
    half, whole = typical_s(*runs)
    ratio = whole / half
    return [
        Figure("assign", f"{vfs} VFs to {pools} pools by {shape}", whole * 1e3, "ms"),
        Figure(
            "assign",
            f"that against half the VFs and pools, {shape}",
            ratio,
            "",
            aim=f"the sum, not the product: at most {_MOST_GROWTH}",
            met=ratio <= _MOST_GROWTH,
        ),
    ]


class Nowhere:
    """Takes offers and specs, and does nothing with them."""

    def apply(
        self, offers: tuple[DeviceListing, ...], served_elsewhere: Collection[str] = frozenset()
    ) -> None:
        """Offers."""

    async def write(self, _pools: Pools) -> dict[str, Any]:
        """Specs."""
        return {}


def passes(vfs: int, pools: int) -> Figure:
    """The loop's longest wait during a pass over a host that is new to it."""
    snapshot, config = scan(harness.laid_out(vfs).roots), configured(ranges(pools, vfs))

    async def one() -> None:
        bus = Bus()
        reconciler = Reconciler(bus, Nowhere(), Nowhere())
        bus.publish(ConfigChanged(config))
        bus.publish(SnapshotTaken(attrs.evolve(snapshot), settled=True))
        await reconciler.reconcile()

    gc.freeze()  # as the agent does
    worst = min(stall.longest_s(one) for _ in range(_ROUNDS))
    gc.unfreeze()
    floor = min(stall.floor_s(0.2) for _ in range(_ROUNDS))
    return Figure(
        "assign",
        f"the loop's longest wait, a pass of {vfs} VFs, {pools} pools",
        worst * 1e3,
        "ms",
        floor * 1e3,
        "beside a thread that sleeps",
        f"at most {_MOST_STALL_MS:.0f} ms",
        worst * 1e3 <= _MOST_STALL_MS,
    )


def measure(quick: bool) -> Result:  # noqa: FBT001 - the one thing that is asked
    """Against the scan, then how it grows, then the loop."""
    figures = [against_scan(_VFS, 1), against_scan(_VFS, 20), against_scan(_VFS, 100)]
    for shape in SHAPES:
        harness.note(f"assign: by {shape}")
        figures += growth(shape, _VFS, 100)
    large = _VFS if quick else 4 * _VFS
    figures += [passes(large, 1), passes(large, 64)]
    sizes = (256, 1024, _VFS) if quick else (256, 1024, _VFS, 4 * _VFS)
    lines: dict[str, list[tuple[float, float]]] = {}
    for pools in (1, 20, 100):
        lines[f"{pools} pools"] = [
            (
                vfs,
                cost_ms(scan(harness.laid_out(vfs).roots), configured(ranges(pools, vfs))),
            )
            for vfs in sizes
        ]
    curve = Curve("Assignment of devices to pools", "VFs", "processor time (ms)", lines)
    return Result(tuple(figures), (curve,))


if __name__ == "__main__":
    harness.run_alone("bench_assign", measure)
