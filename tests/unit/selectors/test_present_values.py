from __future__ import annotations

import gc
import weakref

from agent.kinds import NET_DEVICE
from agent.model.snapshot import Snapshot
from agent.selectors.present_values import present_values
from tests.support.devices import pf, vf

PF = pf("0000:3b:00.0", "pf0", num_vfs=1)


def test_the_present_values_are_computed_once_for_a_snapshot() -> None:
    snapshot = Snapshot(devices=(PF, vf("0000:3b:02.0", PF, 0)))
    assert present_values(NET_DEVICE, snapshot) is present_values(NET_DEVICE, snapshot)


def test_a_snapshot_with_present_values_is_freed_without_a_garbage_collection() -> None:
    snapshot = Snapshot(devices=(PF, vf("0000:3b:02.0", PF, 0)))
    assert present_values(NET_DEVICE, snapshot).pfs == (PF,)
    gone = weakref.ref(snapshot)
    gc.disable()
    try:
        del snapshot
        assert gone() is None
    finally:
        gc.enable()
