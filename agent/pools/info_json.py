"""The text of the ``_INFO`` variable: byte for byte what the Go plugin writes for the same facts.

Workloads parse it, and some compare it. Go's encoding/json sorts the keys of maps, writes
characters as they are, and escapes those that could end a script element in HTML.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

_AS_GO = {
    **{ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"},
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),  # half a pair: JSON spells it, UTF-8 cannot
}


def info_json(info: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str:
    """Device id -> section -> key -> value, as compact JSON with sorted keys."""
    text = json.dumps(info, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.translate(_AS_GO)
