from __future__ import annotations

import errno
import os

import pytest

from agent.errno_advice import with_advice
from agent.errors import KubeletUnavailableError


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EROFS, "mount it writable"),
        (errno.EMFILE, "raise the process's limit of open files"),
    ],
)
def test_an_error_of_the_system_is_logged_with_advice(number: int, remedy: str) -> None:
    error = OSError(number, os.strerror(number), "/run/agent")
    assert with_advice(error).startswith(f"{error}: {remedy}")


def test_the_advice_for_the_cause_of_an_error_is_logged_too() -> None:
    error = KubeletUnavailableError("no socket")
    error.__cause__ = OSError(errno.ENOSPC, "full")
    assert with_advice(error) == "no socket: free some space, or some inodes (df, df -i)"


def test_an_error_without_known_advice_is_logged_unchanged() -> None:
    assert with_advice(OSError(errno.ENOENT, "gone")) == "[Errno 2] gone"
    assert with_advice(ValueError("odd")) == "odd"
