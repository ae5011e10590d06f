from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.export.cdi import annotation_key, cdi_file_name, twin_file_name
from agent.export.device_info import device_info_name
from agent.export.names import safe_file_name, shortened
from tests.support.pools import pool_config


def test_the_names_are_those_that_other_programs_use() -> None:
    config = pool_config("cx6_dx-1", resourcePrefix="nvidia.com")
    assert device_info_name(config, "0000:3b:02.0") == (
        "nvidia.com-cx6_dx-1-0000:3b:02.0-device.json"
    )
    assert cdi_file_name(config) == "sriov-dp-nvidia.com-net-pci-cx6_dx-1.json"
    assert twin_file_name(config) == "sriov-dp-nvidia.com-net-pci-cx6_dx-1.yaml"
    assert annotation_key(config) == "cdi.k8s.io/nvidia.com_net-pci_cx6_dx-1"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("accelerator", "sriov-dp-intel.com-net-accel-x.json"),
        ("auxNetDevice", "sriov-dp-intel.com-net-sf-x.json"),
    ],
)
def test_the_class_of_a_spec_tells_the_device_type(kind: str, name: str) -> None:
    selectors = {"auxTypes": ["sf"]} if kind == "auxNetDevice" else {}
    assert cdi_file_name(pool_config("x", selectors, deviceType=kind)) == name


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("intel.com/vf-0000:3b:02.0", "intel.com-vf-0000:3b:02.0.json"),
        ("../../etc/passwd", "-.-..-etc-passwd.json"),
        ("..", "-..json"),
        ("a\0b\nc d", "a-b-c-d.json"),
        ("ü/é", "---.json"),
    ],
)
def test_characters_that_could_lead_elsewhere_become_hyphens(stem: str, name: str) -> None:
    assert safe_file_name(stem, ".json") == name


@given(st.text(min_size=1, max_size=400))
def test_no_name_leaves_its_folder_or_is_too_long(stem: str) -> None:
    name = safe_file_name(stem, "-device.json")
    assert Path("/folder", name).resolve().parent == Path("/folder")
    assert not name.startswith(".")
    assert len(name.encode()) <= 255


def test_long_texts_are_cut_and_stay_different() -> None:
    first, second = ("x" * 300 + end for end in "ab")
    assert len(shortened(first, 255)) == 255
    assert shortened(first, 255) != shortened(second, 255)
    assert shortened("x" * 255, 255) == "x" * 255


def test_a_cut_leaves_no_separator_before_the_hash() -> None:
    cut = shortened("abcdefgh___" + "z" * 30, 20)
    assert cut.startswith("abcdefgh-")
    assert len(cut) == 19


NAME = st.from_regex(r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?", fullmatch=True)
PREFIX = st.from_regex(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?(\.[a-z]{1,20})?", fullmatch=True)


@given(PREFIX, NAME, NAME)
def test_annotation_keys_are_short_enough_and_unique_for_each_resource(
    prefix: str, one: str, other: str
) -> None:
    keys = [annotation_key(pool_config(n, resourcePrefix=prefix)) for n in (one, other)]
    for key in keys:
        name = key.removeprefix("cdi.k8s.io/")
        assert len(name) <= 63
        assert name[0].isalnum()
        assert name[-1].isalnum()
    assert (keys[0] == keys[1]) == (one == other)
