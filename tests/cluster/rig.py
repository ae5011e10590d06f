"""A real cluster whose one node has the built image and a laid-out NIC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import yaml

from tests.chart.helm import CHART
from tests.cluster.build import TAG
from tests.kubelet.containerd import Output
from tests.kubelet.image import BUSYBOX
from tests.kubelet.kubelet import NODE_NAME
from tests.kubelet.node import Cluster
from tests.kubelet.waiting import eventually
from tests.support.hardware import E810, VfHardware
from tests.support.host_builder import HostBuilder

PF, NETDEV, CABLE = "0000:3b:00.0", "ens1f0", "cable"
# The node's own interface with its default route.
UPLINK_PF, UPLINK = "0000:5e:00.0", "uplink"
KERNEL_VFS = 4
NAMESPACE = "kube-system"
SELECTOR = "app.kubernetes.io/name=sriov-node-agent"
_LAID_OUT = "/run/laid-out"
# The node has no NIC: a laid-out /sys takes the place of the container's own. Nothing else differs
# from a real node.
SYS_VOLUME = {"name": "laid-out-sys", "hostPath": {"path": f"{_LAID_OUT}/sys"}}
SYS_MOUNT = {"name": "laid-out-sys", "mountPath": "/sys", "readOnly": True}
VALUES: dict[str, Any] = {
    "image": {"repository": TAG.partition(":")[0], "tag": "test", "pullPolicy": "Never"},
    "extraVolumes": [SYS_VOLUME],
    "extraVolumeMounts": [SYS_MOUNT],
}


@attrs.frozen
class Rig:
    """The cluster, and the host that its node's pods see."""

    cluster: Cluster
    host: HostBuilder
    work: Path

    def helm(self, *arguments: str, values: Mapping[str, Any], major: int = 4) -> dict[str, Any]:
        """Run helm on the chart with these values added to those of the rig; the ready pod.

        Helm's own `--wait` allows `maxUnavailable` pods to be missing: here that is all of them.
        """
        file = self.work / "values.json"
        file.write_text(json.dumps({**VALUES, **values}), encoding="utf-8")
        options = (f"--namespace={NAMESPACE}", f"--values={file}")
        self.cluster.control_plane.helm(major, *arguments, "nics", CHART, *options)
        return self.pod(SELECTOR)

    def uninstall(self) -> None:
        """Take the release back and wait until its pods are gone."""
        self.cluster.control_plane.helm(4, "uninstall", "nics", f"--namespace={NAMESPACE}")
        self.no_pods(NAMESPACE, SELECTOR)

    def no_pods(self, namespace: str, selector: str) -> None:
        """Wait until no pod is left."""
        arguments = ("pods", f"--namespace={namespace}", f"--selector={selector}")
        self.cluster.control_plane.eventually(lambda pods: not pods["items"], *arguments)

    def allocatable(self, resource: str, count: int) -> None:
        """Wait until the node offers so many devices, as the scheduler sees them."""
        self.cluster.control_plane.eventually(
            lambda node: node["status"]["allocatable"].get(resource, "0") == str(count),
            *("node", NODE_NAME),
        )

    def applied(self, manifest: Path) -> list[dict[str, Any]]:
        """Apply a manifest to which only the laid-out /sys is added."""
        documents = list(yaml.safe_load_all(manifest.read_text("utf-8")))
        for document in documents:
            if document["kind"] == "DaemonSet":
                pod = document["spec"]["template"]["spec"]
                pod["volumes"].append(SYS_VOLUME)
                pod["containers"][0]["volumeMounts"].append(SYS_MOUNT)
                pod["containers"][0]["imagePullPolicy"] = "Never"
            self.cluster.control_plane.apply(document)
        return documents

    def pod(self, selector: str, namespace: str = NAMESPACE) -> dict[str, Any]:
        """The one ready pod of a selector."""

        def ready(pods: dict[str, Any]) -> bool:
            statuses = [s for p in pods["items"] for s in p["status"].get("containerStatuses", ())]
            return len(pods["items"]) == 1 and bool(statuses) and all(s["ready"] for s in statuses)

        arguments = ("pods", f"--namespace={namespace}", f"--selector={selector}")
        pods = self.cluster.control_plane.eventually(ready, *arguments)
        return dict(pods["items"][0])

    def log(self, pod: Mapping[str, Any]) -> str:
        """All that a pod's container said."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        return self.cluster.control_plane.kubectl("logs", name, f"--namespace={namespace}")

    def said(self, pod: Mapping[str, Any], event: str) -> str:
        """The first line that a pod's container said of an event, once it is there."""

        def ask() -> str | None:
            return next((line for line in self.log(pod).splitlines() if event in line), None)

        return eventually(ask, f"{event} in the log", passing=(RuntimeError,))

    def process(self, pod: Mapping[str, Any]) -> int:
        """The first process of a pod's container, as this machine counts."""
        container = self._container(pod)
        found = (
            int(file.parent.name)
            for file in Path("/proc").glob("[0-9]*/cgroup")
            if container in _read(file)
        )
        return min(found)

    def execute(self, pod: Mapping[str, Any], *command: str) -> Output:
        """Run a command in a pod's only container."""
        return self.cluster.node.containerd.execute(self._container(pod), *command)

    def workload(self, name: str, resource: str) -> dict[str, Any]:
        """Run a pod that asks for one device; the pod once it runs."""
        one = {resource: "1"}
        container = {
            "name": "main",
            "image": BUSYBOX,
            "imagePullPolicy": "Never",
            "resources": {"limits": one, "requests": one},
        }
        spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]}
        metadata = {"name": name, "labels": {"app": name}, "namespace": "default"}
        manifest: dict[str, object] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec,
        }
        self.cluster.control_plane.apply(manifest)
        return self.pod(f"app={name}", "default")

    def retire(self, *names: str) -> None:
        """Delete workloads, and wait until kubelet counts their devices as free.

        Kubelet looks for ended pods when it is asked for its list, and keeps their devices in its
        checkpoint until then: an agent without pod-resources keeps them for their old resource.
        """
        self.cluster.control_plane.kubectl("delete", "pod", *names, "--namespace=default")
        kubelet = self.cluster.node.kubelet
        for name in names:
            eventually(lambda: not kubelet.held(name), f"kubelet does not list {name}")  # noqa: B023

    def environ(self, pod: Mapping[str, Any]) -> dict[str, str]:
        """The environment that a pod's container was started with."""
        text = self.execute(pod, "cat", "/proc/1/environ").text
        return dict(entry.split("=", 1) for entry in text.split("\0") if entry)

    def get(self, path: str, port: int = 9811) -> str:
        """The body of a GET to the agent, from the node."""
        node = self.cluster.node.inside
        return eventually(lambda: node.http(path, port).decode(), f"GET {path}", passing=(OSError,))

    def uevent(self) -> None:
        """A kernel event in the node's network, of the PF and of nothing that changed."""
        self.cluster.node.inside.run("sh", "-c", f"echo change >/sys/class/net/{NETDEV}/uevent")

    def empty(self, *folders: str) -> None:
        """Remove the files of the node's folders, which may not be there."""
        for folder in map(self.cluster.node.inside.path, folders):
            for file in folder.glob("*"):
                file.unlink()

    def cable(self, *, plugged: bool) -> None:
        """Plug or pull the cable of the PF: a real carrier change in the node's network."""
        self.host.set_carrier(NETDEV, up=plugged)
        state = "up" if plugged else "down"
        self.cluster.node.inside.run("ip", "link", "set", CABLE, state)

    @staticmethod
    def _container(pod: Mapping[str, Any]) -> str:
        (status,) = pod["status"]["containerStatuses"]
        return str(status["containerID"]).removeprefix("containerd://")


def _read(file: Path) -> str:
    """The file of a process, which may just have ended."""
    try:
        return file.read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def set_up(cluster: Cluster, image: Path, work: Path) -> Rig:
    """Bring the image in and lay two NICs out: four kernel VFs and two VFIO ones; the uplink."""
    cluster.node.containerd.import_image(image)
    inside = cluster.node.inside
    tree = work / "host"
    tree.mkdir()
    host = HostBuilder(tree)
    host.pf(PF, NETDEV, E810, vfs=KERNEL_VFS)
    host.add_vfs(PF, KERNEL_VFS + 2, VfHardware("1889", "vfio-pci", netdevs=False))
    for node in sorted((tree / "dev/vfio").iterdir()):
        inside.device_node(f"vfio/{node.name}")
    host.pf(UPLINK_PF, UPLINK, E810, numa=1)
    inside.run("ip", "link", "add", NETDEV, "type", "veth", "peer", "name", CABLE)
    for end in (NETDEV, CABLE):
        inside.run("ip", "link", "set", end, "up")
    for name in (NETDEV, UPLINK):
        index = inside.run("cat", f"/sys/class/net/{name}/ifindex").strip()
        host.write(tree / "sys/class/net" / name / "ifindex", index)
    inside.bind(tree, _LAID_OUT)
    return Rig(cluster, host, work)
