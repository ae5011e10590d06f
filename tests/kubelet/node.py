"""One node: namespaces, control group, containerd, kubelet; started in order, ended in reverse."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from . import containerd, control_plane, kubelet
from .cgroups import own_cgroup
from .namespace import Namespace
from .pods import Pods

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOST_ROOT = "/run/host"
_SHARED = {"/dev": "dev", kubelet.ROOT: "var/lib/kubelet", "/run/cdi": "var/run/cdi"}


@attrs.frozen
class Node:
    """A running node; `inside` starts further programs beside kubelet."""

    inside: Namespace
    containerd: containerd.Containerd
    kubelet: kubelet.Kubelet
    pods: Pods

    def host_root(self, tree: Path) -> str:
        """Where the node shows a laid-out host (an agent's `--host-root`).

        What kubelet and containerd share with an agent is the node's own: /dev, kubelet's folder,
        and the folder of CDI specs; everything else is the tree's.
        """
        self.inside.bind(tree, HOST_ROOT)
        for inside, at in _SHARED.items():
            (tree / at).mkdir(parents=True, exist_ok=True)
            self.inside.path(inside).mkdir(exist_ok=True)
            self.inside.bind(Path(inside), f"{HOST_ROOT}/{at}")
        return HOST_ROOT


@attrs.frozen
class Cluster:
    """A running cluster of one node."""

    node: Node
    control_plane: control_plane.ControlPlane


@contextmanager
def standalone(work: Path, options: Mapping[str, object] | None = None) -> Iterator[Node]:
    """A node without an API server, whose pods are static; its logs are kept in `work`."""
    with _bare(work) as (stack, cgroup, inside, runtime):
        agent = kubelet.laid_out(inside, work, cgroup, options)
        stack.callback(agent.stop)
        agent.start()
        yield Node(inside, runtime, agent, Pods(agent, runtime))


@contextmanager
def clustered(work: Path) -> Iterator[Cluster]:
    """A node with a control plane of its own; its logs are kept in `work`.

    The scheduler hears of the node's devices every second instead of every ten.
    """
    with _bare(work) as (stack, cgroup, inside, runtime):
        plane = control_plane.started(inside, work)
        stack.callback(plane.stop)
        options = {"nodeStatusUpdateFrequency": "1s"}
        agent = kubelet.laid_out(inside, work, cgroup, options, plane.kubeconfig)
        stack.callback(agent.stop)
        agent.start()
        plane.node_ready()
        yield Cluster(Node(inside, runtime, agent, Pods(agent, runtime)), plane)


@contextmanager
def _bare(work: Path) -> Iterator[tuple[ExitStack, str, Namespace, containerd.Containerd]]:
    """What every node has, and the stack that ends what is started on it."""
    with ExitStack() as stack:
        cgroup = stack.enter_context(own_cgroup())
        inside = stack.enter_context(Namespace(logs=work))
        runtime = containerd.started(inside, work)
        stack.callback(runtime.stop)
        yield stack, cgroup, inside, runtime
