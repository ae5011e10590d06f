from __future__ import annotations

import json

import pytest

from agent.config.load import load_config
from agent.config.reference import pool_rows, selector_rows
from agent.kinds import ACCELERATOR, AUX_NET_DEVICE, KINDS, NET_DEVICE, Kind, kind_of_class
from agent.selectors import SELECTORS


def test_the_order_is_from_facts_that_never_change_to_facts_that_change_at_run_time() -> None:
    assert tuple(SELECTORS) == (
        "vendors",
        "devices",
        "classes",
        "auxTypes",
        "pciAddresses",
        "acpiIndexes",
        "rootDevices",
        "pfNames",
        "drivers",
        "linkTypes",
        "ddpProfiles",
        "pKeys",
        "isRdma",
        "vdpaType",
        "needVhostNet",
    )


@pytest.mark.parametrize(
    ("kind", "absent"),
    [
        (NET_DEVICE, {"auxTypes", "classes"}),
        (
            ACCELERATOR,
            {"pfNames", "linkTypes", "ddpProfiles", "pKeys", "auxTypes", "isRdma", "vdpaType"}
            | {"needVhostNet"},
        ),
        (AUX_NET_DEVICE, {"acpiIndexes", "classes", "ddpProfiles", "pKeys", "vdpaType"}),
    ],
)
def test_each_kind_has_its_selectors(kind: Kind, absent: set[str]) -> None:
    assert {key for key, s in SELECTORS.items() if kind not in s.kinds} == absent


@pytest.mark.parametrize(
    ("kind", "key"),
    [(kind, key) for kind in KINDS.values() for key, s in SELECTORS.items() if kind in s.kinds],
)
def test_the_documented_example_of_a_selector_loads_without_a_message(kind: Kind, key: str) -> None:
    selectors = {"vendors": ["8086"], key: SELECTORS[key].example}
    if kind is AUX_NET_DEVICE:
        selectors["auxTypes"] = ["sf"]
    pool = {"resourceName": "r", "deviceType": kind.name, "selectors": selectors}
    loaded = load_config(
        json.dumps({"resourceList": [pool]}).encode(), source="f", default_prefix="intel.com"
    )
    assert loaded.problems == ()
    assert loaded.config is not None
    (chosen,) = loaded.config.pools[0].selectors
    assert [c.key for c in chosen.criteria if c.key == key] == [key] * SELECTORS[key].is_filter


def test_a_pool_of_all_documented_examples_loads_without_a_message() -> None:
    pool = "{" + ", ".join(row.example for row in pool_rows() if "." not in row.key) + "}"
    loaded = load_config(
        f'{{"resourceList": [{pool}]}}'.encode(), source="f", default_prefix="intel.com"
    )
    assert loaded.problems == ()


def test_the_reference_page_has_a_row_for_every_selector() -> None:
    assert [row.key for row in selector_rows()] == list(SELECTORS)
    assert all(
        row.meaning.endswith(".") and row.allowed for row in (*selector_rows(), *pool_rows())
    )


@pytest.mark.parametrize(
    ("pci_class", "has_rdma", "kind"),
    [
        (0x020000, False, NET_DEVICE),
        (0x020700, False, NET_DEVICE),
        (0x028000, True, NET_DEVICE),
        (0x120000, False, ACCELERATOR),
        (0x120000, True, ACCELERATOR),
        (0x0B4000, False, None),
        (0x0B4000, True, NET_DEVICE),
        (0x010802, False, None),
        (0x000200, False, None),
    ],
)
def test_a_kind_follows_from_the_class_and_from_rdma(
    pci_class: int, *, has_rdma: bool, kind: Kind | None
) -> None:
    assert kind_of_class(pci_class, has_rdma=has_rdma) is kind


def test_cdi_classes_are_those_of_the_go_plugin() -> None:
    assert {kind: kind.cdi_class for kind in KINDS.values()} == {
        NET_DEVICE: "net-pci",
        ACCELERATOR: "net-accel",
        AUX_NET_DEVICE: "net-sf",
    }
