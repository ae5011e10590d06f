"""Symbolic links in the folders that the agent writes are replaced or refused, never followed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agent.admin.server import SOCKET, serve_admin
from agent.bus import Bus
from agent.event_history import EventHistory
from agent.export.cdi import cdi_file_name, write_cdi_spec
from agent.export.device_info import device_info_name, write_device_info
from agent.kubelet.resource_locks import ResourceLocks
from agent.model.nodes import HostNodes
from agent.roots import LOCK_FOLDER, Roots
from agent.status.state import AgentState
from agent.transport.unix_socket import bind_socket
from tests.support.devices import host, pf, vf
from tests.support.hearing import hearing
from tests.support.pools import assigned, pool

PF = pf("0000:3b:00.0", "ens1f0", num_vfs=1)
VF = vf("0000:3b:01.0", PF, driver="vfio-pci", iommu_group=5)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file that must stay as it is."""
    file = tmp_path / "victim"
    file.write_text("precious")
    file.chmod(0o640)
    return file


def is_untouched(victim: Path) -> bool:
    """Content and mode are what they were."""
    return victim.read_text() == "precious" and victim.stat().st_mode & 0o777 == 0o640


async def test_device_info_and_cdi_files_replace_links(roots: Roots, victim: Path) -> None:
    only = assigned(host(PF, VF), pool("vf")).pools[0]
    info = roots.device_info / device_info_name(only.config, VF.id)
    spec = roots.cdi / cdi_file_name(only.config)
    for path in (info, spec):
        path.parent.mkdir(parents=True)
        path.symlink_to(victim)
    await write_device_info(roots.device_info, only.config, only.members)
    await write_cdi_spec(roots.cdi, only, frozenset(), HostNodes(rdma_cm=False))
    for path in (info, spec):
        assert not path.is_symlink()
        assert json.loads(path.read_text())
    assert is_untouched(victim)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_socket_is_not_bound_through_a_link(roots: Roots, victim: Path, *, hidden: bool) -> None:
    path = roots.device_plugins / "a.sock"
    link = path.with_name(".a.sock") if hidden else path
    link.symlink_to(victim)
    try:
        bound = bind_socket(path)
    except OSError:
        assert hidden
    else:
        assert path.is_socket()
        assert not path.is_symlink()
        bound.listener.close()
    assert is_untouched(victim)


async def test_the_agents_own_socket_replaces_a_link(roots: Roots, victim: Path) -> None:
    from agent.admin.service import AdminService  # noqa: PLC0415 - grpclib, for this test only

    roots.run.mkdir(parents=True)
    for name in (SOCKET, f".{SOCKET}"):
        (roots.run / name).symlink_to(victim)
    service = AdminService(AgentState, EventHistory(), lambda vendor, device: f"{vendor}{device}")
    with hearing() as heard:
        serving = asyncio.create_task(serve_admin(roots.run, service))
        await heard.until("admin.listening")
    assert (roots.run / SOCKET).is_socket()
    assert not (roots.run / SOCKET).is_symlink()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert is_untouched(victim)


async def test_a_lock_file_is_not_opened_through_a_link(roots: Roots, victim: Path) -> None:
    folder = roots.device_plugins / LOCK_FOLDER
    folder.mkdir()
    (folder / "intel.com%2Fvf.lock").symlink_to(victim)
    with ResourceLocks(roots, Bus()) as locks:
        assert locks.want({"intel.com/vf"}) == {"intel.com/vf"}
        assert is_untouched(victim)
    assert is_untouched(victim)
