"""Allocate as kubelet calls it, for vfio, RDMA and CDI; its floor is an empty call."""

from __future__ import annotations

import time

import grpc

from tests.bench import harness, process
from tests.bench.harness import Figure, Result
from tests.bench.peer import Peer, raw_call
from tests.support.protocol import message

_VFS = 256
_KINDS: dict[str, tuple[str, dict[str, object], tuple[str, ...]]] = {
    "vfio": ("vfio", {"drivers": ["vfio-pci"]}, ()),
    "RDMA": ("rdma", {"isRdma": True}, ()),
    "CDI": ("vfio", {"drivers": ["vfio-pci"]}, ("--use-cdi",)),
}
_SETTLE_S = 0.005


def call_times(channel: grpc.Channel, method: str, requests: list[bytes]) -> list[float]:
    """Seconds of each call, one after the other."""
    call, times = raw_call(channel, method), []
    for request in requests:
        began = time.perf_counter()
        call(request, timeout=10)
        times.append(time.perf_counter() - began)
        time.sleep(_SETTLE_S)
    return times


def allocate_request(device_id: str) -> bytes:
    """One device for one container."""
    request = message("v1beta1.AllocateRequest")()
    request.container_requests.add().devices_ids.append(device_id)
    return bytes(request.SerializeToString())


def measure(quick: bool) -> Result:  # noqa: FBT001 - the one thing that is asked
    """Every device of a pool of 256 in turn, and over again."""
    rounds = 100 if quick else 1000
    figures: list[Figure] = []
    for kind, (shape, selectors, arguments) in _KINDS.items():
        harness.note(f"allocate: {kind}")
        host = harness.laid_out(_VFS, shape)
        config = harness.write_config(host, _VFS, 1, **selectors)
        (told,) = harness.resources(1)
        ids = host.vfs(harness.pf_address(0))
        requests = [allocate_request(ids[n % _VFS]) for n in range(rounds)]
        with (
            Peer(host.roots.device_plugins) as kubelet,
            process.below(host, config, *arguments) as agent,
        ):
            kubelet.all_listed([told], _VFS)
            with kubelet.channel(told) as channel:
                agent.wait_for("host.watching")
                time.sleep(1.0)
                call_times(channel, "Allocate", requests[:20])
                floor = call_times(channel, "GetDevicePluginOptions", [b""] * rounds)
                taken = call_times(channel, "Allocate", requests)
        lows, highs = harness.spread(floor), harness.spread(taken)
        for place, name in enumerate(("median", "99th percentile")):
            row = (highs[place], "ms", lows[place], "empty call")
            figures.append(Figure("allocate", f"{kind}, {name}", *row))
    return Result(tuple(figures))


if __name__ == "__main__":
    harness.run_alone("bench_allocate", measure)
