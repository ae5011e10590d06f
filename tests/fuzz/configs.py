"""Configurations of chance: mostly right ones, with wrong values wherever a wrong one can stand."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from agent.config.schema import POOL_KEYS
from agent.kinds import KINDS
from agent.selectors import SELECTORS, Selector, Shape
from tests.fuzz.json_text import Members, Raw

Json = Any

_NAMES = ("a", "b", "vf-1", "VF_2", "x.y", "0")
_PREFIXES = ("intel.com", "mellanox.com", "example", "a.b-c.d")
_VALUES = {
    "vendors": ("8086", "0x15B3", "15b3", " 1af4 "),
    "devices": ("154c", "101E", "0x1889", "ffff"),
    "drivers": ("iavf", "vfio-pci", "mlx5_core", "uio_pci_generic", "i*"),
    "pciAddresses": ("0000:3b:02.1", "3b:2.0", "0000:3B:02.0", "10000:01:00.0"),
    "acpiIndexes": ("1", "0101", "4294967295"),
    "rootDevices": ("0000:3b:00.0", "3b:00.0#0-1", "0000:3b:00.1#1,3-9,2", "0000:5e:00.0#7"),
    "pfNames": ("ens1f0", "ens1f0#0-2", "ens*", "pf[01]#1", "ens1f1#0,2,5-9", "e?s#4294967295"),
    "linkTypes": ("ether", "infiniband", "IB", "eth"),
    "ddpProfiles": ("GTPv1-C/U IPv4/IPv6 payload", "p"),
    "pKeys": ("0xffff", "8001", "0xABCD"),
    "auxTypes": ("sf", "rdma", "eth"),
    "classes": ("12", "0b40", "0x0B4000", "ff"),
}
_ODD_TEXTS = st.one_of(
    st.text(max_size=6),
    st.text(st.characters(codec=None, categories=("Cs", "Cc", "Cf", "Zl", "Nd")), max_size=4),
    st.sampled_from(("", " ", "..", "a/b", "#", "pf0#", "#1", "pf0#3-1", "\x00", "9" * 70, "*")),
)
_NUMBERS = st.sampled_from(
    ("0", "-1", "1e999", "-1E+400", "0.1", "3600", "3600.0001", "1e-400", "9" * 400, "8086")
).map(Raw)
ANYTHING: st.SearchStrategy[Json] = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _ODD_TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(st.tuples(_ODD_TEXTS, inner), max_size=3).map(lambda p: Members(tuple(p))),
    ),
    max_leaves=5,
)


def _wanted(selector: Selector) -> st.SearchStrategy[Json]:
    if selector.shape is Shape.BOOL:
        return st.booleans()
    if selector.shape is Shape.CHOICE:
        return st.sampled_from((*selector.choices, ""))
    return st.lists(st.sampled_from(_VALUES[selector.key]), max_size=3)


@st.composite
def right_selectors(draw: st.DrawFn, kind: str) -> dict[str, Json]:
    """A selector object that loads."""
    mine = {key: s for key, s in SELECTORS.items() if kind in {str(k) for k in s.kinds}}
    keys = draw(st.lists(st.sampled_from(sorted(mine)), max_size=4, unique=True))
    chosen = {key: draw(_wanted(mine[key])) for key in keys}
    if chosen.get("isRdma"):
        chosen.pop("vdpaType", None)
    if kind == "auxNetDevice":
        chosen["auxTypes"] = draw(st.lists(st.sampled_from(_VALUES["auxTypes"]), min_size=1))
    return chosen


_KEYS = st.one_of(st.sampled_from(("*", "0000:3b:02.1", "3B:2.0", "mlx5_core.sf.4")))
_INFO = st.dictionaries(_KEYS, st.dictionaries(_ODD_TEXTS, _ODD_TEXTS, max_size=2), max_size=2)


@st.composite
def right_pools(draw: st.DrawFn, number: int) -> dict[str, Json]:
    """A pool that loads; ``number`` keeps its name apart from the others'."""
    kind = draw(st.sampled_from([str(k) for k in KINDS]))
    objects = draw(st.lists(right_selectors(kind), min_size=1, max_size=3))
    optional: dict[str, st.SearchStrategy[Json]] = {
        "resourcePrefix": st.sampled_from(_PREFIXES),
        "excludeTopology": st.booleans(),
        "additionalInfo": _INFO,
        "health": st.fixed_dictionaries(
            {},
            optional={"link": st.booleans(), "recoveryHoldSeconds": st.sampled_from((0, 0.1, 99))},
        ),
        "advertiseEmpty": st.booleans(),
        "allowInUse": st.booleans(),
        "shareIommuGroup": st.booleans(),
        "allocationPolicy": st.sampled_from(("packed", "spread", "numa", "")),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True))
    return {
        "resourceName": f"{draw(st.sampled_from(_NAMES))}{number}",
        "deviceType": kind,
        "selectors": objects[0] if len(objects) == 1 and draw(st.booleans()) else objects,
        **{key: draw(optional[key]) for key in chosen},
    }


@st.composite
def right_configs(draw: st.DrawFn) -> dict[str, Json]:
    """A file without errors."""
    return {"resourceList": [draw(right_pools(n)) for n in range(draw(st.integers(0, 3)))]}


_DEAD_KEYS = (
    "sriovMode",
    "SelectorObj",
    "IsRdma",
    "pciaddresses",
    "VENDORS",
    "selector",
    "rootDevices",
)
_SOME_KEY = st.one_of(st.sampled_from((*POOL_KEYS, *SELECTORS, *_DEAD_KEYS)), _ODD_TEXTS)


@st.composite
def wrong(draw: st.DrawFn, value: Json) -> Json:
    """The same value with something wrong in it, or in its place."""
    if draw(st.integers(0, 9)) == 0:
        return draw(ANYTHING)
    if isinstance(value, list) and value:
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(wrong(value[place])), *value[place + 1 :]]
    if isinstance(value, dict):
        pairs = list(value.items())
        if pairs:
            place = draw(st.integers(0, len(pairs) - 1))
            key, inner = pairs[place]
            again = draw(st.sampled_from((key, key, key.swapcase(), key.capitalize())))
            pairs[place] = (again, draw(wrong(inner)))
        if draw(st.booleans()):
            pairs.append((draw(_SOME_KEY), draw(ANYTHING)))
        return Members(tuple(pairs))
    return draw(ANYTHING)


@st.composite
def wrong_configs(draw: st.DrawFn) -> Json:
    """A file with a few things wrong."""
    value: Json = draw(right_configs())
    wrongs = draw(st.integers(1, 3))
    pools = [
        draw(wrong(pool)) if number < wrongs else pool
        for number, pool in enumerate(value["resourceList"])
    ]
    whole: Json = {"resourceList": [*pools, draw(ANYTHING)]} if draw(st.booleans()) else value
    stays = draw(st.integers(0, 5)) > 0
    return whole if pools and stays else draw(wrong(whole))
