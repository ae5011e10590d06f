"""A stand-in for kubelet's device manager, on the C library of gRPC, in threads of its own.

It behaves as the real one where plugins can tell: Register dials back before it answers, a lost
stream is never opened again, a late end of an old stream stops the newest endpoint, starting
sweeps the folder, the plugin watcher dials what it finds and backs off for each path.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs
import grpc

from tests.support.protocol import handlers, message, stub

PATIENCE_S = 20.0
_LOCAL = (("grpc.use_local_subchannel_pool", 1),)
_MODEST = (*_LOCAL, ("grpc.http2.bdp_probe", 0))
"""What one stream may send before its reader reads on stays as HTTP/2 begins: 64 KiB."""
_SCAN_S = 0.005


@attrs.frozen
class Device:
    """One device of a list as kubelet got it."""

    id: str
    healthy: bool
    numa_nodes: tuple[int, ...] = ()


@attrs.frozen
class Registration:
    """One accepted registration."""

    resource: str
    endpoint: str
    way: str
    preference: bool


class Endpoint:
    """A connection to one plugin socket."""

    def __init__(self, resource: str, path: Path) -> None:
        self.resource = resource
        self.path = path
        self.channel = grpc.insecure_channel(f"unix:{path}", options=_MODEST)
        self.stream: Any = None
        self.lists: list[tuple[Device, ...]] = []
        self.ended = False

    def call(self, method: str, request: Any, timeout_s: float = 10.0) -> Any:  # noqa: ANN401
        """Call a method of the device plugin."""
        return stub(self.channel, "v1beta1.DevicePlugin", method)(request, timeout=timeout_s)

    def close(self) -> None:
        """Hang up."""
        self.channel.close()


class Kubelet:
    """Serves kubelet.sock and, if asked to, follows plugins_registry. Use as a context manager."""

    def __init__(self, kubelet_dir: Path, *, watcher: bool = False) -> None:
        self.device_plugins = kubelet_dir / "device-plugins"
        self.plugins_registry = kubelet_dir / "plugins_registry"
        self._watches = watcher
        self._changed = threading.Condition()
        self._server: Any = None
        self._scanner: threading.Thread | None = None
        self._stopping = threading.Event()
        self.clients: dict[str, Endpoint] = {}
        self.stopped: set[str] = set()
        self.endpoints: list[Endpoint] = []
        self.registrations: list[Registration] = []
        self.lists: list[tuple[str, tuple[Device, ...]]] = []
        self.refusals = 0
        """How many registrations are still to be refused."""
        self.hang: threading.Event | None = None
        """Register waits for it, if there is one."""
        self.asked_to_register = 0
        self.opens_streams = True
        self.late_s = 0.0
        """How long kubelet is busy between a stream's end and what it does about it."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Sweep the folder, then serve: what kubelet does when its process starts."""
        self.device_plugins.mkdir(parents=True, exist_ok=True)
        for path in self.device_plugins.iterdir():
            if not path.is_dir():
                path.unlink(missing_ok=True)
        self._stopping.clear()
        self._server = grpc.server(ThreadPoolExecutor(16))
        self._server.add_generic_rpc_handlers(
            (handlers("v1beta1.Registration", {"Register": self._register}),)
        )
        self._server.add_insecure_port(f"unix:{self.device_plugins / 'kubelet.sock'}")
        self._server.start()
        if self._watches:
            self.plugins_registry.mkdir(parents=True, exist_ok=True)
            self._scanner = threading.Thread(target=self._scan, daemon=True)
            self._scanner.start()

    def stop(self) -> None:
        """End as a killed process does: connections break, socket files stay."""
        self._stopping.set()
        if self._scanner is not None:
            self._scanner.join()
            self._scanner = None
        with self._changed:
            endpoints, self.endpoints = self.endpoints, []
            self.clients.clear()
            self.stopped.clear()
        for endpoint in endpoints:
            endpoint.close()
        self._server.stop(grace=None).wait()

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def wait_for(self, condition: Callable[[Kubelet], object], why: str = "") -> None:
        """Wait until ``condition`` holds; fails when patience ends."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), PATIENCE_S):
                raise AssertionError(f"kubelet waited in vain: {why or condition}")

    def allocatable(self, resource: str) -> tuple[str, ...]:
        """Ids of the healthy devices that pods may get now."""
        with self._changed:
            client = self.clients.get(resource)
            if client is None or resource in self.stopped or not client.lists:
                return ()
            return tuple(d.id for d in client.lists[-1] if d.healthy)

    def count(self, resource: str) -> int:
        """How many registrations of a resource were accepted."""
        return sum(r.resource == resource for r in self.registrations)

    def allocate(self, resource: str, *ids: str) -> Any:  # noqa: ANN401 - made at run time
        """Allocate for one container; the reply's first container response."""
        request = message("v1beta1.AllocateRequest")()
        request.container_requests.add().devices_ids.extend(ids)
        return self.clients[resource].call("Allocate", request).container_responses[0]

    def drop_stream(self, resource: str) -> None:
        """End the stream from kubelet's side; everything else stays."""
        self.clients[resource].stream.cancel()

    def _register(self, request: Any, context: Any) -> Any:  # noqa: ANN401 - grpc's signature
        with self._changed:
            self.asked_to_register += 1
            self._changed.notify_all()
        if self.hang is not None:
            self.hang.wait(PATIENCE_S)
        if self._refuses():
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "refused by the test")
        path = self.device_plugins / request.endpoint
        try:
            self._connect(request.resource_name, path, "legacy")
        except grpc.RpcError as error:
            context.abort(grpc.StatusCode.UNKNOWN, f"failed to dial back: {error}")
        return message("v1beta1.Empty")()

    def _refuses(self) -> bool:
        with self._changed:
            self.refusals -= 1
            return self.refusals >= 0

    def _connect(self, resource: str, path: Path, way: str) -> None:
        endpoint = Endpoint(resource, path)
        try:
            options = endpoint.call("GetDevicePluginOptions", message("v1beta1.Empty")())
        except grpc.RpcError:
            endpoint.close()
            raise
        preference = options.get_preferred_allocation_available
        with self._changed:
            self.clients[resource] = endpoint
            self.stopped.discard(resource)
            self.endpoints.append(endpoint)
            self.registrations.append(Registration(resource, path.name, way, preference))
            self._changed.notify_all()
        if self.opens_streams:
            threading.Thread(target=self._run_client, args=(endpoint,), daemon=True).start()

    def _run_client(self, endpoint: Endpoint) -> None:
        with suppress(grpc.RpcError, ValueError):  # ValueError: the channel was closed before
            call = stub(endpoint.channel, "v1beta1.DevicePlugin", "ListAndWatch")
            endpoint.stream = call(message("v1beta1.Empty")())
            for response in endpoint.stream:
                self._receive(endpoint, response)
        if self._stopping.wait(self.late_s):
            return
        with self._changed:
            endpoint.ended = True
            newest = self.clients.pop(endpoint.resource, None)
            if newest is not None:
                # The race of the released kubelets: whichever client is the newest is stopped.
                self.stopped.add(endpoint.resource)
            self._changed.notify_all()
        if newest is not None:
            newest.close()
        with self._changed:
            for gone in (endpoint, newest):
                if gone in self.endpoints and gone.ended:
                    self.endpoints.remove(gone)

    def _receive(self, endpoint: Endpoint, response: Any) -> None:  # noqa: ANN401 - run time class
        devices = tuple(
            Device(d.id, d.health == "Healthy", tuple(n.id for n in d.topology.nodes))
            for d in response.devices
        )
        with self._changed:
            endpoint.lists.append(devices)
            self.lists.append((endpoint.resource, devices))
            self._changed.notify_all()

    def _scan(self) -> None:
        """The plugin watcher: dials what appears, with a back-off for each path."""
        known: dict[Path, str] = {}
        due: dict[Path, tuple[float, float]] = {}
        while not self._stopping.wait(_SCAN_S):
            found = _visible_sockets(self.plugins_registry)
            for path in known.keys() - found:
                self._deregister(known.pop(path), path)
            for path in sorted(found - known.keys()):
                after, delay_s = due.get(path, (0.0, 0.5))
                if time.monotonic() < after:
                    continue
                resource = self._shake_hands(path)
                if resource is None:
                    due[path] = (time.monotonic() + delay_s, min(delay_s * 2, 122.0))
                else:
                    known[path] = resource

    def _shake_hands(self, path: Path) -> str | None:
        status = message("pluginregistration.RegistrationStatus")
        with grpc.insecure_channel(f"unix:{path}", options=_LOCAL) as channel:
            registration = "pluginregistration.Registration"
            notify = stub(channel, registration, "NotifyRegistrationStatus")
            try:
                request = message("pluginregistration.InfoRequest")()
                info = stub(channel, registration, "GetInfo")(request, timeout=1.0)
                assert info.type == "DevicePlugin"
                assert "v1beta1" in info.supported_versions
                if self._refuses():
                    notify(status(plugin_registered=False, error="refused by the test"), timeout=5)
                    return None
                self._connect(info.name, Path(info.endpoint or path), "watcher")
                notify(status(plugin_registered=True), timeout=5.0)
            except grpc.RpcError:
                return None
        return str(info.name)

    def _deregister(self, resource: str, path: Path) -> None:
        with self._changed:
            client = self.clients.get(resource)
            if client is None or client.path != path:
                return
            del self.clients[resource]
        client.close()


def _visible_sockets(folder: Path) -> set[Path]:
    try:
        return {p for p in folder.iterdir() if p.is_socket() and not p.name.startswith(".")}
    except OSError:
        return set()
