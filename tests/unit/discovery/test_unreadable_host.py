"""A host that cannot be read is not one without devices."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.bus import Bus
from agent.discovery.scan import Scanner
from agent.host import sysfs
from agent.model.events import ScanFailing
from agent.model.snapshot import Snapshot
from agent.watch.rescan import RescanLoop
from tests.support.host_builder import HostBuilder
from tests.support.log_lines import LogLines

PF = "0000:3b:00.0"
LISTS = ("sys", "sys/bus/pci/devices", "sys/class/net")


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    builder = HostBuilder(tmp_path)
    builder.pf(PF, "ens1f0", vfs=4)
    return builder


class Calls:
    """The functions of os, of which opening fails where it is asked to."""

    def __init__(self, fails: Callable[[str], bool], number: int = errno.EIO) -> None:
        self._fails = fails
        self._number = number

    def open(self, path: str, *rest: object, **options: object) -> int:
        if self._fails(os.fspath(path)):
            raise OSError(self._number, os.strerror(self._number), path)
        opened: int = os.open(path, *rest, **options)  # type: ignore[arg-type]
        return opened

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ENOTDIR, errno.ESTALE])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_list_that_cannot_be_read_fails_the_scan(
    host: HostBuilder,
    name: str,
    number: int,
    is_first: bool,  # noqa: FBT001 - a case
) -> None:
    scanner = Scanner(host.roots)
    before = None if is_first else scanner.scan()
    calls = Calls(lambda path: path.endswith(name.removeprefix("sys/")), number)
    with sysfs.observed(calls), pytest.raises(OSError, match=name.rpartition("/")[2]) as failed:
        scanner.scan()
    assert failed.value.errno == number
    assert before is None or scanner.scan() == before


@pytest.mark.parametrize("name", LISTS)
def test_a_class_that_disappeared_fails_the_scan(host: HostBuilder, name: str) -> None:
    scanner = Scanner(host.roots)
    before = scanner.scan()
    folder = host.root / name
    folder.rename(host.root / "elsewhere")
    with pytest.raises(FileNotFoundError, match="though an earlier scan saw it"):
        scanner.scan()
    (host.root / "elsewhere").rename(folder)
    assert scanner.scan() == before


def test_an_empty_bus_that_replaced_the_one_with_functions_fails_the_scan(
    host: HostBuilder,
) -> None:
    scanner = Scanner(host.roots)
    before = scanner.scan()
    folder = host.root / "sys/bus/pci/devices"
    folder.rename(host.root / "elsewhere")
    folder.mkdir()
    with pytest.raises(FileNotFoundError, match="replaced by an empty folder"):
        scanner.scan()
    folder.rmdir()
    (host.root / "elsewhere").rename(folder)
    assert scanner.scan() == before


def test_a_bus_whose_functions_went_one_by_one_is_empty(host: HostBuilder) -> None:
    scanner = Scanner(host.roots)
    assert scanner.scan().devices
    for entry in (host.root / "sys/bus/pci/devices").iterdir():
        entry.unlink()
    assert not scanner.scan().devices


def test_a_host_without_a_pci_bus_has_no_devices(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    assert not Scanner(HostBuilder(tmp_path).roots).scan().devices


def test_a_function_that_cannot_be_opened_keeps_its_last_record(host: HostBuilder) -> None:
    scanner = Scanner(host.roots)
    before = scanner.scan()
    vf = host.vfs(PF)[1]
    with sysfs.observed(Calls(lambda path: path == vf)):
        assert scanner.scan().by_id[vf] == before.by_id[vf]
    host.remove(vf)
    assert vf not in scanner.scan().by_id


def test_a_scan_fails_if_no_function_of_the_host_can_be_opened(host: HostBuilder) -> None:
    scanner = Scanner(host.roots)
    with sysfs.observed(Calls(lambda path: path.startswith("0000:"))), pytest.raises(OSError):  # noqa: PT011 - any
        scanner.scan()


async def test_a_scan_that_fails_keeps_the_snapshot_and_is_logged_once(log_lines: LogLines) -> None:
    bus, works = Bus(), [False]
    heard: list[str] = []

    def note(event: ScanFailing) -> None:
        heard.append(event.error)
        works[0] = True

    def scan(_: frozenset[str] | None) -> Snapshot:
        if not works[0]:
            raise OSError(errno.EIO, "Input/output error", "/sys/bus/pci/devices")
        return Snapshot()

    bus.on(ScanFailing, note)
    rescan_loop = RescanLoop(scan, bus)
    await rescan_loop.scan_now()
    assert rescan_loop.scans > 1
    assert ["/sys/bus/pci/devices" in error for error in heard] == [True, False]
    assert rescan_loop.failing == ""
    assert log_lines.events().count("host.scan_failed") == 1
