"""A laid-out host in the place of the real one: the agent runs with ``--host-root /`` and sees it.

In a mount namespace of its own the laid-out sysfs folders lie over the real ones; nothing of the
machine is touched.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.agent import AgentProcess
from tests.support.host_builder import HostBuilder
from tests.support.netns import NetNamespace

_SCRIPT = """
fake=$1; shift
mount -t tmpfs tmpfs /run
mount --bind "$fake/sys/devices" /sys/devices
mount --bind "$fake/sys/bus/pci" /sys/bus/pci
mount --bind "$fake/sys/class/net" /sys/class/net
exec "$@"
"""


def real_root(host: Path) -> tuple[str, ...]:
    """Words that run a command with ``host`` laid over the machine's sysfs."""
    return ("unshare", "-m", "--propagation", "private", "sh", "-ec", _SCRIPT, "_", str(host))


def agent_at_root(
    namespace: NetNamespace,
    host: HostBuilder,
    config: Path,
    *arguments: str,
    before: tuple[str, ...] = (),
) -> AgentProcess:
    """The agent as deployed: nothing but the kernel's events tells it; ``before`` starts it all."""
    return AgentProcess(
        Path("/"),
        config,
        *("--kubelet-dir", str(host.roots.kubelet), *arguments),
        wrapper=(*before, *namespace.wrapper, *real_root(host.root)),
    )
