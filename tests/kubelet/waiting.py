"""Waiting for what other programs do: they are asked until they give the answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_PAUSE_S = 0.05


def eventually(
    ask: Callable[[], T | None],
    what: str,
    within_s: float = 60,
    passing: tuple[type[Exception], ...] = (),
    tell: Callable[[], object] = str,
) -> T:
    """The first answer that is neither None nor False.

    Errors of the kinds `passing` count as no answer yet. The limit is for a machine in trouble and
    says nothing of speed; when it is reached, `tell` gives what the error should add.
    """
    end = time.monotonic() + within_s
    last: object = None
    while time.monotonic() < end:
        try:
            answer = ask()
        except passing as error:
            last = error
        else:
            if answer is not None and answer is not False:
                return answer
            last = answer
        time.sleep(_PAUSE_S)
    raise TimeoutError(f"not within {within_s} s: {what} (last: {last})\n{tell()}")
