"""The limits that docs/reliability.md names are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from agent.http.places import Limits

PAGE = Path(__file__).parents[3] / "docs/reliability.md"


def test_the_page_names_the_limits_of_http() -> None:
    (row,) = re.findall(
        r"^\| HTTP: a request's head;.*?\| (.*?) \|", PAGE.read_text(), re.MULTILINE
    )
    limits = Limits()
    named = (limits.head_s, limits.idle_s, limits.write_s, limits.linger_s)
    assert row == "; ".join(f"{seconds:g} s" for seconds in named)
