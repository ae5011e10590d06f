"""Changelog fragments: each is of a known kind, says something, and gets into the changelog.

Whether a change has one can be told only against where it shall land: SRIOV_AGENT_BASE names that
revision, else it is the remote's main branch. A clone without either has nothing to compare with.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.release.artifacts import REPOSITORY, run

SETTINGS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["towncrier"]
FOLDER = REPOSITORY / SETTINGS["directory"]
KINDS = tuple(kind["directory"] for kind in SETTINGS["type"])
_NAME = re.compile(rf"\+[a-z0-9-]+\.(?:{'|'.join(KINDS)})\.md")
_WITHOUT_NEWS = re.compile(r"tests/|docs/|\.ci/|changelog\.d/|CHANGELOG\.md|tox\.ini|\.[a-z]")


def fragments() -> list[Path]:
    return sorted(p for p in FOLDER.iterdir() if p.name != "README.md")


def test_each_fragment_has_a_name_that_towncrier_knows() -> None:
    assert [p.name for p in fragments() if not _NAME.fullmatch(p.name)] == []


def test_each_fragment_is_a_few_whole_sentences() -> None:
    for path in fragments():
        text = path.read_text()
        assert re.fullmatch(r"[A-Z`].{15,600}\.\n", text, re.DOTALL), path.name


def test_all_fragments_are_added_to_the_changelog_and_nothing_is_lost(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(REPOSITORY / name, tmp_path)
    shutil.copytree(FOLDER, tmp_path / FOLDER.name)
    (tmp_path / FOLDER.name / "+tried-here.added.md").write_text("A fragment of this test.\n")
    run("git", "init", "--quiet", cwd=tmp_path)
    command = ("towncrier", "build", "--yes", "--version", "99.0.0", "--date", "2030-01-01")
    run(sys.executable, "-m", *command, cwd=tmp_path)
    made = (tmp_path / "CHANGELOG.md").read_text()
    head, marker, before = (
        (REPOSITORY / "CHANGELOG.md").read_text().partition(SETTINGS["start_string"])
    )
    assert made.startswith(f"{head}{marker}\n## 99.0.0 (2030-01-01)\n")
    assert made.endswith(before)
    words = re.sub(r"\s+", " ", made)
    for path in (*fragments(), tmp_path / "x"):
        text = path.read_text() if path.exists() else "A fragment of this test."
        assert re.sub(r"\s+", " ", text).strip() in words
    assert not [p for p in (tmp_path / FOLDER.name).iterdir() if p.name != "README.md"]


def test_a_change_of_the_agent_or_the_chart_has_a_fragment() -> None:
    base = _base()
    changed = _git("diff", "--name-only", "--diff-filter=d", f"{base}...HEAD").split()
    news = [name for name in changed if not _WITHOUT_NEWS.match(name)]
    if news:
        assert [n for n in changed if n.startswith(f"{FOLDER.name}/+") or n == "CHANGELOG.md"], (
            f"no fragment in {FOLDER.name}/ tells of {', '.join(news)} (see docs/releasing.md)"
        )


def _base() -> str:
    """The revision to compare with; skips where there is none."""
    for revision in filter(
        None, (os.environ.get("SRIOV_AGENT_BASE"), "origin/HEAD", "origin/main")
    ):
        if found := _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip():
            return found
    pytest.skip("this clone has no remote to compare with, and SRIOV_AGENT_BASE is not set")


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    return done.stdout
