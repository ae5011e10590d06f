"""Hosts of chance: laid out as a kernel shows them, then damaged as no kernel would.

Paths are bytes here, since names may be anything but text.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
from hypothesis import strategies as st

from agent.roots import Roots
from tests.support.hardware import ACC100, E810, Hardware, VfHardware
from tests.support.host_builder import HostBuilder, Port

CONNECTX = Hardware("15b3", "101d", "mlx5_core", 0x020000, 8, VfHardware("101e", "mlx5_core"))
_NOBODY = 65534
CONTENTS = (
    *(b"", b"\n", b" ", b"\x00", b"\xff\xfe\n", b"-1\n", b"0x\n", b"-0x5\n", b"1_0\n", b"a\nb\n"),
    *(b"9" * 30, b"0x" + b"f" * 40, b"9" * 5000, b"x" * 200_000, "\u0663\u00b2\n".encode()),
    *(b"0x020000\n", b"0x120000\n", b"vfio-noiommu\n", b"p0\n", b"pf0vf1\n", b"../../..\n"),
)
NAMES = (
    *(b"a b", b"a\nb", b"\xff\xfe", b"\xed\xa0\x80", b"x" * 255, b"\xe2\x80\xae", b"%s", b"..."),
    *(b"0000:3b:1f.7", b"0000:3B:00.0", b"10000:00:00.0", b"0000:3b:00", b"virtfn0", b"virtfn5"),
    *(b"virtfn99999999999999999999", b"virtio7", b"net", b"infiniband", b"uio", b"physfn"),
    *(b"mlx5_core.sf.7", b"x.sf.99999999999999999999", b"a b.sf.1", b"\xff.sf.2", b"m.eth.1"),
    *(b"uverbs\xff", b"uverbs9", b"umad", b"vdpa9", b"vhost-vdpa-9", b"upper_\xff", b"lower_a b"),
    *(b"acpi_index", b"sfnum", b"iommu_group", b"driver", b"ens9", b"lo", b"route"),
)
TARGETS = (
    *(
        b".",
        b"..",
        b"/",
        b"nowhere",
        b"\xff\xfe",
        b"a/b\nc",
        b"../../../x/0000:3b:00.0",
        b"x" * 255,
    ),
    *(b"../../devices/pci0000:3b/0000:3b:00.0", b"../0000:3b:00.0", b"/dev/null", b"/dev/zero"),
)


@attrs.frozen
class Family:
    """A PF and what belongs to it."""

    hardware: Hardware
    vfs: int
    rdma: bool
    sfs: int
    vdpa: bool
    is_switchdev: bool
    is_stacked: bool
    driver: str | None


@attrs.frozen
class Damage:
    """What happens to one entry of the tree; ``place`` picks it among all of them."""

    kind: str
    place: int
    content: bytes
    name: bytes
    target: bytes


FAMILIES = st.builds(
    Family,
    hardware=st.sampled_from((E810, CONNECTX, ACC100)),
    vfs=st.integers(0, 3),
    rdma=st.booleans(),
    sfs=st.integers(0, 2),
    vdpa=st.booleans(),
    is_switchdev=st.booleans(),
    is_stacked=st.booleans(),
    driver=st.sampled_from((None, "vfio-pci", "iavf", "uio_pci_generic")),
)
DAMAGES = st.builds(
    Damage,
    kind=st.sampled_from(
        ("remove", "write", "write", "link", "loop", "forbid", "add", "add", "folder", "rename")
    ),
    place=st.integers(0, 2**16),
    content=st.one_of(st.sampled_from(CONTENTS), st.binary(max_size=8)),
    name=st.sampled_from(NAMES),
    target=st.sampled_from(TARGETS),
)
HOSTS = st.tuples(
    st.lists(FAMILIES, min_size=1, max_size=3), st.lists(DAMAGES, max_size=20).map(tuple)
)
HostPlan = tuple[list[Family], tuple[Damage, ...]]


@contextmanager
def laid_out(plan: HostPlan) -> Iterator[Roots]:
    """The host on disk, where whoever reads as nobody may look too."""
    families, damages = plan
    with TemporaryDirectory(prefix="fuzz-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        builder = HostBuilder(root)
        for number, family in enumerate(families):
            _lay_out(builder, number, family)
        for damage in damages:
            with suppress(OSError):
                _inflict(damage, os.fsencode(root))
        yield Roots(root)
        _allow_all(os.fsencode(root))


def _lay_out(builder: HostBuilder, number: int, family: Family) -> None:
    bdf, name = f"0000:3b:00.{number}", f"ens1f{number}"
    if family.hardware is ACC100:
        builder.accelerator(bdf, vfs=family.vfs)
        return
    builder.pf(bdf, name, family.hardware, vfs=family.vfs, numa=number)
    for index, vf in enumerate(builder.vfs(bdf)):
        if index % 2:
            builder.set_driver(vf, family.driver)
        if family.driver == "uio_pci_generic":
            builder.uio(vf)
        if family.rdma:
            builder.rdma(vf, f"mlx5_{number}{index}")
        if family.vdpa:
            builder.vdpa(vf)
        if family.is_switchdev:
            port = Port(f"pf{number}vf{index}", "abc")
            builder.netdev(f"rep{number}{index}", bdf, port=port)
    for sfnum in range(family.sfs):
        builder.sf(bdf, sfnum + 1, f"sf{number}{sfnum}")
    if family.is_stacked:
        builder.enslave(name, "bond0")
        builder.default_route("bond0")


def rich_host(builder: HostBuilder) -> None:
    """A host with one of everything."""
    whole = Family(CONNECTX, 2, True, 1, True, True, True, "uio_pci_generic")
    _lay_out(builder, 0, whole)
    _lay_out(builder, 1, attrs.evolve(whole, hardware=ACC100))
    builder.virtio_nic("0000:00:04.0", "eth0")
    builder.default_route("eth0")
    builder.write(builder.folder("0000:00:04.0") / "acpi_index", 7)
    builder.write(builder.root / "proc/net/ipv6_route", "0" * 32)
    builder.write(builder.root / "devlink.json", "{}")


def entries(root: bytes) -> list[bytes]:
    found = []
    for top in (b"sys", b"dev", b"proc"):
        for folder, folders, files in os.walk(os.path.join(root, top)):
            found += [os.path.join(folder, entry) for entry in sorted(folders + files)]
    return sorted(found)


def _inflict(damage: Damage, root: bytes) -> None:
    found = entries(root)
    if found:
        inflict(damage, found[damage.place % len(found)])


def inflict(damage: Damage, victim: bytes) -> None:
    """Damage one entry."""
    ways: dict[str, Callable[[], None]] = {
        "remove": lambda: _remove(victim),
        "write": lambda: _write(victim, damage.content),
        "link": lambda: _link(victim, damage.target),
        "loop": lambda: _link(victim, victim.rpartition(b"/")[2]),
        "forbid": lambda: os.chmod(victim, 0),
        "add": lambda: _add(victim, damage),
        "folder": lambda: _folder(victim),
        "rename": lambda: os.rename(victim, os.path.join(os.path.dirname(victim), damage.name)),
    }
    ways[damage.kind]()


def _add(victim: bytes, damage: Damage) -> None:
    """Another entry beside the victim: a file, a folder or a link, as chance has it."""
    path = os.path.join(os.path.dirname(victim), damage.name)
    if damage.place % 3 == 0:
        _write(path, damage.content)
    elif damage.place % 3 == 1:
        os.symlink(os.path.basename(victim), path)
    else:
        _copy(victim, path)


def _copy(victim: bytes, path: bytes) -> None:
    if os.path.isdir(victim):
        shutil.copytree(os.fsdecode(victim), os.fsdecode(path), symlinks=True)
    else:
        os.mkdir(path)


def _remove(victim: bytes) -> None:
    if os.path.isdir(victim) and not os.path.islink(victim):
        shutil.rmtree(victim)
    else:
        os.unlink(victim)


def _write(victim: bytes, content: bytes) -> None:
    if os.path.lexists(victim):
        _remove(victim)
    with open(victim, "wb") as file:
        file.write(content)


def _link(victim: bytes, target: bytes) -> None:
    _remove(victim)
    os.symlink(target, victim)


def _folder(victim: bytes) -> None:
    _remove(victim)
    os.mkdir(victim)


def _allow_all(root: bytes) -> None:
    """So that the tree can be removed by whoever is not root."""
    for folder, folders, _ in os.walk(root):
        for name in folders:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755)  # noqa: S103 - an empty host of a test


@contextmanager
def damaged(damage: Damage, victim: bytes) -> Iterator[None]:
    """One entry damaged for a while; what was added or renamed to goes again."""
    folder = os.path.dirname(victim)
    added = os.path.join(folder, damage.name)
    if os.path.lexists(added) and damage.kind in {"add", "rename"}:
        yield
        return
    mode = os.lstat(victim).st_mode
    aside = os.path.join(folder, b".aside")
    is_folder = os.path.isdir(victim) and not os.path.islink(victim)
    if damage.kind in {"remove", "write", "link", "loop", "folder"}:
        os.rename(victim, aside)
        if damage.kind != "remove":
            os.mkdir(victim) if is_folder else _write(victim, b"")
    try:
        with suppress(FileNotFoundError):
            inflict(damage, victim)
        yield
    finally:
        if damage.kind == "forbid" and not os.path.islink(victim):
            os.chmod(victim, mode & 0o7777)
        elif damage.kind == "rename":
            os.rename(added, victim)
        elif damage.kind == "add":
            _remove(added)
        elif os.path.lexists(aside):
            if os.path.lexists(victim):
                _remove(victim)
            os.rename(aside, victim)


@contextmanager
def without_privilege() -> Iterator[None]:
    """This thread opens files as nobody does, so that permissions count for root too.

    ``setfsuid`` (setfsuid(2)) also takes away the capability to pass over permissions.
    """
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsuid(_NOBODY)
    try:
        yield
    finally:
        libc.setfsuid(0)
