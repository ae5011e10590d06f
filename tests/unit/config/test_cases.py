from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

import pytest

from agent.cli.validate import run_validate

CASES = Path(__file__).resolve().parents[2] / "cases"
INPUTS = sorted(p.name for p in CASES.iterdir() if p.suffix != ".txt" and p.name != "README.md")


def expectation(name: str) -> Path:
    return CASES / f"{name}.expected.txt"


def validated(name: str) -> str:
    """What validate prints of a case, from inside its folder, and the exit code."""
    out = io.StringIO()
    code = run_validate(Path(name), default_prefix="intel.com", out=out)
    return f"{out.getvalue()}exit {code}\n"


@pytest.mark.parametrize("name", INPUTS)
async def test_validate_has_the_expected_output_for_each_case(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CASES)
    # In a thread, since validate has a loop of its own.
    assert await asyncio.to_thread(validated, name) == expectation(name).read_text()


def test_every_expectation_belongs_to_a_case() -> None:
    assert {p.name for p in CASES.glob("*.txt")} == {expectation(n).name for n in INPUTS}


if __name__ == "__main__":
    os.chdir(CASES)
    for case in INPUTS:
        expectation(case).write_text(validated(case))
