"""GetPreferredAllocation with 4096 devices available and 8 asked: the choice, and the whole call.

The floor of the call is an empty one to the same server.
"""

from __future__ import annotations

import statistics
import time

from agent.config.load import load_config
from agent.config.schema import AllocationPolicy
from agent.discovery.scan import scan
from agent.pools.assign import assign
from agent.pools.preference import prefer
from tests.bench import harness, process
from tests.bench.bench_allocate import call_times
from tests.bench.harness import Figure, Result
from tests.bench.peer import Peer
from tests.support.protocol import message

_ASKED = 8


def choices(vfs: int, rounds: int) -> dict[str, float]:
    """Policy -> median seconds of the choice alone, in this process."""
    host = harness.laid_out(vfs)
    data = harness.write_config(host, vfs, 1, drivers=["iavf"]).read_bytes()
    config = load_config(data, source="bench", default_prefix=harness.PREFIX).config
    assert config is not None
    (pool,) = assign(scan(host.roots), config).pools
    available = tuple(pool.by_id)[::-1]
    found = {}
    for policy in AllocationPolicy:
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            chosen = prefer(pool, available, available[:1], _ASKED, policy)
            times.append(time.perf_counter() - began)
            assert len(chosen) == _ASKED
        found[str(policy) or "default"] = statistics.median(times)
    return found


def calls(vfs: int, rounds: int) -> tuple[list[float], list[float]]:
    """(empty calls, GetPreferredAllocation) in seconds, through a C-core client."""
    host = harness.laid_out(vfs)
    config = harness.write_config(host, vfs, 1, drivers=["iavf"])
    (told,) = harness.resources(1)
    pfs = -(-vfs // harness.VFS_PER_PF)
    ids = [i for n in range(pfs) for i in host.vfs(harness.pf_address(n))]
    request = message("v1beta1.PreferredAllocationRequest")()
    asked = request.container_requests.add()
    asked.available_device_ids.extend(reversed(ids))
    asked.allocation_size = _ASKED
    encoded = bytes(request.SerializeToString())
    with Peer(host.roots.device_plugins) as kubelet, process.below(host, config) as agent:
        kubelet.all_listed([told], vfs)
        with kubelet.channel(told) as channel:
            agent.wait_for("host.watching")
            time.sleep(1.0)
            empty = call_times(channel, "GetDevicePluginOptions", [b""] * rounds)
            return empty, call_times(channel, "GetPreferredAllocation", [encoded] * rounds)


def measure(quick: bool) -> Result:  # noqa: FBT001 - the one thing that is asked
    """Each policy in this process, then the call."""
    vfs, rounds = (256, 20) if quick else (4096, 100)
    harness.note(f"preference: {_ASKED} of {vfs}")
    of = f"{_ASKED} of {vfs}"
    figures = [
        Figure("prefer", f"{of}, policy {policy}", taken * 1e3, "ms")
        for policy, taken in choices(vfs, rounds).items()
    ]
    empty, whole = calls(vfs, rounds)
    floor, taken = harness.spread(empty), harness.spread(whole)
    figures += [
        Figure(
            "prefer", f"{of}, whole call, {name}", taken[place], "ms", floor[place], "empty call"
        )
        for place, name in enumerate(("median", "99th percentile"))
    ]
    return Result(tuple(figures))


if __name__ == "__main__":
    harness.run_alone("bench_preference", measure)
