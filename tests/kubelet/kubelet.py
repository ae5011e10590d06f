"""A real kubelet inside the node's namespaces: its configuration, its life, what it tells."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import attrs
from prometheus_client.parser import text_string_to_metric_families

from . import release
from .containerd import SOCKET as RUNTIME_SOCKET
from .namespace import NODE_ADDRESS
from .waiting import eventually
from .wire import Service

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .namespace import Namespace, Program

ROOT = "/var/lib/kubelet"
MANIFESTS = "/run/manifests"
NODE_NAME = "node1"
_READ_ONLY_PORT = 10255
_HEALTH_PORT = 10248


@attrs.frozen
class AllocatedDevices:
    """Devices of one resource, as pod-resources tells them."""

    resource: str
    devices: frozenset[str]
    numa: frozenset[int] = frozenset()


@attrs.define
class Kubelet:
    """A kubelet that can be stopped and started again; its state on the node stays."""

    node: Namespace
    _command: list[str]
    _program: Program | None = None

    @property
    def device_plugins(self) -> Path:
        """The folder of the legacy registration, as this process reaches it."""
        return self.node.path(f"{ROOT}/device-plugins")

    @property
    def plugins_registry(self) -> Path:
        """The folder of the plugin watcher, as this process reaches it."""
        return self.node.path(f"{ROOT}/plugins_registry")

    def start(self) -> None:
        """Start it, and wait until it serves its health, its pods and pod-resources."""
        self._program = self.node.start("kubelet", *self._command)
        eventually(
            self._answers,
            "kubelet answers",
            passing=(OSError,),
            tell=self._program.log_tail,
        )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it; running pods stay."""
        if self._program is not None:
            self._program.stop(number)
            self._program = None

    def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, as an upgrade (SIGTERM) or a crash (SIGKILL) would, and start it again."""
        self.stop(number)
        self.start()

    def version(self) -> str:
        """What the program says it is."""
        return self.node.run(self._command[0], "--version").strip()

    def log(self) -> str:
        """All that it printed since the first start."""
        return (self.node.logs / "kubelet.log").read_text("utf-8", errors="replace")

    def pods(self) -> list[dict[str, Any]]:
        """The pods with their status, as the read-only port tells them."""
        told: dict[str, Any] = json.loads(self.node.http("/pods", _READ_ONLY_PORT))
        return told["items"] or []

    def metrics(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        """The samples called `name` on /metrics, by their labels."""
        text = self.node.http("/metrics", _READ_ONLY_PORT).decode()
        return {
            frozenset(sample.labels.items()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }

    def checkpoint(self) -> dict[str, Any]:
        """The device manager's own file: healthy devices by resource, and what pods hold.

        There is none before the first device plugin registers: FileNotFoundError.
        """
        file = self.device_plugins / "kubelet_internal_checkpoint"
        data: dict[str, Any] = json.loads(file.read_bytes())["Data"]
        return data

    def allocatable(self, resource: str) -> frozenset[str]:
        """The healthy devices of a resource that kubelet would give to pods, held ones too."""
        with self._pod_resources() as service:
            found = service.call("GetAllocatableResources").devices
        return frozenset(
            device
            for entry in map(_held, found)
            if entry.resource == resource
            for device in entry.devices
        )

    def held(self, pod: str, namespace: str = "default") -> dict[str, frozenset[AllocatedDevices]]:
        """What each container of a pod holds, by the container's name."""
        with self._pod_resources() as service:
            pods = service.call("List").pod_resources
        return {
            container.name: frozenset(map(_held, container.devices))
            for found in pods
            if (found.namespace, found.name) == (namespace, pod)
            for container in found.containers
        }

    def _answers(self) -> bool:
        assert self._program is not None
        if not self._program.running:
            raise RuntimeError(f"kubelet ended:\n{self._program.log_tail()}")
        self.node.http("/healthz", _HEALTH_PORT)
        self.pods()
        return self.node.path(f"{ROOT}/pod-resources/kubelet.sock").is_socket()

    def _pod_resources(self) -> Service:
        proto = release.protos() / "podresources.proto"
        socket = self.node.path(f"{ROOT}/pod-resources/kubelet.sock")
        return Service(proto, "v1.PodResourcesLister", socket)


def laid_out(
    node: Namespace,
    work: Path,
    cgroup: str,
    options: Mapping[str, object] | None = None,
    kubeconfig: Path | None = None,
) -> Kubelet:
    """A kubelet that is not started yet; `options` are added to its configuration file.

    Without a kubeconfig it has no API server, and runs static pods only.
    """
    node.path(MANIFESTS).mkdir()
    config = work / "kubelet.json"
    settings = {**_CONFIG, "cgroupRoot": cgroup, **(options or {})}
    config.write_text(json.dumps(settings, indent=2), encoding="utf-8")
    program = release.binaries("node") / "kubelet"
    arguments = [
        *(str(program), f"--config={config}", f"--hostname-override={NODE_NAME}"),
        *(f"--node-ip={NODE_ADDRESS}", "--v=2"),
    ]
    if kubeconfig is not None:
        arguments.append(f"--kubeconfig={kubeconfig}")
    return Kubelet(node, arguments)


def _held(entry: Any) -> AllocatedDevices:  # noqa: ANN401 (a message known when it runs)
    numa = frozenset(node.ID for node in entry.topology.nodes)
    return AllocatedDevices(entry.resource_name, frozenset(entry.device_ids), numa)


# Kubelet reads JSON as it reads YAML.
_CONFIG = {
    "kind": "KubeletConfiguration",
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "containerRuntimeEndpoint": f"unix://{RUNTIME_SOCKET}",
    "staticPodPath": MANIFESTS,
    # In the node's own network, which nobody else reaches.
    "address": "0.0.0.0",  # noqa: S104
    "readOnlyPort": _READ_ONLY_PORT,
    "healthzPort": _HEALTH_PORT,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    # The machines of developers and CI: control groups of either version, swap, full disks.
    "cgroupDriver": "cgroupfs",
    "failCgroupV1": False,
    "failSwapOn": False,
    "enforceNodeAllocatable": [],
    "evictionHard": {
        "memory.available": "1Mi",
        "nodefs.available": "0%",
        "nodefs.inodesFree": "0%",
        "imagefs.available": "0%",
    },
    "imageGCHighThresholdPercent": 100,
    "makeIPTablesUtilChains": False,
    "oomScoreAdj": 0,
    "volumePluginDir": f"{ROOT}/volume-plugins",
    "enableControllerAttachDetach": False,
    # A static pod whose container ended is started again at once.
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
}
