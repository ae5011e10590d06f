"""The lifecycle as a state machine: whatever happened, kubelet ends up with the truth.

Real sockets, real inotify, real files; only time is virtual. Acts follow each other within a few
turns of the loop or a little time, so that each may come in the middle of what the others began.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.fuzz.profile import fuzz
from tests.model import acts, truth
from tests.model.kubelet import DEEDS, STAGES, Deed, Stage
from tests.model.node import Node, Pause
from tests.support.log_lines import forget_all

SOON_S = 5.0
"""Within this a kubelet that has just started has every pool, whatever went before."""
TOLD_S = 8.0
"""Within this kubelet knows of a change of the host; good news is held back for a while of it."""
SETTLE_S = 45.3
"""Longer than the agent's own back-offs, and than it takes to ask who holds what."""
SETTLE_WATCHED_S = 150.3
"""Longer than any back-off of kubelet's plugin watcher."""
MOMENTS: tuple[Pause, ...] = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 26, 35, 0.01, 0.05, 0.3)
"""Pauses within which something is under way."""
PAUSES: st.SearchStrategy[Pause] = st.sampled_from((0, 0, *MOMENTS, 1.5, 12.0, 40.0, 300.0))
NUMBERS = st.integers(0, 23)
AWAY = st.sampled_from((None, None, 0.01, 0.3, 12.0, 33.0, 300.0))
"""How long (s) there was no kubelet before."""


Storm = list[tuple[str, int, Pause]]
"""Acts, each with its number and the pause after it."""


def storms(*names: str, most: int) -> st.SearchStrategy[Storm]:
    """One act or some."""
    act = st.tuples(st.sampled_from(names), NUMBERS, PAUSES)
    return st.lists(act, min_size=1, max_size=most)


class Lifecycle(RuleBasedStateMachine):
    """What can happen to a node, in any order."""

    @initialize(
        is_config_map=st.booleans(),
        has_registry=st.booleans(),
        sweeps=st.booleans(),
        config=st.sampled_from(acts.GOOD),
        is_registered=st.sampled_from((True, True, True, False)),
    )
    def begin(
        self,
        *,
        is_config_map: bool,
        has_registry: bool,
        sweeps: bool,
        config: bytes,
        is_registered: bool,
    ) -> None:
        forget_all()
        self.node = Node(is_config_map=is_config_map, config=config)
        self.node.mood.sweeps = sweeps
        if has_registry:
            self.node.roots.plugins_registry.mkdir()
        self.node.host.pf(acts.PFS[0], acts.NAMES[0], vfs=2)
        self.node.host.set_driver(self.node.host.vfs(acts.PFS[0])[1], "vfio-pci")
        if is_registered:
            self.node.kubelet_starts()
        self.node.start_agent()
        if is_registered:
            self.node.wait(SOON_S)
            truth.check_all(self.node)

    def act(self, storm: Storm) -> None:
        """Do one thing after the other."""
        for name, number, pause in storm:
            acts.ACTS[name](self.node, number)
            self.node.wait(pause)

    @rule(storm=storms(*acts.OF_KUBELET, *acts.OF_FOLDERS, most=4))
    def kubelet_storms(self, storm: Storm) -> None:
        self.act(storm)

    @rule(storm=storms(*acts.OF_HOST, *acts.OF_PODS, most=3))
    def the_host_storms(self, storm: Storm) -> None:
        self.act(storm)

    @rule(storm=storms(*acts.ACTS, most=5))
    def everything_storms(self, storm: Storm) -> None:
        self.act(storm)

    # What is put right soon

    @rule(fault=st.sampled_from(tuple(acts.FAULTS)), number=NUMBERS, pause=PAUSES)
    def one_fault_is_put_right_soon(self, fault: str, number: int, pause: Pause) -> None:
        """From a good state, with nothing after it that would bring the agent to look anew."""
        self._make_good()
        self.act([(fault, number, pause)])
        if not self.node.kubelet.is_alive:
            self.node.kubelet_starts()
        self.node.wait(SOON_S)
        truth.check_registered(self.node)

    def _make_good(self) -> None:
        self.node.mood.calm_down()
        self.node.kubelet_starts()
        self.node.wait(SOON_S)
        truth.check_registered(self.node)

    @rule(config=st.sampled_from((*acts.GOOD, *acts.BAD)), in_a_new_folder=st.booleans())
    def an_edit_is_in_force_soon(self, config: bytes | None, *, in_a_new_folder: bool) -> None:
        self._make_good()
        is_good = config in acts.GOOD
        self.node.write_config(config, in_a_new_folder=in_a_new_folder and is_good)
        self.node.wait(SOON_S)
        truth.check_registered(self.node)
        truth.check_resources(self.node)
        truth.check_cdi(self.node)

    @rule(away=AWAY, is_replaced=st.booleans())
    def a_fresh_kubelet_is_told_soon(self, away: float | None, *, is_replaced: bool) -> None:
        """Whatever went before, and whatever the agent was waiting for."""
        if away is not None:
            self.node.kubelet_dies()
            self.node.wait(away)
        self._start_afresh(is_replaced=is_replaced)

    @rule(
        stage=st.sampled_from(STAGES),
        deed=st.sampled_from(DEEDS),
        cause=st.sampled_from(acts.REGISTERING),
        number=NUMBERS,
        pause=PAUSES,
        is_replaced=st.booleans(),
    )
    def a_fresh_kubelet_comes_in_the_middle_of_registering(
        self,
        stage: Stage,
        deed: Deed,
        cause: str,
        number: int,
        pause: Pause,
        *,
        is_replaced: bool,
    ) -> None:
        self.node.mood.traps.append((stage, deed))
        self.act([(cause, number, pause)])
        self._start_afresh(is_replaced=is_replaced)

    def _start_afresh(self, *, is_replaced: bool) -> None:
        self.node.mood.calm_down()
        if is_replaced:
            self.node.kubelet_is_replaced(reads=True)
        else:
            self.node.kubelet_starts()
        self.node.wait(SOON_S)
        truth.check_registered(self.node)

    @rule(are_pools_taken_away=st.booleans())
    def everything_settles(self, *, are_pools_taken_away: bool) -> None:
        self.settle()
        if are_pools_taken_away:
            truth.check_answers(self.node)
            self._take_pools_away()

    @rule(storm=storms(*acts.OF_HOST, most=2))
    def a_change_of_the_host_is_told_soon(self, storm: Storm) -> None:
        self.settle()
        self.act(storm)
        self.node.wait(TOLD_S)
        truth.check_all(self.node)

    def settle(self) -> None:
        """Let everything become quiet, and check all that must hold then."""
        node = self.node
        node.mood.calm_down()
        if not node.kubelet.is_alive:
            node.kubelet_starts()
        is_watched = node.roots.plugins_registry.is_dir()
        node.wait(SETTLE_WATCHED_S if is_watched else SETTLE_S)
        node.pods.answered.clear()
        truth.check_all(node)
        node.end_ghosts()
        node.wait(1.0)
        truth.check_all(node)
        truth.check_nothing_is_left_over(node)

    def _take_pools_away(self) -> None:
        """Kubelet is told that there is nothing more to be had, and the sockets go."""
        clients = tuple(self.node.kubelet.clients.values())
        self.node.write_config(acts.NO_POOLS)
        self.node.wait(1.0)
        assert all(client.lists[-1] == () for client in clients)
        assert self.node.sockets() == []

    def _stop_agent(self) -> None:
        """Kubelet keeps the capacity for the agent that follows."""
        clients = tuple(self.node.kubelet.clients.values())
        before = [tuple(client.lists) for client in clients]
        self.node.stop_agent()
        assert [tuple(client.lists) for client in clients] == before
        assert self.node.sockets() == []

    def teardown(self) -> None:
        if not hasattr(self, "node"):
            return
        try:
            self.settle()
            self._stop_agent()
        finally:
            self.node.close()
        assert Node.open_files() == self.node.files_before


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = fuzz(20, steps=6)
