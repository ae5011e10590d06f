"""When kubelet's list of pods is complete: once it has heard of its pods from the API server.

After a restart kubelet serves pod-resources before that. It lists no pods then, or only static
pods, which it reads from files, though all other pods still run. All pods of the API server come
in together, so that one of them in the list stands for all.
"""

from __future__ import annotations

from agent.attrs_classes import frozen


@frozen
class Sources:
    """What is known of the pods that can stand for those of the API server."""

    pod: str | None = None
    """Name of the agent's own pod ($POD_NAME)."""
    namespace: str | None = None
    """Namespace of the agent's own pod ($POD_NAMESPACE)."""
    node: str | None = None
    """Name of the node: kubelet ends the names of static pods with ``-<node>``."""

    def vouches(self, namespace: str, pod: str) -> bool:
        """Whether a list with this pod is complete.

        Where the agent's own pod is known it must be listed, else any pod that is not static.
        """
        if self.pod is not None and not self._is_static(self.pod):
            return pod == self.pod and self.namespace in {None, namespace}
        return not self._is_static(pod)

    def _is_static(self, pod: str) -> bool:
        return self.node is not None and pod.endswith(f"-{self.node.lower()}")
