"""Converts spellings of options that the Go plugin accepts to those of argparse.

Go's flag package accepts one dash or two, ``=`` or a second word, and ``-flag=true`` for booleans;
existing manifests use all of these. It stops at the first word that is neither an option nor the
value of one, or at ``--``, and ignores the rest.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from agent.errors import UsageError

GLOG_VALUES = (
    *("stderrthreshold", "vmodule", "log-backtrace-at", "log-link", "logbuflevel"),
    *("log-file", "log-file-max-size"),
)
"""Options of glog and klog that have a value; other builds of the Go plugin have them."""
GLOG_SWITCHES = ("logtostderr", "alsologtostderr", "add-dir-header", "skip-headers", "one-output")
EMPTY_IS_DEFAULT = ("config_file", "resource_prefix", "log_level", "log_dir", "verbosity")
"""Arguments for which an empty value (``--resource-prefix=``) in a manifest means the default."""
_LONG = re.compile(r"--?([A-Za-z][\w-]+)(=.*)?", re.DOTALL)
_TRUE = frozenset({"1", "t", "true"})
_FALSE = frozenset({"0", "f", "false"})


def as_go_reads(
    words: Sequence[str], known: dict[str, argparse.Action]
) -> tuple[list[str], list[str]]:
    """The options with their values as ``--name=value``, and the words that Go would ignore."""
    options: list[str] = []
    remaining = list(words)
    while remaining and remaining[0].startswith("-") and remaining[0] not in {"-", "--"}:
        word = remaining.pop(0)
        action = known.get(word.lstrip("-").replace("_", "-"))
        if action is not None and action.nargs != 0 and remaining:
            word = f"{action.option_strings[-1]}={remaining.pop(0)}"
        options.append(word)
    return options, remaining[remaining[:1] == ["--"] :]


def normalised(words: Sequence[str], known: dict[str, argparse.Action]) -> list[str]:
    """Convert Go's spellings of known options to ours; other words are left for the parser.

    If a switch is repeated, the last one counts, as in Go. ``-hostroot`` is a misspelt option, not
    ``-h`` with a value.
    """
    result: list[str] = []
    for word in words:
        match = _LONG.fullmatch(word)
        name = match[1].replace("_", "-") if match else ""
        if match is None or name not in known:
            if match and word[1] != "-" and (switch := known.get(word[1])) and switch.nargs == 0:
                raise UsageError(f"unrecognized arguments: {word} (see sriov-agent --help)")
            result.append(word)
        elif known[name].nargs == 0:
            result = [w for w in result if w != f"--{name}"]
            result += _switch(name, match[2][1:] if match[2] else "true")
        else:
            result.append(f"--{name}{match[2] or ''}")
    return result


def _switch(name: str, value: str) -> list[str]:
    if value.lower() in _TRUE:
        return [f"--{name}"]
    if value.lower() in _FALSE:
        return []
    raise UsageError(f"--{name} takes true or false, not {value!r}")
