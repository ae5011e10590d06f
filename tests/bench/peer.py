"""Kubelet as a process of its own: gRPC's C library, each list told with the time it came.

``python tests/bench/peer.py FOLDER`` serves ``kubelet.sock`` in FOLDER and prints one JSON object
a line. Lists are not decoded, only counted in, so that what is measured is the agent.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from tests.support.protocol import handlers, message

_HEALTHY = b"\x12\x07Healthy"
_LOCAL = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
PATIENCE_S = 20.0


def raw_call(channel: grpc.Channel, method: str) -> Any:
    """A unary method of the device plugin, from bytes to bytes."""
    return channel.unary_unary(f"/v1beta1.DevicePlugin/{method}")


def connect(path: Path | str) -> grpc.Channel:
    """A channel to a plugin's socket."""
    return grpc.insecure_channel(f"unix:{path}", options=_LOCAL)


class Peer:
    """The process, and what it told so far; a context manager."""

    def __init__(self, device_plugins: Path) -> None:
        self._folder = device_plugins
        self._told = threading.Condition()
        self._newest: dict[str, dict[str, Any]] = {}
        self.lists = 0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.peer", str(self._folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            with self._told:
                self._newest.setdefault(said["resource"], {}).update(said)
                self.lists += "healthy" in said
                self._told.notify_all()

    def all_listed(self, resources: Sequence[str], healthy: int, since: float = 0.0) -> float:
        """Wait until each resource's newest list, later than ``since``, has so many healthy.

        Returns when the last of these lists came (seconds of the monotonic clock).
        """

        def arrived() -> bool:
            known = [self._newest.get(r, {}) for r in resources]
            return all(k.get("healthy") == healthy and k["at"] >= since for k in known)

        with self._told:
            if not self._told.wait_for(arrived, PATIENCE_S):
                known = {r: self._newest.get(r) for r in resources}
                raise AssertionError(f"kubelet waited in vain for {healthy} each: {known}")
            return max(float(self._newest[r]["at"]) for r in resources)

    def registered(self, resource: str) -> float:
        """When Register was called for a resource that is known."""
        return float(self._newest[resource]["registered"])

    def channel(self, resource: str) -> grpc.Channel:
        """A further channel to a resource's plugin."""
        return connect(self._folder / self._newest[resource]["endpoint"])


def _say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _register(folder: Path, request: Any) -> None:
    resource, endpoint = request.resource_name, request.endpoint
    _say(resource=resource, registered=time.monotonic(), endpoint=endpoint)
    channel = connect(folder / endpoint)
    raw_call(channel, "GetDevicePluginOptions")(b"", timeout=10)
    threading.Thread(target=_follow, args=(resource, channel), daemon=True).start()


def _follow(resource: str, channel: grpc.Channel) -> None:
    with suppress(grpc.RpcError):
        for encoded in channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")(b""):
            at = time.monotonic()
            _say(resource=resource, at=at, healthy=encoded.count(_HEALTHY), size=len(encoded))


def main(folder: Path) -> None:
    """Serve until killed."""

    def register(request: Any, _context: Any) -> Any:
        _register(folder, request)
        return message("v1beta1.Empty")()

    folder.mkdir(parents=True, exist_ok=True)
    for left_behind in filter(Path.is_socket, folder.iterdir()):
        left_behind.unlink()
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((handlers("v1beta1.Registration", {"Register": register}),))
    server.add_insecure_port(f"unix:{folder / 'kubelet.sock'}")
    server.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.wait_for_termination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
