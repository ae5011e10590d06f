"""One running virtual machine: starts it, listens to it, and ends it."""

from __future__ import annotations

import json
import os
import selectors
import shlex
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs

from . import debian, initramfs, qemu
from .cache import cache_folder
from .qemu import Machine
from .wiring import IN_GUEST, MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TAIL_LINES = 60
# QEMU warns of what is wanted: the NICs' cables lead nowhere, and the older QEMU has no other word
# for a monitor.
_NO_NEWS = ("is not connected to host network", "'-mon' is deprecated")

# The kernel kills the machine when its owner is gone; an owner that was gone before the kernel
# was asked is no longer the parent.
_BOUND_TO_PARENT = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("sh", "-c", 'test "$PPID" = "$0" && exec "$@"'),
)

# PID 1 of the guest once the root is in place. The sleep keeps it alive until the power is off.
_START = """\
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TMPDIR=/run/tmp HOME={home} {environ}
cd {folder}
echo "tests start at $(cut -d' ' -f1 /proc/uptime) s"
{words}
echo $? >/run/results/status
dmesg >/run/results/dmesg
echo "power off at $(cut -d' ' -f1 /proc/uptime) s"
echo o >/proc/sysrq-trigger
sleep 60
"""


Furnish = Callable[[Path, debian.Packages, Callable[[str], None]], tuple[Machine, dict[str, str]]]
"""From the cache, the packages and a voice: a machine, and variables of its guest."""


def plain(*_: object) -> tuple[Machine, dict[str, str]]:
    """A machine with its NICs and nothing else."""
    return Machine(), {}


@attrs.define
class Guest:
    """A virtual machine that runs one command and powers itself off.

    Leaving the context kills it if it still runs; it also dies with this process, however that
    ends. `results` is the folder it writes to: `console`, `status` (the command's exit status)
    and `dmesg`, and whatever the command leaves in its /run/results.
    """

    results: Path
    _process: subprocess.Popen[bytes]
    _reports: socket.socket
    _limit_s: float
    _echo: Callable[[str], None]
    tail: deque[str] = attrs.field(factory=lambda: deque(maxlen=_TAIL_LINES))
    overran: bool = False
    _started: float = attrs.field(factory=time.monotonic)

    @classmethod
    def booted(
        cls,
        command: list[str],
        *,
        environ: Mapping[str, str],
        folder: Path,
        results: Path,
        limit_s: float,
        echo: Callable[[str], None],
        furnish: Furnish = plain,
    ) -> Self:
        """Boot, and run `command` in `folder`, a path of the host, for at most `limit_s`."""
        cache = cache_folder()
        if not debian.present(cache):
            echo(f"QEMU and a kernel (145 MB) are being fetched from Debian into {cache}")
        packages = debian.unpacked(cache)
        machine, further = furnish(cache, packages, echo)
        archive = initramfs.built(cache, packages, machine)
        variables = {IN_GUEST: "1", MODULES: str(packages.modules), **environ, **further}
        start = _START.format(
            home=shlex.quote(str(Path.home())),
            environ=shlex.join(f"{name}={value}" for name, value in variables.items()),
            folder=shlex.quote(str(folder)),
            words=shlex.join(command),
        )
        (results / "start.sh").write_text(start, encoding="utf-8")
        ours, theirs = socket.socketpair()
        monitor, guest = socket.socketpair()
        with theirs, monitor, guest:
            channels = qemu.Channels(monitor.fileno(), guest.fileno(), theirs.fileno())
            words = qemu.command(packages, archive, results, machine, channels)
            process = subprocess.Popen(
                [*_BOUND_TO_PARENT, str(os.getpid()), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=attrs.astuple(channels),
            )
        return cls(results, process, ours, limit_s, echo)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reports.close()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The process that is the machine."""
        return self._process.pid

    @property
    def age_s(self) -> float:
        """Seconds since the power was switched on."""
        return time.monotonic() - self._started

    @property
    def aborted(self) -> bool:
        """Whether the emulator found a fault of its own; to be asked when the messages are over."""
        return self._process.wait() == -signal.SIGABRT

    @property
    def status(self) -> int | None:
        """The command's exit status; None if it did not come to its end."""
        path = self.results / "status"
        return int(path.read_text(encoding="ascii")) if path.exists() else None

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the guest sends through its port for reports, until the machine is off.

        What it writes to its console is echoed on the way, and kept in `results/console`.
        """
        with (self.results / "console").open("wb") as log:
            for source, line in self._lines():
                if source == self._reports.fileno():
                    yield json.loads(line)
                else:
                    log.write(line + b"\n")
                    self._say(line.decode(errors="replace").rstrip())

    def _say(self, line: str) -> None:
        if not any(words in line for words in _NO_NEWS):
            self.tail.append(line)
            self._echo(line)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        console = self._process.stdout
        assert console is not None
        unfinished = {console.fileno(): b"", self._reports.fileno(): b""}
        with selectors.DefaultSelector() as selector:
            for source in unfinished:
                selector.register(source, selectors.EVENT_READ)
            while selector.get_map():
                left_s = self._limit_s - self.age_s
                if left_s <= 0 and not self.overran:
                    self.overran = True
                    self._process.kill()
                for key, _ in selector.select(None if self.overran else left_s):
                    chunk = os.read(key.fd, 65536)
                    if not chunk:
                        selector.unregister(key.fd)
                        chunk = b"\n" if unfinished[key.fd] else b""
                    *lines, unfinished[key.fd] = (unfinished[key.fd] + chunk).split(b"\n")
                    for line in lines:
                        yield key.fd, line
