"""What the suite keeps on the host is whole, and made once."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread

import pytest

from .cache import cache_folder, made_once


def _write(folder: Path, content: str) -> None:
    (folder / "file").write_text(content, encoding="ascii")


def test_the_cache_is_in_the_configured_folder() -> None:
    assert cache_folder({"SRIOV_AGENT_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a/vm")
    assert cache_folder({"XDG_CACHE_HOME": "/b"}) == Path("/b/sriov-node-agent/vm")
    assert cache_folder({}) == Path("~/.cache/sriov-node-agent/vm").expanduser()


def test_an_existing_part_is_not_built_again(tmp_path: Path) -> None:
    target = made_once(tmp_path / "target", lambda folder: _write(folder, "first"))
    again = made_once(target, lambda folder: _write(folder, "second"))
    assert (again / "file").read_text(encoding="ascii") == "first"


def test_a_build_that_failed_half_way_is_not_treated_as_complete(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        _write(folder, "half")
        raise ConnectionError

    with pytest.raises(ConnectionError):
        made_once(tmp_path / "target", fail)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    leftover = tmp_path / ".partial-killed" / "whole"
    leftover.mkdir(parents=True)
    _write(leftover, "half")
    made_once(tmp_path / "target", lambda folder: _write(folder, "whole"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "target"]


def test_two_simultaneous_runs_build_it_once(tmp_path: Path) -> None:
    made: list[Path] = []
    run_all = Barrier(2)

    def run() -> None:
        run_all.wait()
        made_once(tmp_path / "target", made.append)

    runs = [Thread(target=run) for _ in range(2)]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    assert len(made) == 1
