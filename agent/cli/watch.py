"""``watch``: the running agent's events, of every level, as they happen."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import Namespace
from pathlib import Path

from agent.admin.client import watch
from agent.cli.console import BAD, DIM, WARN, Screen
from agent.cli.inputs import roots_of
from agent.errors import NoAgentError
from agent.event_history import Entry
from agent.logs import stamp, text_value

_STYLES = {"debug": DIM, "warning": WARN, "error": BAD}


def command(arguments: Namespace) -> int:
    """Print events until interrupted, or until the agent stops after a stop signal.

    Raises NoAgentError if no agent runs, and if it ends without a stop signal.
    """
    asyncio.run(_follow(roots_of(arguments).run, arguments))
    return 0


async def _follow(folder: Path, arguments: Namespace) -> None:
    screen = Screen()
    newest = 0
    stopping = False
    try:
        async for entry in watch(folder, from_now=arguments.from_now):
            if newest and (missed := entry.number - newest - 1):
                print(f"... {missed} events were missed", file=sys.stderr)
            newest = entry.number
            stopping = stopping or entry.name == "agent.stopping"
            _show(entry, screen, as_json=arguments.json)
    except NoAgentError:
        if not stopping:
            raise
        print("the agent has stopped", file=sys.stderr)


def _show(entry: Entry, screen: Screen, *, as_json: bool) -> None:
    if as_json:
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
