"""Every event of the log stream, level and fields; docs/log-events.md is generated from it."""

from __future__ import annotations

from logging import DEBUG, ERROR, INFO, WARNING

from agent.attrs_classes import frozen


@frozen
class LogEvent:
    """One kind of line in the log stream."""

    name: str
    level: int
    fields: tuple[str, ...]
    """Names of its fields; a field without a value is omitted."""
    meaning: str
    """What happened, and what an operator can do about it."""


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
        "The agent starts with these options.",
    ),
    LogEvent(
        "agent.ready",
        INFO,
        ("ready", "missing"),
        "Readiness changed. The field missing lists what is not ready, as /readyz does.",
    ),
    LogEvent(
        "agent.stopping",
        INFO,
        ("reason",),
        "The agent received a stop signal and shuts down.",
    ),
    LogEvent(
        "agent.stopped",
        INFO,
        (),
        "All sockets are closed; the process exits.",
    ),
    LogEvent(
        "agent.stopped_late",
        WARNING,
        ("limit_s",),
        "A part of the agent did not end within the limit (s). The process exits anyway.",
    ),
    LogEvent(
        "agent.failed",
        ERROR,
        ("error",),
        "The agent has a bug: the process exits with code 1.",
    ),
    LogEvent(
        "agent.start_failed",
        ERROR,
        ("error",),
        "The agent cannot run and exits: with code 2 for an invalid configuration or "
        "argument, else with code 1. This event is logged only with --log-format json; in "
        "text format the message itself is printed.",
    ),
    LogEvent(
        "log.dropped",
        WARNING,
        ("count",),
        "Log lines were dropped because nothing read standard error and 1 MiB of lines was "
        "waiting. This event appears in the log stream only.",
    ),
    LogEvent(
        "log.library",
        WARNING,
        ("library", "message", "error", "times"),
        "A library that the agent uses logged a warning; message is the library's own text. "
        "It is logged once for each place in the library's code, then at the 10th, 100th ... "
        "time.",
    ),
    LogEvent(
        "plugin.registered",
        INFO,
        ("resource", "method", "generation", "socket"),
        "Kubelet accepted the resource.",
    ),
    LogEvent(
        "plugin.registration_failed",
        WARNING,
        ("resource", "error", "times"),
        "Kubelet could not be reached, or it refused the resource. The agent retries until it "
        "succeeds. The event is logged at the first, 10th, 100th ... failure.",
    ),
    LogEvent(
        "plugin.stream_opened",
        DEBUG,
        ("resource", "generation"),
        "Kubelet opened the ListAndWatch stream of the resource.",
    ),
    LogEvent(
        "plugin.stream_lost",
        WARNING,
        ("resource", "generation", "times"),
        "The ListAndWatch stream ended: kubelet restarted or had an error. The agent "
        "registers the resource again. If this repeats, the event is logged at the first, "
        "10th, 100th ... time.",
    ),
    LogEvent(
        "plugin.unsteady",
        WARNING,
        ("resource", "within_s", "times"),
        "Several registrations in a row ended early: kubelet ends the stream, or something "
        "removes the socket. The agent registers again at growing intervals of at most 10 s. "
        "See kubelet's log for the cause.",
    ),
    LogEvent(
        "plugin.unwatched",
        WARNING,
        ("resource", "folder", "after_s", "times"),
        "Kubelet runs but does not dial the sockets in its plugin watcher's folder. The agent "
        "registers resources through kubelet.sock instead. Mount the folder that this kubelet "
        "watches, or run with --registration legacy.",
    ),
    LogEvent(
        "plugin.invalidated",
        INFO,
        ("resource", "why", "times"),
        "A registration became invalid (its socket was removed, kubelet.sock was replaced, or "
        "its options changed). The agent registers the resource again.",
    ),
    LogEvent(
        "plugin.list_pushed",
        DEBUG,
        ("resource", "healthy", "unhealthy", "sequence"),
        "The agent sent a full device list to kubelet.",
    ),
    LogEvent(
        "plugin.list_too_long",
        ERROR,
        ("resource", "bytes", "limit_bytes", "fix", "times"),
        "A device list exceeds kubelet's limit (4 MiB, about 135,000 devices). Kubelet ends "
        "the stream and has no devices of this resource until you split the pool.",
    ),
    LogEvent(
        "plugin.leftovers_removed",
        INFO,
        ("sockets",),
        "The agent removed dead sockets of earlier processes from kubelet's folders.",
    ),
    LogEvent(
        "plugin.folder_unusable",
        WARNING,
        ("folder", "error", "times"),
        "The agent cannot read or write one of kubelet's folders: it is read-only, it cannot "
        "be searched, its file system fails or hangs, or its links form a loop. Existing "
        "sockets stay in place, and the agent retries registration until it succeeds.",
    ),
    LogEvent(
        "plugin.conflict",
        WARNING,
        ("resource", "socket", "times"),
        "Another device plugin still serves this resource. Remove its DaemonSet from the "
        "node; otherwise both plugins register in turn.",
    ),
    LogEvent(
        "plugin.removed",
        INFO,
        ("resource",),
        "The agent stopped serving a resource.",
    ),
    LogEvent(
        "kubelet.pod_resources_unavailable",
        INFO,
        ("error", "times"),
        "Kubelet's pod-resources service did not answer, so the agent does not know which pod "
        "has which device. It uses kubelet's checkpoint and its own record instead. If "
        "kubelet's pod-resources folder is not mounted, mount it.",
    ),
    LogEvent(
        "kubelet.holders_awaited",
        INFO,
        ("seconds",),
        "Kubelet has not yet reported which devices are allocated, and neither its checkpoint "
        "nor the agent's own record lists any. Until kubelet reports them, but for at most "
        "this many seconds, a function without a netdev on the host does not join a pool if "
        "an earlier pool may have given it to a pod.",
    ),
    LogEvent(
        "lock.waiting",
        WARNING,
        ("resources", "holder"),
        "Another agent on this node serves these resources. This agent serves its other "
        "resources, and takes these over when the other agent exits.",
    ),
    LogEvent(
        "lock.acquired",
        INFO,
        ("resources",),
        "The other agent released these resources; this agent serves them now.",
    ),
    LogEvent(
        "lock.lost",
        ERROR,
        ("resource", "holder"),
        "Kubelet's folder was replaced, and another agent locked the resource first. That "
        "agent serves it now, and this one waits. Configure the resource in only one of the "
        "two agents.",
    ),
    LogEvent(
        "lock.unavailable",
        WARNING,
        ("error", "times"),
        "The agent cannot open a lock file in kubelet's folders. It serves its resources "
        "anyway, but nothing prevents a second agent from serving the same ones. The agent "
        "retries.",
    ),
    LogEvent(
        "log.dir_unused",
        WARNING,
        ("log_dir",),
        "--log-dir is accepted for compatibility and has no effect: the log goes to standard "
        "error.",
    ),
    LogEvent(
        "arguments.passed_over",
        WARNING,
        ("words",),
        "These words of the command line, and everything after them, have no effect, as with "
        "the Go plugin: they are not options. Remove them. Give a switch its value with an "
        "equals sign, as in --use-cdi=true.",
    ),
    LogEvent(
        "config.loaded",
        INFO,
        ("path", "pools"),
        "The agent loaded the configuration at its start.",
    ),
    LogEvent(
        "config.idle",
        WARNING,
        ("path", "reason"),
        "This node has no configuration yet, so there are no pools. The agent watches for the "
        "file.",
    ),
    LogEvent(
        "config.error",
        ERROR,
        ("at", "path", "message", "advice"),
        "This problem makes the agent refuse a pool, or the whole file. The field at is "
        "file:line:column.",
    ),
    LogEvent(
        "config.warning",
        WARNING,
        ("at", "path", "message", "advice"),
        "The agent worked around a problem. With --strict it is an error.",
    ),
    LogEvent(
        "config.pool_refused",
        ERROR,
        ("index", "resource"),
        "The agent does not serve a pool because of its errors. It serves the other pools.",
    ),
    LogEvent(
        "config.reloaded",
        INFO,
        ("path", "pools"),
        "The configuration changed, and the agent loaded the new content.",
    ),
    LogEvent(
        "config.unreadable",
        ERROR,
        ("path", "reason", "times"),
        "The agent could not read its configuration at the start: the disk or mount fails or "
        "hangs, or the agent lacks permission. There are no pools until the file can be read; "
        "the agent retries every 5 s.",
    ),
    LogEvent(
        "config.rejected",
        ERROR,
        ("path", "reason"),
        "The configuration changed and is invalid. The agent keeps the last valid configuration.",
    ),
    LogEvent(
        "config.unchanged",
        INFO,
        ("path",),
        "The agent received SIGHUP and read the configuration again: its content is the same.",
    ),
    LogEvent(
        "device.added",
        INFO,
        ("resource", "count", "cause", "detail", "devices"),
        "Devices joined a pool, and the agent reported them to kubelet.",
    ),
    LogEvent(
        "device.removed",
        INFO,
        ("resource", "count", "cause", "detail", "devices"),
        "Devices left a pool: they disappeared from the host, or the selectors no longer "
        "match them.",
    ),
    LogEvent(
        "device.unhealthy",
        WARNING,
        ("resource", "count", "cause", "detail", "devices"),
        "The agent reported these devices to kubelet as Unhealthy, for the given cause. No "
        "new pod gets them.",
    ),
    LogEvent(
        "device.healthy",
        INFO,
        ("resource", "count", "devices"),
        "Devices recovered, and the agent reported them to kubelet as Healthy.",
    ),
    LogEvent(
        "device.suspect",
        WARNING,
        ("resource", "count", "driver", "devices"),
        "These functions of a pool have a driver that creates a network interface, but they "
        "have no interface, and no pod has them. Pods get them only when no other device is "
        "free. Bind the driver again, or reset the function.",
    ),
    LogEvent(
        "device.resting",
        INFO,
        ("seconds", "devices"),
        "Devices were returned within 90 s of their allocation, or could not be given: the "
        "pod may have failed because of them. For this many seconds the agent prefers other "
        "devices.",
    ),
    LogEvent(
        "device.in_use",
        INFO,
        ("device", "how"),
        "The agent keeps a function out of all pools because the host uses it. allowInUse "
        "overrides this.",
    ),
    LogEvent(
        "pool.assigned",
        INFO,
        ("resource", "devices", "funnel"),
        "The result of a pool's selectors on this host: how many functions each step left.",
    ),
    LogEvent(
        "pool.empty",
        WARNING,
        ("resource", "why"),
        "No function is in the pool. The field why names the step that left none, what was "
        "there, and the fix. `sriov-agent explain RESOURCE` prints the same at any time.",
    ),
    LogEvent(
        "pool.note",
        WARNING,
        ("resource", "note"),
        "A selector of the pool can match nothing on this host. The note gives the cause and "
        "the fix.",
    ),
    LogEvent(
        "pool.alternatives",
        INFO,
        ("resource", "absent"),
        "Nothing on this host has these values of a list or this selector object, but others "
        "of the pool match. This is normal where one configuration serves several kinds of "
        "node.",
    ),
    LogEvent(
        "pool.removed",
        INFO,
        ("resource",),
        "A pool was removed from the configuration.",
    ),
    LogEvent(
        "pool.overlap",
        WARNING,
        ("winner", "loser", "count", "devices"),
        "Two pools select the same devices. The pool that comes first in the file gets them.",
    ),
    LogEvent(
        "allocation.made",
        INFO,
        ("resource", "devices", "nodes", "cdi", "took_ms"),
        "The agent gave devices to kubelet for a container.",
    ),
    LogEvent(
        "allocation.refused",
        ERROR,
        ("resource", "error"),
        "Kubelet asked for devices that the agent cannot give: the pod fails with this message.",
    ),
    LogEvent(
        "allocation.not_recorded",
        WARNING,
        ("error", "times"),
        "The agent cannot write its own record of allocated devices (in the folder of the "
        "device-info files). It gives devices anyway; after a restart of the agent, only "
        "kubelet's checkpoint lists them.",
    ),
    LogEvent(
        "allocation.stale_facts",
        WARNING,
        ("devices",),
        "Reading the devices again took too long: the agent used the facts of the last scan.",
    ),
    LogEvent(
        "cdi.written",
        DEBUG,
        ("resource",),
        "The agent updated the CDI spec of a resource.",
    ),
    LogEvent(
        "cdi.removed",
        INFO,
        ("files",),
        "The agent removed CDI specs that no configured resource and no running pod needs.",
    ),
    LogEvent(
        "cdi.skipped",
        WARNING,
        ("file", "reason", "times"),
        "An entry of the CDI folder has the name of one of the agent's spec files, but it is "
        "not a spec file, or it cannot be read or removed. The agent leaves it in place and "
        "cleans up the others. Remove it.",
    ),
    LogEvent(
        "cdi.failed",
        ERROR,
        ("resource", "error", "times"),
        "The agent cannot write a CDI spec. It reports the devices whose entries are missing "
        "or wrong as Unhealthy until it can.",
    ),
    LogEvent(
        "netlink.open",
        INFO,
        ("receive_buffer_bytes",),
        "The agent follows links, kernel events and default routes on netlink sockets.",
    ),
    LogEvent(
        "netlink.lost",
        WARNING,
        ("error", "failures", "times"),
        "The netlink sockets could not be opened or failed. The agent opens them again; until "
        "then it scans the host periodically.",
    ),
    LogEvent(
        "netlink.overrun",
        WARNING,
        ("overruns",),
        "The kernel dropped events of links or devices. The agent reads again everything that "
        "they may have announced.",
    ),
    LogEvent(
        "netlink.unanswered",
        WARNING,
        ("interface", "error", "times"),
        "The kernel did not report the state of an interface and the link policies of its "
        "VFs. The agent uses the state from events, and treats the policies as auto.",
    ),
    LogEvent(
        "host.watching",
        INFO,
        ("by", "folders"),
        "How the agent notices changes of the host, where the host root is a laid-out folder.",
    ),
    LogEvent(
        "host.watch_failed",
        WARNING,
        ("folder", "error"),
        "The inotify watches ran out: only the periodic scan notices changes below this folder.",
    ),
    LogEvent(
        "watch.unavailable",
        WARNING,
        ("folder", "error", "times"),
        "The host allows no further inotify watch, so the agent does not notice changes in "
        "this folder. It retries until it can. Meanwhile, send SIGHUP to have the "
        "configuration read again.",
    ),
    LogEvent(
        "file.hangs",
        ERROR,
        ("purpose", "path", "times"),
        "A system call at this path did not return in time: its file system hangs, for "
        "example a mount whose server is down. What needs the path fails or waits; everything "
        "else continues. Bring the server back, or unmount the path (umount -l).",
    ),
    LogEvent(
        "file.answers",
        INFO,
        ("purpose", "path"),
        "The file system that hung responds again.",
    ),
    LogEvent(
        "host.scan_failed",
        WARNING,
        ("error", "times"),
        "The agent could not scan the host: it cannot list sysfs, the PCI bus or the netdevs, "
        "or the process ran out of descriptors, memory or threads. The agent keeps the facts "
        "of the last scan and retries.",
    ),
    LogEvent(
        "host.scan_stalled",
        ERROR,
        ("seconds", "times"),
        "A scan takes too long: a read hangs in a driver. The agent keeps the facts of the "
        "last scan.",
    ),
    LogEvent(
        "host.scan_resumed",
        INFO,
        (),
        "A scan that hung finished.",
    ),
    LogEvent(
        "http.listening",
        INFO,
        ("address",),
        "The agent serves probes, metrics, status and the page at this address.",
    ),
    LogEvent(
        "http.unavailable",
        WARNING,
        ("address", "error", "times"),
        "The agent cannot listen on the address of --http-address; it retries until it can. "
        "This is normal while a rolling update replaces the agent that uses the address.",
    ),
    LogEvent(
        "http.failed",
        ERROR,
        ("path", "error"),
        "A bug in answering a request: that client received an error, and the agent continues.",
    ),
    LogEvent(
        "peer.dropped",
        WARNING,
        ("error", "times"),
        "The agent closed a connection whose peer did not speak valid HTTP/2. Other "
        "connections are not affected.",
    ),
    LogEvent(
        "services.unavailable",
        WARNING,
        ("error", "times"),
        "The agent could not load its HTTP server or its admin socket. It serves kubelet "
        "anyway, and retries.",
    ),
    LogEvent(
        "admin.listening",
        DEBUG,
        ("socket",),
        "The agent serves the socket of the commands status, watch and explain.",
    ),
    LogEvent(
        "admin.unavailable",
        WARNING,
        ("socket", "error", "times"),
        "The agent cannot create the socket of the commands status, watch and explain. "
        "Everything else works, and the agent retries. Mount a writable folder there if you "
        "want these commands.",
    ),
    LogEvent(
        "admin.failed",
        ERROR,
        ("method", "error"),
        "A bug in answering a command: that command received an error, and the agent continues.",
    ),
    LogEvent(
        "host.no_network",
        WARNING,
        ("pfs",),
        "PFs have kernel drivers, but none of their netdevs is in the agent's network "
        "namespace: the agent does not run in the host's network namespace (hostNetwork: "
        "true). pfNames match nothing, link health is not checked, and interfaces that the "
        "host uses are not kept out of pools.",
    ),
    LogEvent(
        "host.devlink_unreadable",
        WARNING,
        ("reason",),
        "The agent cannot read the file devlink.json of a laid-out host. DDP profiles, and "
        "whether functions may use RDMA, are unknown.",
    ),
    LogEvent(
        "host.pf_down",
        WARNING,
        ("pf", "interface", "driver"),
        "A PF is administratively down. Its driver is not known to stop its VFs in this "
        "state, so the agent reports them as Healthy, although nothing proves their link. To "
        "have the link checked, set the PF up (ip link set INTERFACE up). To ignore it, set "
        "health.link to false in the pool.",
    ),
    LogEvent(
        "host.rdma_module_missing",
        WARNING,
        ("module",),
        "RDMA devices lack the device nodes that this kernel module creates. The agent gives "
        "pods the nodes that exist. Load the module (modprobe) if pods need the others.",
    ),
    LogEvent(
        "host.function_unreadable",
        WARNING,
        ("function", "attribute"),
        "A PCI function lacks an attribute that every function has; the agent ignores the "
        "function.",
    ),
)

EVENTS = {event.name: event for event in _ALL}
