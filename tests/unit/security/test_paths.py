"""No id, resource or interface name leads a path of ours out of its folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config.load import load_config
from agent.config.schema import PoolConfig
from agent.export.cdi import annotation_key, cdi_file_name, twin_file_name, write_cdi_spec
from agent.export.cdi_leftovers import remove_stale_specs
from agent.export.device_info import device_info_name, write_device_info
from agent.export.names import safe_file_name
from agent.model.nodes import HostNodes
from agent.pools.pool import Member, Pool
from agent.transport.unix_socket import (
    bind_socket,
    find_foreign,
    remove_dead,
    socket_path,
    socket_token,
)
from tests.support.devices import pf, vf
from tests.support.hostile import TEXTS
from tests.support.pools import pool_config

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=4)
TOKEN = socket_token(1, "0123abcd")
PLAIN = pool_config()


@contextmanager
def guarded() -> Iterator[Path]:
    """A folder to write into; fails if anything around it is another afterwards."""
    with TemporaryDirectory(prefix="n") as outer:
        around = Path(outer)
        folder = around / "a" / "in"
        folder.mkdir(parents=True)
        (around / "bait").write_text("bait")
        (around / "a/x-device.json").write_text("bait")
        before = snapshot(around, folder)
        yield folder
        assert snapshot(around, folder) == before


def snapshot(around: Path, folder: Path) -> set[tuple[Path, bool]]:
    return {(p, p.is_dir()) for p in around.rglob("*") if not p.is_relative_to(folder)}


def made_in(folder: Path, name: str) -> None:
    """Make a file of that name, as the agent would, and see that it is where it should be."""
    assert len(os.fsencode(name)) <= 255
    assert not name.startswith(".")
    (folder / name).touch()
    assert [p.name for p in folder.iterdir()] == [name]


@given(stem=TEXTS, suffix=st.sampled_from(["", ".json", "-device.json"]))
def test_a_file_name_made_from_any_text_stays_in_its_folder(stem: str, suffix: str) -> None:
    name = safe_file_name(stem, suffix)
    assert name.endswith(suffix)
    with guarded() as folder:
        made_in(folder, name)


@given(prefix=TEXTS, name=TEXTS, device_id=TEXTS)
@settings(max_examples=40)
def test_names_of_device_info_and_cdi_files_stay_in_their_folders(
    prefix: str, name: str, device_id: str
) -> None:
    config = attrs.evolve(PLAIN, prefix=prefix, name=name)
    for made in (
        device_info_name(config, device_id),
        cdi_file_name(config),
        twin_file_name(config),
    ):
        with guarded() as folder:
            made_in(folder, made)


@given(device_ids=st.lists(TEXTS, max_size=4, unique=True), name=TEXTS)
@settings(max_examples=50)
async def test_device_info_of_any_id_is_written_into_its_folder_only(
    device_ids: list[str], name: str
) -> None:
    config = attrs.evolve(PLAIN, name=name)
    with guarded() as folder:
        await write_device_info(folder, config, [member(i) for i in device_ids])
        for path in folder.iterdir():
            assert path.name.endswith("-device.json")
            assert json.loads(path.read_bytes())["type"] == "pci"
        assert len(list(folder.iterdir())) <= len(device_ids)


@given(device_ids=st.lists(TEXTS, max_size=4, unique=True), name=TEXTS)
@settings(max_examples=50)
async def test_a_spec_of_any_id_and_resource_is_one_file_with_a_reproducible_name(
    device_ids: list[str], name: str
) -> None:
    config = attrs.evolve(PLAIN, name=name)
    chosen = Pool(config, tuple(member(i) for i in device_ids))
    with guarded() as folder:
        wrote = await write_cdi_spec(folder, chosen, frozenset(), HostNodes(rdma_cm=False))
        names = [p.name for p in folder.iterdir()]
        assert names == ([cdi_file_name(config)] if wrote else [])
        assert list((await remove_stale_specs(folder, [], frozenset())).removed) == names


@given(text=TEXTS.filter(bool))
@settings(max_examples=50)
async def test_a_fact_of_a_device_is_one_string_in_a_file_of_the_host(text: str) -> None:
    odd = member("0000:3b:02.0")
    odd = attrs.evolve(odd, device=attrs.evolve(odd.device, representor=text))
    with guarded() as folder:
        await write_device_info(folder, PLAIN, [odd])
        (path,) = folder.iterdir()
        assert json.loads(path.read_bytes())["pci"] == {
            "pci-address": "0000:3b:02.0",
            "pf-pci-address": PF0.id,
            "representor-device": text,
        }


@given(resource=TEXTS)
def test_a_socket_of_any_resource_is_bound_in_its_folder_and_seen_by_kubelet(resource: str) -> None:
    with guarded() as folder:
        path = socket_path(folder, resource, TOKEN)
        bound = bind_socket(path)
        bound.listener.close()
        (made,) = folder.iterdir()
        assert made == path
        assert made.name.endswith(f".{TOKEN}.sock")
        assert not made.name.startswith(".")
        assert remove_dead([folder]) == (made,)


@given(resource=TEXTS | st.sampled_from(["../bait", "../../bait", "/bait", "a/../../bait"]))
@settings(max_examples=50)
def test_looking_for_the_go_plugins_sockets_touches_nothing_outside(resource: str) -> None:
    with guarded() as folder:
        assert find_foreign([folder], resource) == ()


@given(name=TEXTS, prefix=TEXTS)
def test_resource_names_in_a_valid_configuration_are_plain(name: str, prefix: str) -> None:
    config = accepted(name, prefix)
    if config is not None:
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,63}", config.name)
        assert re.fullmatch(r"[a-z0-9.-]+", config.prefix)
        key = annotation_key(config).partition("/")[2]
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,61}[A-Za-z0-9]", key)


@pytest.mark.parametrize("name", ["..", "a/b", "a\0b", "a\nb", "ä", "x" * 64, ".a", "a.", "\u202e"])
def test_a_resource_name_that_could_do_harm_is_refused(name: str) -> None:
    assert accepted(name, "intel.com") is None
    assert accepted("vf", name) is None


def accepted(name: str, prefix: str) -> PoolConfig | None:
    """The pool, if a configuration with these names is taken."""
    pool = {"resourceName": name, "resourcePrefix": prefix, "selectors": {}}
    text = json.dumps({"resourceList": [pool]})
    loaded = load_config(text.encode(), source="config.json", default_prefix="intel.com")
    return loaded.config.pools[0] if loaded.config and loaded.config.pools else None


def member(device_id: str) -> Member:
    """A device with nodes, under any id."""
    device = vf(device_id, PF0, 0, driver="vfio-pci", iommu_group=21, pci_address="0000:3b:02.0")
    return Member(device, PLAIN.selectors[0])
