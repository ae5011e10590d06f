from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from agent import blocking
from agent.export.given import RECENT_S, GivenRecord, read_records, record_name
from agent.pools.allocated import PodOwner
from agent.pools.allocation_tracker import CONFIRM_WITHIN_S
from agent.roots import Roots
from tests.support.log_lines import LogLines

VF, SF = "intel.com/vf", "intel.com/sf"
A, B = "0000:3b:02.0", "0000:3b:02.1"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without a free processor a write can take longer than the agent waits for it."""
    defaults = blocking.call.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "limit_s", 60.0)


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    found = Roots(tmp_path)
    found.boot_id.parent.mkdir(parents=True)
    found.boot_id.write_text("boot-1\n")
    return found


def record(roots: Roots) -> GivenRecord:
    found = GivenRecord(roots)
    found.begin(read_records(roots))
    return found


def given(roots: Roots) -> dict[str, frozenset[str]]:
    return dict(read_records(roots).given)


def file_of(roots: Roots, resource: str) -> Path:
    return roots.device_info / record_name(resource)


async def test_allocations_are_known_after_a_restart_without_the_pods_names(roots: Roots) -> None:
    writer = record(roots)
    await writer.add(VF, [B, A])
    await writer.add(SF, ["mlx5_core.sf.4"])
    assert given(roots) == {VF: {A, B}, SF: {"mlx5_core.sf.4"}}
    assert json.loads(file_of(roots, VF).read_bytes()) == {
        "bootId": "boot-1",
        "resource": VF,
        "deviceIds": [A, B],
    }
    assert file_of(roots, VF).stat().st_mode & 0o777 == 0o600


async def test_allocations_of_an_earlier_run_stay_beside_new_ones(roots: Roots) -> None:
    await record(roots).add(VF, [A])
    await record(roots).add(VF, [B])
    assert given(roots) == {VF: {A, B}}


async def test_a_record_of_an_earlier_boot_is_ignored(roots: Roots) -> None:
    await record(roots).add(VF, [A])
    roots.boot_id.write_text("boot-2\n")
    assert given(roots) == {}
    await record(roots).add(VF, [B])
    assert given(roots) == {VF: {B}}


@pytest.mark.looptime
async def test_devices_that_no_pod_holds_are_removed_except_new_allocations(roots: Roots) -> None:
    writer = record(roots)
    await writer.add(VF, [A, B])
    await writer.keep({})
    assert given(roots) == {VF: {A, B}}
    await asyncio.sleep(CONFIRM_WITHIN_S)
    await writer.keep({A: PodOwner(VF), B: PodOwner(SF)})
    assert given(roots) == {VF: {A}}
    await writer.keep({})
    assert list(roots.device_info.iterdir()) == []


async def test_records_of_another_agent_are_read_and_never_written(roots: Roots) -> None:
    """It may give devices of its resource at any moment."""
    other, mine = record(roots), GivenRecord(roots)
    await other.add(SF, ["mlx5_core.sf.4", "mlx5_core.sf.5"])
    mine.begin(read_records(roots))
    await other.add(SF, ["mlx5_core.sf.6"])
    await mine.keep({"mlx5_core.sf.5": PodOwner(SF)})
    await mine.keep({})
    assert given(roots) == {SF: {"mlx5_core.sf.4", "mlx5_core.sf.5", "mlx5_core.sf.6"}}


async def test_a_device_that_another_agent_has_just_allocated_is_recognised(roots: Roots) -> None:
    other, mine = record(roots), GivenRecord(roots, lambda: frozenset({SF}))
    mine.begin(read_records(roots))
    await mine.add(VF, [A])
    assert await mine.given_by_others(VF, [A]) is None
    await other.add(SF, [B])
    await mine.add(VF, [A, B])
    assert await mine.given_by_others(VF, [A, B]) == (B, SF)


async def test_records_of_an_agent_that_ended_or_allocated_long_ago_are_ignored(
    roots: Roots,
) -> None:
    live: set[str] = set()
    other, mine = record(roots), GivenRecord(roots, lambda: frozenset(live))
    mine.begin(read_records(roots))
    await other.add(SF, [A])
    await mine.add(VF, [A])
    assert await mine.given_by_others(VF, [A]) is None
    live.add(SF)
    assert await mine.given_by_others(VF, [A]) == (A, SF)
    now_s = file_of(roots, VF).stat().st_mtime
    os.utime(file_of(roots, SF), (now_s - RECENT_S - 1, now_s - RECENT_S - 1))
    assert await mine.given_by_others(VF, [A]) is None


async def test_an_agent_that_takes_a_resource_over_continues_with_the_others_record(
    roots: Roots,
) -> None:
    other, mine = record(roots), record(roots)
    await other.add(VF, [A])
    await mine.add(VF, [B])
    assert given(roots) == {VF: {A, B}}


async def test_the_record_of_a_removed_resource_is_removed_with_its_last_device(
    roots: Roots,
) -> None:
    await record(roots).add(SF, ["mlx5_core.sf.4"])
    await record(roots).keep({})
    assert list(roots.device_info.iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"null",
        b"[" * 100_000,
        b'{"bootId": "boot-1", "resource": 1, "deviceIds": []}',
        b'{"bootId": "boot-1", "resource": "intel.com/vf", "deviceIds": [1]}',
        b'{"bootId": "boot-1", "resource": "intel.com/vf", "deviceIds": 7}',
        b'{"bootId": "boot-1", "resource": "intel.com/other", "deviceIds": ["a"]}',
        b'{"resource": "intel.com/vf", "deviceIds": ["a"]}',
    ],
)
async def test_a_damaged_record_is_logged_ignored_and_written_again(
    roots: Roots, data: bytes, log_lines: LogLines
) -> None:
    roots.device_info.mkdir(parents=True)
    file_of(roots, VF).write_bytes(data)
    assert given(roots) == {}
    await record(roots).add(VF, [A])
    assert given(roots) == {VF: {A}}
    assert log_lines.fields("allocation.record_ignored") == [{"file": str(file_of(roots, VF))}]


async def test_a_record_of_an_earlier_boot_is_not_damaged(
    roots: Roots, log_lines: LogLines
) -> None:
    await record(roots).add(VF, [A])
    roots.boot_id.write_text("boot-2\n")
    record(roots)
    assert log_lines.fields("allocation.record_ignored") == []


async def test_a_link_or_a_fifo_at_its_path_is_not_followed(roots: Roots, tmp_path: Path) -> None:
    await record(roots).add(VF, [A])
    path, elsewhere = file_of(roots, VF), tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    os.mkfifo(file_of(roots, SF))
    assert given(roots) == {}


async def test_a_record_that_cannot_be_written_is_logged_once_and_refuses_nothing(
    roots: Roots, log_lines: LogLines
) -> None:
    roots.device_info.parent.mkdir(parents=True)
    roots.device_info.write_text("in the way")
    writer = record(roots)
    await writer.add(VF, [A])
    await writer.add(VF, [B])
    assert len(log_lines.fields("allocation.not_recorded")) == 1


def test_names_of_records_stay_in_their_folder_and_differ() -> None:
    resources = ("a.io/x", "a.io-x", "../../x", "a" * 253 + "/" + "b" * 63, "a" * 253 + "/c")
    names = {record_name(r) for r in resources}
    assert all("/" not in n and len(n.encode()) < 255 for n in names)
    assert len(names) == len(resources)
