"""aiofiles never uses asyncio's shared threads, which a mount that hangs would take from all."""

from __future__ import annotations

import ast
import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import aiofiles.os
import pytest

import agent
from agent.file_threads import FileThreads

SOURCES = sorted(Path(agent.__file__).parent.rglob("*.py"))


def calls_of_aiofiles(source: str) -> Iterator[ast.Call]:
    """Every call of a function of aiofiles."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("aiofiles."):
            yield node


def without_executor(source: str) -> list[str]:
    """The calls that leave the choice of the thread to asyncio."""
    calls = calls_of_aiofiles(source)
    return [ast.unparse(c) for c in calls if not any(k.arg == "executor" for k in c.keywords)]


def test_every_call_of_aiofiles_names_its_executor() -> None:
    sources = [path.read_text() for path in SOURCES]
    assert sum(1 for source in sources for _ in calls_of_aiofiles(source)) > 3
    assert [call for source in sources for call in without_executor(source)] == []


def test_a_call_without_an_executor_is_found() -> None:
    assert without_executor("aiofiles.os.stat(path)") == ["aiofiles.os.stat(path)"]


def test_a_call_runs_in_the_thread_of_its_purpose(tmp_path: Path) -> None:
    names: list[str] = []

    def opener(path: str, flags: int) -> int:
        import os  # noqa: PLC0415 - in the thread

        names.append(threading.current_thread().name)
        return os.open(path, flags)

    async def read() -> bytes:
        async with FileThreads("purpose", tmp_path).open(tmp_path / "file", opener) as file:
            content: bytes = await file.read()
            return content

    (tmp_path / "file").write_bytes(b"content")
    assert asyncio.run(read()) == b"content"
    assert names == ["purpose"]


def test_an_error_reaches_the_caller_as_the_system_reports_it(tmp_path: Path) -> None:
    threads = FileThreads("purpose", tmp_path)
    with pytest.raises(FileNotFoundError):
        asyncio.run(aiofiles.os.stat(tmp_path / "missing", executor=threads))
