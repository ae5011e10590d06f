"""A real devlink and a real eswitch: netdevsim, whose firmware and switch have real names."""

from __future__ import annotations

import json
from pathlib import Path
from socket import if_nametoindex
from typing import TYPE_CHECKING

import pytest

from agent.host import devlink, netdev, sysfs
from agent.host.switchdev import eswitch_of
from agent.model.device import Netdev
from agent.roots import Roots
from tests.e2e.conftest import ConfigFile, config, host, kubelet, pool
from tests.support.agent import AgentProcess
from tests.vm.guest.machine import await_truth, rename, set_up
from tests.vm.wiring import BUILDS

from .hardware import run, skip_without

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.host_builder import HostBuilder
    from tests.support.kubelet import Kubelet

__all__ = ["config", "host", "kubelet"]

HANDLE = "netdevsim/netdevsim1"
DEVICE = Path("/sys/devices/netdevsim1")
BUS = Path("/sys/bus/netdevsim")
PF = "0000:3b:00.0"
NET = "example.com/net"
VFS = 3
AT_ONCE = {"link": True, "recoveryHoldSeconds": 0}
BOTH = frozenset({devlink.DDP, devlink.ENABLE_RDMA})


@pytest.fixture
def uplink() -> Iterator[str]:
    """The netdev of a made-up PF with VFs."""
    skip_without(BUILDS, modules=("netdevsim",), tool="devlink")
    (BUS / "new_device").write_text("1 1", encoding="ascii")
    await_truth(lambda: list(DEVICE.glob("net/*")))
    (name,) = (path.name for path in DEVICE.glob("net/*"))
    (BUS / "devices/netdevsim1/sriov_numvfs").write_text(f"{VFS}", encoding="ascii")
    rename(name, "uplink1")
    yield "uplink1"
    (BUS / "del_device").write_text("1", encoding="ascii")


def test_the_kernel_returns_what_its_own_program_prints(uplink: str, tmp_path: Path) -> None:
    assert uplink
    for value in ("true", "false"):
        how = ("name", "enable_rdma", "value", value, "cmode", "driverinit")
        run("devlink", "dev", "param", "set", HANDLE, *how)
        told = devlink.from_kernel(BOTH)
        assert told.enable_rdma == {"netdevsim1": value == "true"}
        assert set(told.ddp) == {"netdevsim1"}
        shown = json.loads(run("devlink", "-j", "dev", "info"))
        shown |= json.loads(run("devlink", "-j", "dev", "param", "show"))
        (tmp_path / devlink.FILE).write_text(json.dumps(shown), encoding="utf-8")
        with sysfs.folder(str(tmp_path)) as folder:
            assert folder is not None
            assert devlink.from_file(folder) == told


def test_the_ports_of_a_switch_are_distinguished(uplink: str) -> None:
    assert eswitch_of(_read_netdevs()).representors == ()
    run("devlink", "dev", "eswitch", "set", HANDLE, "mode", "switchdev")
    await_truth(lambda: len(list(DEVICE.glob("net/*"))) == VFS + 1)
    eswitch = eswitch_of(_read_netdevs())
    assert eswitch.uplink == uplink
    assert [each.name for each in eswitch.own] == [uplink]
    assert eswitch.switch_id is not None
    assert sorted(each.port for each in eswitch.representors) == [("vf", n) for n in range(VFS)]
    assert {each.switch_id for each in eswitch.representors} == {eswitch.switch_id}
    run("devlink", "dev", "eswitch", "set", HANDLE, "mode", "legacy")


def _read_netdevs() -> list[Netdev]:
    with sysfs.folder(str(Roots().sys)) as sys, sysfs.folder("class/net", sys) as folder:
        net = netdev.read_class(folder)
        with sysfs.folder("devices/netdevsim1", sys) as owner:
            assert owner is not None
            found = [netdev.read_whole(net, owner, *each) for each in net.below["netdevsim1"]]
    return [each for each in found if each is not None]


def test_the_link_state_that_an_operator_sets_for_a_vf_is_the_health_of_that_vf(
    uplink: str, host: HostBuilder, config: ConfigFile, kubelet: Kubelet
) -> None:
    host.pf(PF, uplink, vfs=VFS)
    host.set_driver(PF, "ixgbe")  # one that stops its VFs where the PF is set down
    ifindex = host.root / f"sys/class/net/{uplink}/ifindex"
    ifindex.write_text(f"{if_nametoindex(uplink)}\n", encoding="ascii")
    set_up(uplink, up=True)
    vfs = host.vfs(PF)
    path = config.write(pool("net", drivers=["iavf"], health=AT_ONCE))
    with AgentProcess(host.root, path, "--netlink", "on") as agent:
        agent.wait_for("netlink.open")
        _await_healthy(kubelet, *vfs)
        _set_vf(uplink, 1, "disable")
        _await_healthy(kubelet, vfs[0], vfs[2])
        assert vfs[1] in agent.wait_for("device.unhealthy")["devices"]
        _set_vf(uplink, 1, "auto")
        _await_healthy(kubelet, *vfs)
        _set_vf(uplink, 2, "enable")
        set_up(uplink, up=False)
        _await_healthy(kubelet, vfs[2])


def _set_vf(name: str, vf: int, state: str) -> None:
    run("ip", "link", "set", name, "vf", str(vf), "state", state)


def _await_healthy(kubelet: Kubelet, *vfs: str) -> None:
    kubelet.wait_for(lambda k: k.allocatable(NET) == vfs, f"{vfs} healthy")
