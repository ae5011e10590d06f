"""The node's private namespaces (mount, network, process): what runs inside leaves no trace.

Kubelet insists on places that belong to the whole machine: /var/lib/kubelet/device-plugins,
/var/log/pods, sysctls, ports. Inside, all of these are private; see `namespace.sh`.
"""

from __future__ import annotations

import ctypes
import http.client
import os
import signal
import socket
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

import attrs

from .waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

NODE_ADDRESS = "192.0.2.10"  # TEST-NET-1 of RFC 5737
_SCRIPT = Path(__file__).with_suffix(".sh")
_CLONE_NEWNET = 0x40000000  # <linux/sched.h>; Python 3.11 has no os.setns


@attrs.define
class Program:
    """A running program inside the namespaces; what it prints goes to `log`."""

    name: str
    log: Path
    _entered: subprocess.Popen[bytes]  # nsenter, which waits for the program
    _pid: int  # the program, as the host counts

    @property
    def running(self) -> bool:
        return self._entered.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the program."""
        if self.running:
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(self._pid, number)

    def stop(self, number: signal.Signals = signal.SIGTERM, within_s: float = 20) -> int:
        """End the program, by SIGKILL if it does not heed the signal; its exit status."""
        self.send(number)
        try:
            return self._entered.wait(within_s)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            return self._entered.wait()

    def log_tail(self, lines: int = 20) -> str:
        """The end of what the program printed."""
        return "\n".join(self.log.read_text("utf-8", errors="replace").splitlines()[-lines:])


class Namespace:
    """Open namespaces. Use as a context manager: the end of the block ends all that ran inside."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._disk = TemporaryDirectory(prefix="node-", dir=logs)
        self._first: subprocess.Popen[bytes] = subprocess.Popen(
            [
                *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"),
                *("--propagation", "private", "--mount-proc", "sh", str(_SCRIPT)),
            ],
            env={**os.environ, "NODE_ADDRESS": NODE_ADDRESS, "NODE_DISK": self._disk.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        assert self._first.stdout is not None
        if self._first.stdout.readline() != b"ready\n":
            self.close()
            raise RuntimeError("the namespaces could not be laid out: see the messages above")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process inside, and drop what they kept on the disk."""
        self._first.communicate()
        self._disk.cleanup()

    def path(self, inside: str | Path) -> Path:
        """The path by which this process reaches a file of the node."""
        return Path(f"/proc/{self._first.pid}/root{inside}")

    def command(self, *command: str | Path) -> list[str]:
        """The command line that runs `command` inside."""
        of = f"/proc/{self._first.pid}/ns"
        return [
            *("nsenter", f"--mount={of}/mnt", f"--net={of}/net", f"--pid={of}/pid_for_children"),
            *map(str, command),
        ]

    def run(self, *command: str | Path, environ: Mapping[str, str] | None = None) -> str:
        """Run a command to its end; what it printed. A failure is an error that tells all."""
        done = subprocess.run(
            self.command(*command),
            env={**os.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def start(
        self, name: str, *command: str | Path, environ: Mapping[str, str] | None = None
    ) -> Program:
        """Start a program that stays. A second start under the same name adds to the same log."""
        log = self.logs / f"{name}.log"
        with log.open("ab") as output:
            entered = subprocess.Popen(
                self.command(*command),
                env={**os.environ, **(environ or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        children = Path(f"/proc/{entered.pid}/task/{entered.pid}/children")

        def child() -> int | None:
            if entered.poll() is not None:
                raise RuntimeError(f"{name} did not start:\n{log.read_text('utf-8')}")
            return next(map(int, children.read_text("ascii").split()), None)

        pid = eventually(child, f"{name} starts", passing=(FileNotFoundError,))
        return Program(name, log, entered, pid)

    def bind(self, source: Path, target: str) -> None:
        """Show `source`, a path of the host or the node, at `target` of the node as well."""
        self.run("mkdir", "-p", target)
        self.run("mount", "--bind", source, target)

    def device_node(self, name: str) -> str:
        """Make a character device at /dev/<name> that reads as empty, like /dev/null; its path."""
        inside = f"/dev/{name}"
        node = self.path(inside)
        node.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(node, stat.S_IFCHR, Path("/dev/null").stat().st_rdev)
        node.chmod(0o666)
        return inside

    def http(self, path: str, port: int, host: str = "127.0.0.1") -> bytes:
        """The body of a GET; an answer other than 200 is a ConnectionError that tells it."""
        connection = http.client.HTTPConnection(host, port)
        connection.sock = self._socket()
        try:
            connection.sock.settimeout(10)
            connection.sock.connect((host, port))
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise ConnectionError(f"{path}: {answer.status} {body.decode(errors='replace')}")
        return body

    def _socket(self) -> socket.socket:
        """A TCP socket that belongs to the node's network, usable from any thread."""

        def make() -> socket.socket:
            with Path(f"/proc/{self._first.pid}/ns/net").open("rb") as network:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(network.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

        # setns moves one thread, and this one ends with the block.
        with ThreadPoolExecutor(max_workers=1) as moved:
            return moved.submit(make).result()
