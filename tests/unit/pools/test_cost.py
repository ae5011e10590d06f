"""What assigning costs, counted in questions to selectors: a figure that no machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from agent.model.snapshot import Snapshot
from agent.pools.assign import assign
from agent.selectors import SELECTORS
from tests.support.devices import host, pf, vf
from tests.support.pools import Json, config, members, pool

PFS = 100
VFS_EACH = 8
MATCHERS = frozenset(s.matches.__code__ for s in SELECTORS.values())


def big_host() -> Snapshot:
    devices = []
    for n in range(PFS):
        parent = pf(f"0000:{n:02x}:00.0", f"pf{n}", num_vfs=VFS_EACH)
        devices += [parent, *(vf(f"0000:{n:02x}:02.{i}", parent, i) for i in range(VFS_EACH))]
    return host(*devices)


def questions_asked(work: Callable[[], object]) -> int:
    """How often ``work`` asks any selector whether it matches a device."""
    count = 0

    def watch(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code in MATCHERS

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("selectors", "most"),
    [
        (lambda n: {"vendors": [f"{n:04x}"], "drivers": [f"driver{n}"]}, 0),
        (lambda n: {"pciAddresses": [f"0000:{n:02x}:02.0"]}, 0),
        (lambda n: {"pfNames": [f"pf{n}"]}, 0),
        (lambda n: {"pfNames": [f"pf[{n}]#0-3"]}, 0),
        (lambda n: {"rootDevices": [f"0000:{n:02x}:00.0#0-3"]}, 0),
        (lambda n: {"rootDevices": [f"0000:00:00.0#{n}"]}, 0),
        (lambda n: {"pfNames": [f"pf{n}"], "isRdma": True}, PFS * (VFS_EACH + 1)),
    ],
    ids=[
        *("ids and drivers", "addresses", "pf names", "patterns", "root devices"),
        *("functions of one pf", "pf names and RDMA"),
    ],
)
def test_a_hundred_disjoint_pools_evaluate_each_device_at_most_once(
    selectors: Callable[[int], Json], most: int
) -> None:
    node = big_host()
    pools = config(*(pool(f"p{n}", selectors(n)) for n in range(PFS)))
    assert questions_asked(lambda: assign(node, pools)) <= most


def test_a_hundred_disjoint_pools_divide_all_devices_among_them() -> None:
    pools = config(*(pool(f"p{n}", {"pfNames": [f"pf{n}"]}) for n in range(PFS)))
    divided = members(assign(big_host(), pools))
    assert [len(ids) for ids in divided.values()] == [VFS_EACH] * PFS


def test_the_checks_of_equal_pools_are_made_once() -> None:
    node = big_host()
    wanted = {"linkTypes": ["ether"], "isRdma": True}
    once = questions_asked(lambda: assign(node, config(pool("a", wanted))))
    many = questions_asked(
        lambda: assign(node, config(*(pool(f"p{n}", wanted) for n in range(50))))
    )
    assert 0 < once == many
