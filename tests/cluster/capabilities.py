"""Which capabilities there are, and which the kernel refused (tracepoint cap_capable, 6.14)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

# uapi linux/capability.h, in the order of their numbers.
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER"),
    *("FSETID", "KILL", "SETGID", "SETUID"),
    *("SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST"),
    *("NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE"),
    *("SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD"),
    *("LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM"),
    *("BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    *("CHECKPOINT_RESTORE",),
)
_EVENT = "events/capability/cap_capable"
_LINE = re.compile(r"-\d+ +\( *(\d+)\) .* cap (\d+), ret (-?\d+)$", re.MULTILINE)


def bounding() -> frozenset[str]:
    """The capabilities that this machine can give to a container."""
    status = Path("/proc/self/status").read_text("ascii")
    mask = int(status.partition("CapBnd:")[2].split()[0], 16)
    return frozenset(name for bit, name in enumerate(CAPABILITIES) if mask >> bit & 1)


@attrs.frozen
class Refusals:
    """The kernel's record of capabilities that were asked for and not there, on all the machine."""

    _trace: Path

    def of(self, process: int) -> frozenset[str]:
        """What a process, all its threads together, was refused."""
        lines = _LINE.findall(self._trace.joinpath("trace").read_text("utf-8", errors="replace"))
        asked = {int(number) for pid, number, _ in lines if int(pid) == process}
        return frozenset(CAPABILITIES[number] for number in asked)


@contextmanager
def refusals() -> Iterator[Refusals | None]:
    """Record until the end of the block, in an instance of its own; None if the kernel cannot."""
    with TemporaryDirectory(prefix="tracefs-") as folder:
        mount = ["mount", "-t", "tracefs", "tracefs", folder]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            yield None
            return
        try:
            if not Path(folder, _EVENT).is_dir():
                yield None
                return
            instance = Path(folder, "instances", Path(folder).name)
            instance.mkdir()
            try:
                yield _recording(instance)
            finally:
                instance.rmdir()
        finally:
            subprocess.run(["umount", folder], check=True)


def _recording(instance: Path) -> Refusals:
    settings = {
        "buffer_size_kb": "8192",
        "options/record-tgid": "1",
        f"{_EVENT}/filter": "ret != 0",
        f"{_EVENT}/enable": "1",
    }
    for name, value in settings.items():
        (instance / name).write_text(value, encoding="ascii")
    return Refusals(instance)
