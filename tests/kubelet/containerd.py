"""containerd inside the node's namespaces: its configuration, its images, and what runs in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import grpc
import tomli_w

from . import debian, release
from .image import PAUSE, write_images
from .waiting import eventually
from .wire import Service

if TYPE_CHECKING:
    from .namespace import Namespace, Program

SOCKET = "/run/containerd/containerd.sock"
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
_CNI_FOLDER = "/run/cni"
_POD_NETWORK = "198.51.100.0/24"  # TEST-NET-2 of RFC 5737


@attrs.frozen
class Output:
    """What a command in a container printed, and how it ended."""

    text: str
    errors: str
    status: int


@attrs.frozen
class Containerd:
    """A running containerd."""

    node: Namespace
    program: Program
    _unpacked: Path

    def import_image(self, archive: Path) -> None:
        """Bring an OCI archive in, for kubelet's use."""
        ctr = self._unpacked / "usr/bin/ctr"
        self.node.run(
            *(ctr, "--address", SOCKET, "--namespace", "k8s.io"),
            *("images", "import", "--local", archive),
        )

    def execute(self, container_id: str, *command: str) -> Output:
        """Run a command in a running container."""
        with self._runtime() as runtime:
            reply = runtime.call("ExecSync", container_id=container_id, cmd=command, timeout=20)
        return Output(reply.stdout.decode(), reply.stderr.decode(), reply.exit_code)

    def sandboxes(self) -> frozenset[str]:
        """The names of the pods that have not been torn down."""
        with self._runtime() as runtime:
            pods = runtime.call("ListPodSandbox", filter={"state": {"state": "SANDBOX_READY"}})
        return frozenset(pod.metadata.name for pod in pods.items)

    def stop(self) -> None:
        """Stop and remove every pod, then containerd itself."""
        with self._runtime() as runtime:
            for pod in runtime.call("ListPodSandbox").items:
                runtime.call("StopPodSandbox", pod_sandbox_id=pod.id)
                runtime.call("RemovePodSandbox", pod_sandbox_id=pod.id)
        self.program.stop()

    def version(self) -> str:
        """What containerd says it is."""
        with self._runtime() as runtime:
            return str(runtime.call("Version").runtime_version)

    def _runtime(self) -> Service:
        proto = release.protos() / "cri.proto"
        return Service(proto, "runtime.v1.RuntimeService", self.node.path(SOCKET))


def started(node: Namespace, work: Path) -> Containerd:
    """A containerd that answers and has the suite's images."""
    unpacked = debian.unpacked(debian.NODE, "node")
    config = work / "containerd.toml"
    config.write_text(tomli_w.dumps(_config(unpacked)), encoding="utf-8")
    network = node.path(_CNI_FOLDER)
    network.mkdir()
    (network / "pods.conflist").write_text(_pod_network(), encoding="utf-8")
    program = node.start(
        "containerd",
        *(unpacked / "usr/bin/containerd", "--config", config),
        environ={"PATH": f"{unpacked}/usr/bin:{unpacked}/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    containerd = Containerd(node, program, unpacked)
    eventually(
        containerd.version, "containerd answers", passing=(grpc.RpcError,), tell=program.log_tail
    )
    archive = work / "images.tar"
    write_images(unpacked / "bin/busybox", archive)
    containerd.import_image(archive)
    return containerd


def _config(unpacked: Path) -> dict[str, object]:
    runc = {
        "runtime_type": "io.containerd.runc.v2",
        "options": {"BinaryName": f"{unpacked}/usr/sbin/runc", "SystemdCgroup": False},
    }
    runtime = {
        "cdi_spec_dirs": list(CDI_FOLDERS),
        "cni": {"bin_dirs": [f"{unpacked}/usr/lib/cni"], "conf_dir": _CNI_FOLDER},
        "containerd": {"runtimes": {"runc": runc}},
        "disable_apparmor": True,
        "enable_cdi": True,
        # Where root may not lower oom_score_adj (no CAP_SYS_RESOURCE) no pod would start.
        "restrict_oom_score_adj": True,
    }
    return {
        "version": 3,
        "grpc": {"address": SOCKET},
        "plugins": {
            # These would make folders below /opt.
            "io.containerd.internal.v1.opt": {"path": "/run/containerd/opt"},
            "io.containerd.nri.v1.nri": {"disable": True},
            "io.containerd.cri.v1.images": {"pinned_images": {"sandbox": PAUSE}},
            "io.containerd.cri.v1.runtime": runtime,
        },
    }


def _pod_network() -> str:
    addresses = {"type": "host-local", "subnet": _POD_NETWORK, "dataDir": f"{_CNI_FOLDER}/used"}
    plugins = [{"type": "ptp", "ipMasq": False, "ipam": addresses}]
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins})
