"""Recorded machines, whole: a folder in tests/hosts is a test.

``tree.txt`` is the machine, ``config.json`` its pools, ``expected.json`` all that comes of them:
what ``discover`` shows, the lists that kubelet gets, and, for each pool, the answer to an Allocate
of all its devices with the device-info files. SRIOV_AGENT_RECORD=1 writes ``expected.json`` anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from agent.cli.discover_document import document
from agent.config.load import load_config
from agent.discovery.scan import scan
from agent.errors import DeviceNotUsableError
from agent.export.cdi import cdi_document
from agent.export.device_info import device_info_document, device_info_name
from agent.health.pool_health import assess_pool
from agent.model.link import Links
from agent.pools.allocation import allocation, members_for
from agent.pools.assign import assign
from agent.pools.pool import Pool, Pools
from agent.roots import Roots
from tests.support.trees import dump_tree, load_tree

HOSTS = Path(__file__).resolve().parents[1] / "hosts"
MACHINES = sorted(p.name for p in HOSTS.iterdir() if p.is_dir())


def outcome(machine: Path, root: Path) -> dict[str, Any]:
    """All that the agent makes of a machine."""
    load_tree((machine / "tree.txt").read_text(), root)
    data = (machine / "config.json").read_bytes()
    loaded = load_config(data, source="config.json", default_prefix="intel.com")
    assert loaded.config is not None
    pools = assign(scan(Roots(root)), loaded.config)
    return {
        "problems": list(loaded.lines()),
        "discover": document(pools),
        "lists": {p.resource: listed(p, pools) for p in pools.pools},
        "allocations": {p.resource: allocated(p, pools) for p in pools.pools},
        "deviceInfo": {name: text for p in pools.pools for name, text in device_infos(p)},
        "cdi": {
            p.resource: cdi_document(p, frozenset(), {}, pools.snapshot.nodes) for p in pools.pools
        },
    }


def listed(pool: Pool, pools: Pools) -> list[str]:
    """The list as kubelet is told it: id, health, NUMA node."""
    pool_health = assess_pool(None, pool, pools, Links(), 0.0, {})
    told = pool_health.state.reported
    return [
        f"{d.id} {'Healthy' if d.healthy else f'Unhealthy ({told[d.id].detail})'}"
        + ("" if d.numa_node is None else f" numa {d.numa_node}")
        for d in pool_health.offer().devices
    ]


def allocated(pool: Pool, pools: Pools) -> dict[str, Any]:
    """What a container gets that asks for all devices of a pool."""
    members = members_for(pool, tuple(pool.by_id)[::-1])
    try:
        answer = allocation(pool.config, members, pools.snapshot.nodes)
    except DeviceNotUsableError as error:
        return {"refused": str(error)}
    envs = {k: json.loads(v) if k.endswith("_INFO") else v for k, v in answer.envs}
    return {"envs": envs, "nodes": [attrs.astuple(n) for n in answer.nodes]}


def device_infos(pool: Pool) -> list[tuple[str, dict[str, object]]]:
    """The device-info files of a pool's devices, by name."""
    if not pool.config.kind.device_info:
        return []
    return [
        (device_info_name(pool.config, m.device.id), device_info_document(m)) for m in pool.members
    ]


@pytest.mark.parametrize("name", MACHINES)
def test_a_recorded_machine_has_the_recorded_result(name: str, tmp_path: Path) -> None:
    found = json.loads(json.dumps(outcome(HOSTS / name, tmp_path)))
    expected = HOSTS / name / "expected.json"
    if os.environ.get("SRIOV_AGENT_RECORD"):
        expected.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(expected.read_text())


@pytest.mark.parametrize("name", MACHINES)
def test_a_recorded_tree_is_read_and_written_alike(name: str, tmp_path: Path) -> None:
    text = (HOSTS / name / "tree.txt").read_text()
    load_tree(text, tmp_path)
    comments = "".join(line + "\n" for line in text.splitlines() if line.startswith("#"))
    assert comments + dump_tree(tmp_path) == text
