"""Signals that stop the process: before the event loop handles them, and after the first one.

The kernel drops a signal for process 1 of a PID namespace, which a container's first process is,
while its action is the default one (signal(7), pid_namespaces(7)); imports take a few hundred
milliseconds. So this module is the first that the command imports, and it imports next to nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""The first asks the running agent to stop, with exit code 0; the second ends it at once."""
_received: list[signal.Signals] = []


def listen_early(argv: list[str]) -> None:
    """Act on stop signals from now on; ``argv`` is the command line without the program's name.

    The agent itself ends with 0, and passes over SIGHUP, since it has yet to read its
    configuration. Any other command ends as the shell counts it (128 + number), but removes its
    temporary files first; SIGINT stays Python's KeyboardInterrupt. A signal that was blocked
    until now, by the container's entry point, comes through here.
    """
    if not argv or argv[0].startswith("-") or argv[0] == "run":
        sys.unraisablehook = _report_unraisable
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in STOP_SIGNALS:
            signal.signal(number, _stop_agent)
    else:
        for number in (signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, _stop_command)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*STOP_SIGNALS, signal.SIGHUP))


def received_early() -> signal.Signals | None:
    """The first stop signal that came before the event loop listened; None = there was none.

    Asked once the loop listens: the SystemExit of a signal that came while Python ran a destructor
    has been passed over.
    """
    return _received[0] if _received else None


def end_at_next_signal() -> None:
    """Let the next stop signal end the process at once; for the time after the first one.

    The handler runs also while a call blocks the event loop. It closes nothing and logs nothing.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, end_process)


def end_process(number: int, _frame: FrameType | None = None) -> NoReturn:
    """End the process at once, with the exit code that a shell reports for the signal."""
    os._exit(128 + number)


def _stop_agent(number: int, frame: FrameType | None) -> NoReturn:
    if _received:
        end_process(number, frame)
    _received.append(signal.Signals(number))
    raise SystemExit(0)


def _report_unraisable(ignored: UnraisableHookArgs) -> None:
    """Report what Python cannot raise, unless a stop signal came early.

    Then it is the SystemExit of the signal itself, or the destructor of something that the signal
    left half made, such as an event loop.
    """
    if not _received:
        sys.__unraisablehook__(ignored)


def _stop_command(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
