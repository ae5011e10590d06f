"""Adds to an error of the system what an operator can do about it."""

from __future__ import annotations

import errno
from collections.abc import Mapping

_ADVICE = {
    errno.ENOSPC: "free some space, or some inodes (df, df -i)",
    errno.EDQUOT: "raise the quota, or free some space",
    errno.EIO: "the disk or its driver fails: check the kernel's log (dmesg)",
    errno.ESTALE: "the server replaced the file or folder: mount it again",
    errno.ELOOP: "a symbolic link in the path leads back to itself: remove or correct it",
    errno.EROFS: "mount it writable",
    errno.EACCES: "give the agent access: it runs as root in its own DaemonSet",
    errno.EPERM: "give the agent access: it runs as root in its own DaemonSet",
    errno.EMFILE: "raise the process's limit of open files (ulimit -n)",
    errno.ENFILE: "raise the machine's limit of open files (sysctl fs.file-max)",
}


def with_advice(error: BaseException, advice_by_errno: Mapping[int, str] = _ADVICE) -> str:
    """The error's text, followed by the advice for it or its cause, if there is one.

    ``advice_by_errno`` maps error numbers to advice, where numbers have a special meaning.
    """
    number = next((e.errno for e in (error, error.__cause__) if isinstance(e, OSError)), None)
    advice = advice_by_errno.get(number or 0)
    return f"{error}: {advice}" if advice else str(error)
