"""The spellings that the Go plugin's command line allows, turned into those of argparse.

Go's flag package takes one dash or two, ``=`` or a second word, and ``-flag=true`` for booleans;
manifests in the field use all of these. It stops at the first word that is neither an option nor
the value of one, or at ``--``, and passes over all that follows.
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
"""Options with a value of glog and of klog, which other builds of the Go plugin use."""
GLOG_SWITCHES = ("logtostderr", "alsologtostderr", "add-dir-header", "skip-headers", "one-output")
EMPTY_IS_DEFAULT = ("config_file", "resource_prefix", "log_level", "log_dir", "verbosity")
"""Arguments of which manifests give an empty value (``--resource-prefix=``) for the default."""
_LONG = re.compile(r"--?([A-Za-z][\w-]+)(=.*)?", re.DOTALL)
_TRUE = frozenset({"1", "t", "true"})
_FALSE = frozenset({"0", "f", "false"})


def as_go_reads(
    words: Sequence[str], known: dict[str, argparse.Action]
) -> tuple[list[str], list[str]]:
    """The options with their values as ``--name=value``, and the words after the last of them."""
    options: list[str] = []
    left = list(words)
    while left and left[0].startswith("-") and left[0] not in {"-", "--"}:
        word = left.pop(0)
        action = known.get(word.lstrip("-").replace("_", "-"))
        if action is not None and action.nargs != 0 and left:
            word = f"{action.option_strings[-1]}={left.pop(0)}"
        options.append(word)
    return options, left[left[:1] == ["--"] :]


def normalised(words: Sequence[str], known: dict[str, argparse.Action]) -> list[str]:
    """Go's spellings of known options in ours; what is not known is left for the parser.

    Of a switch that comes several times the last one counts, as in Go. ``-hostroot`` is a misspelt
    option and not ``-h`` with more behind it.
    """
    result: list[str] = []
    for word in words:
        found = _LONG.fullmatch(word)
        name = found[1].replace("_", "-") if found else ""
        if found is None or name not in known:
            if found and word[1] != "-" and (switch := known.get(word[1])) and switch.nargs == 0:
                raise UsageError(f"unrecognized arguments: {word} (see sriov-agent --help)")
            result.append(word)
        elif known[name].nargs == 0:
            result = [w for w in result if w != f"--{name}"]
            result += _switch(name, found[2][1:] if found[2] else "true")
        else:
            result.append(f"--{name}{found[2] or ''}")
    return result


def _switch(name: str, value: str) -> list[str]:
    if value.lower() in _TRUE:
        return [f"--{name}"]
    if value.lower() in _FALSE:
        return []
    raise UsageError(f"--{name} takes true or false, not {value!r}")
