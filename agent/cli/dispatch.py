"""Runs the command of a command line, and converts its outcome to an exit code.

Exit codes: 0 success, or stopped by a signal; 1 failure; 2 invalid configuration or arguments. Only
the modules that the command uses are imported.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn, TextIO

from agent.errors import AgentError
from agent.startup import import_leanly


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and end the process with its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, _nowhere())
    code = run(sys.argv[1:] if argv is None else argv)
    sys.stderr.flush()
    if any(thread.daemon for thread in threading.enumerate()):
        if host := sys.modules.get("agent.cli.inputs"):
            host.remove_unpacked()
        os._exit(code)  # a read that hangs in a driver must not hold up the end of the process
    sys.exit(code)


def run(argv: Sequence[str]) -> int:
    """Run a command line and return its exit code; an expected error is printed as one message."""
    try:
        code = _dispatch(argv)
        sys.stdout.flush()
    except AgentError as error:
        _say(error)
        return error.exit_code
    except BrokenPipeError:
        sys.stdout = _nowhere()  # the reader of the pipe, such as head, has ended
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        sys.stdout = _nowhere()
        _say(AgentError(f"the output cannot be written: {error.strerror}"))
        return AgentError.exit_code
    except KeyboardInterrupt:
        return 0
    return code


def _nowhere() -> TextIO:
    return open(os.devnull, "w")  # noqa: PTH123 - for the rest of the process


def _say(error: AgentError) -> None:
    print(f"sriov-agent: {error}", file=sys.stderr)


def _dispatch(argv: Sequence[str]) -> int:
    """Run the command: ``command`` of the module of agent.cli that has the command's name."""
    with import_leanly():
        from agent.cli.arguments import parse  # noqa: PLC0415 - inside, for lean imports

        arguments = parse(argv)
        module = import_module(f"agent.cli.{arguments.command}")
    code: int = module.command(arguments)
    return code
