"""VFs come and go at high rates while the agent starves: once it is quiet the lists are the truth.

Nothing but the kernel's events tells the agent, which now and then does not run at all, and
kubelet loses streams and restarts meanwhile. Chance decides, the same at each run.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.e2e.conftest import ConfigFile, pool
from tests.support.agent import AgentProcess
from tests.support.hardware import E810, Hardware
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet
from tests.support.netns import NetNamespace, UeventSource, needs_root
from tests.support.realroot import agent_at_root

pytestmark = needs_root

PFS = ("0001:10:00.0", "0002:10:00.0", "0003:10:00.0")
VFS = 32
ROUNDS = 15
VF = Hardware("8086", E810.vf.device, E810.vf.driver, E810.pci_class)


class Churned:
    """A host whose VFs come and go, each with the kernel's event."""

    def __init__(self, host: HostBuilder, uevents: UeventSource, dice: random.Random) -> None:
        self.host = host
        self.uevents = uevents
        self.dice = dice
        self.present = {pf: set(range(VFS)) for pf in PFS}

    def truth(self, number: int) -> set[str]:
        """The VFs that a PF has now."""
        pf = PFS[number]
        return {self.host.vf_address(pf, index) for index in self.present[pf]}

    def churn(self, pf: str) -> None:
        """Some of the VFs go, or some that are not there come, in any order."""
        here, dice = self.present[pf], self.dice
        absent = sorted(set(range(VFS)) - here)
        if here and dice.random() < 0.6:
            for index in dice.sample(sorted(here), dice.randint(1, len(here))):
                self._remove(pf, index)
        else:
            for index in dice.sample(absent, dice.randint(0, len(absent))):
                self._add(pf, index)

    def _remove(self, pf: str, index: int) -> None:
        vf = self.host.vf_address(pf, index)
        (self.host.folder(pf) / f"virtfn{index}").unlink()
        self.host.remove(vf)
        self.present[pf].discard(index)
        self._tell("remove", pf, vf)

    def _add(self, pf: str, index: int) -> None:
        vf, folder = self.host.vf_address(pf, index), self.host.folder(pf)
        self.host.link(self.host.folder(vf) / "physfn", folder)
        self.host.function(vf, VF, iommu=False)
        self.host.link(folder / f"virtfn{index}", self.host.folder(vf))
        self.present[pf].add(index)
        self._tell("add", pf, vf)

    def _tell(self, action: str, pf: str, vf: str) -> None:
        self.uevents.send(action, f"/devices/pci{pf[:7]}/{vf}", "pci")


def test_after_any_changes_the_lists_are_correct_once_the_host_has_settled(
    host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    dice = random.Random("churn")  # noqa: S311 - to be repeated, not to be secret
    for number, pf in enumerate(PFS):
        host.pf(pf, f"p{number}", vfs=VFS)
    config.write(*(pool(f"net{n}", pfNames=[f"p{n}"]) for n in range(len(PFS))))
    with NetNamespace() as namespace:
        churned = Churned(host, UeventSource(namespace), dice)

        def is_told(_: Kubelet) -> bool:
            return all(
                set(kubelet.allocatable(f"example.com/net{number}")) == churned.truth(number)
                for number in range(len(PFS))
            )

        with starving_agent(namespace, host, config) as agent:
            kubelet.wait_for(is_told, "the first lists")
            agent.wait_for("netlink.open")
            for number in range(ROUNDS):
                with stopped(agent, for_real=dice.random() < 0.5):
                    for _ in range(dice.randint(1, 3)):
                        churned.churn(dice.choice(PFS))
                trouble(kubelet, dice)
                churned.churn(dice.choice(PFS))
                kubelet.wait_for(is_told, f"the truth of round {number}")
            assert agent.stop() == 0
        churned.uevents.close()


def trouble(kubelet: Kubelet, dice: random.Random) -> None:
    """Kubelet restarts, or loses a stream, or neither."""
    chance = dice.random()
    if chance < 0.1:
        kubelet.restart()
    elif chance < 0.4:
        with suppress(KeyError, AttributeError):  # it has none in this moment
            kubelet.drop_stream(f"example.com/net{dice.randrange(len(PFS))}")


@contextmanager
def stopped(agent: AgentProcess, *, for_real: bool) -> Iterator[None]:
    """The agent does not run inside, if it is ``for_real``."""
    if for_real:
        agent.process.send_signal(signal.SIGSTOP)
    yield
    agent.process.send_signal(signal.SIGCONT)


def starving_agent(namespace: NetNamespace, host: HostBuilder, config: ConfigFile) -> AgentProcess:
    """The agent as deployed, which comes last wherever there is not enough for everybody."""
    lowest = ("nice", "-n", "19")
    return agent_at_root(namespace, host, config.path, "--rescan-seconds", "0", before=lowest)
