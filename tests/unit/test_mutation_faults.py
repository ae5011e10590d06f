from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.faults import faults_of
from tests.mutation.targets import TESTS

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("x = a < b", {"x = a <= b", "x = a >= b"}),
        ("x = a is not b", {"x = a is b"}),
        ("x = a in b", {"x = a not in b"}),
        ("x = a and b", {"x = a or b"}),
        ("x = not a", {"x = a"}),
        ("x = True", {"x = False"}),
        ("x = 10.0", {"x = 20.0"}),
        ("x = (a) + b", {"x = (a) - b"}),
        ("f(a)", {"pass"}),
        ("while a:\n    break", {"while (not (a)):\n    break", "while a:\n    pass"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
    ],
)
def test_each_kind_of_fault_is_one_change(source: str, changed: set[str]) -> None:
    made = {f.applied(source.encode()).decode() for f in faults_of("f.py", source.encode())}
    assert made - {"pass"} == changed - {"pass"}
    assert ("pass" in made) == (not source.startswith(("while", "def")))


@pytest.mark.parametrize(
    "source", ["import a", "x: int | None", '"""Text."""', "logs.emit('a', b=1 + 2)"]
)
def test_code_without_behaviour_gets_no_fault(source: str) -> None:
    assert faults_of("f.py", source.encode()) == ()


def test_the_files_and_the_tests_that_must_find_their_faults_exist() -> None:
    for file, tests in TESTS.items():
        assert (REPOSITORY / file).is_file()
        assert all((REPOSITORY / test).exists() for test in tests)
