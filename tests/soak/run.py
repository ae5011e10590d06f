"""The soak: minutes of everything at once, judged every few seconds. Prints figures; exit 0 or 1.

Every round lets all actors loose, then holds the world still and compares kubelet's view with the
truth, pool by pool: the same devices, one stream each, one socket each, and a ready agent.
"""

from __future__ import annotations

import sys
import time

from tests.soak.actors import Actors
from tests.soak.figures import Figures, agent_figures, growth, measure
from tests.soak.world import HTTP_PORT, POOLS, VFS, World, resource
from tests.support.agent import AgentProcess
from tests.support.realroot import agent_at_root

ROUND_S = 10.0
MEASURES, MEASURE_PAUSE_S = 3, 0.5
"""The least of these counts: a scan that runs at that moment holds a second snapshot."""
MARK_EVERY = 5
"""Before so many rounds all is made as at the start: those are compared with each other."""
WARM_UP_ROUNDS = 5
"""Rounds before the first figures: every kind of thing has happened by then."""
SEED = 20260
_MAY_BE_SAID = frozenset(
    {"config.error", "config.rejected", "allocation.refused", "host.scan_stalled", "file.hangs"}
)
"""Errors in the log that the actors bring about on purpose, or a busy machine does: there a read
can take longer than half a second, which Allocate waits for it."""


class SoakFailedError(Exception):
    """An invariant does not hold."""


def agent_in(world: World) -> AgentProcess:
    """The agent as deployed, with the world laid over the machine's sysfs."""
    agent = agent_at_root(
        world.namespace,
        world.host,
        world.config,
        *("--registration", "legacy"),
        *("--http-address", f"127.0.0.1:{HTTP_PORT}", "--log-level", "info"),
    )
    module = agent.command.index("agent", agent.command.index("-m"))
    agent.command[module] = "tests.soak.launcher"
    return agent


def evaluate(world: World, agent: AgentProcess, actors: Actors | None) -> None:
    """Wait until kubelet's view is the truth; raises SoakFailedError for what can never be."""
    kubelet = world.kubelet
    if actors is not None and actors.faults:  # first: the truth is not known after a failed act
        raise SoakFailedError("; ".join(actors.faults[:5]))
    for number in range(POOLS):
        wanted = world.truth(number)
        name = resource(number)
        streams = int(number in world.configured)
        if not kubelet.agrees(name, wanted, streams):
            got = frozenset(kubelet.allocatable(name))
            raise SoakFailedError(
                f"{name}: missing {len(wanted - got)}, gone {len(got - wanted)}, "
                f"{kubelet.streams(name)} streams in the place of {streams}"
            )
    if kubelet.lies:
        raise SoakFailedError(kubelet.lies[0])
    errors = [
        line
        for line in agent.log
        if line.get("level") == "error" and line["event"] not in _MAY_BE_SAID
    ]
    if errors or any(line.startswith("Traceback") for line in agent.raw):
        raise SoakFailedError(f"the log holds {errors[:3] or 'a traceback'}")
    names = [p.name for p in world.host.roots.device_plugins.glob("*.sock")]
    if len(names) != len(world.configured) + 1:
        raise SoakFailedError(f"sockets: {sorted(names)}")


def one_round(world: World, agent: AgentProcess, actors: Actors, number: int) -> Figures:
    """Judge the world, which is held still, and measure."""
    began = time.monotonic()
    try:
        evaluate(world, agent, actors)
    except SoakFailedError as error:
        error.add_note("".join(agent.raw[-30:]))
        raise
    figures = []
    for _ in range(MEASURES):
        figures.append(measure(agent, len(agent_figures(agent)) + 1))
        time.sleep(MEASURE_PAUSE_S)
    now = min(figures, key=lambda each: each.objects)
    say(f"round {number}: settled in {time.monotonic() - began:.1f} s; {now}")
    return now


def soak(minutes: float) -> list[Figures]:
    """Run; returns figures of the rounds after the warm-up in which all was as at the start."""
    say(f"laying out {POOLS} PFs with {VFS} VFs each, seed {SEED}")
    samples: list[Figures] = []
    marks: list[Figures] = []
    with World() as world, agent_in(world) as agent:
        evaluate(world, agent, None)
        agent.wait_for("netlink.open")
        actors = Actors(world, agent, SEED)
        actors.start()
        end = time.monotonic() + minutes * 60
        try:
            while time.monotonic() < end or len(samples) < 2:
                time.sleep(ROUND_S)
                with world.still():
                    is_marked = not len(samples) % MARK_EVERY or time.monotonic() > end
                    if is_marked:
                        world.restore()
                    samples.append(one_round(world, agent, actors, len(samples) + 1))
                    marks += [samples[-1]] if is_marked and len(samples) > WARM_UP_ROUNDS else []
        finally:
            actors.stop()
        for what, count in sorted(actors.done.items()):
            say(f"{what}: {count}")
        say(f"slowest Allocate: {actors.slowest_s:.2f} s")
        say(f"lists that kubelet got: {world.kubelet.lists_seen}")
        if (code := agent.stop()) != 0:
            raise SoakFailedError(f"exit code {code}")
    return marks


def say(text: str) -> None:
    """One line for people."""
    print(f"soak: {text}", flush=True)  # noqa: T201 - a command prints


def main() -> int:
    """The command."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    try:
        samples = soak(minutes)
    except SoakFailedError as error:
        say(f"FAILED: {error}")
        for line in getattr(error, "__notes__", ()):
            say(line)
        return 1
    if len(samples) < 2:
        say("too short to compare the end with the start")
        return 0
    say(f"start: {samples[0]}")
    say(f"end:   {samples[-1]}")
    grown = growth(samples)
    for line in grown:
        say(f"FAILED: {line}")
    if grown:
        before, after = samples[0].names, samples[-1].names
        say(f"tasks gone {sorted(set(before) - set(after))} new {sorted(set(after) - set(before))}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
