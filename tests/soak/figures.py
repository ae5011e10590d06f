"""What the agent has taken of the machine, and how much more it may have at the end."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import attrs

from tests.support.agent import AgentProcess, LogLine
from tests.support.usage import descriptors, resident_kib

# Two connections of kubelet and an HTTP client on their way out may still be there.
MEMORY_BOUND_KIB = 16 * 1024
"""Python's allocator keeps what a peak took; a leak of one list a round is past this in minutes."""
OBJECTS_BOUND = 0.1
"""Share of the objects alive: holders and the journal differ from moment to moment."""


@attrs.frozen
class Figures:
    """One moment of the process, while nothing happens to it."""

    memory_kib: int
    descriptors: int
    threads: int
    tasks: int
    objects: int
    names: tuple[str, ...] = ()
    """Names of the tasks."""

    def __str__(self) -> str:
        return (
            f"{self.memory_kib / 1024:.1f} MiB, {self.descriptors} descriptors, "
            f"{self.threads} threads, {self.tasks} tasks, {self.objects} objects"
        )


def measure(agent: AgentProcess, number: int) -> Figures:
    """Ask the agent for its ``number``-th figures (from 1) and the kernel for the rest."""
    pid = agent.process.pid
    agent.process.send_signal(signal.SIGUSR1)
    agent.wait_for("soak.figures", lambda _: len(agent_figures(agent)) >= number)
    own = agent_figures(agent)[number - 1]
    return Figures(
        memory_kib=resident_kib(pid),
        descriptors=descriptors(pid),
        threads=len(list(Path(f"/proc/{pid}/task").iterdir())),
        tasks=own["tasks"],
        objects=own["objects"],
        names=tuple(own["names"]),
    )


def agent_figures(agent: AgentProcess) -> list[LogLine]:
    """All that the agent told of itself so far."""
    return [line for line in agent.log if line["event"] == "soak.figures"]


def growth(samples: Sequence[Figures]) -> list[str]:
    """What is more at the end than at the start, beyond the bounds."""

    def change(field: str) -> tuple[int, int]:
        return getattr(samples[0], field), getattr(samples[-1], field)

    bounds = {"memory_kib": MEMORY_BOUND_KIB, "descriptors": 2, "threads": 2, "tasks": 4}
    bounds["objects"] = int(change("objects")[0] * OBJECTS_BOUND)
    return [
        f"{field}: {before} -> {after}, more than {bound} beyond"
        for field, bound in bounds.items()
        for before, after in (change(field),)
        if after - before > bound
    ]
