"""Recorded machines: every record that a scan makes of them, one line for each device.

``snapshot.txt`` beside a machine's ``tree.txt`` is what is expected. SRIOV_AGENT_RECORD=1 writes it
anew; a new folder in tests/hosts is a new test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import attrs
import pytest

from agent.discovery.scan import scan
from agent.kinds import Kind
from agent.model.snapshot import Snapshot
from agent.roots import Roots
from tests.support.trees import load_tree

HOSTS = Path(__file__).resolve().parents[2] / "hosts"
MACHINES = sorted(p.name for p in HOSTS.iterdir() if p.is_dir())


def written(snapshot: Snapshot) -> str:
    """A snapshot as text: its devices, then everything else that differs from an empty one."""
    host = [line for line in _facts(snapshot) if not line.startswith("devices=")]
    return "\n".join([*(_line(d) for d in snapshot.devices), *host]) + "\n"


def _line(record: attrs.AttrsInstance) -> str:
    return " ".join(_facts(record))


def _facts(record: attrs.AttrsInstance) -> Iterator[str]:
    """``field=value`` for every field that is not its default."""
    for field in attrs.fields(type(record)):
        value = getattr(record, field.name)
        if value != field.default:
            yield f"{field.name}={_value(field.name, value)}"


def _value(name: str, value: object) -> str:
    if attrs.has(type(value)) and not isinstance(value, Kind):
        record = cast("attrs.AttrsInstance", value)
        return f"{{{_line(record)}}}"
    if isinstance(value, frozenset):
        value = tuple(sorted(value))
    if isinstance(value, tuple):
        return f"[{' '.join(_value('', item) for item in value)}]"
    return f"{value:#08x}" if name == "pci_class" else str(value)


@pytest.mark.parametrize("name", MACHINES)
def test_a_recorded_machine_is_read_record_by_record(name: str, tmp_path: Path) -> None:
    load_tree((HOSTS / name / "tree.txt").read_text(), tmp_path)
    found = written(scan(Roots(tmp_path)))
    expected = HOSTS / name / "snapshot.txt"
    if os.environ.get("SRIOV_AGENT_RECORD"):
        expected.write_text(found)
    assert found == expected.read_text()
