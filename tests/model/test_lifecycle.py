"""The lifecycle as a state machine: whatever happened, kubelet ends up with the truth.

Real sockets, real inotify, real files; only time is virtual. Steps follow each other with little or
no time in between, so that each may come in the middle of what the others began.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from agent import logs
from tests.fuzz.profile import fuzz
from tests.model.kubelet import Mood
from tests.model.node import PREFIX, SETTLE_S, Node, config_of, file_of, pool

PFS = ("0000:3b:00.0", "0000:3b:00.1")
NAMES = ("ens1f0", "ens1f1")
GOOD = {
    "net": file_of(pool("net", "iavf")),
    "net and dpdk": file_of(pool("net", "iavf"), pool("dpdk", "vfio-pci")),
    "dpdk and net": file_of(pool("dpdk", "vfio-pci"), pool("net", "iavf", excludeTopology=True)),
    "all in one": file_of(pool("net", "iavf", "vfio-pci", allocationPolicy="packed")),
    "dpdk, shown empty": file_of(pool("dpdk", "vfio-pci", advertiseEmpty=True)),
    "no pools": file_of(),
}
BAD = (b"", b"{", b"\xff", b'{"resourceList": [{"resourceName": "net"}]}', None)
DELAYS = st.sampled_from((0.0, 0.0, 0.01, 0.05, 0.3, 1.5, 12.0))
FIXED_TASKS = Counter(
    {
        "Node._live": 1,
        "Daemon._live": 1,
        "Daemon._rescan": 1,
        "KubeletWatch.run": 1,
        "HoldingsFollower.run": 1,
        "Monitor.run": 1,
        "Reconciler.run": 1,
        "follow_tree": 1,
        "ConfigKeeper.run": 1,
        "ConfigKeeper._follow": 1,
        "ConfigKeeper._reload_when": 1,
        "ConfigKeeper._reload_asked": 1,
        "Services.run": 1,
        "Services._admin": 1,
        "ReadinessNews.run": 1,
    }
)
TASKS_OF_A_POOL = ("Pool.run", "request_handler")
FIXED_SOCKETS = 4
"""The loop's own pair, the admin socket, kubelet.sock."""
SOCKETS_OF_A_POOL = 3
"""One that listens, and both ends of kubelet's connection."""


class Lifecycle(RuleBasedStateMachine):
    """What can happen to a node, in any order."""

    @initialize(
        is_config_map=st.booleans(),
        has_registry=st.booleans(),
        config=st.sampled_from(sorted(GOOD)),
    )
    def begin(self, is_config_map: bool, has_registry: bool, config: str) -> None:  # noqa: FBT001
        logs.forget_all()
        self.node = Node(is_config_map=is_config_map)
        self.files_before = Node.open_files()
        self.wanted = config_of(GOOD[config])
        self.written: bytes | None = GOOD[config]
        self.node.config.write(self.written)
        self.node.roots.device_plugins.mkdir(parents=True)
        if has_registry:
            self.node.roots.plugins_registry.mkdir()
        self.node.host.pf(PFS[0], NAMES[0], vfs=2)
        self.node.start_agent()

    # Kubelet

    @rule(after=DELAYS, late_s=st.sampled_from((0.0, 0.0, 0.1, 3.0)))
    def kubelet_starts(self, after: float, late_s: float) -> None:
        self.node.pass_time(after)
        if self.node.kubelet.is_alive:
            self.node.run(self.node.kubelet.die())
        self.node.kubelet.mood.late_s = late_s
        self.node.run(self.node.kubelet.start())

    @rule(after=DELAYS)
    def kubelet_dies(self, after: float) -> None:
        self.node.pass_time(after)
        self.node.run(self.node.kubelet.die())

    @rule(after=DELAYS, times=st.integers(1, 8))
    def kubelet_refuses(self, after: float, times: int) -> None:
        self.node.pass_time(after)
        self.node.kubelet.mood.refusals = times

    @rule(after=DELAYS)
    def kubelet_hangs_in_register(self, after: float) -> None:
        self.node.pass_time(after)
        self.node.kubelet.mood.hangs = True

    @rule(after=DELAYS)
    def kubelet_opens_no_streams(self, after: float) -> None:
        self.node.pass_time(after)
        self.node.kubelet.mood.opens_streams = False

    @rule(after=DELAYS, number=st.integers(0, 3))
    def kubelet_drops_a_stream(self, after: float, number: int) -> None:
        self.node.pass_time(after)
        resources = sorted(self.node.kubelet.clients)
        if resources:
            self.node.kubelet.drop_stream(resources[number % len(resources)])

    # Folders

    @rule(after=DELAYS, number=st.integers(0, 3))
    def a_socket_is_unlinked(self, after: float, number: int) -> None:
        self.node.pass_time(after)
        sockets = self.node.sockets()
        if sockets:
            Path(sockets[number % len(sockets)]).unlink()

    @rule(after=DELAYS)
    def the_folder_is_emptied(self, after: float) -> None:
        """Kubelet's own socket too, so kubelet is as good as dead until it starts again."""
        self.node.pass_time(after)
        self.node.run(self.node.kubelet.die())
        for path in self.node.roots.device_plugins.glob("*"):
            if path.is_socket():
                path.unlink()

    @rule(after=DELAYS, comes_back=st.booleans())
    def the_folder_is_removed(self, after: float, comes_back: bool) -> None:  # noqa: FBT001
        """Kubelet cannot be reached there any more, so it counts as dead."""
        self.node.pass_time(after)
        self.node.run(self.node.kubelet.die())
        shutil.rmtree(self.node.roots.device_plugins, ignore_errors=True)
        if comes_back:
            self.node.roots.device_plugins.mkdir()

    @rule(after=DELAYS, is_there=st.booleans())
    def the_watchers_folder_comes_or_goes(self, after: float, is_there: bool) -> None:  # noqa: FBT001
        self.node.pass_time(after)
        folder = self.node.roots.plugins_registry
        shutil.rmtree(folder, ignore_errors=True)
        if is_there:
            folder.mkdir()

    # Configuration

    @rule(after=DELAYS, config=st.sampled_from(sorted(GOOD)))
    def the_config_is_edited(self, after: float, config: str) -> None:
        self.node.pass_time(after)
        self._write(GOOD[config])

    @rule(after=DELAYS, data=st.sampled_from(BAD))
    def the_config_is_broken(self, after: float, data: bytes | None) -> None:
        self.node.pass_time(after)
        self._write(data)

    def _write(self, data: bytes | None) -> None:
        """A file that is gone leaves the last good one in force; a key that is gone, no pools."""
        self.written = data
        self.node.config.write(data)
        if data is None and self.node.config.is_config_map:
            self.wanted = config_of(GOOD["no pools"])
        else:
            self.wanted = config_of(data) or self.wanted
        # An edit that follows before the agent could see this one is as if it were the first.
        self.node.pass_time(0.2)

    # Host

    @rule(after=DELAYS, number=st.integers(0, 1), vfs=st.integers(0, 3))
    def vfs_come_and_go(self, after: float, number: int, vfs: int) -> None:
        self.node.pass_time(after)
        host, pf = self.node.host, PFS[number]
        if not host.folder(pf).exists():
            host.pf(pf, NAMES[number], vfs=vfs)
            return
        if vfs < len(host.vfs(pf)):
            host.remove_vfs(pf)
        host.add_vfs(pf, vfs)

    @rule(after=DELAYS, number=st.integers(0, 1))
    def a_pf_goes(self, after: float, number: int) -> None:
        self.node.pass_time(after)
        host, pf = self.node.host, PFS[number]
        if host.folder(pf).exists():
            host.remove_vfs(pf)
            host.remove(pf)

    @rule(
        after=DELAYS,
        number=st.integers(0, 9),
        driver=st.sampled_from(("iavf", "vfio-pci", "vfio-pci", None)),
    )
    def a_vf_changes_its_driver(self, after: float, number: int, driver: str | None) -> None:
        self.node.pass_time(after)
        host = self.node.host
        vfs = [vf for pf in PFS if host.folder(pf).exists() for vf in host.vfs(pf)]
        if vfs:
            host.set_driver(vfs[number % len(vfs)], driver)

    @rule(after=DELAYS, number=st.integers(0, 1), up=st.booleans(), by_admin=st.booleans())
    def a_link_changes(self, after: float, number: int, up: bool, by_admin: bool) -> None:  # noqa: FBT001
        self.node.pass_time(after)
        host = self.node.host
        if not (host.root / "sys/class/net" / NAMES[number]).exists():
            return
        if by_admin:
            host.set_admin(NAMES[number], up=up)
        else:
            host.set_carrier(NAMES[number], up=up)

    # The agent

    @precondition(lambda self: config_of(self.written) is not None)
    @rule(after=DELAYS)
    def the_agent_is_restarted(self, after: float) -> None:
        self.node.pass_time(after)
        self.node.stop_agent()
        assert self.node.sockets() == []
        self.node.start_agent()

    # What must hold

    @rule()
    def everything_settles(self) -> None:
        node, kubelet = self.node, self.node.kubelet
        kubelet.mood = Mood()
        if not kubelet.is_alive:
            node.run(kubelet.start())
        node.pass_time(SETTLE_S)
        self._check_kubelets_view()
        self._check_nothing_is_left_over()

    def _check_kubelets_view(self) -> None:
        assert self.wanted is not None
        truth = self.node.truth(self.wanted)
        view = self.node.kubelet.view()
        assert {r: seen for r, seen in view.items() if seen} == {
            r: devices for r, devices in truth.items() if devices
        }
        assert view.keys() <= truth.keys()
        for config in self.wanted.pools:
            assert config.resource in view or not config.advertise_empty
        assert all(resource.startswith(PREFIX) for resource in view)
        servers = self.node.daemon.fleet.state() if self.node.daemon.fleet else ()
        assert {s.resource for s in servers if s.registered_by and s.stream_live} == view.keys()
        assert {s.resource for s in servers} == view.keys()

    def _check_nothing_is_left_over(self) -> None:
        node = self.node
        servers = node.daemon.fleet.state() if node.daemon.fleet else ()
        assert Counter(c.resource for c in node.kubelet.streams) == Counter(
            s.resource for s in servers
        )
        assert node.sockets() == sorted(s.socket or "" for s in servers)
        of_pools = Counter(dict.fromkeys(TASKS_OF_A_POOL, len(servers)))
        assert node.tasks() == FIXED_TASKS + of_pools
        assert Node.open_files()["socket"] - self.files_before["socket"] == (
            FIXED_SOCKETS + SOCKETS_OF_A_POOL * len(servers)
        )

    def teardown(self) -> None:
        if not hasattr(self, "node"):
            return
        try:
            self.everything_settles()
            self.node.stop_agent()
            assert self.node.sockets() == []
        finally:
            self.node.close()
        assert Node.open_files() == self.files_before


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = fuzz(14, steps=15)
