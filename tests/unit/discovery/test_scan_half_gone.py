"""Hosts that change while they are read: files that are gone are facts that are absent."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from agent.discovery.scan import scan
from agent.model.device import Role
from tests.support.host_builder import HostBuilder

PF = "0000:3b:00.0"
VF0, VF1 = "0000:3b:01.0", "0000:3b:01.1"


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    host = HostBuilder(tmp_path)
    host.pf(PF, "ens1", vfs=2)
    return host


@pytest.mark.parametrize("attribute", ["class", "vendor", "device"])
@pytest.mark.parametrize("function", [PF, VF0])
def test_a_function_that_lacks_a_required_attribute_is_left_out_and_named(
    host: HostBuilder, attribute: str, function: str
) -> None:
    (host.folder(function) / attribute).unlink()
    snapshot = scan(host.roots)
    assert function not in snapshot.by_id
    assert snapshot.unreadable == ((function, attribute),)


@pytest.mark.parametrize("content", ["", "0xzzzz", "0x123456"])
def test_an_attribute_that_is_not_an_id_counts_as_missing(host: HostBuilder, content: str) -> None:
    (host.folder(VF0) / "vendor").write_text(content)
    assert scan(host.roots).unreadable == ((VF0, "vendor"),)


@pytest.mark.parametrize("number", ["9" * 22, "2147483648", "-2147483649", "many", ""])
def test_a_number_that_does_not_fit_an_int_of_the_kernel_counts_as_missing(
    host: HostBuilder, number: str
) -> None:
    host.write(host.folder(PF) / "sriov_totalvfs", number)
    host.write(host.folder(PF) / "net" / "ens1" / "ifindex", number)
    read = scan(host.roots).by_id[PF]
    assert (read.total_vfs, [n.ifindex for n in read.netdevs]) == (0, [None])


def test_vfs_of_a_pf_that_cannot_be_read_are_kept(host: HostBuilder) -> None:
    (host.folder(PF) / "vendor").unlink()
    found = scan(host.roots).devices
    assert [(d.id, d.role, d.pf_address, d.index) for d in found] == [
        (VF0, Role.VF, PF, None),
        (VF1, Role.VF, PF, None),
    ]


@pytest.mark.parametrize(
    "entry",
    ["driver", "numa_node", "iommu_group", "physfn", "net", "sriov_totalvfs", "sriov_numvfs"],
)
@pytest.mark.parametrize("function", [PF, VF0])
def test_any_other_entry_may_be_absent(host: HostBuilder, function: str, entry: str) -> None:
    path = host.folder(function) / entry
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    snapshot = scan(host.roots)
    assert (set(snapshot.by_id), snapshot.unreadable) == ({PF, VF0, VF1}, ())


def test_a_dangling_link_on_the_bus_is_not_a_function(host: HostBuilder) -> None:
    shutil.rmtree(host.folder(VF0))
    snapshot = scan(host.roots)
    assert (set(snapshot.by_id), snapshot.unreadable) == ({PF, VF1}, ())


def test_a_pf_with_a_link_to_a_removed_vf_is_read_without_it(host: HostBuilder) -> None:
    host.remove(VF1)
    snapshot = scan(host.roots)
    assert (set(snapshot.by_id), snapshot.by_id[PF].num_vfs) == ({PF, VF0}, 2)


def test_a_function_that_disappears_while_it_is_read_is_not_an_error(host: HostBuilder) -> None:
    def unplug() -> None:
        host.remove(VF0)

    with _before("vendor", of=VF0, act=unplug):
        snapshot = scan(host.roots)
    assert (set(snapshot.by_id), snapshot.unreadable) == ({PF, VF1}, ())


def test_a_netdev_that_disappears_while_its_function_is_read_is_left_out(host: HostBuilder) -> None:
    with _before("iommu_group", of=PF, act=lambda: host.remove_netdev("ens1v0")):
        vf = scan(host.roots).by_id[VF0]
    assert (vf.driver, vf.netdevs) == ("iavf", ())


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EOPNOTSUPP, errno.EIO, errno.ENODEV])
def test_an_attribute_that_cannot_be_read_is_absent(host: HostBuilder, error: int) -> None:
    real_read, refused = os.read, host.root / "sys/class/net/ens1/carrier"

    def read(descriptor: int, size: int) -> bytes:
        if os.path.samestat(os.fstat(descriptor), refused.stat()):
            raise OSError(error, os.strerror(error))
        return real_read(descriptor, size)

    with mock.patch("os.read", read):
        pf = scan(host.roots).by_id[PF]
    assert pf.netdev is not None
    assert (pf.netdev.carrier, pf.netdev.admin_up) == (None, True)


def _before(entry: str, *, of: str, act: Callable[[], None]) -> mock._patch[Callable[..., object]]:
    """Let something happen to the host just before an entry of a function is read."""
    call = "readlink" if entry == "iommu_group" else "open"
    real = getattr(os, call)
    done: list[bool] = []

    def first(path: str, *arguments: object, dir_fd: int | None = None) -> object:
        folder = str(Path(f"/proc/self/fd/{dir_fd}").resolve()) if dir_fd is not None else ""
        if not done and str(path) == entry and folder.endswith(of):
            done.append(True)
            act()
        return real(path, *arguments, dir_fd=dir_fd)

    return mock.patch(f"os.{call}", first)
