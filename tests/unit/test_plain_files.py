from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from agent.plain_files import open_plain


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="link") as caught:
        open_plain(tmp_path / "link")
    assert caught.value.errno == errno.ELOOP


def test_a_fifo_without_a_writer_is_opened_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    descriptor = open_plain(tmp_path / "fifo")
    assert os.read(descriptor, 1) == b""
    os.close(descriptor)


def test_a_file_is_opened_for_reading_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    with open(tmp_path / "file", "rb", opener=open_plain) as file:
        assert file.read() == b"content"
        with pytest.raises(OSError, match="descriptor"):
            os.write(file.fileno(), b"x")
