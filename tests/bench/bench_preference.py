"""GetPreferredAllocation with 4096 devices available and 8 asked, for each policy.

``python tests/bench/bench_preference.py`` prints medians in milliseconds.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from agent.config.load import load_config
from agent.config.schema import AllocationPolicy
from agent.discovery.scan import scan
from agent.host.hardware import E810
from agent.host.layout import HostBuilder
from agent.pools.assign import assign
from agent.pools.preference import prefer

_PFS, _VFS, _ASKED, _ROUNDS = 16, 256, 8, 50


def main() -> None:
    """Lay out a host, assign it to one pool, ask."""
    pool = {"resourceName": "net", "selectors": {"drivers": ["iavf"]}}
    data = json.dumps({"resourceList": [pool]}).encode()
    config = load_config(data, source="bench", default_prefix="example.com").config
    assert config is not None
    with TemporaryDirectory(prefix="bench-") as folder:
        host = HostBuilder(Path(folder))
        for number in range(_PFS):
            hardware = attrs.evolve(E810, total_vfs=_VFS)
            host.pf(f"{number:04x}:3b:00.0", f"pf{number}", hardware, vfs=_VFS, numa=number % 2)
        (found,) = assign(scan(host.roots), config).pools
    available = tuple(found.by_id)[::-1]
    for policy in AllocationPolicy:
        times = []
        for _ in range(_ROUNDS):
            began = time.perf_counter()
            chosen = prefer(found, available, available[:1], _ASKED, policy)
            times.append((time.perf_counter() - began) * 1000)
            assert len(chosen) == _ASKED
        print(f"{policy or 'default':<10}{statistics.median(times):8.2f} ms")


if __name__ == "__main__":
    main()
