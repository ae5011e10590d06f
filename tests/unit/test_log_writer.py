from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from unittest.mock import patch

import attrs
import pytest

from agent.log_writer import MAX_BYTES, BackgroundHandler

LINE = "x" * 1000


@attrs.frozen
class Pipe:
    """A log stream whose reader has stopped, until it reads."""

    reader: int
    writer: int

    def read(self, until: bytes) -> bytes:
        """What comes, up to a text."""
        found = b""
        while until not in found:
            found += os.read(self.reader, 1 << 16)
        return found


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reader, writer = os.pipe()
    yield Pipe(reader, writer)
    os.close(reader)


def record(text: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": text})


def handler_at(pipe: Pipe) -> BackgroundHandler:
    return BackgroundHandler(pipe.writer, lambda count: record(f"dropped {count}"))


def test_lines_are_written_in_order_and_all_of_them_before_the_end(pipe: Pipe) -> None:
    handler = handler_at(pipe)
    for number in range(100):
        handler.emit(record(f"line {number}"))
    handler.wait(20)
    expected = "".join(f"line {number}\n" for number in range(100))
    assert pipe.read(b"line 99\n").decode() == expected
    assert handler.dropped == 0


def test_lines_without_room_are_dropped_counted_and_reported_once_writing_works_again(
    pipe: Pipe,
) -> None:
    handler = handler_at(pipe)
    for _ in range(2 * MAX_BYTES // len(LINE)):
        handler.emit(record(LINE))
    dropped = handler.dropped
    assert dropped > 0
    handler.wait(0.01)  # ends, though nobody reads
    text = pipe.read(b"dropped")
    while not text.endswith(b"\n"):
        text += os.read(pipe.reader, 100)
    lines = text.decode().splitlines()
    assert lines[-1] == f"dropped {dropped}"
    assert len(lines) - 1 + dropped == 2 * MAX_BYTES // len(LINE)
    handler.emit(record("again"))
    assert pipe.read(b"again\n") == b"again\n"


def test_while_no_thread_can_be_created_lines_are_written_directly(pipe: Pipe) -> None:
    handler = handler_at(pipe)
    with patch.object(
        threading.Thread, "start", side_effect=RuntimeError("can't start new thread")
    ):
        for _ in range(100):  # more than the pipe takes
            handler.emit(record(LINE))
    text = pipe.read(b"\n")
    handler.emit(record("with a thread"))
    text += pipe.read(b"with a thread\n")
    assert text.decode() == f"{LINE}\n" * 100 + "with a thread\n"


def test_a_stream_without_a_reader_is_not_an_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    handler = handler_at(Pipe(reader, writer))
    for _ in range(3):
        handler.emit(record("nobody"))
    handler.wait(20)
    assert handler.dropped == 0
