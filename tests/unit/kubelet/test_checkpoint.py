from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.kubelet.checkpoint import LIMIT, CheckpointReader, Claim, Claims
from agent.roots import Roots

VF = "intel.com/vf"
A, B = "0000:3b:02.0", "0000:3b:02.1"


def checkpoint(*entries: tuple[str, str, object], **more: object) -> bytes:
    """As kubelet writes it: (pod's UID, resource, DeviceIDs) of each entry."""
    found = [
        {
            "PodUID": uid,
            "ContainerName": "main",
            "ResourceName": resource,
            "DeviceIDs": ids,
            "AllocResp": "CgA=",
        }
        for uid, resource, ids in entries
    ]
    data = {"PodDeviceEntries": found or None, "RegisteredDevices": {VF: [A, B]}}
    return json.dumps({"Data": data, "Checksum": 1234567, **more}).encode()


def read(roots: Roots) -> set[Claim] | None:
    claims: Claims | None = CheckpointReader(roots).read()
    return None if claims is None else set(claims)


@pytest.fixture
def path(roots: Roots) -> Path:
    roots.device_plugins.mkdir(parents=True, exist_ok=True)
    return roots.kubelet_checkpoint


def test_ids_by_numa_node_are_read(roots: Roots, path: Path) -> None:
    path.write_bytes(checkpoint(("u1", VF, {"0": [A], "-1": [B]}), ("u2", "x.io/y", {"1": ["z"]})))
    assert read(roots) == {Claim(VF, A, "u1"), Claim(VF, B, "u1"), Claim("x.io/y", "z", "u2")}


def test_the_plain_lists_of_old_kubelets_are_read(roots: Roots, path: Path) -> None:
    path.write_bytes(checkpoint(("u1", VF, [A, B])))
    assert read(roots) == {Claim(VF, A, "u1"), Claim(VF, B, "u1")}


def test_the_boot_id_in_checkpoints_of_new_kubelets_does_not_matter(
    roots: Roots, path: Path
) -> None:
    path.write_bytes(checkpoint(("u1", VF, {"0": [A]}), BootID="a-boot"))
    assert read(roots) == {Claim(VF, A, "u1")}


def test_a_checkpoint_without_entries_means_that_no_device_is_allocated(
    roots: Roots, path: Path
) -> None:
    path.write_bytes(checkpoint())
    assert read(roots) == set()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        checkpoint(("u1", VF, {"0": [A]}))[:-40],
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"null",
        b'{"Data": null}',
        b'{"Data": {"RegisteredDevices": {}}}',
        b'{"Data": {"PodDeviceEntries": [1]}}',
        b'{"Data": {"PodDeviceEntries": {"a": 1}}}',
        checkpoint(("u1", VF, {"0": [1]})),
        checkpoint(("u1", VF, "text"))[:-1],
        checkpoint(("u1", 5, {"0": [A]})),  # type: ignore[arg-type] # damaged
        checkpoint(("u1", VF, {"0": 7})),
        b'{"Data": {"PodDeviceEntries": ' + b"[" * 100_000,
        b" " * (LIMIT + 1),
    ],
    ids=range(17),
)
def test_an_invalid_checkpoint_is_ignored(roots: Roots, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert CheckpointReader(roots).read() is None


def test_a_checkpoint_that_is_not_a_plain_file_is_ignored(
    roots: Roots, path: Path, tmp_path: Path
) -> None:
    reader = CheckpointReader(roots)
    assert reader.read() is None
    elsewhere = tmp_path / "other"
    elsewhere.write_bytes(checkpoint(("u1", VF, {"0": [A]})))
    for target in (elsewhere, path):
        path.symlink_to(target)
        assert reader.read() is None
        path.unlink()
    os.mkfifo(path)
    assert reader.read() is None
    path.unlink()
    path.mkdir()
    assert reader.read() is None


def test_a_file_that_changes_is_read_again_and_one_that_disappears_is_ignored(
    roots: Roots, path: Path
) -> None:
    reader = CheckpointReader(roots)
    found: list[Any] = []
    for ids in ([A], [B]):
        draft = path.with_name("draft")
        draft.write_bytes(checkpoint(("u1", VF, {"0": ids})))
        draft.rename(path)
        found.append(reader.read())
    assert found == [{Claim(VF, A, "u1")}, {Claim(VF, B, "u1")}]
    assert reader.read() is reader.read()
    path.unlink()
    assert reader.read() is None
