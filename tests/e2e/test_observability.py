"""What the running agent says of itself: probes, metrics, events, status, explain, watch."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from agent.admin.client import ask_explanation
from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet
from tests.support.podresources import PodResources

PF = "0000:3b:00.0"
NET = "example.com/net"
PATIENCE_S = 20.0


class Http:
    """The agent's HTTP address."""

    def __init__(self, agent: AgentProcess) -> None:
        address = agent.wait_for("http.listening")["address"]
        self.host, _, port = address.rpartition(":")
        self.port = int(port)

    def get(self, path: str) -> tuple[int, str]:
        """Status and text."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def until(self, path: str, status: int) -> str:
        """The text at a path as soon as it has this status."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found, text = self.get(path)
            if found == status:
                return text
            time.sleep(0.02)
        raise AssertionError(f"{path} was never {status}: {text}")

    def metric(self, name: str) -> float:
        """The value of one sample, labels and all."""
        lines = self.get("/metrics")[1].splitlines()
        return float(next(line for line in lines if line.startswith(f"{name} ")).split()[-1])

    def events(self) -> Iterator[dict[str, Any]]:
        """Server-sent events."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        connection.request("GET", "/events")
        for line in connection.getresponse():
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


@attrs.frozen
class HostRoot:
    """What ``--host-root`` is given."""

    root: Path


def command(host: HostBuilder | HostRoot, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command beside the agent of this host; never a traceback."""
    words = [sys.executable, "-m", "agent", *arguments, "--host-root", str(host.root)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr + done.stdout
    return done


@pytest.fixture
def node(host: HostBuilder, config: ConfigFile) -> HostBuilder:
    """A PF with four VFs, and a pool of them."""
    host.pf(PF, "ens1f0", vfs=4)
    config.write(pool("net", drivers=["iavf"]))
    return host


def serving(node: HostBuilder, config: ConfigFile, *arguments: str) -> AgentProcess:
    return AgentProcess(node.root, config.path, "--http-address", "127.0.0.1:0", *arguments)


def test_readiness_follows_kubelet(node: HostBuilder, config: ConfigFile) -> None:
    kubelet = Kubelet(node.roots.kubelet)
    with serving(node, config) as agent:
        web = Http(agent)
        assert web.get("/healthz") == (200, "ok\n")
        assert f"missing: {NET} (4 devices): is not registered" in web.until("/readyz", 503)
        with kubelet:
            assert web.until("/readyz", 200) == "ready\n"
            assert web.metric("sriov_agent_ready") == 1
        assert f"missing: {NET}" in web.until("/readyz", 503)
        with kubelet:
            web.until("/readyz", 200)
        agent.wait_for("agent.ready", lambda line: line["ready"])


def test_a_refused_edit_is_a_detail_and_a_metric(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with serving(node, config) as agent:
        web = Http(agent)
        web.until("/readyz", 200)
        assert web.metric("sriov_agent_config_reload_success") == 1
        config.path.write_text('{"resourceList": [1,]}')
        agent.wait_for("config.rejected")
        assert "detail: the configuration file is invalid" in web.until("/readyz", 200)
        assert web.metric("sriov_agent_config_reload_success") == 0
        config.write(pool("net", pfNames=["ens1f0"]))
        agent.wait_for("config.reloaded")
        assert web.until("/readyz", 200) == "ready\n"


def test_metrics_and_events_show_a_link_failure_and_a_new_pod(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with serving(node, config) as agent:
        web = Http(agent)
        web.until("/readyz", 200)
        agent.wait_for("host.watching")
        healthy = f'sriov_agent_devices{{health="Healthy",resource="{NET}"}}'
        assert web.metric(healthy) == 4
        kubelet.allocate(NET, *node.vfs(PF)[:2])
        node.set_carrier("ens1f0", up=False)
        told = next(e for e in web.events() if e["event"] == "device.unhealthy")
        assert (told["cause"], told["count"]) == ("no carrier", 4)
        kubelet.wait_for(lambda k: not k.allocatable(NET))
        assert web.metric(healthy) == 0
        causes = f'sriov_agent_unhealthy_by_cause{{cause="no carrier",resource="{NET}"}}'
        assert web.metric(causes) == 4
        assert web.metric("sriov_agent_event_to_push_seconds_count") >= 1
        assert web.metric(f'sriov_agent_allocated_devices_total{{resource="{NET}"}}') == 2
        assert web.metric("sriov_agent_allocation_seconds_count") == 1


def test_an_address_that_is_in_use_is_logged_and_the_agent_works(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with serving(node, config) as first:
        port = Http(first).port
        with AgentProcess(
            node.root, config.path, "--http-address", f"127.0.0.1:{port}", "--log-level", "info"
        ) as second:
            assert "in use" in second.wait_for("http.unavailable")["error"]
            first.stop()
            assert Http(second).until("/readyz", 200) == "ready\n"
            assert len(second.events("http.unavailable")) == 1


def test_a_wrong_address_is_refused_at_the_start(node: HostBuilder, config: ConfigFile) -> None:
    with serving(node, config, "--http-address", "localhost") as agent:
        assert agent.process.wait(PATIENCE_S) == 2
    assert any("is not HOST:PORT" in line for line in agent.raw)


def test_status_shows_pools_and_pfs_and_its_exit_code_is_readiness(
    node: HostBuilder, config: ConfigFile
) -> None:
    with AgentProcess(node.root, config.path, "--log-level", "debug") as agent:
        agent.wait_for("admin.listening")
        told = command(node, "status")
        assert told.returncode == 1
        assert f"missing: {NET} (4 devices): is not registered with kubelet" in told.stdout
        with Kubelet(node.roots.kubelet):
            agent.wait_for("agent.ready", lambda line: line["ready"])
            told = command(node, "status", "--devices")
    assert told.returncode == 0
    assert f"{NET}  4        4        0          connected (legacy)" in told.stdout
    assert f"ens1f0  {PF}  up 25G" in told.stdout
    assert told.stdout.count("Healthy") == 4
    gone = command(node, "status")
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "is the agent running here?" in gone.stderr


def test_status_as_json_equals_that_of_http(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with serving(node, config) as agent:
        web = Http(agent)
        web.until("/readyz", 200)
        by_socket = json.loads(command(node, "status", "-o", "json").stdout)
        by_http = json.loads(web.get("/status")[1])
    for told in (by_socket, by_http):
        del told["now"]
    assert by_socket == by_http
    assert [d["id"] for d in by_http["devices"]] == [PF, *node.vfs(PF)]


def test_explain_shows_holder_health_and_verdicts(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    held = node.vfs(PF)[1]
    with PodResources(node.roots.kubelet) as pods:
        pods.holds("worker", "main", NET, held)
        with AgentProcess(node.root, config.path, "--log-level", "debug") as agent:
            agent.wait_for("admin.listening")
            agent.wait_for("host.watching")
            node.set_carrier("ens1f0", up=False)
            agent.wait_for("device.unhealthy")
            told = command(node, "explain", held).stdout
            offline = command(node, "explain", held, "--config-file", str(config.path)).stdout
    for line in (
        f"{held}: selected by {NET}; held by pod test/worker",
        "no carrier: PF ens1f0 has no carrier",
        "pod:           test/worker (main)",
        "drivers   iavf    driver iavf  passed",
    ):
        assert line in told
        assert line in offline
    assert "Unhealthy since 2" in told
    assert "Unhealthy since" not in offline


def test_explain_reports_that_no_agent_runs_and_names_similar_subjects(node: HostBuilder) -> None:
    told = command(node, "explain", "ens1f0v1")
    assert told.returncode == 0
    assert "the answer is from a scan of this host" in told.stderr
    assert "no pool of deviceType netDevice" in told.stdout
    unknown = command(node, "explain", "0000:3b:01.9")
    assert unknown.returncode == 2
    assert "do you mean 0000:3b:01.3" in unknown.stderr


def test_explain_shows_that_a_pool_was_refused(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    config.write(pool("net", drivers=["iavf"]), pool("bad", vendors=["xyz"]))
    with AgentProcess(node.root, config.path, "--log-level", "debug") as agent:
        agent.wait_for("admin.listening")
        told = command(node, "explain", "bad")
    assert told.returncode == 2
    assert "was refused because of its errors: `sriov-agent validate" in told.stderr


def test_every_command_has_the_same_output_for_a_recorded_host_as_for_the_host(
    node: HostBuilder, config: ConfigFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = Path(tempfile.mkdtemp())  # its path is short enough for a socket's
    monkeypatch.setenv("TMPDIR", str(unpacked))
    archive = tmp_path / "node.tar.gz"
    told = command(node, "snapshot", str(archive))
    assert told.returncode == 0
    assert "5 functions" in told.stderr
    assert "no serial numbers, no MAC addresses" in told.stderr
    recorded = HostRoot(archive)
    for words in (
        ("discover", "-o", "json", "--config-file", str(config.path)),
        ("explain", "net", "-o", "json", "--config-file", str(config.path)),
        ("validate", "--on-this-host", str(config.path)),
    ):
        live, replayed = command(node, *words), command(recorded, *words)
        assert replayed.stdout == live.stdout
        assert replayed.returncode == live.returncode == 0
    with AgentProcess(archive, config.path) as agent:
        assert agent.wait_for("pool.assigned")["devices"] == 4
        assert list(unpacked.glob("sriov-host-*"))
    unpacked.rmdir()  # only an empty one can be removed


def test_a_recording_can_go_to_standard_output(node: HostBuilder, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "agent", "snapshot", "-", "--host-root", str(node.root)]
    done = subprocess.run(words, capture_output=True, timeout=60, check=True)
    assert command(node, "snapshot", str(tmp_path / "a.tar.gz")).returncode == 0
    assert done.stdout == (tmp_path / "a.tar.gz").read_bytes()


def test_a_file_that_is_not_a_recorded_host_is_refused(node: HostBuilder, tmp_path: Path) -> None:
    (tmp_path / "broken.tar.gz").write_bytes(b"nothing")
    for name, words in (
        ("broken.tar.gz", "is not a recorded host"),
        ("absent", "there is no such folder"),
    ):
        told = command(HostRoot(tmp_path / name), "discover")
        assert told.returncode == 2
        assert words in told.stderr
    named = command(node, "snapshot", str(tmp_path / "node.zip"))
    assert named.returncode == 2
    assert "a file named *.tar.gz, or -" in named.stderr


def test_watch_follows_as_json_until_the_agent_ends(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with AgentProcess(node.root, config.path, "--log-level", "debug") as agent:
        agent.wait_for("admin.listening")
        agent.wait_for("host.watching")
        watching = subprocess.Popen(
            [sys.executable, "-m", "agent", "watch", "--json", "--host-root", str(node.root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        lines = map(json.loads, watching.stdout)
        assert next(lines)["event"] == "agent.starting"
        node.set_carrier("ens1f0", up=False)
        told = next(line for line in lines if line["event"] == "device.unhealthy")
        logged = agent.wait_for("device.unhealthy")
        assert {**told, "time": ""} == {**logged, "time": ""}
        agent.stop()
        assert "agent.stopping" in [line["event"] for line in lines]
        assert watching.wait(PATIENCE_S) == 0
        assert watching.communicate()[1] == "the agent has stopped\n"


def test_watch_fails_if_the_agent_ends_without_a_stop_signal(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with AgentProcess(node.root, config.path, "--log-level", "debug") as agent:
        agent.wait_for("admin.listening")
        watching = subprocess.Popen(
            [sys.executable, "-m", "agent", "watch", "--json", "--host-root", str(node.root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["event"] == "agent.starting"
        agent.process.kill()
        assert watching.wait(PATIENCE_S) == 1
        assert "closed the connection" in watching.communicate()[1]


def test_a_run_folder_that_cannot_be_written_costs_only_the_socket(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    (node.root / "run").write_text("in the way")
    with AgentProcess(node.root, config.path) as agent:
        assert "Not a directory" in agent.wait_for("admin.unavailable")["error"]
        kubelet.wait_for(lambda k: len(k.allocatable(NET)) == 4)


def test_without_an_address_nothing_of_http_is_imported(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    script = textwrap.dedent("""
        import asyncio, sys
        from pathlib import Path
        from agent.daemon import run_agent
        from agent.options import RunOptions
        from agent.roots import Roots
        async def main():
            stop = asyncio.Event()
            roots = Roots(Path(sys.argv[1]))
            options = RunOptions(roots, Path(sys.argv[2]), "x.org", netlink=False)
            running = asyncio.create_task(run_agent(options, stop))
            await asyncio.sleep(2)
            stop.set()
            await running
        asyncio.run(main())
        assert "agent.admin.server" in sys.modules
        unwanted = ("agent.http", "h11", "prometheus_client", "rich", "pyroute2")
        print([m for m in sys.modules if m.startswith(unwanted)])
    """)
    done = subprocess.run(
        [sys.executable, "-c", script, str(node.root), str(config.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert done.stdout.strip() == "[]", done.stderr


CAUSES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "wrong-driver": (
        {"pfNames": ["nic"], "drivers": ["vfio-pci"]},
        ("driver iavf (4)", "driverctl set-override 0000:3b:01.0 vfio-pci"),
    ),
    "wrong-ids": ({"vendors": ["14e4"]}, ("vendor 8086 (", "set vendors to one of these")),
    "pf-name-changed": (
        {"pfNames": ["nic0"]},
        ("no PF on this host is named nic0", "did you mean nic?"),
    ),
    "vfs-not-created": (
        {"pfNames": ["spare"]},
        ("spare has no VFs", "write a number up to 128 to its sriov_numvfs"),
    ),
    "in-use-by-host": (
        {"pciAddresses": ["0000:18:00.0"]},
        ("eno1 carries the default route", '"allowInUse": true'),
    ),
    "taken": (
        {"pfNames": ["owned"]},
        ("taken: by example.com/first (2)", "make the selectors disjoint, or change the order"),
    ),
    "unbound": (
        {"pfNames": ["bare"], "drivers": ["iavf"]},
        ("no driver bound (2)", "echo 0000:70:01.0 > /sys/bus/pci/drivers_probe"),
    ),
    "wrong-link-type": (
        {"pfNames": ["nic"], "linkTypes": ["IB"]},
        ("link type ether (4)", 'select "linkTypes": ["ether"]'),
    ),
    "rdma-module-missing": (
        {"pfNames": ["nic"], "isRdma": True},
        ("no RDMA device (4)", "load the kernel module that creates them (irdma for vendor 8086)"),
    ),
    "glob": (
        {"pfNames": ["mlx-*"]},
        ("no PF on this host matches mlx-*; PFs here: ", "or a pattern that matches it"),
    ),
    "range-outside": (
        {"pfNames": ["nic#8-15"]},
        ("nic has 4 (index 0 to 3)", "make more VFs by sriov_numvfs (at most nic 128)"),
    ),
    "kind-mismatch": (
        {"vendors": ["8086"], "deviceType": "accelerator"},
        (
            "no accelerator function (PCI class 0x12) on this host",
            'is "deviceType": "accelerator" intended?',
        ),
    ),
}
"""Cause of an empty pool -> its selectors, and what an operator must read: cause and fix."""


@pytest.fixture
def troubled(host: HostBuilder, config: ConfigFile) -> HostBuilder:
    """A host on which every pool but the first is empty, each for a reason of its own."""
    host.pf("0000:18:00.0", "eno1")
    host.default_route("eno1")
    host.pf(PF, "nic", vfs=4)
    host.pf("0000:5e:00.0", "spare")
    host.pf("0000:60:00.0", "owned", vfs=2)
    host.pf("0000:70:00.0", "bare", vfs=2)
    for address in host.vfs("0000:70:00.0"):
        host.set_driver(address, None)
    pools = [pool(name, **selectors) for name, (selectors, _) in CAUSES.items()]
    config.write(pool("first", pfNames=["owned"]), *pools)
    return host


async def test_each_common_cause_of_an_empty_pool_is_named_with_its_fix(
    troubled: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with AgentProcess(troubled.root, config.path, "--log-level", "debug") as agent:
        agent.wait_for("admin.listening")
        lines = {line["resource"]: line["why"] for line in agent.events("pool.empty")}
        asked = {
            name: await ask_explanation(troubled.roots.run, f"example.com/{name}")
            for name in CAUSES
        }
    for name, (_, words) in CAUSES.items():
        pool_message = asked[name].pool
        assert pool_message is not None
        assert pool_message.pool is not None
        for word in words:
            assert word in lines[f"example.com/{name}"], name
            assert word in " ".join(pool_message.pool.why_empty), name
    assert lines.keys() == {f"example.com/{name}" for name in CAUSES}
    assert len(CAUSES) == 12


def test_the_command_has_the_same_output_without_an_agent(
    troubled: HostBuilder, config: ConfigFile
) -> None:
    told = command(troubled, "explain", "unbound", "--config-file", str(config.path))
    assert told.returncode == 0
    for word in CAUSES["unbound"][1]:
        assert word in told.stdout


def test_at_the_start_options_configuration_and_each_funnel_are_one_line_each(
    node: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    with AgentProcess(node.root, config.path) as agent:
        starting = agent.wait_for("agent.starting")
        agent.wait_for("pool.assigned")
        agent.wait_for("agent.ready")
    assert starting["config_file"] == str(config.path)
    assert (starting["registration"], starting["cdi"], starting["http"]) == ("auto", "off", "off")
    (assigned,) = agent.events("pool.assigned")
    assert assigned["devices"] == 4
    assert assigned["funnel"].startswith("kind netDevice: 5 > without VFs: 4 > drivers iavf: 4")
