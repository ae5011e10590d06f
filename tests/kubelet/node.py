"""One node: namespaces, control group, containerd and kubelet, started in order, ended in reverse."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import attrs

from . import containerd, kubelet
from .cgroups import own_cgroup
from .namespace import Namespace
from .pods import Pods

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@attrs.frozen
class Node:
    """A running node; `inside` starts further programs beside kubelet."""

    inside: Namespace
    containerd: containerd.Containerd
    kubelet: kubelet.Kubelet
    pods: Pods


@contextmanager
def standalone(work: Path, options: Mapping[str, object] | None = None) -> Iterator[Node]:
    """A node without an API server, whose pods are static; its logs are kept in `work`."""
    with ExitStack() as stack:
        cgroup = stack.enter_context(own_cgroup())
        inside = stack.enter_context(Namespace(logs=work))
        runtime = containerd.started(inside, work)
        stack.callback(runtime.stop)
        agent = kubelet.laid_out(inside, work, cgroup, options)
        stack.callback(agent.stop)
        agent.start()
        yield Node(inside, runtime, agent, Pods(agent, runtime))
