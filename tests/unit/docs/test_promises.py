"""Every promise that the documentation makes names tests, and each of them exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("reliability.md", "security.md")
_NODE_ID = re.compile(r"`(tests/[^`:]+\.py)::(\w+)`")


def rows(page: str) -> list[str]:
    """The rows of a page's tables of promises or claims, without their heads."""
    found: list[str] = []
    is_inside = False
    for line in (ROOT / "docs" / page).read_text().splitlines():
        is_inside = line.startswith(("| promise |", "| claim |")) or (
            is_inside and line.startswith("|")
        )
        if is_inside and not line.startswith(("|---", "| promise |", "| claim |")):
            found.append(line)
    return found


@cache
def named_in(file: str) -> frozenset[str]:
    """Names of the tests of a file, in classes too."""
    tree = ast.parse((ROOT / file).read_text())
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    named = {n.name for n in functions}
    named |= {
        target.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign)  # a state machine's test is an assignment
        for target in n.targets
        if isinstance(target, ast.Name)
    }
    named |= {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
    return frozenset(named)


@pytest.mark.parametrize("page", PAGES)
def test_each_row_names_at_least_one_test(page: str) -> None:
    assert rows(page)
    assert [row for row in rows(page) if not _NODE_ID.search(row)] == []


@pytest.mark.parametrize("page", PAGES)
def test_each_test_that_is_named_exists(page: str) -> None:
    named = _NODE_ID.findall((ROOT / "docs" / page).read_text())
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).is_file() or test not in named_in(file)
    ]
    assert missing == []
