from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.host import sysfs
from tests.support.usage import descriptors


class System:
    """The functions of os, but for one, which fails with an error number."""

    def __init__(self, failing: str, code: int) -> None:
        self._failing = failing
        self._code = code

    def __getattr__(self, name: str) -> object:
        return self._fail if name == self._failing else getattr(os, name)

    def _fail(self, *_: object, **__: object) -> None:
        raise OSError(self._code, os.strerror(self._code))


@pytest.fixture
def within(tmp_path: Path) -> Iterator[int]:
    """A folder with an attribute, a link, a folder and a large file, open."""
    (tmp_path / "attribute").write_text("12\n")
    (tmp_path / "link").symlink_to("../drivers/mlx5_core")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(bytes(2**20))
    with sysfs.folder(tmp_path) as folder:
        assert folder is not None
        yield folder


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


def test_an_unchanged_listing_is_the_same_object(tmp_path: Path, listed: tuple[str, ...]) -> None:
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
def test_exhaustion_of_a_process_or_host_is_not_treated_as_an_absent_file(number: int) -> None:
    with pytest.raises(OSError, match=re.escape(os.strerror(number))):
        sysfs.raise_if_exhausted(OSError(number, os.strerror(number)))
    sysfs.raise_if_exhausted(OSError(errno.ENOENT, "absent"))


def test_the_recorder_is_called_inside_the_block_only(tmp_path: Path) -> None:
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


def test_a_file_instead_of_a_class_folder_is_an_error_and_not_an_empty_class(
    tmp_path: Path,
) -> None:
    (tmp_path / "net").touch()
    with sysfs.folder(tmp_path) as within:
        with pytest.raises(NotADirectoryError), sysfs.class_folder("net", within):
            pass
        with sysfs.class_folder("infiniband", within) as absent:
            assert absent is None


READERS: dict[str, tuple[str, Callable[[int], object], object]] = {
    # A reader: the call of the system that fails, the reader, what it returns for "absent".
    "a folder": ("open", lambda at: sysfs.open_folder("folder", at), None),
    "an attribute that cannot be opened": (
        "open",
        lambda at: sysfs.read_raw(at, "attribute"),
        None,
    ),
    "an attribute": ("read", lambda at: sysfs.read_raw(at, "attribute"), None),
    "a link's target": ("readlink", lambda at: sysfs.link_target(at, "link"), None),
    "a link's name": ("readlink", lambda at: sysfs.link_name(at, "link"), None),
    "a listing": ("listdir", sysfs.listing, []),
    "the names in a folder": ("listdir", lambda at: sysfs.names(at, "folder"), []),
    "a table that cannot be opened": ("open", lambda at: sysfs.read_all(at, "large"), b""),
    "a table": ("read", lambda at: sysfs.read_all(at, "large"), b""),
}
each_reader = pytest.mark.parametrize(
    ("failing", "reader", "absent"), READERS.values(), ids=READERS
)


@each_reader
def test_an_unreadable_attribute_counts_as_absent_unless_this_process_is_out_of_descriptors(
    within: int, failing: str, reader: Callable[[int], object], absent: object
) -> None:
    with sysfs.observed(System(failing, errno.EIO)):
        assert reader(within) == absent
    for code in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        with (
            sysfs.observed(System(failing, code)),
            pytest.raises(OSError, match=re.escape(os.strerror(code))),
        ):
            reader(within)


@each_reader
def test_no_read_leaves_a_descriptor_open(
    within: int, failing: str, reader: Callable[[int], object], absent: object
) -> None:
    before = descriptors(os.getpid())
    with sysfs.observed(System(failing, errno.EIO)):
        reader(within)
    assert descriptors(os.getpid()) == before
    with sysfs.folder("folder", within), sysfs.folder("absent", within) as no_folder:
        assert no_folder is None
    sysfs.class_names(within, "folder")
    sysfs.names(within, "folder")
    sysfs.read_raw(within, "attribute")
    sysfs.read_all(within, "large")
    assert descriptors(os.getpid()) == before


@pytest.mark.parametrize(
    "code", [errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENODEV, errno.ENXIO]
)
def test_a_function_without_a_folder_is_gone(within: int, code: int) -> None:
    with sysfs.observed(System("open", code)):
        assert sysfs.open_function("folder", within) is None


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.EMFILE, errno.ENOMEM])
def test_an_existing_function_that_cannot_be_opened_is_an_error(within: int, code: int) -> None:
    with (
        sysfs.observed(System("open", code)),
        pytest.raises(OSError, match=re.escape(os.strerror(code))),
    ):
        sysfs.open_function("folder", within)


def test_a_file_is_not_a_folder(within: int) -> None:
    assert sysfs.open_folder("attribute", within) is None
    assert sysfs.open_function("attribute", within) is None
    assert sysfs.names(within, "attribute") == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *((str(n), n) for n in (-(2**31), -1, 0, 2**31 - 1)),
        *((text, None) for text in (str(-(2**31) - 1), str(2**31), "", "one", "1 2")),
    ],
)
def test_a_number_must_fit_an_int_of_the_kernel(
    within: int, tmp_path: Path, text: str, number: int | None
) -> None:
    (tmp_path / "attribute").write_text(f"{text}\n")
    assert sysfs.read_int(within, "attribute") == number


@pytest.mark.parametrize(("raw", "text"), [(" up \n", "up"), ("\n", None), ("", None)])
def test_a_text_has_no_blanks_around_it_and_an_empty_one_counts_as_absent(
    within: int, tmp_path: Path, raw: str, text: str | None
) -> None:
    (tmp_path / "attribute").write_text(raw)
    assert sysfs.read_text(within, "attribute") == text
    assert sysfs.read_text(within, "absent") is None


def test_a_number_may_have_another_base(within: int, tmp_path: Path) -> None:
    (tmp_path / "attribute").write_text("0x1f\n")
    assert sysfs.read_int(within, "attribute", base=16) == 31
    assert sysfs.read_int(within, "attribute") is None


def test_a_link_is_read_whole_or_by_its_last_part(within: int) -> None:
    assert sysfs.link_target(within, "link") == "../drivers/mlx5_core"
    assert sysfs.link_name(within, "link") == "mlx5_core"
    assert sysfs.exists(within, "attribute")
    assert not sysfs.exists(within, "absent")


def test_names_are_sorted_and_there_are_none_where_there_is_no_folder(
    within: int, tmp_path: Path
) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / "folder" / name).touch()
    for names in (sysfs.names, sysfs.class_names):
        assert names(within, "folder") == ["a", "b", "c"]
        assert names(within, "absent") == []


def test_an_attribute_is_read_up_to_256_bytes(within: int) -> None:
    assert sysfs.read_raw(within, "large") == bytes(256)


def test_a_table_is_read_in_parts_until_its_limit_is_reached(
    within: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in (1, 2**16):
        monkeypatch.setattr(sysfs, "_TABLE_LIMIT", limit)
        assert len(sysfs.read_all(within, "large")) == 2**16
    monkeypatch.setattr(sysfs, "_TABLE_LIMIT", 2**16 + 1)
    assert len(sysfs.read_all(within, "large")) == 2**17


def test_a_table_whose_reading_fails_has_the_part_that_was_read(within: int) -> None:
    parts = iter([b"first", b"second"])

    class Failing(System):
        def _fail(self, *_: object, **__: object) -> bytes:  # type: ignore[override]
            if (part := next(parts, None)) is None:
                raise OSError(errno.EIO, "I/O error")
            return part

    with sysfs.observed(Failing("read", errno.EIO)):
        assert sysfs.read_all(within, "large") == b"firstsecond"
