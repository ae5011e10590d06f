"""A stand-in for kubelet's pod-resources service, on the C library of gRPC."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from tests.support.protocol import handlers, message

PATIENCE_S = 20.0


class PodResources:
    """Serves List with the pods given to ``holds``. Use as a context manager."""

    def __init__(self, kubelet_dir: Path) -> None:
        self.socket = kubelet_dir / "pod-resources" / "kubelet.sock"
        self.reply = message("v1.ListPodResourcesResponse")()
        self.hang: threading.Event | None = None
        """List waits for it, if there is one."""
        self.asked = 0

    def __enter__(self) -> Self:
        self.socket.parent.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers(
            (handlers("v1.PodResourcesLister", {"List": self._list}),)
        )
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.stop(grace=None).wait()

    def holds(self, pod: str, container: str, resource: str, *ids: str) -> None:
        """A container of a pod in namespace ``test`` holds devices; one entry for each call."""
        held = self.reply.pod_resources.add(name=pod, namespace="test")
        devices = held.containers.add(name=container).devices
        devices.add(resource_name=resource, device_ids=ids)

    def _list(self, request: Any, context: Any) -> Any:  # noqa: ANN401 - grpc's signature
        del request, context
        self.asked += 1
        if self.hang is not None:
            self.hang.wait(PATIENCE_S)
        return self.reply
