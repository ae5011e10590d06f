from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from agent.host import sysfs


@pytest.fixture
def listed(tmp_path: Path) -> tuple[str, ...]:
    """What a folder with two entries shows."""
    for name in ("ens1f0v0", "ens1f0v1"):
        (tmp_path / name).touch()
    return again(tmp_path, ())


def again(path: Path, before: tuple[str, ...]) -> tuple[str, ...]:
    with sysfs.folder(path) as folder:
        assert folder is not None
        return sysfs.listing_again(folder, before)


def test_a_listing_of_what_did_not_change_is_the_same_object(
    tmp_path: Path, listed: tuple[str, ...]
) -> None:
    assert sorted(listed) == ["ens1f0v0", "ens1f0v1"]
    assert again(tmp_path, listed) is listed


def test_names_that_are_listed_still_are_the_same_objects(
    tmp_path: Path, listed: tuple[str, ...]
) -> None:
    (tmp_path / "ens1f0v0").unlink()
    (tmp_path / "ens1f0v2").touch()
    now = again(tmp_path, listed)
    assert sorted(now) == ["ens1f0v1", "ens1f0v2"]
    assert {name for name in now if any(name is known for known in listed)} == {"ens1f0v1"}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_process_or_host_that_has_run_out_is_not_taken_for_an_absent_file(number: int) -> None:
    with pytest.raises(OSError, match=re.escape(os.strerror(number))):
        sysfs.raise_if_exhausted(OSError(number, os.strerror(number)))
    sysfs.raise_if_exhausted(OSError(errno.ENOENT, "absent"))


def test_what_observes_reads_is_asked_inside_the_block_only(tmp_path: Path) -> None:
    asked: list[str] = []

    class Calls:
        def __getattr__(self, name: str) -> object:
            asked.append(name)
            return getattr(os, name)

    with sysfs.observed(Calls()), sysfs.folder(tmp_path):
        assert asked
    asked.clear()
    with sysfs.folder(tmp_path):
        pass
    assert not asked


def test_a_table_of_several_megabytes_is_read_to_its_end(tmp_path: Path) -> None:
    line = b"eth0\t0000000A\n"
    (tmp_path / "route").write_bytes(line * 200_000 + b"end")
    with sysfs.folder(tmp_path) as folder:
        assert folder is not None
        assert sysfs.read_all(folder, "route").endswith(b"\nend")


def test_a_file_in_the_place_of_a_class_is_an_error_and_not_an_empty_class(tmp_path: Path) -> None:
    (tmp_path / "net").touch()
    with sysfs.folder(tmp_path) as within:
        with pytest.raises(NotADirectoryError), sysfs.class_folder("net", within):
            pass
        with sysfs.class_folder("infiniband", within) as absent:
            assert absent is None


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_link_that_cannot_be_read_for_want_of_resources_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def exhausted(*_: object, **__: object) -> str:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "readlink", exhausted)
    with sysfs.folder(tmp_path) as folder:
        assert folder is not None
        with pytest.raises(OSError, match=os.strerror(code)):
            sysfs.link_target(folder, "driver")
