from __future__ import annotations

from agent.model.snapshot import Snapshot
from agent.pools.pool import FunnelStep
from tests.support.devices import host, pf, sf, vf
from tests.support.pools import assigned, one_pool, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=4)
SPARE = pf("0000:3b:00.1", "pf1")
UPLINK = pf("0000:3b:00.2", "pf2")
VFIO = {"driver": "vfio-pci", "iommu_group": 1}
VFS = (
    vf("0000:3b:02.0", PF0, 0, **VFIO),
    vf("0000:3b:02.1", PF0, 1, **VFIO),
    vf("0000:3b:02.2", PF0, 2),
    vf("0000:3b:02.3", PF0, 3),
)
SUBS = tuple(sf(SPARE, n, n) for n in range(3))


def test_the_funnel_counts_the_devices_left_after_each_step_in_the_order_of_selectors() -> None:
    node = host(PF0, SPARE, *VFS, *SUBS)
    selectors = {"drivers": ["vfio-pci"], "vendors": ["0x8086"], "pfNames": ["pf0#0-2"]}
    assert one_pool(node, selectors).funnel == (
        FunnelStep(-1, "kind", "netDevice", 6),
        FunnelStep(-1, "without VFs", "", 5),
        FunnelStep(0, "vendors", "8086", 5),
        FunnelStep(0, "pfNames", "pf0#0-2", 3),
        FunnelStep(0, "drivers", "vfio-pci", 2),
        FunnelStep(0, "not in use", "", 2),
        FunnelStep(0, "not taken", "", 2),
    )


def test_each_selector_object_has_its_own_part_of_the_funnel() -> None:
    node = host(PF0, *VFS)
    funnel = one_pool(node, {"pfNames": ["pf0#0"]}, {"drivers": ["iavf"]}).funnel
    assert [(s.selector_object, s.step, s.remaining) for s in funnel] == [
        (-1, "kind", 5),
        (-1, "without VFs", 4),
        (0, "pfNames", 1),
        (0, "not in use", 1),
        (0, "not taken", 1),
        (1, "drivers", 2),
        (1, "not in use", 2),
        (1, "not taken", 2),
    ]


def test_functions_that_the_host_uses_are_removed_at_their_own_step() -> None:
    node = Snapshot(devices=(SPARE, UPLINK), default_route_netdevs=("pf2",))
    guarded, allowed = (
        assigned(node, pool("pf", allowInUse=allow)).pools[0].funnel for allow in (False, True)
    )
    assert [(s.step, s.remaining) for s in guarded[2:]] == [("not in use", 1), ("not taken", 1)]
    assert [(s.step, s.remaining) for s in allowed[2:]] == [("not in use", 2), ("not taken", 2)]


def test_devices_of_an_earlier_pool_are_removed_at_the_last_step() -> None:
    pools = assigned(host(PF0, *VFS), pool("low", {"pfNames": ["pf0#0-2"]}), pool("rest"))
    assert [(s.step, s.remaining) for s in pools.pools[1].funnel] == [
        ("kind", 5),
        ("without VFs", 4),
        ("not in use", 4),
        ("not taken", 1),
    ]


def test_the_funnel_of_a_pool_of_another_kind_starts_with_its_own_count() -> None:
    node = host(PF0, SPARE, *VFS, *SUBS)
    funnel = one_pool(node, {"auxTypes": ["sf"]}, deviceType="auxNetDevice").funnel
    assert funnel[:3] == (
        FunnelStep(-1, "kind", "auxNetDevice", 3),
        FunnelStep(-1, "without VFs", "", 3),
        FunnelStep(0, "auxTypes", "sf", 3),
    )
