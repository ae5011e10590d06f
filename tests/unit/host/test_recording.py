"""A recorded host shows what the host showed: on every machine of tests/hosts, and this one."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Literal

import pytest

from agent.cli.discover import ALL_NEEDS
from agent.cli.snapshot import record
from agent.discovery.scan import scan
from agent.errors import UsageError
from agent.host import archive as archive_module
from agent.host.archive import is_archive, unpack, write_archive
from agent.host.recording import Entry
from agent.model.pci_class import class_need
from agent.model.snapshot import Snapshot
from agent.roots import Roots
from tests.support.hardware import CONNECTX6, E810, Hardware
from tests.support.host_builder import HostBuilder, Port
from tests.support.trees import dump_tree, load_tree

HOSTS = Path(__file__).resolve().parents[2] / "hosts"
MACHINES = sorted(p.name for p in HOSTS.iterdir() if p.is_dir())
PF = "0000:3b:00.0"
MAC = "aabbccddeeff"


def packed(roots: Roots, *, macs: bool = False) -> bytes:
    out = io.BytesIO()
    write_archive(record(roots, netlink=False, macs=macs)[1], out)
    return out.getvalue()


def replayed(content: bytes, folder: Path) -> Roots:
    archive = folder / "host.tar.gz"
    archive.write_bytes(content)
    (folder / "replayed").mkdir()
    unpack(archive, folder / "replayed")
    return Roots(folder / "replayed")


def seen(roots: Roots) -> Snapshot:
    return scan(roots, needs=ALL_NEEDS)


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    return HostBuilder(tmp_path / "host")


@pytest.mark.parametrize("name", MACHINES)
def test_a_replay_of_a_recorded_machine_gives_the_same_result(name: str, tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    load_tree((HOSTS / name / "tree.txt").read_text(), tmp_path / "host")
    original = Roots(tmp_path / "host")
    content = packed(original, macs=True)
    again = replayed(content, tmp_path)
    assert seen(again) == seen(original)
    assert packed(again, macs=True) == content, "a recording of a recording is the same"


@pytest.mark.parametrize("name", MACHINES)
def test_a_recording_as_reviewable_text_is_the_same_host(name: str, tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "text").mkdir()
    load_tree((HOSTS / name / "tree.txt").read_text(), tmp_path / "host")
    again = replayed(packed(Roots(tmp_path / "host"), macs=True), tmp_path)
    load_tree(dump_tree(again.host), tmp_path / "text")
    assert seen(Roots(tmp_path / "text")) == seen(Roots(tmp_path / "host"))


def test_a_replay_of_this_machine_gives_the_same_result(tmp_path: Path) -> None:
    recorded, tree = record(Roots(), netlink=True, macs=True)
    out = io.BytesIO()
    write_archive(tree, out)
    assert seen(replayed(out.getvalue(), tmp_path)) == recorded


def test_functions_of_any_class_that_a_pool_may_name_are_in_the_recording(
    host: HostBuilder, tmp_path: Path
) -> None:
    host.function(PF, Hardware("8086", "4941", "vfio-pci", pci_class=0x0B4000))
    needs = frozenset({class_need("0b40")})
    again = scan(replayed(packed(host.roots), tmp_path), needs=needs)
    assert again.devices == scan(host.roots, needs=needs).devices != ()


def test_the_same_host_gives_the_same_bytes(host: HostBuilder) -> None:
    host.pf(PF, "ens1f0", vfs=4)
    assert packed(host.roots) == packed(host.roots)


def test_only_what_a_scan_reads_is_recorded(host: HostBuilder) -> None:
    host.pf(PF, "ens1f0", vfs=1)
    for secret in ("vpd", "serial_number", "net/ens1f0/address", "rom"):
        host.write(host.folder(PF) / secret, "s3cret")
    host.write(host.root / "etc/passwd", "s3cret")
    host.write(host.root / "proc/net/arp", "s3cret")
    _, tree = record(host.roots, netlink=False, macs=False)
    assert not [path for path, entry in tree.items() if b"s3cret" in entry.content]
    assert "sys/devices/pci0000:3b/0000:3b:00.0/vpd" not in tree


def test_routes_are_kept_as_interfaces_without_addresses(host: HostBuilder) -> None:
    host.pf(PF, "ens1f0")
    host.default_route("ens1f0")
    _, tree = record(host.roots, netlink=False, macs=False)
    assert b"0100000A" not in tree["proc/net/route"].content
    assert b"ens1f0\t00000000\t00000000" in tree["proc/net/route"].content


def test_mac_addresses_come_only_with_the_flag(host: HostBuilder) -> None:
    host.pf(PF, "ens1f0")
    host.write(host.folder(PF) / "net/ens1f0/address", "aa:bb:cc:dd:ee:ff")
    _, without = record(host.roots, netlink=False, macs=False)
    _, with_macs = record(host.roots, netlink=False, macs=True)
    path = "sys/devices/pci0000:3b/0000:3b:00.0/net/ens1f0/address"
    assert path not in without
    assert with_macs[path].content == b"aa:bb:cc:dd:ee:ff\n"


def test_the_recording_shows_the_hosts_use_of_a_vf(host: HostBuilder, tmp_path: Path) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    host.enslave("ens1f0v0", "bond1")
    line = "ens1f0v1\t0007000A\t00000000\t0001\t0\t0\t0\t00FFFFFF"
    host.write(host.root / "proc/net/route", f"Iface\n{line}")
    content = packed(host.roots)
    shown = seen(replayed(content, tmp_path))
    assert shown.masters == (("ens1f0v0", "bond1"),)
    assert shown.routed_netdevs == ("ens1f0v1",)
    assert "0007000A" not in everything(content)


def test_names_and_switch_ids_made_from_addresses_are_replaced_by_numbers(
    host: HostBuilder, tmp_path: Path
) -> None:
    uplink = f"enx{MAC}"
    host.pf(PF, hardware=CONNECTX6)
    host.netdev(uplink, PF, port=Port("p0", MAC))
    host.add_vfs(PF, 2, CONNECTX6.vf)
    for index in range(2):
        host.netdev(f"rep{index}", PF, port=Port(f"pf0vf{index}", MAC))
    host.default_route(uplink)
    content = packed(host.roots)
    again = replayed(content, tmp_path)
    assert MAC not in everything(content)
    shown = seen(again)
    assert shown.default_route_netdevs == ("enx000000000001",)
    assert shown.by_id[PF].pf_name == "enx000000000001"
    vfs = [d for d in shown.devices if d.id != PF]
    assert [v.representor for v in vfs] == ["rep0", "rep1"], "the same id is still the same"
    original = seen(host.roots)
    assert [d.id for d in shown.devices] == [d.id for d in original.devices]


def everything(content: bytes) -> str:
    """All names, targets and contents of an archive."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for entry in tar:
            stream = tar.extractfile(entry) if entry.isfile() else None
            found += [entry.name, entry.linkname, stream.read().decode() if stream else ""]
    return "\n".join(found)


def test_devlink_facts_are_kept(host: HostBuilder, tmp_path: Path) -> None:
    host.pf(PF, "ens1f0", vfs=1)
    facts = '{"info": {"pci/0000:3b:00.0": {"versions": {"running": {"fw.app.name": "GTPv1"}}}}}'
    host.write(host.root / "devlink.json", facts)
    again = seen(replayed(packed(host.roots), tmp_path))
    assert again == seen(host.roots)
    assert again.by_id[PF].ddp_profile == "GTPv1"


def test_alternative_names_are_kept(host: HostBuilder, tmp_path: Path) -> None:
    host.pf(PF, "ens1f0", vfs=1)
    host.write(host.root / "altnames.json", '{"ens1f0": ["sriov1", "enx0002c90a0b0c"]}')
    original = seen(host.roots)
    assert original.by_id[PF].altnames == ("enx0002c90a0b0c", "sriov1")
    again = seen(replayed(packed(host.roots), tmp_path))
    assert again.by_id[PF].altnames == ("enx000000000001", "sriov1")


def test_an_empty_host_is_recorded_too(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    assert seen(replayed(packed(Roots(tmp_path / "host")), tmp_path)) == Snapshot()


def test_attributes_that_cannot_be_read_and_dangling_links_are_left_out(
    host: HostBuilder, tmp_path: Path
) -> None:
    host.pf(PF, "ens1f0", vfs=2)
    (host.folder(PF) / "virtfn7").symlink_to("../nowhere")
    (host.folder(PF) / "loop").symlink_to("loop")
    assert seen(replayed(packed(host.roots), tmp_path)) == seen(host.roots)


def test_links_that_lead_out_of_the_host_are_not_followed(
    host: HostBuilder, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "class").write_text("s3cret")
    (host.root / "sys/bus/pci/devices/0000:99:00.0").symlink_to(tmp_path / "secret")
    tree = record(host.roots, netlink=False, macs=False)[1]
    assert not [entry for entry in tree.values() if b"s3cret" in entry.content]


def test_1024_functions_fit_into_a_bug_report(host: HostBuilder) -> None:
    for number in range(4):
        host.pf(f"0000:{number * 4 + 1:02x}:00.0", f"p{number}", vfs=255, hardware=E810)
    assert len(packed(host.roots)) < 500_000


# Unpacking what comes from strangers


def archive(folder: Path, *members: tarfile.TarInfo, data: bytes = b"") -> Path:
    path = folder / "evil.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(data[: member.size]))
    return path


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, size
    return made


@pytest.mark.parametrize(
    "evil",
    [
        [member("../outside")],
        [member("sys/../../outside")],
        [member("sys", tarfile.SYMTYPE, "/etc")],
        [member("sys", tarfile.SYMTYPE, "../../outside")],
        [member("sys", tarfile.SYMTYPE, ".."), member("sys/outside")],
        [member("sys/outside"), member("sys", tarfile.SYMTYPE, "..")],
        [member("sys", tarfile.SYMTYPE, ".."), member("sys/outside", tarfile.SYMTYPE, "x")],
        [member("a/b/x", tarfile.SYMTYPE, "../.."), member("a/b/y", tarfile.SYMTYPE, "x/..")],
        [member("sys", tarfile.SYMTYPE, "n" * 1001)],
        [member("n/" * 501)],
        [member("/outside")],
        [member("twice"), member("twice")],
        [member("node", tarfile.CHRTYPE)],
        [member("pipe", tarfile.FIFOTYPE)],
        [member("hard", tarfile.LNKTYPE, "/etc/passwd")],
        [member("big", size=2**20 + 1)],
    ],
)
def test_a_file_that_leads_outside_or_is_not_a_recording_is_refused(
    evil: list[tarfile.TarInfo], tmp_path: Path
) -> None:
    path = archive(tmp_path, *evil, data=bytes(2**20 + 1))
    target = tmp_path / "deep" / "target"
    target.mkdir(parents=True)
    with pytest.raises(UsageError, match="is not a recorded host"):
        unpack(path, target)
    assert not (tmp_path / "deep" / "outside").exists()
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("content", [b"", b"not a tar", b"\x1f\x8b" + bytes(20)])
def test_damaged_files_are_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.tar.gz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"broken\.tar\.gz is not a recorded host"):
        unpack(path, tmp_path / "target")


def test_a_truncated_file_is_refused(host: HostBuilder, tmp_path: Path) -> None:
    host.pf(PF, "ens1f0", vfs=8)
    with pytest.raises(UsageError):
        replayed(packed(host.roots)[:-100], tmp_path)


def test_only_files_with_the_right_name_are_archives(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").touch()
    (tmp_path / "b.tgz").touch()
    (tmp_path / "c.tar.gz").mkdir()
    (tmp_path / "d.json").touch()
    found = {p.name for p in tmp_path.iterdir() if is_archive(p)}
    assert found == {"a.tar.gz", "b.tgz"}


def test_link_targets_and_empty_entries_are_kept_in_the_archive(tmp_path: Path) -> None:
    tree = {"a": Entry("folder"), "a/f": Entry("file", b"x"), "l": Entry("link", b"a/f")}
    out = io.BytesIO()
    write_archive(tree, out)
    root = replayed(out.getvalue(), tmp_path).host
    assert (root / "l").read_bytes() == b"x"
    assert (root / "l").is_symlink()


def test_links_in_a_ring_and_to_nothing_are_as_recorded(tmp_path: Path) -> None:
    links = {"a": b"b", "b": b"a", "deep/c": b"../nowhere", "deep/d": b"../a"}
    out = io.BytesIO()
    write_archive({name: Entry("link", target) for name, target in links.items()}, out)
    root = replayed(out.getvalue(), tmp_path).host
    assert {name: (root / name).readlink() for name in links} == {
        name: Path(target.decode()) for name, target in links.items()
    }


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ([member("sys/" + "a/" * 64 + "x")], "65 folders deep, at most 64 are allowed"),
        ([member("sys/l", tarfile.SYMTYPE, "../" * 65)], "65 folders deep, at most 64"),
        ([member("sys/" + "n" * 997)], "a name of 1001 bytes, at most 1000 are allowed"),
        ([member("big", size=2**20 + 1)], "1048577 bytes, at most 1048576 are allowed in a file"),
        ([member("sys")], "Not a directory"),
        ([member("sys/bus", tarfile.SYMTYPE, "bus")], "Too many levels of symbolic links"),
    ],
)
def test_an_exceeded_limit_is_reported_with_the_value(
    members: list[tarfile.TarInfo], fault: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=fault):
        unpack(archive(tmp_path, *members, data=bytes(2**20 + 1)), tmp_path / "target")


def compressed(folder: Path, *parts: bytes) -> Path:
    """An archive of raw blocks."""
    path = folder / "evil.tar.gz"
    with gzip.open(path, "wb") as packed:
        packed.writelines(parts)
    return path


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (tarfile.XHDTYPE, tarfile.USTAR_FORMAT),
        (tarfile.XGLTYPE, tarfile.USTAR_FORMAT),
        (tarfile.GNUTYPE_LONGNAME, tarfile.GNU_FORMAT),
        (tarfile.GNUTYPE_LONGLINK, tarfile.GNU_FORMAT),
    ],
)
def test_a_header_of_any_size_is_refused_before_it_is_read(
    kind: bytes, form: Literal[0, 1], tmp_path: Path
) -> None:
    header = member("header", kind, size=1 << 30).tobuf(form)
    with pytest.raises(UsageError, match="a header in it has 1073741824 bytes, at most 65536 are"):
        unpack(compressed(tmp_path, header, bytes(4096)), tmp_path / "target")


def test_nested_headers_are_refused(tmp_path: Path) -> None:
    header = member("header", tarfile.GNUTYPE_LONGNAME, size=2).tobuf(tarfile.GNU_FORMAT)
    part = header + b"a".ljust(512, b"\0")
    with pytest.raises(UsageError, match="nested too deeply"):
        unpack(compressed(tmp_path, *[part] * 5000), tmp_path / "target")


@pytest.mark.parametrize(
    ("limit", "value", "fault"),
    [
        ("MAX_ENTRIES", 3, "more than 3 entries"),
        ("MAX_DISK_BYTES", 1 << 20, "more than 1 MiB of disk"),
        ("MAX_STREAM_BYTES", 1 << 20, "larger than 1 MiB"),
    ],
)
def test_unpacking_stops_at_the_limit(
    limit: str, value: int, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, limit, value)
    members = [member(f"sys/{n}", size=2**19) for n in range(10)]
    target = tmp_path / "target"
    with pytest.raises(UsageError, match=fault):
        unpack(archive(tmp_path, *members, data=bytes(2**19)), target)
    assert len(list((target / "sys").iterdir())) <= 3


def test_a_sparse_file_is_not_accepted_in_a_recording(tmp_path: Path) -> None:
    holes = member("sys/holes", tarfile.GNUTYPE_SPARSE, size=0)
    with pytest.raises(UsageError, match="neither folder, file nor link"):
        unpack(compressed(tmp_path, holes.tobuf(tarfile.GNU_FORMAT), bytes(1024)), tmp_path / "t")
