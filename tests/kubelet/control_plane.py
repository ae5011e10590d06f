"""A control plane of the pinned release: etcd, API server, controllers and scheduler."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import attrs

from . import debian, release, tools
from .kubelet import NODE_NAME
from .namespace import NODE_ADDRESS
from .waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .namespace import Namespace, Program

_SERVER = f"https://{NODE_ADDRESS}:6443"
_ETCD = "http://127.0.0.1:2379"
_STATE = "/run/control-plane"
_TOKEN = "the-only-user"  # noqa: S105 (of an API server that only the node reaches)


@attrs.frozen
class ControlPlane:
    """A running control plane, and an administrator's way to it."""

    node: Namespace
    kubeconfig: Path
    programs: tuple[Program, ...]

    def kubectl(self, *arguments: str | Path) -> str:
        """What kubectl prints."""
        return self.node.run(tools.kubectl(), f"--kubeconfig={self.kubeconfig}", *arguments)

    def read(self, *arguments: str) -> dict[str, Any]:
        """The objects that `kubectl get` finds."""
        found: dict[str, Any] = json.loads(self.kubectl("get", "--output=json", *arguments))
        return found

    def apply(self, manifest: dict[str, object]) -> None:
        """Hand an object to the API server."""
        file = self.node.logs / "applied.json"
        file.write_text(json.dumps(manifest), encoding="utf-8")
        self.kubectl("apply", f"--filename={file}")

    def helm(self, major: int, *arguments: str | Path) -> str:
        """What helm of a major version prints."""
        homes = {f"HELM_{kind}_HOME": f"{_STATE}/helm" for kind in ("CACHE", "CONFIG", "DATA")}
        return self.node.run(
            *(tools.helm(major), f"--kubeconfig={self.kubeconfig}", *arguments), environ=homes
        )

    def eventually(
        self, holds: Callable[[dict[str, Any]], bool], *arguments: str
    ) -> dict[str, Any]:
        """Wait until the objects that `kubectl get` finds are as wanted."""

        def ask() -> dict[str, Any] | None:
            found = self.read(*arguments)
            return found if holds(found) else None

        return eventually(
            ask, f"{arguments} as wanted", passing=(RuntimeError,), tell=self.overview
        )

    def overview(self) -> str:
        """What stands where, and what happened lately."""
        return self.kubectl("get", "nodes,daemonsets,pods,events", "--all-namespaces")

    def node_ready(self) -> dict[str, Any]:
        """Wait until pods can be scheduled on the node; the node as the API server has it."""

        def ask() -> dict[str, Any] | None:
            node = self.read("node", NODE_NAME)
            conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
            ready = conditions.get("Ready") == "True" and not node["spec"].get("taints")
            # Pods are refused until their namespace has its service account.
            return node if ready and self.read("serviceaccounts")["items"] else None

        return eventually(
            ask, "the node is ready", within_s=120, passing=(RuntimeError,), tell=self.log_tails
        )

    def log_tails(self) -> str:
        """The end of what each program printed."""
        return "\n".join(f"{program.name}:\n{program.log_tail()}" for program in self.programs)

    def stop(self) -> None:
        """End the programs, the last started first."""
        for program in reversed(self.programs):
            program.stop()


def started(node: Namespace, work: Path) -> ControlPlane:
    """A control plane that answers."""
    kubeconfig = _write_access(work)
    etcd = debian.unpacked(debian.CONTROL_PLANE, "control-plane") / "usr/bin/etcd"
    binaries = release.binaries("control-plane")
    served = ControlPlane(
        node,
        kubeconfig,
        (
            node.start("etcd", etcd, *_etcd()),
            node.start("kube-apiserver", binaries / "kube-apiserver", *_api_server(work)),
        ),
    )
    eventually(
        lambda: served.kubectl("get", "--raw", "/readyz") == "ok",
        "the API server is ready",
        within_s=120,
        passing=(RuntimeError,),
        tell=served.log_tails,
    )
    clients = {"kube-controller-manager": _controllers(work), "kube-scheduler": ()}
    started = (
        node.start(name, binaries / name, *_client(kubeconfig, name), *options)
        for name, options in clients.items()
    )
    return attrs.evolve(served, programs=(*served.programs, *started))


def _write_access(work: Path) -> Path:
    """Write the administrator's token, kubeconfig and the key that signs service accounts."""
    (work / "tokens.csv").write_text(f"{_TOKEN},admin,admin,system:masters\n", encoding="utf-8")
    cluster = {"server": _SERVER, "insecure-skip-tls-verify": True}
    access = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "node", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": _TOKEN}}],
        "contexts": [{"name": "admin", "context": {"cluster": "node", "user": "admin"}}],
        "current-context": "admin",
    }
    kubeconfig = work / "kubeconfig.json"
    kubeconfig.write_text(json.dumps(access), encoding="utf-8")
    subprocess.run(
        ["openssl", "genrsa", "-out", work / "accounts.key", "2048"],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return kubeconfig


def _etcd() -> tuple[str, ...]:
    return (
        f"--data-dir={_STATE}/etcd",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        "--unsafe-no-fsync",
    )


def _api_server(work: Path) -> tuple[str, ...]:
    return (
        f"--etcd-servers={_ETCD}",
        f"--cert-dir={_STATE}/api-server",
        f"--advertise-address={NODE_ADDRESS}",
        "--service-cluster-ip-range=203.0.113.0/24",  # TEST-NET-3 of RFC 5737
        f"--service-account-key-file={work}/accounts.key",
        f"--service-account-signing-key-file={work}/accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        f"--token-auth-file={work}/tokens.csv",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
    )


def _controllers(work: Path) -> tuple[str, ...]:
    return (
        f"--service-account-private-key-file={work}/accounts.key",
        f"--root-ca-file={_STATE}/api-server/apiserver.crt",
        f"--flex-volume-plugin-dir={_STATE}/volume-plugins",
    )


def _client(kubeconfig: Path, name: str) -> tuple[str, ...]:
    return (
        f"--kubeconfig={kubeconfig}",
        f"--cert-dir={_STATE}/{name}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
    )
