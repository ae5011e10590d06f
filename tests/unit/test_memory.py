"""What one more device costs in memory, counted by the allocator: from the scan to the list."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path

import attrs

from agent.config.load import load_config
from agent.config.schema import Config
from agent.discovery.scan import Scanner
from agent.health.pool_health import assess_pool
from agent.model.link import Links
from agent.pools.assign import assign
from tests.support.hardware import E810
from tests.support.host_builder import HostBuilder

BYTES_PER_DEVICE = 1024
FEW, MANY = 8, 72


def configuration() -> Config:
    pool = {"resourceName": "net", "selectors": {"drivers": ["iavf"]}}
    data = json.dumps({"resourceList": [pool]}).encode()
    config = load_config(data, source="", default_prefix="example.com").config
    assert config is not None
    return config


def held(root: Path, vfs: int) -> int:
    """Bytes that an agent holds for a host of so many VFs: two scans of it, pools, health, list."""
    host = HostBuilder(root)
    host.pf("0000:3b:00.0", "ens1f0", attrs.evolve(E810, total_vfs=MANY), vfs=vfs)
    config = configuration()

    def known() -> object:
        scanner = Scanner(host.roots)
        scanner.scan()
        snapshot = scanner.scan()
        pools = assign(snapshot, config)
        pool_health = assess_pool(None, pools.pools[0], pools, Links(), 0.0, {})
        offer = pool_health.offer()
        assert len(offer.devices) == vfs
        return scanner, snapshot, pools, pool_health, offer

    known()  # whatever is cached for good is so now
    gc.collect()
    tracemalloc.start()
    try:
        kept = known()
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del kept
    return size


def test_one_more_device_costs_less_than_a_kib(tmp_path: Path) -> None:
    few, many = held(tmp_path / "few", FEW), held(tmp_path / "many", MANY)
    assert (many - few) / (MANY - FEW) <= BYTES_PER_DEVICE
