"""``watch``: the running agent's events, of every level, as they happen."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import Namespace
from pathlib import Path

from agent.admin.client import watch
from agent.cli.host import roots_of
from agent.cli.screen import BAD, DIM, WARN, Screen
from agent.journal import Entry
from agent.logs import stamp, text_value

_STYLES = {"debug": DIM, "warning": WARN, "error": BAD}


def command(arguments: Namespace) -> int:
    """Follow until interrupted, or until the agent ends. Raises NoAgentError."""
    asyncio.run(_follow(roots_of(arguments).run, arguments))
    return 0


async def _follow(folder: Path, arguments: Namespace) -> None:
    screen = Screen()
    newest = 0
    async for entry in watch(folder, from_now=arguments.from_now):
        if newest and entry.number > newest + 1:
            screen.line(f"... {entry.number - newest - 1} events were missed", WARN)
        newest = entry.number
        if arguments.json:
            sys.stdout.write(json.dumps(document(entry)) + "\n")
        else:
            screen.line(line(entry), _STYLES.get(entry.level, ""))
        sys.stdout.flush()


def document(entry: Entry) -> dict[str, object]:
    """An event as the JSON log writes it."""
    head = {"time": stamp(entry.time_s), "level": entry.level, "event": entry.name}
    return {**head, **entry.fields}


def line(entry: Entry) -> str:
    """An event as the text log writes it."""
    pairs = "".join(f" {key}={text_value(value)}" for key, value in entry.fields.items())
    return f"{stamp(entry.time_s)} {entry.level.upper():<7} {entry.name}{pairs}"
