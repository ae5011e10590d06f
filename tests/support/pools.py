"""Pools and assignments for tests of pure functions; configurations come from the real loader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.config.load import load_config
from agent.config.schema import Config, PoolConfig
from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices, PodOwner
from agent.pools.assign import assign
from agent.pools.pool import Pool, Pools

Json = dict[str, Any]


def pool(name: str, *selectors: Mapping[str, Any], **keys: object) -> Json:
    """One pool as the file writes it; without selectors it takes everything of its kind."""
    return {"resourceName": name, "selectors": [dict(s) for s in selectors] or [{}], **keys}


def config(*pools: Json) -> Config:
    """These pools as the loader makes them; fails if it finds an error."""
    text = json.dumps({"resourceList": list(pools)})
    loaded = load_config(text.encode(), source="config.json", default_prefix="intel.com")
    assert loaded.config is not None, loaded.lines()
    assert not loaded.errors, loaded.lines()
    return loaded.config


def pool_config(name: str = "vf", *selectors: Mapping[str, Any], **keys: object) -> PoolConfig:
    """One pool as the loader makes it."""
    (only,) = config(pool(name, *selectors, **keys)).pools
    return only


def assigned(snapshot: Snapshot, *pools: Json, held: AllocatedDevices | None = None) -> Pools:
    """What assigning makes of a host and these pools."""
    return assign(snapshot, config(*pools), held or AllocatedDevices())


def one_pool(snapshot: Snapshot, *selectors: Mapping[str, Any], **keys: object) -> Pool:
    """The only pool, ``intel.com/vf``, that these selectors make."""
    return assigned(snapshot, pool("vf", *selectors, **keys)).pools[0]


def members(pools: Pools) -> dict[str, list[str]]:
    """Name of each pool without its prefix -> ids of its members, in their order."""
    return {p.config.name: [m.device.id for m in p.members] for p in pools.pools}


def held(resource: str, *devices: Device | str) -> AllocatedDevices:
    """These devices in the hands of one pod; of records the facts are remembered."""
    holder = PodOwner(f"intel.com/{resource}", "pod", "default", "main")
    ids = [d if isinstance(d, str) else d.id for d in devices]
    known = {d.id: d for d in devices if not isinstance(d, str)}
    return AllocatedDevices(holders=dict.fromkeys(ids, holder), remembered=known)
