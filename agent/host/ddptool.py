"""The optional program ``ddptool``: DDP profiles of Intel 700 series NICs without devlink."""

from __future__ import annotations

import json
import subprocess

_PROGRAM = "ddptool"
_TIMEOUT_S = 5.0


def program() -> str | None:
    """The path of the program; None if it is not installed."""
    from shutil import which  # noqa: PLC0415 - it imports all compression modules

    return which(_PROGRAM)


def profile(path: str, bdf: str) -> str | None:
    """The profile that is loaded on one PF; None without a profile, or if the program fails."""
    try:
        answer = subprocess.run(  # noqa: S603 - a fixed program; the address is a parsed one
            [path, "-l", "-a", "-j", "-s", bdf],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse(answer.stdout)


def parse(output: bytes) -> str | None:
    """The profile's name in the program's JSON; None without a profile (exit code 8)."""
    try:
        name = json.loads(output)["DDPInventory"]["DDPpackage"]["name"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return str(name) or None
