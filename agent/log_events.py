"""Every event of the log stream with level and fields; docs/log-events.md is made from this."""

from __future__ import annotations

from logging import DEBUG, ERROR, INFO, WARNING

from agent.attrs_classes import frozen


@frozen
class LogEvent:
    """One kind of line in the log stream."""

    name: str
    level: int
    fields: tuple[str, ...]
    """Names of its fields; any of them may be left out where there is nothing to say."""
    meaning: str
    """What happened, and what an operator may do about it."""


_ALL = (
    LogEvent(
        "agent.starting",
        INFO,
        (
            "version",
            "pid",
            "host_root",
            "kubelet_dir",
            "config_file",
            "registration",
            "cdi",
            "netlink",
            "http",
        ),
        "The agent starts, with these options in force.",
    ),
    LogEvent(
        "agent.ready",
        INFO,
        ("ready", "missing"),
        "Readiness changed; missing says what keeps the agent from it, as /readyz does.",
    ),
    LogEvent("agent.stopping", INFO, ("reason",), "The agent was asked to stop and cleans up."),
    LogEvent("agent.stopped", INFO, (), "Everything is closed; the process ends."),
    LogEvent(
        "agent.stopped_late",
        WARNING,
        ("limit_s",),
        "Something did not end within the limit (s); the process ends all the same.",
    ),
    LogEvent("agent.failed", ERROR, ("error",), "A bug: the process ends with exit code 1."),
    LogEvent(
        "agent.start_failed",
        ERROR,
        ("error",),
        "It cannot run, and the process ends: exit code 2 for a configuration or an argument that "
        "cannot be used, else 1. Only with --log-format json; otherwise it is told in plain words.",
    ),
    LogEvent(
        "log.dropped",
        WARNING,
        ("count",),
        "Lines were dropped, since nobody read standard error for a while and 1 MiB of them "
        "waited. Only in the log stream itself.",
    ),
    LogEvent(
        "log.library",
        WARNING,
        ("library", "message", "error", "times"),
        "A library that the agent uses warned of something, in its own words. Said once for each "
        "place in its code, then at the 10th, 100th ... time.",
    ),
    LogEvent(
        "plugin.registered",
        INFO,
        ("resource", "way", "generation", "socket"),
        "Kubelet accepted the resource.",
    ),
    LogEvent(
        "plugin.registration_failed",
        WARNING,
        ("resource", "error", "times"),
        "Kubelet could not be reached or refused; tried again until it works. Said once, then "
        "at the 10th, 100th ... time.",
    ),
    LogEvent(
        "plugin.stream_opened",
        DEBUG,
        ("resource", "generation"),
        "Kubelet follows the resource's list of devices.",
    ),
    LogEvent(
        "plugin.stream_lost",
        WARNING,
        ("resource", "generation", "times"),
        "Kubelet stopped following the list, by restarting or by an error of its own; the "
        "resource is registered again. Where it happens again and again, said once, then at the "
        "10th, 100th ... time.",
    ),
    LogEvent(
        "plugin.unsteady",
        WARNING,
        ("resource", "within_s", "times"),
        "Several registrations in a row ended so soon: kubelet ends the list's stream, or the "
        "socket is removed. The agent registers again less and less often, at least every 10 s; "
        "kubelet's log says more.",
    ),
    LogEvent(
        "plugin.unwatched",
        WARNING,
        ("resource", "folder", "after_s", "times"),
        "Kubelet runs, and does not dial the sockets in its plugin watcher's folder: resources are "
        "registered by kubelet.sock. Mount the folder that this kubelet follows, or run with "
        "--registration legacy.",
    ),
    LogEvent(
        "plugin.invalidated",
        INFO,
        ("resource", "why", "times"),
        "Something took a registration's ground away (its socket, kubelet.sock, its options); "
        "the resource is registered again.",
    ),
    LogEvent(
        "plugin.list_pushed",
        DEBUG,
        ("resource", "healthy", "unhealthy", "sequence"),
        "A full list went to kubelet.",
    ),
    LogEvent(
        "plugin.list_too_long",
        ERROR,
        ("resource", "bytes", "limit_bytes", "fix", "times"),
        "A list is longer than kubelet takes (4 MiB, from 135,000 devices on): kubelet ends the "
        "stream at it, and has no devices of this resource until the pool is split.",
    ),
    LogEvent(
        "plugin.leftovers_removed",
        INFO,
        ("sockets",),
        "Dead sockets of earlier processes were removed from kubelet's folders.",
    ),
    LogEvent(
        "plugin.folder_unusable",
        WARNING,
        ("folder", "error", "times"),
        "A folder of kubelet's cannot be looked at or written: it is read-only, may not be "
        "searched, its file system fails or hangs, or links lead in a circle. Sockets stay as "
        "they are, registration is tried again until it works.",
    ),
    LogEvent(
        "plugin.conflict",
        WARNING,
        ("resource", "socket", "times"),
        "Another device plugin still serves this resource: remove its DaemonSet from the node, or "
        "both will be registered in turn.",
    ),
    LogEvent("plugin.removed", INFO, ("resource",), "A resource is offered no more."),
    LogEvent(
        "kubelet.pod_resources_unavailable",
        INFO,
        ("error", "times"),
        "Kubelet's pod-resources service gave no answer: which pod holds which device is not "
        "known. Kubelet's checkpoint and the agent's own record say which devices are held. Mount "
        "kubelet's pod-resources folder if it is missing.",
    ),
    LogEvent(
        "kubelet.holders_awaited",
        INFO,
        ("seconds",),
        "Kubelet has not said yet which devices are held, and neither its checkpoint nor the "
        "agent's own record names any: a function whose netdev is not on the host stays out of a "
        "pool where an earlier pool may have given it to a pod, for at most so many seconds.",
    ),
    LogEvent(
        "lock.waiting",
        WARNING,
        ("resources", "holder"),
        "Another agent on this node serves these resources; this one serves its others, and takes "
        "these over when that one ends.",
    ),
    LogEvent(
        "lock.acquired",
        INFO,
        ("resources",),
        "The other agent released these resources; this one serves them now.",
    ),
    LogEvent(
        "lock.lost",
        ERROR,
        ("resource", "holder"),
        "Kubelet's folder was replaced and another agent locked the resource first: it serves it "
        "now, and this one waits. Configure the resource in one of the two only.",
    ),
    LogEvent(
        "lock.unavailable",
        WARNING,
        ("error", "times"),
        "No lock file can be opened in kubelet's folders; the agent serves its resources, but "
        "nothing keeps a second agent from serving the same ones. It tries again.",
    ),
    LogEvent(
        "log.dir_unused",
        WARNING,
        ("log_dir",),
        "--log-dir is accepted for compatibility; the log goes to standard error.",
    ),
    LogEvent(
        "arguments.passed_over",
        WARNING,
        ("words",),
        "Words of the command line that are no options, and all after them, have no effect, as "
        "with the Go plugin: remove them. A switch takes its value as --use-cdi=true.",
    ),
    LogEvent(
        "config.loaded",
        INFO,
        ("path", "pools"),
        "The configuration read at the start is in force.",
    ),
    LogEvent(
        "config.idle",
        WARNING,
        ("path", "reason"),
        "There is no configuration for this node (yet): no pools, and the file is watched for.",
    ),
    LogEvent(
        "config.error",
        ERROR,
        ("at", "path", "message", "advice"),
        "A problem that refuses a pool, or the whole file; at is file:line:column.",
    ),
    LogEvent(
        "config.warning",
        WARNING,
        ("at", "path", "message", "advice"),
        "A problem that was worked around; --strict makes an error of it.",
    ),
    LogEvent(
        "config.pool_refused",
        ERROR,
        ("index", "resource"),
        "A pool is not served because of its errors; the other pools are.",
    ),
    LogEvent(
        "config.reloaded",
        INFO,
        ("path", "pools"),
        "The file changed, and its new content is in force.",
    ),
    LogEvent(
        "config.unreadable",
        ERROR,
        ("path", "reason", "times"),
        "At the start the system cannot say what the configuration is: its disk or mount fails or "
        "hangs, or the agent may not read it. There are no pools until it can be read; tried "
        "again every 5 s.",
    ),
    LogEvent(
        "config.rejected",
        ERROR,
        ("path", "reason"),
        "The file changed and cannot be used: the last good configuration stays in force.",
    ),
    LogEvent(
        "config.unchanged",
        INFO,
        ("path",),
        "Asked by SIGHUP to read the file again: its content is the same.",
    ),
    LogEvent(
        "device.added",
        INFO,
        ("resource", "count", "cause", "detail", "devices"),
        "Devices joined a pool and were told to kubelet.",
    ),
    LogEvent(
        "device.removed",
        INFO,
        ("resource", "count", "cause", "detail", "devices"),
        "Devices left a pool: gone from the host, or its selectors refuse them now.",
    ),
    LogEvent(
        "device.unhealthy",
        WARNING,
        ("resource", "count", "cause", "detail", "devices"),
        "Kubelet was told that no pod may get these devices, for the cause given.",
    ),
    LogEvent(
        "device.healthy",
        INFO,
        ("resource", "count", "devices"),
        "Devices recovered and were told as Healthy.",
    ),
    LogEvent(
        "device.suspect",
        WARNING,
        ("resource", "count", "driver", "devices"),
        "Functions of a pool have a driver that makes a network interface, and have none, though "
        "no pod holds them: pods get them only where there is nothing else. Bind the driver again, "
        "or reset the function.",
    ),
    LogEvent(
        "device.resting",
        INFO,
        ("seconds", "devices"),
        "Devices came back within 90 s of their allocation, or could not be given: the pod may "
        "have failed because of them. For so many seconds others are preferred to them.",
    ),
    LogEvent(
        "device.in_use",
        INFO,
        ("device", "how"),
        "A function is kept out of all pools because the host uses it; allowInUse overrides.",
    ),
    LogEvent(
        "pool.assigned",
        INFO,
        ("resource", "devices", "funnel"),
        "What a pool's selectors made of the host: how many functions each step left.",
    ),
    LogEvent(
        "pool.empty",
        WARNING,
        ("resource", "why"),
        "No function is in the pool: which step left none, what was there, and the fix. "
        "`sriov-agent explain RESOURCE` tells the same at any time.",
    ),
    LogEvent(
        "pool.note",
        WARNING,
        ("resource", "note"),
        "A selector of the pool can match nothing on this host; says why, and the fix.",
    ),
    LogEvent(
        "pool.alternatives",
        INFO,
        ("resource", "absent"),
        "Values of a list, or a selector object, that nothing on this host has, beside others that "
        "match: no fault where one configuration serves several kinds of node.",
    ),
    LogEvent(
        "pool.removed",
        INFO,
        ("resource",),
        "A pool is configured no more.",
    ),
    LogEvent(
        "pool.overlap",
        WARNING,
        ("winner", "loser", "count", "devices"),
        "Two pools want the same devices: the one that stands first in the file has them.",
    ),
    LogEvent(
        "allocation.made",
        INFO,
        ("resource", "devices", "nodes", "cdi", "took_ms"),
        "Kubelet was given devices for a container.",
    ),
    LogEvent(
        "allocation.refused",
        ERROR,
        ("resource", "error"),
        "Kubelet asked for devices that cannot be given: the pod fails with this message.",
    ),
    LogEvent(
        "allocation.not_recorded",
        WARNING,
        ("error", "times"),
        "The agent's own record of what it has given cannot be written (folder of the device-info "
        "files): devices are given all the same, and kubelet's checkpoint alone tells a restarted "
        "agent of them.",
    ),
    LogEvent(
        "allocation.stale_facts",
        WARNING,
        ("devices",),
        "Reading the devices anew took too long: the facts of the last scan were used.",
    ),
    LogEvent(
        "cdi.written",
        DEBUG,
        ("resource",),
        "A resource's CDI spec was brought up to date.",
    ),
    LogEvent(
        "cdi.removed",
        INFO,
        ("files",),
        "CDI specs that no configured resource and no running pod needs were removed.",
    ),
    LogEvent(
        "cdi.skipped",
        WARNING,
        ("file", "reason", "times"),
        "An entry of the CDI folder has the name of one of the agent's spec files, and is none or "
        "cannot be read or removed. It is left alone and the others are cleaned. Remove it.",
    ),
    LogEvent(
        "cdi.failed",
        ERROR,
        ("resource", "error", "times"),
        "A CDI spec cannot be written: devices of which it does not tell rightly are told as "
        "Unhealthy until it can.",
    ),
    LogEvent(
        "netlink.open",
        INFO,
        ("receive_buffer_bytes",),
        "Links, kernel events and default routes are followed on netlink sockets.",
    ),
    LogEvent(
        "netlink.lost",
        WARNING,
        ("error", "failures", "times"),
        "Netlink sockets cannot be had or died; opened anew, with a slow scan meanwhile.",
    ),
    LogEvent(
        "netlink.overrun",
        WARNING,
        ("overruns",),
        "The kernel dropped events of links or devices: all that they may have told is read anew.",
    ),
    LogEvent(
        "netlink.unanswered",
        WARNING,
        ("interface", "error", "times"),
        "The kernel did not tell an interface's state and its VFs' link policies; what events tell "
        "is used, and the policies count as auto.",
    ),
    LogEvent(
        "host.watching",
        INFO,
        ("by", "folders"),
        "How changes of the host are noticed where its root is a laid-out folder.",
    ),
    LogEvent(
        "host.watch_failed",
        WARNING,
        ("folder", "error"),
        "Watches of inotify ran out: only the safety scan sees changes below the folder.",
    ),
    LogEvent(
        "watch.unavailable",
        WARNING,
        ("folder", "error", "times"),
        "The host allows no further watch of inotify: changes there are not noticed until it does. "
        "Tried again until it does; meanwhile SIGHUP has the configuration read again.",
    ),
    LogEvent(
        "file.hangs",
        ERROR,
        ("purpose", "path", "times"),
        "A call of the system at this path did not return in time: its file system hangs, such as "
        "a mount whose server is dead. What needs it fails or waits, everything else goes on. "
        "Bring the server back, or unmount the path (umount -l).",
    ),
    LogEvent(
        "file.answers",
        INFO,
        ("purpose", "path"),
        "The file system that hung answers again.",
    ),
    LogEvent(
        "host.scan_failed",
        WARNING,
        ("error", "times"),
        "The host could not be read as a whole: sysfs, its PCI bus or its netdevs cannot be "
        "listed, or the process has run out of descriptors, memory or threads. The last facts "
        "stay in force, and it tries again until it can.",
    ),
    LogEvent(
        "host.scan_stalled",
        ERROR,
        ("seconds", "times"),
        "A scan takes unreasonably long: a read hangs in a driver; the last facts stay in force.",
    ),
    LogEvent(
        "host.scan_resumed",
        INFO,
        (),
        "A scan that hung is done.",
    ),
    LogEvent(
        "http.listening",
        INFO,
        ("address",),
        "Probes, metrics, status and the page are served.",
    ),
    LogEvent(
        "http.unavailable",
        WARNING,
        ("address", "error", "times"),
        "The address of --http-address cannot be had; tried again until it can. Usual while a "
        "rolling update replaces the agent that has it.",
    ),
    LogEvent(
        "http.failed",
        ERROR,
        ("path", "error"),
        "A bug in making an answer: that client got an error, the agent works on.",
    ),
    LogEvent(
        "peer.dropped",
        WARNING,
        ("error", "times"),
        "A connection to a socket spoke no HTTP/2 that can be understood, and was closed; "
        "others are not concerned.",
    ),
    LogEvent(
        "services.unavailable",
        WARNING,
        ("error", "times"),
        "What shows the agent to people (HTTP, the admin socket) could not be loaded; kubelet is "
        "served all the same. Tried again until it can.",
    ),
    LogEvent(
        "admin.listening",
        DEBUG,
        ("socket",),
        "The socket of status, watch and explain is served.",
    ),
    LogEvent(
        "admin.unavailable",
        WARNING,
        ("socket", "error", "times"),
        "The socket of status, watch and explain cannot be made; everything else works. Tried "
        "again until it can; mount a writable folder there if you want these commands.",
    ),
    LogEvent(
        "admin.failed",
        ERROR,
        ("method", "error"),
        "A bug in making an answer: that command got an error, the agent works on.",
    ),
    LogEvent(
        "host.no_network",
        WARNING,
        ("pfs",),
        "PFs are on kernel drivers, and none of their netdevs is in the agent's network namespace: "
        "it does not run in the host's (hostNetwork: true). pfNames find nothing, links are not "
        "checked, and interfaces that the host itself uses are not kept out.",
    ),
    LogEvent(
        "host.devlink_unreadable",
        WARNING,
        ("reason",),
        "The file devlink.json of a laid-out host cannot be read: DDP profiles and whether "
        "functions may do RDMA are not known.",
    ),
    LogEvent(
        "host.pf_down",
        WARNING,
        ("pf", "interface", "driver"),
        "A PF is administratively down. Its driver is not known to stop its VFs then, so they are "
        "told as Healthy though nothing proves their link. To have the link checked, set the PF "
        "up (ip link set INTERFACE up); to have it ignored, set health.link to false in the pool.",
    ),
    LogEvent(
        "host.rdma_module_missing",
        WARNING,
        ("module",),
        "RDMA devices lack the nodes that this kernel module makes; they are handed out with what "
        "there is. Load the module (modprobe) if pods need it.",
    ),
    LogEvent(
        "host.function_unreadable",
        WARNING,
        ("function", "attribute"),
        "A PCI function lacks an attribute that every function has; it is passed over.",
    ),
)

EVENTS = {event.name: event for event in _ALL}
