"""The tests' own waiting: for a process that died nobody waits."""

from __future__ import annotations

import sys

import pytest

from tests.support.followed import FollowedProcess


def python(code: str) -> FollowedProcess:
    followed = FollowedProcess([sys.executable, "-uc", f"import sys, time\n{code}"])
    followed.patience_s = 600.0
    return followed


def test_waiting_for_a_process_that_ends_fails_at_once_with_its_status_and_last_output() -> None:
    with (
        python("print('last words', file=sys.stderr)\nsys.exit(3)") as process,
        pytest.raises(AssertionError, match="ended with status 3 without a sign:\nlast words"),
    ):
        process.wait_until_found("a sign", lambda: None)


def test_output_of_a_process_before_its_end_is_found() -> None:
    class Heard(FollowedProcess):
        said = ""

        def take(self, line: str) -> None:
            self.said += line

    with Heard([sys.executable, "-c", "import sys; print('a word', file=sys.stderr)"]) as process:
        process.process.wait()
        assert process.wait_until_found("it", lambda: process.said or None) == "a word\n"


def test_a_process_without_output_is_waited_for_up_to_the_limit() -> None:
    with python("time.sleep(600)") as process:
        process.patience_s = 0.01
        with pytest.raises(AssertionError, match=r"ran for 0\.01 s without a sign"):
            process.wait_until_found("a sign", lambda: None)
        process.patience_s = 600.0
