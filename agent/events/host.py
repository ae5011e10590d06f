"""Events of the host: scans, file system watches, and what the host lacks."""

from __future__ import annotations

from logging import ERROR, INFO, WARNING

from agent.events.event import LogEvent, RepeatedEvent


class HostWatching(LogEvent, name="host.watching", level=INFO):
    """How the agent notices changes of the host, where the host root is a laid-out folder."""

    by: str
    folders: int


class HostWatchFailed(LogEvent, name="host.watch_failed", level=WARNING):
    """The inotify watches ran out: only the periodic scan notices changes below this folder."""

    folder: str
    error: str


class WatchUnavailable(RepeatedEvent, name="watch.unavailable", level=WARNING):
    """The host allows no further inotify watch, so the agent does not notice changes in this
    folder. It retries until it can. Meanwhile, send SIGHUP to have the configuration read
    again.
    """

    folder: str
    error: str


class FileHangs(RepeatedEvent, name="file.hangs", level=ERROR):
    """A system call at this path did not return in time: its file system hangs, for example a
    mount whose server is down. What needs the path fails or waits; everything else continues.
    Bring the server back, or unmount the path (umount -l).
    """

    purpose: str
    path: str


class FileAnswers(LogEvent, name="file.answers", level=INFO):
    """The file system that hung responds again."""

    purpose: str
    path: str


class ScanFailed(RepeatedEvent, name="host.scan_failed", level=WARNING):
    """The agent could not scan the host: it cannot list sysfs, the PCI bus or the netdevs, or
    the process ran out of descriptors, memory or threads. The agent keeps the facts of the last
    scan and retries.
    """

    error: str


class ScanStalled(RepeatedEvent, name="host.scan_stalled", level=ERROR):
    """A scan takes too long: a read hangs in a driver. The agent keeps the facts of the last
    scan.
    """

    seconds: float


class ScanResumed(LogEvent, name="host.scan_resumed", level=INFO):
    """A scan that hung finished."""


class HostNetworkMissing(LogEvent, name="host.no_network", level=WARNING):
    """PFs have kernel drivers, but none of their netdevs is in the agent's network namespace:
    the agent does not run in the host's network namespace (hostNetwork: true). pfNames match
    nothing, link health is not checked, and interfaces that the host uses are not kept out of
    pools.
    """

    pfs: str


class DevlinkFileUnreadable(LogEvent, name="host.devlink_unreadable", level=WARNING):
    """The agent cannot read the file devlink.json of a laid-out host. DDP profiles, and whether
    functions may use RDMA, are unknown.
    """

    reason: str


class AltnamesFileUnreadable(LogEvent, name="host.altnames_unreadable", level=WARNING):
    """The agent cannot read the file altnames.json of a laid-out host. It knows PFs by the names
    of their netdevs only.
    """

    reason: str


class PfDown(LogEvent, name="host.pf_down", level=WARNING):
    """A PF is administratively down. Its driver is not known to stop its VFs in this state, so
    the agent reports them as Healthy, although nothing proves their link. To have the link
    checked, set the PF up (ip link set INTERFACE up). To ignore it, set health.link to false in
    the pool.
    """

    pf: str
    interface: str
    driver: str


class RdmaModuleMissing(LogEvent, name="host.rdma_module_missing", level=WARNING):
    """RDMA devices lack the device nodes that this kernel module creates. The agent gives pods
    the nodes that exist. Load the module (modprobe) if pods need the others.
    """

    module: str


class FunctionUnreadable(LogEvent, name="host.function_unreadable", level=WARNING):
    """A PCI function lacks an attribute that every function has; the agent ignores the
    function.
    """

    function: str
    attribute: str
