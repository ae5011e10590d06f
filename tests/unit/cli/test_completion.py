from __future__ import annotations

import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from agent.cli.arguments import COMMANDS
from agent.cli.completion import script


def completed(words: str, folder: Path) -> list[str]:
    """What a real bash offers after these words; the last one is being typed."""
    typed = words.split(" ")
    setup = script("bash")
    function = re.findall(r"complete .*-F (\S+) sriov-agent", setup)[-1]
    asked = "\n".join(
        [
            setup,
            f"COMP_WORDS=({' '.join(repr(w) for w in typed)})",
            f"COMP_CWORD={len(typed) - 1}",
            "COMPREPLY=()",
            f"{function} sriov-agent '{typed[-1]}' '{typed[-2]}' >/dev/null",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        ]
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", asked], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_options_choices_and_files(tmp_path: Path) -> None:
    (tmp_path / "pools.json").touch()
    assert set(COMMANDS) <= set(completed("sriov-agent ", tmp_path))
    assert completed("sriov-agent val", tmp_path) == ["validate"]
    assert "--config-file" in completed("sriov-agent run --conf", tmp_path)
    assert completed("sriov-agent run --log-format j", tmp_path) == ["json"]
    assert "pools.json" in completed("sriov-agent discover --config-file po", tmp_path)


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_every_command_is_in_the_script(shell: str) -> None:
    text = script(shell)
    for name in COMMANDS:
        assert name in text


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_module_of_its_name(name: str) -> None:
    assert callable(import_module(f"agent.cli.{name}").command)
