"""A laid-out host in the place of the real one: the agent runs with ``--host-root /`` and sees it.

In a mount namespace of its own the laid-out sysfs folders lie over the real ones; nothing of the
machine is touched.
"""

from __future__ import annotations

from pathlib import Path

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
