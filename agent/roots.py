"""All paths of the host; no other module spells them."""

from __future__ import annotations

from pathlib import Path

from agent.attrs_classes import frozen

DEFAULT_KUBELET_DIR = "/var/lib/kubelet"
LOCK_FOLDER = ".sriov-node-agent"
"""In each of kubelet's folders: the lock files of resources."""


@frozen
class Roots:
    """All host paths, below one root, so that a folder can take the place of a machine."""

    host: Path = Path("/")
    """The folder that holds the host's ``sys``, ``dev``, ``proc``, ``run`` and ``var``."""
    kubelet_dir: str = DEFAULT_KUBELET_DIR
    """Kubelet's root folder as a path of the host (``--kubelet-dir``)."""

    @property
    def is_real_host(self) -> bool:
        """Whether the host root is this machine's own ``/``."""
        return self.host == Path("/")

    def below(self, host_path: str) -> Path:
        """The path in this process for a path of the host."""
        return self.host / host_path.lstrip("/")

    @property
    def sys(self) -> Path:
        """Sysfs."""
        return self.below("/sys")

    @property
    def dev(self) -> Path:
        """Device nodes."""
        return self.below("/dev")

    @property
    def proc(self) -> Path:
        """procfs; routes are read from its ``net`` folder if netlink is off."""
        return self.below("/proc")

    @property
    def boot_id(self) -> Path:
        """A text that changes at each boot of the host (man 4 random)."""
        return self.proc / "sys" / "kernel" / "random" / "boot_id"

    @property
    def run(self) -> Path:
        """The agent's own run folder, with the admin socket."""
        return self.below("/run/sriov-agent")

    @property
    def device_info(self) -> Path:
        """Device-info files (device-info spec 1.1.0, read by CNI plugins)."""
        return self.below("/var/run/k8s.cni.cncf.io/devinfo/dp")

    @property
    def cdi(self) -> Path:
        """CDI specs of dynamic devices (CDI spec, default folders)."""
        return self.below("/var/run/cdi")

    @property
    def kubelet(self) -> Path:
        """Kubelet's root folder."""
        return self.below(self.kubelet_dir)

    @property
    def device_plugins(self) -> Path:
        """Folder of ``kubelet.sock``, and of plugins that register there (the legacy method)."""
        return self.kubelet / "device-plugins"

    @property
    def kubelet_socket(self) -> Path:
        """Kubelet's Registration service (the legacy method)."""
        return self.device_plugins / "kubelet.sock"

    @property
    def kubelet_checkpoint(self) -> Path:
        """The file in which kubelet's device manager records the allocated devices."""
        return self.device_plugins / "kubelet_internal_checkpoint"

    @property
    def plugins_registry(self) -> Path:
        """Folder that kubelet's plugin watcher watches."""
        return self.kubelet / "plugins_registry"

    @property
    def pod_resources_socket(self) -> Path:
        """Kubelet's PodResourcesLister service."""
        return self.kubelet / "pod-resources" / "kubelet.sock"
