from __future__ import annotations

import json
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from agent.config.names import cdi_device_fault, cdi_vendor_fault
from agent.config.schema import PoolConfig
from agent.export.cdi import (
    cdi_document,
    cdi_file_name,
    has_cdi_entry,
    qualified_name,
    twin_file_name,
    write_cdi_spec,
)
from agent.export.cdi_leftovers import remove_stale_specs
from agent.kinds import KINDS
from agent.model.device import Device, RdmaDevice, VdpaDevice
from agent.model.nodes import HostNodes
from agent.pools.pool import Member, Pool, Pools
from tests.support.cdi import conflicts, faults, resolve
from tests.support.devices import host, pf, sf, vf
from tests.support.pools import assigned, held, one_pool, pool, pool_config

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=4)
UVERBS = RdmaDevice("mlx5_2", uverbs=("/dev/infiniband/uverbs2",))
NONE: frozenset[str] = frozenset()


def vfio(index: int, group: int, **facts: object) -> Device:
    return vf(f"0000:3b:02.{index}", PF0, index, driver="vfio-pci", iommu_group=group, **facts)


def document(
    chosen: Pool, held: frozenset[str] | None = NONE, before: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    return cdi_document(chosen, held, before or {}, HostNodes(rdma_cm=True))


def entry(name: str, *paths: str) -> dict[str, Any]:
    nodes = [{"path": p, "hostPath": p, "permissions": "rw"} for p in paths]
    return {"name": name, "containerEdits": {"deviceNodes": nodes}}


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def written(folder: Path) -> dict[str, dict[str, Any]]:
    return {p.name: json.loads(p.read_bytes()) for p in sorted(folder.glob("*.json"))}


def test_a_spec_holds_the_nodes_of_each_device_and_the_lowest_version() -> None:
    chosen = one_pool(host(PF0, vfio(0, 21), vfio(1, 22, noiommu=True)))
    made = document(chosen)
    assert made == {
        "cdiVersion": "0.5.0",
        "kind": "intel.com/net-pci",
        "devices": [
            entry("0000:3b:02.0", "/dev/vfio/vfio", "/dev/vfio/21"),
            {
                "name": "0000:3b:02.1",
                "containerEdits": {
                    "deviceNodes": [
                        {
                            "path": "/dev/vfio/vfio",
                            "hostPath": "/dev/vfio/vfio",
                            "permissions": "rw",
                        },
                        {
                            "path": "/dev/vfio/22",
                            "hostPath": "/dev/vfio/noiommu-22",
                            "permissions": "rw",
                        },
                    ]
                },
            },
        ],
    }
    assert faults(made) == []


@pytest.mark.parametrize(
    "made",
    [
        one_pool(host(PF0, vf("0000:3b:02.0", PF0, 0)), {"needVhostNet": True}),
        one_pool(host(PF0, vf("0000:3b:02.0", PF0, 0, rdma=(UVERBS,))), {"isRdma": True}),
        one_pool(
            host(
                PF0,
                vf("0000:3b:02.0", PF0, 0, vdpa=(VdpaDevice("v", "vhost", "/dev/vhost-vdpa-0"),)),
            ),
            {"vdpaType": "vhost"},
        ),
        one_pool(
            host(PF0, sf(PF0, 1, 2, rdma=(UVERBS,))),
            {"auxTypes": ["sf"], "isRdma": True},
            deviceType="auxNetDevice",
        ),
        one_pool(host(vf("10000:00:02.0", None, driver="igb_uio", uio=("uio3",)))),
    ],
    ids=["vhost-net", "rdma", "vdpa", "sub-function", "uio with a wide domain"],
)
def test_specs_of_every_kind_follow_the_rules(made: Pool) -> None:
    spec = document(made)
    assert spec is not None
    assert faults(spec) == []


def test_a_device_without_nodes_has_no_entry_and_a_pool_of_them_no_spec() -> None:
    plain = vf("0000:3b:02.1", PF0, 1)
    mixed = document(one_pool(host(PF0, vfio(0, 21), plain)))
    assert mixed is not None
    assert [d["name"] for d in mixed["devices"]] == ["0000:3b:02.0"]
    assert document(one_pool(host(PF0, plain))) is None


def test_a_device_that_lacks_a_promised_node_has_no_entry() -> None:
    bare = attrs.evolve(vfio(0, 1), iommu_group=None)
    assert not has_cdi_entry(Member(bare, pool_config().selectors[0]), HostNodes(rdma_cm=True))


def test_the_entry_of_a_held_device_stays_as_it_was_when_the_pod_got_it() -> None:
    shown = vf("0000:3b:02.0", PF0, 0, rdma=(UVERBS,))
    hidden = attrs.evolve(shown, rdma=(), rdma_enabled=True)
    before = {shown.id: entry(shown.id, "/dev/infiniband/uverbs2")}
    pools = assigned(host(PF0, hidden), pool("vf", {"isRdma": True}), held=held("vf", shown))
    made = document(pools.pools[0], frozenset({shown.id}), before)
    assert made is not None
    assert made["devices"] == [before[shown.id]]


def test_a_free_device_has_the_entry_of_its_facts_now() -> None:
    before = {"0000:3b:02.0": entry("0000:3b:02.0", "/dev/vfio/99")}
    made = document(one_pool(host(PF0, vfio(0, 21))), NONE, before)
    assert made is not None
    assert made["devices"] == [entry("0000:3b:02.0", "/dev/vfio/vfio", "/dev/vfio/21")]


def test_the_entry_of_a_held_device_that_is_not_listed_yet_is_kept() -> None:
    before = {i: entry(i, "/dev/vfio/9") for i in ("0000:3b:02.7", "0000:3b:02.6")}
    made = document(one_pool(host(PF0, vfio(0, 21))), frozenset({"0000:3b:02.7"}), before)
    assert made is not None
    assert [d["name"] for d in made["devices"]] == ["0000:3b:02.0", "0000:3b:02.7"]


def test_while_holders_are_unknown_no_entry_is_removed() -> None:
    hidden = vf("0000:3b:02.1", PF0, 1, rdma_enabled=True)
    before = {
        i: entry(i, "/dev/infiniband/uverbs9")
        for i in ("0000:3b:02.0", "0000:3b:02.1", "0000:3b:02.7")
    }
    chosen = one_pool(
        host(PF0, vf("0000:3b:02.0", PF0, 0, rdma=(UVERBS,)), hidden), {"isRdma": True}
    )
    made = document(chosen, None, before)
    assert made is not None
    fresh = entry("0000:3b:02.0", "/dev/infiniband/uverbs2", "/dev/infiniband/rdma_cm")
    assert made["devices"] == [fresh, before["0000:3b:02.1"], before["0000:3b:02.7"]]


async def test_a_spec_is_written_once_and_again_only_when_it_changes(tmp_path: Path) -> None:
    chosen = one_pool(host(PF0, vfio(0, 21)))
    assert await write_cdi_spec(tmp_path, chosen, NONE, HostNodes(rdma_cm=True))
    assert not await write_cdi_spec(tmp_path, chosen, NONE, HostNodes(rdma_cm=True))
    assert written(tmp_path) == {"sriov-dp-intel.com-net-pci-vf.json": document(chosen)}
    path = tmp_path / "sriov-dp-intel.com-net-pci-vf.json"
    assert path.stat().st_mode & 0o777 == 0o644
    moved = one_pool(host(PF0, vfio(0, 22)))
    assert await write_cdi_spec(tmp_path, moved, NONE, HostNodes(rdma_cm=True))
    assert written(tmp_path)[path.name] == document(moved)


async def test_the_spec_of_a_pool_that_needs_none_is_removed(tmp_path: Path) -> None:
    await write_cdi_spec(tmp_path, one_pool(host(PF0, vfio(0, 21))), NONE, HostNodes(rdma_cm=True))
    plain = one_pool(host(PF0, vf("0000:3b:02.0", PF0, 0)))
    assert await write_cdi_spec(tmp_path, plain, NONE, HostNodes(rdma_cm=True))
    assert names(tmp_path) == []
    assert not await write_cdi_spec(tmp_path, plain, NONE, HostNodes(rdma_cm=True))


async def test_an_entry_survives_a_restart_of_the_agent_through_the_file(tmp_path: Path) -> None:
    shown = vf("0000:3b:02.0", PF0, 0, rdma=(UVERBS,))
    hidden = attrs.evolve(shown, rdma=(), rdma_enabled=True)
    first = one_pool(host(PF0, shown), {"isRdma": True})
    await write_cdi_spec(tmp_path, first, NONE, HostNodes(rdma_cm=True))
    again = one_pool(host(PF0, hidden), {"isRdma": True})
    assert not await write_cdi_spec(tmp_path, again, frozenset({shown.id}), HostNodes(rdma_cm=True))
    assert await write_cdi_spec(tmp_path, again, NONE, HostNodes(rdma_cm=True))
    assert written(tmp_path) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"devices": 5}',
        b'{"devices": [1]}',
        b'{"devices": [{"name": "0000:3b:02.0"}]}',
        b'{"devices": [{"name": [], "containerEdits": {"deviceNodes": [1]}}]}',
        b'{"devices": [{"name": "0000:3b:02.0", "containerEdits": {"deviceNodes": []}}]}',
    ],
)
@pytest.mark.parametrize("known", [True, False])
async def test_any_entry_at_the_path_of_a_spec_is_replaced(
    tmp_path: Path,
    content: bytes,
    known: bool,  # noqa: FBT001
) -> None:
    path = tmp_path / "sriov-dp-intel.com-net-pci-vf.json"
    path.write_bytes(content)
    chosen = one_pool(host(PF0, vfio(0, 21)))
    holders = frozenset({"0000:3b:02.0"}) if known else None
    await write_cdi_spec(tmp_path, chosen, holders, HostNodes(rdma_cm=True))
    assert written(tmp_path) == {path.name: document(chosen)}


async def test_three_pools_of_one_prefix_resolve_all_nodes_of_one_container(tmp_path: Path) -> None:
    groups = {"a": (21, 22), "b": (31, 32), "c": (41, 42)}
    devices = [
        vfio(n, group) for n, group in enumerate(g for pair in groups.values() for g in pair)
    ]
    ranges = {"a": "pf0#0-1", "b": "pf0#2-3", "c": "pf0#4-5"}
    pools = assigned(host(PF0, *devices), *(pool(n, {"pfNames": [r]}) for n, r in ranges.items()))
    for made in pools.pools:
        await write_cdi_spec(tmp_path, made, NONE, HostNodes(rdma_cm=True))
    specs = list(written(tmp_path).values())
    assert len(specs) == 3
    assert conflicts(specs) == set()
    found = {
        path
        for made in pools.pools
        for m in made.members
        for path, _ in resolve(specs, qualified_name(made.config, m.device.id))
    }
    assert found == {
        "/dev/vfio/vfio",
        *(f"/dev/vfio/{g}" for pair in groups.values() for g in pair),
    }


async def write_all(folder: Path, pools: Pools) -> None:
    for made in pools.pools:
        await write_cdi_spec(folder, made, NONE, HostNodes(rdma_cm=True))


async def test_the_spec_of_a_retired_resource_is_removed(tmp_path: Path) -> None:
    node = host(PF0, vfio(0, 21), vfio(1, 22))
    await write_all(tmp_path, assigned(node, pool("a", {"pfNames": ["pf0#0"]}), pool("b")))
    configs = [pool_config("b")]
    assert (await remove_stale_specs(tmp_path, configs, NONE)).removed == (
        "sriov-dp-intel.com-net-pci-a.json",
    )
    assert list(written(tmp_path)) == ["sriov-dp-intel.com-net-pci-b.json"]


async def test_the_spec_of_a_removed_resource_keeps_only_the_entries_that_pods_hold(
    tmp_path: Path,
) -> None:
    node = host(PF0, vfio(0, 21), vfio(1, 22))
    await write_all(tmp_path, assigned(node, pool("old")))
    renamed = assigned(node, pool("new"), held=held("old", vfio(0, 21)))
    await write_all(tmp_path, renamed)
    assert (
        await remove_stale_specs(tmp_path, [pool_config("new")], frozenset({"0000:3b:02.0"}))
    ).removed == ()
    specs = written(tmp_path)
    assert conflicts(specs.values()) == set()
    assert {n: [d["name"] for d in s["devices"]] for n, s in specs.items()} == {
        "sriov-dp-intel.com-net-pci-new.json": ["0000:3b:02.1"],
        "sriov-dp-intel.com-net-pci-old.json": ["0000:3b:02.0"],
    }
    assert [f for s in specs.values() for f in faults(s)] == []
    assert (await remove_stale_specs(tmp_path, [pool_config("new")], NONE)).removed == (
        "sriov-dp-intel.com-net-pci-old.json",
    )


async def test_while_holders_are_unknown_an_old_spec_loses_only_entries_that_a_new_one_has(
    tmp_path: Path,
) -> None:
    await write_all(tmp_path, assigned(host(PF0, vfio(0, 21), vfio(1, 22)), pool("old")))
    await write_all(tmp_path, assigned(host(PF0, vfio(1, 22)), pool("new")))
    assert (await remove_stale_specs(tmp_path, [pool_config("new")], None)).removed == ()
    specs = written(tmp_path)
    assert conflicts(specs.values()) == set()
    assert [d["name"] for d in specs["sriov-dp-intel.com-net-pci-old.json"]["devices"]] == [
        "0000:3b:02.0"
    ]


async def test_an_equal_name_of_another_class_is_no_conflict_and_is_kept(tmp_path: Path) -> None:
    await write_all(tmp_path, assigned(host(PF0, vfio(0, 21)), pool("vf")))
    path = tmp_path / "sriov-dp-intel.com-net-accel-vf.json"
    spec = {"cdiVersion": "0.5.0", "kind": "intel.com/net-accel"}
    path.write_text(json.dumps({**spec, "devices": [entry("0000:3b:02.0", "/dev/vfio/21")]}))
    held_ids = frozenset({"0000:3b:02.0"})
    assert (await remove_stale_specs(tmp_path, [pool_config("vf")], held_ids)).removed == ()
    assert len(written(tmp_path)) == 2


async def test_the_go_plugins_spec_of_our_resource_is_removed_in_any_case(tmp_path: Path) -> None:
    twin = tmp_path / "sriov-dp-intel.com-net-pci-vf.yaml"
    for holders in (NONE, frozenset({"0000:3b:02.0"}), None):
        twin.write_text("devices:\n- name: 0000:3b:02.0\n")
        assert (await remove_stale_specs(tmp_path, [pool_config("vf")], holders)).removed == (
            twin.name,
        )


async def test_another_spec_of_the_go_plugin_stays_while_a_pod_may_need_it(tmp_path: Path) -> None:
    other = tmp_path / "sriov-dp-intel.com-net-pci-gone.yaml"
    other.write_text("devices:\n- name: 0000:3b:02.0\n")
    configs = [pool_config("vf")]
    assert (await remove_stale_specs(tmp_path, configs, None)).removed == ()
    assert (await remove_stale_specs(tmp_path, configs, frozenset({"0000:3b:02.0"}))).removed == ()
    assert (await remove_stale_specs(tmp_path, configs, frozenset({"0000:3b:02.9"}))).removed == (
        other.name,
    )


@pytest.mark.parametrize("kind", ["net-pci", "net-accel"])
async def test_a_spec_of_a_running_go_plugin_stays_until_it_ends(tmp_path: Path, kind: str) -> None:
    specs, sockets = tmp_path / "cdi", tmp_path / "plugins"
    specs.mkdir()
    sockets.mkdir()
    other = specs / f"sriov-dp-intel.com-{kind}-free.yaml"
    other.write_text("devices:\n- name: 0000:3b:02.0\n")
    clean = partial(
        remove_stale_specs, specs, [pool_config("vf")], NONE, sockets=(tmp_path / "none", sockets)
    )
    with socket.socket(socket.AF_UNIX) as plugin:
        plugin.bind(str(sockets / "intel.com_free.sock"))
        plugin.listen()
        assert (await clean()).removed == ()
    assert (await clean()).removed == (other.name,)


async def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    others = ["vendor.json", "sriov-dp-notes.txt", "nvidia.yaml"]
    for name in (*others, "sriov-dp-x.json"):
        (tmp_path / name).write_text("{}")
    assert (await remove_stale_specs(tmp_path, [], NONE)).removed == ("sriov-dp-x.json",)
    assert names(tmp_path) == sorted(others)


async def test_a_missing_folder_has_no_stale_specs(tmp_path: Path) -> None:
    assert (await remove_stale_specs(tmp_path / "missing", [], NONE)).removed == ()


async def test_entries_that_are_not_plain_files_are_skipped_with_the_reason_and_the_rest_is_cleaned(
    tmp_path: Path,
) -> None:
    (tmp_path / "sriov-dp-folder.json").mkdir()
    os.mkfifo(tmp_path / "sriov-dp-pipe.json")
    os.mkfifo(tmp_path / "sriov-dp-pipe.yaml")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "sriov-dp-socket.json"))
    for name in ("sriov-dp-a.json", "sriov-dp-z.json", "sriov-dp-z.yaml"):
        (tmp_path / name).write_text("{}")
    cleaning = await remove_stale_specs(tmp_path, [pool_config("vf")], NONE)
    assert cleaning.removed == ("sriov-dp-a.json", "sriov-dp-z.json", "sriov-dp-z.yaml")
    assert cleaning.skipped == (
        ("sriov-dp-folder.json", "is a folder, not a file"),
        ("sriov-dp-pipe.json", "is a named pipe, not a file"),
        ("sriov-dp-pipe.yaml", "is a named pipe, not a file"),
        ("sriov-dp-socket.json", "is a socket, not a file"),
    )


def test_two_resources_never_have_one_spec_file() -> None:
    parts = ("x.io", "x.io-net-pci", "x.io-net-accel", "x.io-net-pci-net-sf")
    rests = ("a", "net-pci-a", "net-accel-a", "net-pci-net-pci-a", "net-sf-net-pci-a", "a" * 63)
    configs = [
        PoolConfig(prefix=prefix, name=name, kind=kind)
        for prefix in parts
        for name in rests
        for kind in KINDS.values()
    ]
    names = [cdi_file_name(config) for config in configs]
    assert len({*names}) == len(configs)
    assert cdi_file_name(configs[0]) == "sriov-dp-x.io-net-pci-a.json"
    twin = PoolConfig(prefix="x.io-net-pci", name="a")
    assert twin_file_name(twin) == "sriov-dp-x.io-net-pci-net-pci-a.yaml"
    assert cdi_file_name(twin).startswith("sriov-dp-x.io-net-pci-net-pci-a+")


@pytest.mark.parametrize(
    ("prefix", "fault"),
    [
        ("a", "is a single character, on which container runtimes crash"),
        ("3", "is a single character, on which container runtimes crash"),
        ("3com.io", "begins with a digit, which no CDI vendor may"),
        ("ab", None),
        ("x.io", None),
        ("a1-b.c", None),
    ],
)
def test_a_cdi_vendor_has_two_characters_and_begins_with_a_letter(
    prefix: str, fault: str | None
) -> None:
    assert cdi_vendor_fault(prefix) == fault


@pytest.mark.parametrize(
    ("device_id", "is_name"),
    [
        ("0000:3b:02.0", True),
        ("mlx5_core.sf.4", True),
        ("a", True),
        ("_mlx5.sf.4", False),
        ("-x.sf.4", False),
        ("mlx5.sf.", False),
        ("m/x", False),
        ("", False),
    ],
)
def test_a_cdi_device_name_has_letters_or_digits_at_both_ends(
    device_id: str, *, is_name: bool
) -> None:
    assert (cdi_device_fault(device_id) is None) is is_name
