"""``completion``: a script that lets a shell complete commands, options and files."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator

import shtab

from agent.cli.arguments import build_parser

_PLACES = {"FILE": shtab.FILE, "FILE.tar.gz": shtab.FILE, "DIR": shtab.DIRECTORY}
"""Metavar of a value -> how the shell completes it."""


def command(arguments: Namespace) -> int:
    """Print the script for the shell that was named."""
    sys.stdout.write(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    """The whole script, made from the parser of all commands."""
    parser = build_parser()
    for command_parser in _parsers(parser):
        for action in command_parser._actions:  # noqa: SLF001 - argparse has no public way
            if isinstance(action.metavar, str) and action.metavar in _PLACES:
                action.complete = _PLACES[action.metavar]  # type: ignore[attr-defined] # shtab's
    return str(shtab.complete(parser, shell=shell))


def _parsers(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    yield parser
    for action in parser._actions:  # noqa: SLF001 - as above
        if isinstance(action, _SubParsersAction):
            yield from action.choices.values()
