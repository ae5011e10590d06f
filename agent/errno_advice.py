"""What an operator can do about an error of the system: said with the error, once."""

from __future__ import annotations

import errno
from collections.abc import Mapping

_REMEDIES = {
    errno.ENOSPC: "free some space, or some inodes (df, df -i)",
    errno.EDQUOT: "raise the quota, or free some space",
    errno.EIO: "the disk or its driver fails: look at the kernel's log (dmesg)",
    errno.ESTALE: "its server replaced it: mount it again",
    errno.ELOOP: "a symbolic link there leads back to itself: remove or mend it",
    errno.EROFS: "mount it writable",
    errno.EACCES: "give the agent access: it runs as root in its own DaemonSet",
    errno.EPERM: "give the agent access: it runs as root in its own DaemonSet",
    errno.EMFILE: "raise the process's limit of open files (ulimit -n)",
    errno.ENFILE: "raise the machine's limit of open files (sysctl fs.file-max)",
}


def with_advice(error: BaseException, remedies: Mapping[int, str] = _REMEDIES) -> str:
    """The error's own text, with the remedy behind it if one is known for it or its cause.

    ``remedies`` are by error number, for where a number means something of its own.
    """
    number = next((e.errno for e in (error, error.__cause__) if isinstance(e, OSError)), None)
    remedy = remedies.get(number or 0)
    return f"{error}: {remedy}" if remedy else str(error)
