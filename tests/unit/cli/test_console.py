from __future__ import annotations

import io
import os
import pty
import re

import pytest
from rich.text import Text

from agent.cli.console import Screen, ago, clock, health, styled

ESCAPE = "\x1b["
ROWS = (("0000:3b:00.0", styled("well", "green")), ("x", "a long last cell that is never cut"))


def piped() -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    return Screen(out), out


class Terminal:
    """A terminal of some width; what was printed to it comes from ``text``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        self._read, write = pty.openpty()
        self._out = os.fdopen(write, "w", encoding="utf-8")

    def screen(self) -> Screen:
        return Screen(self._out)

    def text(self) -> str:
        """What was printed, with plain line ends."""
        self._out.flush()
        text = os.read(self._read, 100_000).decode().replace("\r\n", "\n")
        self._out.close()
        os.close(self._read)
        return text


def test_in_a_pipe_columns_are_aligned_and_complete_without_escape_sequences() -> None:
    screen, out = piped()
    screen.line("head", "bold")
    screen.table(("DEVICE", "STATE"), ROWS)
    assert out.getvalue() == (
        "head\n"
        "DEVICE        STATE\n"
        "0000:3b:00.0  well\n"
        "x             a long last cell that is never cut\n"
    )


def test_on_a_terminal_there_are_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, 100)
    terminal.screen().table(("DEVICE", "STATE"), ROWS)
    assert ESCAPE in terminal.text()


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, 100)
    monkeypatch.setenv("NO_COLOR", "1")
    screen = terminal.screen()
    screen.line("red?", "red")
    screen.table(("DEVICE", "STATE"), ROWS)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", terminal.text())


def test_a_narrow_terminal_wraps_cells_and_omits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, 30)
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.screen().table(("DEVICE", "STATE"), ROWS)
    text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text())
    assert max(map(len, text.splitlines())) <= 30
    words = " ".join(text.split())
    assert "a long last cell" in words.replace(" x ", " ")
    assert "0000:3b:00.0" in words


def test_markup_in_names_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, 100)
    terminal.screen().line("[red]name[/red]")
    assert "[red]name[/red]" in terminal.text()


def test_characters_that_the_encoding_does_not_have_are_escaped() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="\n")
    Screen(out).table(("é", "→"), [("ü", "x")])
    out.seek(0)
    assert out.read().startswith("\\xe9")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (86400 * 2, "2d"), (-5, "0s")],
)
def test_ages_are_short(seconds: float, text: str) -> None:
    assert ago(1000.0, 1000.0 + seconds) == text


def test_an_unknown_age_is_a_dash() -> None:
    assert ago(None, 5.0) == ago(0.0, 5.0) == "-"


def test_a_time_is_formatted_as_in_the_log() -> None:
    assert clock(1_700_000_000) == "2023-11-14T22:13:20Z"


def test_health_has_a_colour_and_none_is_a_dash() -> None:
    assert health("Unhealthy") == Text("Unhealthy", style="red")
    assert str(health("")) == "-"
