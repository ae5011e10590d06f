"""Static pods: written as manifests, watched on kubelet's read-only port, looked into by CRI."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from .image import BUSYBOX
from .kubelet import MANIFESTS, NODE_NAME
from .waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .containerd import Containerd, Output
    from .kubelet import AllocatedDevices, Kubelet


@attrs.frozen
class Container:
    """A container to be: what it asks of each resource, by name, and its own environment."""

    name: str = "main"
    asks: Mapping[str, int] = attrs.field(factory=dict)
    environ: Mapping[str, str] = attrs.field(factory=dict)

    def manifest(self) -> dict[str, object]:
        """The container as a pod manifest says it."""
        limits = {resource: str(count) for resource, count in self.asks.items()}
        return {
            "name": self.name,
            "image": BUSYBOX,
            "imagePullPolicy": "Never",
            "env": [{"name": name, "value": value} for name, value in self.environ.items()],
            "resources": {"limits": limits, "requests": limits},
        }


@attrs.frozen
class Status:
    """What kubelet says of a pod."""

    phase: str
    reason: str
    message: str
    containers: Mapping[str, ContainerStatus]


@attrs.frozen
class ContainerStatus:
    """What kubelet says of a container: its runtime id, whether it runs, how often it restarted."""

    id: str
    running: bool
    restarts: int


@attrs.frozen
class Pods:
    """The static pods of one node."""

    kubelet: Kubelet
    containerd: Containerd

    def write(self, name: str, *containers: Container) -> None:
        """Hand a pod to kubelet. It shares the node's network, so that it needs no other."""
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "hostNetwork": True,
                "terminationGracePeriodSeconds": 1,
                "containers": [container.manifest() for container in containers or (Container(),)],
            },
        }
        folder = self.kubelet.node.path(MANIFESTS)
        # Kubelet passes over names that start with a dot: it never sees half a file.
        partial = folder / f".{name}.json"
        partial.write_text(json.dumps(manifest), encoding="utf-8")
        partial.rename(folder / f"{name}.json")

    def remove(self, name: str) -> None:
        """Take a pod back, and wait until its containers are gone and its devices free."""
        (self.kubelet.node.path(MANIFESTS) / f"{name}.json").unlink()
        eventually(
            lambda: (
                self.status(name) is None
                and full_name(name) not in self.containerd.sandboxes()
                and not self.kubelet.held(full_name(name))
            ),
            f"pod {name} is gone",
        )

    def holds(self, name: str, container: str = "main") -> frozenset[AllocatedDevices]:
        """The devices of a container, as pod-resources tells them."""
        return self.kubelet.held(full_name(name)).get(container, frozenset())

    def status(self, name: str) -> Status | None:
        """What kubelet says of a pod now, or None if it knows of none by that name."""
        for pod in self.kubelet.pods():
            if pod["metadata"]["name"] == full_name(name):
                return _status(pod.get("status", {}))
        return None

    def running(self, name: str) -> Status:
        """Wait until every container of the pod runs."""
        return self.until(name, "runs", _runs)

    def failed(self, name: str) -> Status:
        """Wait until kubelet has given the pod up."""
        return self.until(name, "fails", lambda status: status.phase == "Failed")

    def until(self, name: str, what: str, holds: Callable[[Status], bool]) -> Status:
        """Wait until the pod's status is as wanted."""

        def ask() -> Status | None:
            status = self.status(name)
            return status if status is not None and holds(status) else None

        return eventually(
            ask, f"pod {name} {what}", passing=(OSError,), tell=lambda: self.status(name)
        )

    def execute(self, name: str, *command: str, container: str = "main") -> Output:
        """Run a command in a container of a pod."""
        status = self.running(name)
        return self.containerd.execute(status.containers[container].id, *command)

    def environ(self, name: str, container: str = "main") -> dict[str, str]:
        """The environment that a container was started with."""
        text = self.execute(name, "cat", "/proc/1/environ", container=container).text
        return dict(entry.split("=", 1) for entry in text.split("\0") if entry)

    def device_nodes(self, name: str, container: str = "main") -> frozenset[str]:
        """The paths of the device nodes that a container has."""
        found = self.execute(name, "find", "/dev", "-type", "c", container=container)
        return frozenset(found.text.split())

    def end_container(self, name: str, container: str = "main") -> Status:
        """End a container's process, and wait until kubelet has started it again."""
        before = self.running(name).containers[container].restarts
        self.execute(name, "kill", "1", container=container)
        return self.until(
            name,
            f"has {container} running again",
            lambda status: _runs(status) and status.containers[container].restarts > before,
        )


def full_name(name: str) -> str:
    """The name under which kubelet shows a static pod."""
    return f"{name}-{NODE_NAME}"


def _runs(status: Status) -> bool:
    return bool(status.containers) and all(one.running for one in status.containers.values())


def _status(told: dict[str, Any]) -> Status:
    return Status(
        phase=told.get("phase", ""),
        reason=told.get("reason", ""),
        message=told.get("message", ""),
        containers={
            one["name"]: ContainerStatus(
                id=one.get("containerID", "").removeprefix("containerd://"),
                running="running" in one["state"],
                restarts=one["restartCount"],
            )
            for one in told.get("containerStatuses", ())
        },
    )
