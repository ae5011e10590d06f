"""The wall clock may jump: nothing that the agent does hangs on it."""

from __future__ import annotations

import ast
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess, LogLine
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet

PF = "0000:3b:00.0"
NET = "example.com/net"
AGENT = Path(__file__).resolve().parents[2] / "agent"
SPEC = find_spec("libfaketime")
LIBRARY = Path((SPEC and SPEC.origin) or "").parent / "vendor/libfaketime/src/libfaketime.so.1"
SHOWN_ONLY = {
    "cli/offline_state.py",
    "daemon.py",
    "http/counters.py",
    "event_history.py",
    "status/health_since.py",
}
"""Modules that read the wall clock, to show it to people and to nobody else."""


class WallClock:
    """What the agent's process sees as the time of day; CLOCK_MONOTONIC stays the kernel's."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.jump("+0")

    def jump(self, offset: str) -> None:
        """Step to an offset from the true time, such as ``-400d``."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{offset}\n")
        draft.rename(self._file)

    @property
    def env(self) -> dict[str, str]:
        """Variables of a process that sees it."""
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }


def is_new(agent: AgentProcess, before: int, _: LogLine) -> bool:
    """Whether devices were told as unhealthy once more than before."""
    return len(agent.events("device.unhealthy")) > before


@pytest.mark.skipif(not LIBRARY.exists(), reason="libfaketime is not there for this machine")
def test_changes_of_the_wall_clock_have_no_effect(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet, tmp_path: Path
) -> None:
    clock = WallClock(tmp_path / "clock")
    host.pf(PF, "ens1f0", vfs=8)
    config.write(pool("net", drivers=["iavf"], health={"recoveryHoldSeconds": 1}))
    with AgentProcess(host.root, config.path, env=clock.env) as agent:
        kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 8)
        agent.wait_for("host.watching")
        years = []
        for number, offset in enumerate(("-400d", "+4000d", "-9000d", "+0")):
            clock.jump(offset)
            host.set_carrier("ens1f0", up=False)
            kubelet.wait_for(lambda k: not k.allocatable(NET), "unhealthy")
            said = agent.wait_for("device.unhealthy", partial(is_new, agent, number))
            years.append(agent.events("device.unhealthy")[-1]["time"][:4])
            assert said["count"] == 8
            host.set_carrier("ens1f0", up=True)  # told after a second, whatever the clock says
            kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 8, "healthy")
            kubelet.restart()
            kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 8, "registered again")
            assert kubelet.allocate(NET, host.vfs(PF)[0]).envs
        assert len(set(years)) == 4, "the process saw the steps"
        assert agent.stop() == 0


def test_only_modules_that_show_the_time_of_day_use_the_wall_clock() -> None:
    readers = {
        str(path.relative_to(AGENT))
        for path in AGENT.rglob("*.py")
        if path.relative_to(AGENT).parts[0] != "rpc"
        for node in ast.walk(ast.parse(path.read_text()))
        if is_wall_clock(node)
    }
    assert readers == SHOWN_ONLY


def is_wall_clock(node: ast.AST) -> bool:
    """Whether an expression names a function that reads the time of day."""
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return named and (node.value.id, node.attr) in {  # type: ignore[attr-defined]
        ("time", "time"),
        ("time", "time_ns"),
        ("datetime", "now"),
        ("datetime", "utcnow"),
        ("date", "today"),
    }
