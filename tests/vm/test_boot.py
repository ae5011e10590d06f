"""A guest ends when it must, and nothing of it stays; these guests are ended before they boot."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .boot import Guest
from .relay import obstacle

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))

# A process that boots a guest, tells its number, and waits for the end.
_OWNER = """
import sys
from pathlib import Path
from tests.vm.boot import Guest
guest = Guest.booted(
    ["true"], environ={}, folder=Path("/"), results=Path(sys.argv[1]), limit_s=60, echo=print
)
print(guest.pid, flush=True)
sys.stdin.read()
"""


def _booted(results: Path, limit_s: float) -> Guest:
    return Guest.booted(
        ["true"], environ={}, folder=Path("/"), results=results, limit_s=limit_s, echo=print
    )


def test_a_guest_that_exceeds_its_time_limit_is_ended(tmp_path: Path) -> None:
    with _booted(tmp_path, limit_s=0.5) as guest:
        assert list(guest.messages()) == []
        assert guest.overran
        assert guest.status is None
        assert not guest.aborted


def test_an_emulator_that_aborts_is_distinguished_from_one_that_was_ended(tmp_path: Path) -> None:
    with _booted(tmp_path, limit_s=60) as guest:
        os.kill(guest.pid, signal.SIGABRT)
        assert list(guest.messages()) == []
        assert guest.aborted
        assert not guest.overran


def test_leaving_the_context_ends_the_guest(tmp_path: Path) -> None:
    with _booted(tmp_path, limit_s=60) as guest:
        process = os.pidfd_open(guest.pid)
    assert select.select([process], [], [], 0)[0]
    os.close(process)


def test_a_guest_does_not_outlive_a_killed_owner(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _OWNER, str(tmp_path)]
    with subprocess.Popen(
        words,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        guest = os.pidfd_open(int(owner.stdout.readline()))
        owner.send_signal(signal.SIGKILL)
        assert select.select([guest], [], [], 10)[0]
        os.close(guest)
