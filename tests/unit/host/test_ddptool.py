"""The optional program ddptool, played by a shell script."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.host import ddptool

_ANSWER = """{"DDPInventory": {"device": "1572", "address": "0000:02:00.0",
 "DDPpackage": {"track_id": "80000008", "version": "1.0.3.0", "name": "GTPv1-C/U IPv4/IPv6"}}}"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, first on the search path."""
    path = tmp_path / "ddptool"
    monkeypatch.setenv("PATH", str(tmp_path))
    return path


def play(tool: Path, script: str) -> None:
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


def test_without_the_program_nothing_is_called(tool: Path) -> None:
    assert not tool.exists()
    assert ddptool.program() is None


def test_the_program_is_called_for_one_function(tool: Path) -> None:
    answer = tool.with_name("answer")
    answer.write_text(_ANSWER)
    play(tool, f'[ "$*" = "-l -a -j -s 0000:02:00.0" ] && /bin/cat {answer}')
    assert ddptool.program() == str(tool)
    assert ddptool.profile(str(tool), "0000:02:00.0") == "GTPv1-C/U IPv4/IPv6"


@pytest.mark.parametrize("script", ["exit 8", "echo nonsense", "echo '{}'", "kill -9 $$"])
def test_a_program_without_a_result_means_no_profile(tool: Path, script: str) -> None:
    play(tool, script)
    assert ddptool.profile(str(tool), "0000:02:00.0") is None


def test_a_program_that_cannot_be_started_means_no_profile(tool: Path) -> None:
    assert ddptool.profile(str(tool), "0000:02:00.0") is None


def test_a_profile_without_a_name_is_none() -> None:
    assert ddptool.parse(b'{"DDPInventory": {"DDPpackage": {"name": ""}}}') is None
