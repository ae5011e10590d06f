"""Which device nodes the host has, and whether its /dev can be seen from here."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.host import nodes, sysfs
from agent.host.nodes import DevView, NodeReader, read_again, view_of
from agent.model.nodes import HostNodes
from agent.roots import Roots
from tests.support.hardware import E810
from tests.support.host_builder import HostBuilder
from tests.support.vfio import vfio_device

PF = "0000:3b:00.0"
SYS = Path("sys")


def mountinfo(folder: Path, *mounts: tuple[Path, str]) -> Path:
    """A file as /proc/self/mountinfo is written."""
    lines = (
        f"{number} 1 0:{number} / {path} rw,nosuid shared:9 - {kind} {kind} rw\n"
        for number, (path, kind) in enumerate(mounts)
    )
    file = folder / "mountinfo"
    file.write_text("".join(lines))
    return file


def container(folder: Path, *nodes_of_host: str) -> Path:
    """A /dev as a container has it, with some nodes of the host."""
    dev = folder / "dev"
    for name in ("null", "zero", "tty", "console", *nodes_of_host):
        (dev / name).parent.mkdir(parents=True, exist_ok=True)
        (dev / name).touch()
    (dev / "shm").mkdir()
    (dev / "pts").mkdir()
    return dev


@pytest.mark.parametrize(
    ("kind", "nodes_of_host", "view"),
    [
        ("devtmpfs", (), DevView.LIVE),
        ("tmpfs", (), DevView.HIDDEN),
        ("tmpfs", ("vfio/vfio",), DevView.COPY),
        ("tmpfs", ("kmsg",), DevView.COPY),
        ("tmpfs", ("termination-log",), DevView.HIDDEN),
    ],
)
def test_the_view_of_dev_depends_on_its_file_system_and_its_nodes(
    tmp_path: Path, kind: str, nodes_of_host: tuple[str, ...], view: DevView
) -> None:
    dev = container(tmp_path, *nodes_of_host)
    mounts = mountinfo(
        tmp_path, (Path("/"), "overlay"), (SYS, "sysfs"), (dev, kind), (dev / "pts", "devpts")
    )
    assert nodes._real_view(dev, SYS, mounts) is view


def test_the_topmost_mount_decides(tmp_path: Path) -> None:
    dev = container(tmp_path)
    mounts = mountinfo(tmp_path, (SYS, "sysfs"), (dev, "tmpfs"), (dev, "devtmpfs"))
    assert nodes._real_view(dev, SYS, mounts) is DevView.LIVE


def test_devtmpfs_without_sysfs_may_be_of_another_machine(
    tmp_path: Path,
) -> None:
    dev = container(tmp_path, "kmsg")
    mounts = mountinfo(tmp_path, (SYS, "sysfs"), (SYS, "ext4"), (dev, "devtmpfs"))
    assert nodes._real_view(dev, SYS, mounts) is DevView.COPY


def test_a_laid_out_tree_shows_all_its_nodes_or_has_no_dev(tmp_path: Path) -> None:
    assert view_of(Roots(tmp_path)) is DevView.HIDDEN
    (tmp_path / "dev").mkdir()
    assert view_of(Roots(tmp_path)) is DevView.LIVE


def read(host: HostBuilder, view: DevView) -> HostNodes:
    with sysfs.folder(host.roots.sys) as sys, sysfs.folder(host.roots.dev) as dev:
        assert sys is not None
        return NodeReader().read(sys, dev, view, (), rdma_cm=False)


def laid_out(tmp_path: Path) -> HostBuilder:
    host = HostBuilder(tmp_path)
    host.pf(PF, "ens1")
    host.add_vfs(PF, 1, E810.vf.vfio)
    return host


def test_a_copy_of_dev_lacks_only_nodes_that_sysfs_does_not_show_either(tmp_path: Path) -> None:
    host = laid_out(tmp_path)
    group = (host.folder(host.vfs(PF)[0]) / "iommu_group").readlink().name
    for node in (f"vfio/{group}", "vfio/vfio"):
        (host.root / "dev" / node).unlink()
    host.write(host.root / "sys/class/misc/vfio/dev", "10:196")
    found = {view: read(host, view) for view in DevView}
    lacks = {
        view: [n.lacks(f"/dev/vfio/{group}"), n.lacks("/dev/vfio/vfio")]
        for view, n in found.items()
    }
    assert lacks == {
        DevView.LIVE: [True, True],
        DevView.COPY: [False, False],
        DevView.HIDDEN: [False, False],
    }
    assert found[DevView.COPY].lacks("/dev/vhost-net")


def test_a_kernel_without_group_nodes_is_known_by_its_classes_where_dev_is_hidden(
    tmp_path: Path,
) -> None:
    host = laid_out(tmp_path)
    assert read(host, DevView.HIDDEN).has_vfio_groups
    vfio_device(host, host.vfs(PF)[0], 7)
    for entry in (host.root / "sys/class/vfio").iterdir():
        entry.unlink()
    (host.root / "sys/class/vfio").rmdir()
    hidden = read(host, DevView.HIDDEN)
    assert not hidden.has_vfio_groups
    assert hidden.has("/dev/vfio/devices/vfio7")


def test_unchanged_nodes_stay_the_same_object(tmp_path: Path) -> None:
    host = laid_out(tmp_path)
    reader = NodeReader()
    with sysfs.folder(host.roots.sys) as sys, sysfs.folder(host.roots.dev) as dev:
        assert sys is not None
        first, second = (reader.read(sys, dev, DevView.LIVE, (), rdma_cm=False) for _ in range(2))
        assert second.names is first.names
        host.node("vhost-net")
        third = reader.read(sys, dev, DevView.LIVE, (), rdma_cm=False)
    assert third.names - first.names == {"vhost-net"}


def test_single_nodes_are_checked_again_if_dev_is_live(tmp_path: Path) -> None:
    host = laid_out(tmp_path)
    known = HostNodes(is_seen=True, names=frozenset({"vfio/vfio", "vfio/9"}))
    with sysfs.folder(host.roots.dev) as dev:
        again = read_again(dev, DevView.LIVE, known, {"vfio/9", "vfio/vfio"})
        assert again.names == {"vfio/vfio"}
        assert read_again(dev, DevView.COPY, known, {"vfio/9"}) is known
        assert read_again(dev, DevView.LIVE, known, {"vfio/vfio"}) is known
