"""Whatever is printed as today's form of an old layout is accepted when it is written so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config.load import Loaded, load_config
from agent.kinds import ACCELERATOR, AUX_NET_DEVICE, KINDS, Kind

WORDS = ["netdevice", "netDevice", "vfio", "VFIO", "vfio-pci", "uio", "igb_uio", "rdma", "RDMA"]
MARK = "in today's form:\n"


def load(*pools: object) -> Loaded:
    data = json.dumps({"resourceList": pools}).encode()
    return load_config(data, source="f", default_prefix="intel.com")


def printed(loaded: Loaded) -> dict[str, Any] | None:
    """The form of today that the problems of a file show."""
    advice = [p.advice.removeprefix(MARK) for p in loaded.problems if p.advice.startswith(MARK)]
    assert len(advice) <= 1
    return json.loads(advice[0]) if advice else None


def old(name: str = "net_a", **keys: object) -> dict[str, object]:
    return {"resourceName": name, "rootDevices": ["02:00.0"], "sriovMode": True, **keys}


@pytest.mark.parametrize(
    ("word", "more"),
    [
        ("netdevice", {}),
        ("netDevice", {}),
        ("VFIO", {"drivers": ["vfio-pci"]}),
        ("vfio-pci", {"drivers": ["vfio-pci"]}),
        ("uio", {"drivers": ["igb_uio"]}),
        ("rdma", {"isRdma": True}),
        ("dpdk", {}),
        ("", {}),
    ],
)
def test_each_device_type_of_the_old_layout_becomes_selectors(
    word: str, more: dict[str, object]
) -> None:
    form = printed(load(old(deviceType=word)))
    assert form is not None
    assert form["resourceList"] == [
        {"resourceName": "net_a", "selectors": {"rootDevices": ["0000:02:00.0"], **more}}
    ]
    modern = load(*form["resourceList"])
    assert modern.problems == ()


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("accelerator", ACCELERATOR),
        ("Accelerator", ACCELERATOR),
        ("auxNetDevice", AUX_NET_DEVICE),
    ],
)
def test_a_present_device_type_is_kept(word: str, kind: Kind) -> None:
    form = printed(load(old(deviceType=word)))
    assert form is not None
    modern = load(*form["resourceList"])
    assert modern.config is not None
    assert (modern.problems, modern.config.pools[0].kind) == ((), kind)


def test_selectors_beside_the_old_keys_move_into_the_selectors() -> None:
    form = printed(load(old(isRdma=True, vendors=["15b3"], deviceType="netdevice")))
    assert form is not None
    assert form["resourceList"][0]["selectors"] == {
        "rootDevices": ["0000:02:00.0"],
        "vendors": ["15b3"],
        "isRdma": True,
    }


@pytest.mark.parametrize("mode", [True, "true", "True"])
def test_with_sriov_mode_the_advice_names_vfs(mode: object) -> None:
    form = printed(load(old(sriovMode=mode)))
    assert form is not None
    assert "rootDevices" in form["resourceList"][0]["selectors"]


@pytest.mark.parametrize("mode", [False, None, "false", 1])
def test_without_sriov_mode_the_advice_names_the_functions_themselves(mode: object) -> None:
    form = printed(load(old(sriovMode=mode)))
    assert form is not None
    assert "pciAddresses" in form["resourceList"][0]["selectors"]


def test_addresses_that_cannot_be_read_are_left_out() -> None:
    form = printed(load(old(rootDevices=["02:00.0", "", "ens1", 7, "0000:02:00.0", "02:00.1"])))
    assert form is not None
    assert form["resourceList"][0]["selectors"] == {"rootDevices": ["0000:02:00.0", "0000:02:00.1"]}


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (
            old(rootDevices=[]),
            "it cannot be shown in today's form, since rootDevices holds no PCI address",
        ),
        (
            old(rootDevices=None),
            "it cannot be shown in today's form, since rootDevices holds no PCI address",
        ),
        (
            old(rootDevices="ens1"),
            'it cannot be shown in today\'s form, since rootDevices holds no PCI address: "ens1"',
        ),
        (old(name=""), "it cannot be shown in today's form, since it has no resourceName"),
        (
            old(rootDevices=["02:00.0", "", "ens1", 7]),
            'left out below, since they are no PCI addresses: "", "ens1", the number 7',
        ),
        (
            old(rootDevices=["02:00.0", *"abcdefg"]),
            'left out below, since they are no PCI addresses: "a", "b", "c", "d", "e" and 2 more',
        ),
        (
            old(auxTypes=["sf"], isRmda=True),
            'left out below, since no netDevice pool has such keys: "auxTypes", "isRmda"',
        ),
        (old(additionalInfo={}), "its additionalInfo is not shown below: keep it"),
    ],
)
def test_parts_without_a_present_form_are_named(pool: dict[str, object], message: str) -> None:
    (problem,) = load(pool).problems
    assert problem.message.endswith(f"; {message}")


def test_a_form_that_would_be_refused_is_not_printed_and_its_error_is_reported() -> None:
    loaded = load(old(name="net a"), old(name="good"), old(name="odd", excludeTopology="yes"))
    form = printed(loaded)
    assert form is not None
    assert [p["resourceName"] for p in form["resourceList"]] == ["good"]
    first, _, last = (p.message for p in loaded.problems)
    assert (
        '; today\'s form of it would be refused too: resourceName: resource name "net a"' in first
    )
    assert "excludeTopology: found the string" in last


@pytest.mark.parametrize(("word", "fix"), [("rdma", '"isRdma": true'), ("uio", '["igb_uio"]')])
def test_an_old_device_type_beside_selectors_causes_advice_on_the_new_form(
    word: str, fix: str
) -> None:
    (problem,) = load(
        {"resourceName": "a", "deviceType": word, "selectors": {"vendors": ["8086"]}}
    ).problems
    assert problem.message.startswith(f'"{word}" is of the v2 layout: write netDevice and ')
    assert fix in problem.message


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(0, 9), st.text(max_size=4), st.sampled_from(["8086", "#"])
)
ADDRESSES = st.sampled_from(["02:00.0", "0000:02:00.1", "02:00.0#0-3", "ens1", "", "x", 7, None])


@st.composite
def old_pools(draw: st.DrawFn) -> dict[str, Any]:
    """A pool of the old layout, with faults here and there."""
    pool: dict[str, Any] = {
        "resourceName": draw(st.sampled_from(["a", "b", "net_a", "bad name", "", 5])),
        "rootDevices": draw(st.one_of(st.lists(ADDRESSES, max_size=3), ADDRESSES)),
    }
    optional = {
        "sriovMode": VALUES,
        "deviceType": st.one_of(st.sampled_from([*WORDS, *KINDS, "dpdk", "nonsense"]), VALUES),
        "resourcePrefix": st.sampled_from(["x.org", "Bad_Prefix", "", None]),
        "excludeTopology": VALUES,
        "isRdma": VALUES,
        "vdpaType": st.sampled_from(["vhost", "no", None]),
        "vendors": st.one_of(VALUES, st.lists(VALUES, max_size=2)),
        "pfNames": st.lists(VALUES, max_size=2),
        "auxTypes": st.lists(st.sampled_from(["sf", "eth", ""]), max_size=2),
        "health": VALUES,
        "allocationPolicy": VALUES,
        "additionalInfo": st.just({"*": {"token": "s3cret"}}),
    }
    for key in draw(st.sets(st.sampled_from(sorted(optional)), max_size=5)):
        spelled = draw(st.sampled_from([key, key[0].upper() + key[1:], key.lower()]))
        pool[spelled] = draw(optional[key])
    return pool


@given(st.lists(old_pools(), min_size=1, max_size=4))
def test_every_printed_form_is_accepted(pools: list[dict[str, Any]]) -> None:
    loaded = load(*pools)
    form = printed(loaded)
    assert "s3cret" not in "".join(loaded.lines())
    if form is not None:
        modern = load(*form["resourceList"])
        assert not modern.errors, modern.lines()
        assert modern.config is not None
        assert len(modern.config.pools) == len(form["resourceList"])


@given(st.lists(old_pools(), min_size=1, max_size=4))
def test_every_pool_is_printed_or_its_message_has_the_reason(pools: list[dict[str, Any]]) -> None:
    numbered = [{**p, "resourceName": f"r{i}"} for i, p in enumerate(pools)]
    loaded = load(*numbered)
    form = printed(loaded)
    shown = {p["resourceName"] for p in form["resourceList"]} if form else set()
    reasons = ("it cannot be shown in today's form", "today's form of it would be refused too")
    for problem in loaded.problems:
        if problem.message.startswith("v2 layout"):
            is_explained = any(reason in problem.message for reason in reasons)
            name = (problem.resource or "").rpartition("/")[2]
            assert is_explained is (name not in shown), problem.message


SOUND = st.fixed_dictionaries(
    {
        "rootDevices": st.lists(
            st.sampled_from(["02:00.0", "0000:3b:00.1"]), min_size=1, max_size=2, unique=True
        )
    },
    optional={
        "sriovMode": st.booleans(),
        "deviceType": st.sampled_from([*WORDS, "accelerator"]),
        "resourcePrefix": st.just("x.org"),
    },
)


@given(st.lists(SOUND, min_size=1, max_size=3))
def test_every_valid_pool_of_the_old_layout_is_printed_and_loads_without_a_message(
    pools: list[dict[str, Any]],
) -> None:
    form = printed(load(*({"resourceName": f"r{i}", **p} for i, p in enumerate(pools))))
    assert form is not None
    assert [p["resourceName"] for p in form["resourceList"]] == [f"r{i}" for i in range(len(pools))]
    assert load(*form["resourceList"]).problems == ()
