"""Every argument of every command.

Without a command, the command line is parsed as the Go plugin does (:mod:`agent.cli.go_spellings`),
which ignores words that are not options. After a command, including ``run``, they are usage errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from agent import __version__
from agent.cli.go_spellings import (
    EMPTY_IS_DEFAULT,
    GLOG_SWITCHES,
    GLOG_VALUES,
    as_go_reads,
    normalised,
)
from agent.config.schema import AllocationPolicy
from agent.errors import UsageError
from agent.roots import DEFAULT_KUBELET_DIR

DEFAULT_CONFIG_FILE = "/etc/pcidp/config.json"
DEFAULT_PREFIX = "intel.com"


class _Parser(argparse.ArgumentParser):
    """Raises UsageError instead of ending the process; options cannot be abbreviated.

    The terminal's width is read only when help is printed: argparse imports ``shutil`` for it, and
    with that all compression modules.
    """

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - argparse's own
        formatter = partial(argparse.HelpFormatter, width=80)
        super().__init__(allow_abbrev=False, formatter_class=formatter, **settings)

    def format_help(self) -> str:
        self.formatter_class = argparse.HelpFormatter
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command line without the program's name; ``command`` names the command.

    No command means ``run``; ``passed_over`` has the words that were ignored then. Raises
    UsageError; ``--help`` and ``--version`` raise SystemExit.
    """
    words = list(argv)
    if words[:1] in (["-h"], ["--help"], ["-help"], ["--version"]):
        return build_parser().parse_args(["--version" if words[0] == "--version" else "--help"])
    command = words.pop(0) if words and not words[0].startswith("-") else ""
    if command and command not in COMMANDS:
        raise UsageError(_unknown_command(command))
    parser = build_parser(command or "run")
    known = _options_of(parser, command or "run")
    passed_over: list[str] = []
    if not command:
        words, passed_over = as_go_reads(words, known)
    arguments = parser.parse_args([command or "run", *normalised(words, known)])
    arguments.passed_over = tuple(passed_over)
    for name in EMPTY_IS_DEFAULT:
        if getattr(arguments, name, None) == "":
            action = next(a for a in known.values() if a.dest == name)
            setattr(arguments, name, action.default)
    return arguments


def _unknown_command(word: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - needed for this one message only

    near = get_close_matches(word, COMMANDS, 1)
    hint = f", did you mean {near[0]}?" if near else "."
    return f"there is no command {word!r}{hint} Commands: {', '.join(COMMANDS)}"


def _options_of(parser: argparse.ArgumentParser, command: str) -> dict[str, argparse.Action]:
    """Option name without dashes -> its action, for one command."""
    subparsers = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))  # noqa: SLF001 - argparse has no public way
    return {
        option.lstrip("-"): action
        for action in subparsers.choices[command]._actions  # noqa: SLF001 - as above
        for option in action.option_strings
    }


def build_parser(*only: str) -> argparse.ArgumentParser:
    """The parser of all commands, or only of some: creating all of them takes milliseconds."""
    parser = _Parser(
        prog="sriov-agent",
        description="Offers the SR-IOV functions and accelerators of this node to pods as "
        "Kubernetes resources. Without a command, runs the agent with the arguments of the SR-IOV "
        "network device plugin.",
        epilog="Exit codes: 0 success, or stopped by a signal; 1 failure; 2 invalid configuration "
        "or arguments; 128 + N ended at once by a second stop signal N.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for command in only or COMMANDS:
        _ADDERS[command](commands)
    return parser


_Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse names the type in no other way


def _add_run(commands: _Commands[_Parser]) -> None:
    run = commands.add_parser(
        "run",
        help="run the agent (the default)",
        description="Runs the agent until SIGTERM, SIGINT or SIGQUIT; SIGHUP reads the "
        "configuration again.",
    )
    _add_config(run)
    _add_host(run)
    run.add_argument(
        "--use-cdi", action="store_true", help="add device nodes to containers by CDI specs"
    )
    run.add_argument(
        "--cdi-mode",
        choices=("field", "annotations", "both"),
        default="field",
        help="how CDI device names are passed to kubelet: in the field cdi_devices (Kubernetes "
        "1.28 and later; default), in annotations, or both",
    )
    run.add_argument(
        "--registration",
        choices=("auto", "watcher", "legacy"),
        default="auto",
        help="how to register resources: through kubelet's plugin watcher, through its "
        "Registration service (legacy), or auto (default): the watcher if kubelet uses it",
    )
    run.add_argument(
        "--allocation-policy",
        choices=tuple(p.value for p in AllocationPolicy if p.value),
        default="",
        metavar="packed|spread|numa",
        help="which devices kubelet should allocate first, for pools without allocationPolicy; "
        "default: those of the first PF by address, with the lowest index",
    )
    run.add_argument(
        "--rescan-seconds",
        type=_seconds,
        default=60.0,
        help="interval of full scans while kernel events are unavailable; default 60; 0 = off "
        "(P_Keys and device nodes change without events and are always read every minute)",
    )
    run.add_argument(
        "--http-address",
        metavar="HOST:PORT",
        help="serve /metrics, /healthz, /livez, /readyz, /status, /events and a web page; "
        "off by default",
    )
    run.add_argument(
        "--vf-metrics",
        action="store_true",
        help="add traffic counters of each VF, with its pod, to /metrics; off by default",
    )
    run.add_argument("--log-format", choices=("text", "json"), default="text")
    run.add_argument(
        "--log-level",
        default="info",
        help="debug, info, warning or error, or a number: 4 and more is debug; default info",
    )
    run.add_argument(
        "--log-dir",
        help="accepted for compatibility with the Go plugin; the log goes to standard error",
    )
    for name in GLOG_SWITCHES:
        run.add_argument(f"--{name}", action="store_true", help=argparse.SUPPRESS)
    for name in GLOG_VALUES:
        run.add_argument(f"--{name}", help=argparse.SUPPRESS)
    run.add_argument("-v", "--v", dest="verbosity", help=argparse.SUPPRESS)


def _add_discover(commands: _Commands[_Parser]) -> None:
    discover = commands.add_parser(
        "discover",
        help="list the devices of this host, with their pools",
        description="Scans the host once and prints every device with its pool, or with the "
        "reason why it is in no pool. Works without a configuration and without a running agent.",
    )
    _add_config(discover, needed=False)
    _add_host(discover)
    discover.add_argument("-o", "--output", choices=("table", "json"), default="table")


def _add_validate(commands: _Commands[_Parser]) -> None:
    validate = commands.add_parser(
        "validate",
        help="check a configuration file",
        description="Prints every problem of a configuration file, with its line, column and fix. "
        "Exit code 0: no errors; 2: a pool or the whole file is invalid.",
    )
    validate.add_argument("file", nargs="?", help="the file; default: --config-file")
    validate.add_argument(
        "--on-this-host",
        action="store_true",
        help="also scan this host, and print which selectors match nothing on it",
    )
    validate.add_argument(
        "--use-cdi",
        action="store_true",
        help="also check the names that run --use-cdi needs",
    )
    _add_config(validate)
    _add_host(validate)


def _add_explain(commands: _Commands[_Parser]) -> None:
    explain = commands.add_parser(
        "explain",
        help="show why a device is or is not in a pool, or how a pool got its devices",
        description="For a device, prints which selectors of each pool match it, whether the host "
        "uses it, its health with cause and time, and the pod that holds it. For a pool, prints "
        "how many functions were left after each selector, which selectors match nothing on this "
        "host, and the devices. Asks the running agent; with --config-file, or if no agent runs, "
        "it scans the host once.",
    )
    explain.add_argument(
        "subject",
        metavar="DEVICE|RESOURCE",
        help="PCI address, auxiliary device, netdev, or resource with or without its prefix",
    )
    explain.add_argument("-o", "--output", choices=("table", "json"), default="table")
    _add_config(explain, needed=False)
    _add_host(explain)


def _add_status(commands: _Commands[_Parser]) -> None:
    status = commands.add_parser(
        "status",
        help="show the state of the running agent: pools, devices, health, allocations",
        description="Asks the running agent through its socket. Run it in the agent's container or "
        "on its host, as the same user or as root. Exit code 0: ready; 1: not ready, or no agent "
        "runs.",
    )
    status.add_argument("-o", "--output", choices=("table", "json"), default="table")
    status.add_argument("--devices", action="store_true", help="also list every device")
    _add_socket(status)


def _add_watch(commands: _Commands[_Parser]) -> None:
    watch = commands.add_parser(
        "watch",
        help="print the events of the running agent as they happen",
        description="Prints the recent events of the running agent, then each new one, until "
        "interrupted. Events of all levels are printed, independent of the agent's --log-level.",
    )
    watch.add_argument("--json", action="store_true", help="print one JSON object per line")
    watch.add_argument("--from-now", action="store_true", help="omit past events")
    _add_socket(watch)


def _add_snapshot(commands: _Commands[_Parser]) -> None:
    snapshot = commands.add_parser(
        "snapshot",
        help="record this host's hardware in a file, for a bug report",
        description="Records what a scan of this host reads, without serial numbers, MAC addresses "
        "and the configuration. To reproduce this host elsewhere, pass the file as --host-root to "
        "discover, explain, validate or run. Recordings of an unchanged host are identical.",
    )
    snapshot.add_argument(
        "file", metavar="FILE.tar.gz", help="the file to write; - for standard output"
    )
    snapshot.add_argument(
        "--with-macs", action="store_true", help="include MAC addresses, and names made from them"
    )
    _add_host(snapshot)


def _add_schema(commands: _Commands[_Parser]) -> None:
    commands.add_parser(
        "schema",
        help="print the JSON Schema of the configuration file",
        description="Prints the JSON Schema (draft-07) of the configuration file, for editors and "
        "other tools. The command validate checks more than a schema can.",
    )


def _add_completion(commands: _Commands[_Parser]) -> None:
    completion = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Prints a script that lets the shell complete commands, options and files: "
        'eval "$(sriov-agent completion bash)".',
    )
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def _add_demo(commands: _Commands[_Parser]) -> None:
    commands.add_parser(
        "demo",
        help="run the agent on a simulated node, for a few seconds",
        description="Runs the agent on a simulated node in a temporary folder, with a simulated "
        "kubelet, and shows registration, device lists, an allocation, a link failure and its "
        "recovery, new VFs and a change of the configuration. Changes nothing on this host.",
    )


def _add_socket(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host-root",
        metavar="DIR",
        default="/",
        help="the agent's host root; its socket is run/sriov-agent/agent.sock below it; default /",
    )
    parser.set_defaults(kubelet_dir=DEFAULT_KUBELET_DIR)


def _add_config(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    parser.add_argument(
        "--config-file",
        metavar="FILE",
        default=DEFAULT_CONFIG_FILE if needed else None,
        help=f"configuration file, or a folder with a file named $NODE_NAME or config.json; "
        f"default {DEFAULT_CONFIG_FILE}",
    )
    parser.add_argument(
        "--resource-prefix",
        metavar="PREFIX",
        default=DEFAULT_PREFIX,
        help=f"prefix of resources without resourcePrefix; default {DEFAULT_PREFIX}",
    )
    parser.add_argument(
        "--strict", action="store_true", help="treat warnings of the configuration as errors"
    )


def _add_host(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host-root",
        metavar="DIR",
        default="/",
        help="folder with the host's sys, dev, proc, run and var, or a recording of the command "
        "snapshot (FILE.tar.gz); default /",
    )
    parser.add_argument(
        "--kubelet-dir",
        metavar="DIR",
        default=DEFAULT_KUBELET_DIR,
        help=f"kubelet's root folder, below the host root; default {DEFAULT_KUBELET_DIR}",
    )
    parser.add_argument(
        "--netlink",
        choices=("auto", "on", "off"),
        default="auto",
        help="receive kernel events, link states and routes through netlink; auto (default): on if "
        "the host root is /",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return seconds


_ADDERS = {
    "run": _add_run,
    "discover": _add_discover,
    "validate": _add_validate,
    "explain": _add_explain,
    "status": _add_status,
    "watch": _add_watch,
    "snapshot": _add_snapshot,
    "schema": _add_schema,
    "completion": _add_completion,
    "demo": _add_demo,
}
COMMANDS = tuple(_ADDERS)
