"""What an idle agent costs: wake-ups per second and CPU seconds per hour, with everything on."""

from __future__ import annotations

import time

from tests.bench import harness
from tests.bench.bench_links import wire
from tests.bench.harness import Figure, Result
from tests.bench.peer import Peer
from tests.bench.process import Machine

_QUIET_S = 3.0
_VFS = 256


def measure(quick: bool) -> Result:  # noqa: FBT001 - the one thing that is asked
    """One agent with 256 VFs that nothing happens to."""
    watched_s = 5 if quick else 60
    host = harness.laid_out(_VFS)
    config = harness.write_config(host, _VFS, 1)
    with Machine(host) as namespace, Peer(host.roots.device_plugins) as kubelet:
        wire(namespace, host, 1)
        with namespace.agent(config, "--use-cdi") as agent:
            kubelet.all_listed(harness.resources(1), _VFS)
            agent.wait_for("netlink.open")
            time.sleep(_QUIET_S)
            harness.note(f"idle: {watched_s} s")
            woken, cpu_s = harness.work(agent.pid)
            time.sleep(watched_s)
            woken_after, cpu_after_s = harness.work(agent.pid)
    wakes = (woken_after - woken) / watched_s
    hourly = (cpu_after_s - cpu_s) / watched_s * 3600
    aim = "at most 0.2"
    return Result(
        (
            Figure("idle", "wake-ups per second", wakes, "1/s", aim=aim, met=wakes <= 0.2),
            Figure("idle", "CPU seconds per hour", hourly, "s"),
        )
    )


if __name__ == "__main__":
    harness.run_alone("bench_idle", measure)
