"""Which device nodes the host has: without a node a container that needs it cannot be created."""

from __future__ import annotations

from agent.attrs_classes import frozen

VFIO_CONTROL = "/dev/vfio/vfio"
IOMMUFD = "/dev/iommu"
VHOST_NET = "/dev/vhost-net"
VHOST_TUN = "/dev/net/tun"
RDMA_CM = "/dev/infiniband/rdma_cm"
_DEV = "/dev/"


@frozen
class HostNodes:
    """The device nodes of the host, as far as its ``/dev`` can be seen from here."""

    is_seen: bool = False
    """Whether the host's ``/dev`` is visible. If not, no node is ever known to be missing."""
    names: frozenset[str] = frozenset()
    """Nodes that the host is known to have, as paths below ``/dev``: ``vfio/42``, ``vhost-net``."""
    rdma_cm: bool = False
    """Whether ``/dev/infiniband/rdma_cm`` exists."""
    has_vfio_groups: bool = True
    """False where the kernel makes VFIO devices (``vfio-dev``) and no nodes for IOMMU groups."""

    def has(self, path: str) -> bool:
        """Whether the host is known to have the node ``path``, for example ``/dev/vfio/42``."""
        return path.removeprefix(_DEV) in self.names

    def lacks(self, path: str) -> bool:
        """Whether the host is known to have no node ``path``."""
        return self.is_seen and not self.has(path)
