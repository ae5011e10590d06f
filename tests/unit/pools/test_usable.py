"""Functions without a driver, and PFs whose sub-functions pods use, are in no pool."""

from __future__ import annotations

from typing import Any

import pytest

from agent.kinds import ACCELERATOR
from agent.model.device import Device, Netdev, RdmaDevice, VdpaDevice
from agent.pools.pool import FunnelStep, Pools
from agent.pools.reasons import Refusal, reason
from tests.support.devices import host, pf, sf, vf
from tests.support.pools import Json, assigned, held, members, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
BOUND = vf("0000:3b:02.0", PF0, 0)
UNBOUND = vf("0000:3b:02.1", PF0, 1, driver=None)
MLX = pf("0000:d8:00.0", "mlx0", vendor="15b3", driver="mlx5_core")
SFS = pool("sf", {"auxTypes": ["sf"]}, deviceType="auxNetDevice")
FREE = sf(MLX, 1, 2, netdevs=(Netdev("mlx0s1"),))


def why(pools: Pools, device: Device) -> tuple[Refusal | None, str]:
    told = reason(device, pools)
    return told.refusal, told.text


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (UNBOUND, pool("x", {"pfNames": ["pf0#1"]})),
        (pf("0000:5e:00.0", driver=None), pool("x", {"pciAddresses": ["0000:5e:00.0"]})),
        (
            pf("0000:b0:00.0", driver=None, kind=ACCELERATOR),
            pool("x", deviceType="accelerator"),
        ),
        (sf(MLX, 1, driver=None), pool("x", {"auxTypes": ["sf"]}, deviceType="auxNetDevice")),
    ],
    ids=["VF", "PF", "accelerator", "SF"],
)
def test_a_function_of_any_kind_without_a_driver_is_in_no_pool(
    function: Device, wanted: Json
) -> None:
    pools = assigned(host(PF0, function), {**wanted, "allowInUse": True})
    assert members(pools) == {"x": []}
    assert why(pools, function) == (
        Refusal.NO_DRIVER,
        "not in intel.com/x: no driver is bound, so no pod could use it",
    )


def test_the_driver_is_a_step_of_the_funnel_after_the_selectors() -> None:
    funnel = assigned(host(PF0, BOUND, UNBOUND), pool("x", {"pfNames": ["pf0"]})).pools[0].funnel
    assert funnel[2:] == (
        FunnelStep(0, "pfNames", "pf0", 2),
        FunnelStep(0, "with a driver", "", 1),
        FunnelStep(0, "not in use", "", 1),
        FunnelStep(0, "not taken", "", 1),
    )


def test_a_vf_joins_once_a_driver_is_bound() -> None:
    bound_late = vf(UNBOUND.id, PF0, 1, driver="vfio-pci", iommu_group=3)
    pools = assigned(host(PF0, BOUND, bound_late), pool("x", {"pfNames": ["pf0"]}))
    assert members(pools) == {"x": [BOUND.id, UNBOUND.id]}


def test_a_device_that_a_pod_holds_stays_in_its_pool_without_a_driver() -> None:
    pools = assigned(host(PF0, UNBOUND), pool("x"), held=held("x", UNBOUND))
    assert members(pools) == {"x": [UNBOUND.id]}


@pytest.mark.parametrize(
    "served",
    [
        {"netdevs": (Netdev("s1"),)},
        {"rdma": (RdmaDevice("mlx5_2"),)},
        {"vdpa": (VdpaDevice("vdpa0", "vhost"),)},
    ],
    ids=["netdev", "RDMA", "vDPA"],
)
def test_a_sub_function_with_a_device_that_only_a_driver_creates_is_a_device(
    served: dict[str, Any],
) -> None:
    sub = sf(MLX, 1, driver=None, **served)
    assert members(assigned(host(MLX, sub), SFS)) == {"sf": [sub.id]}


@pytest.mark.parametrize("allow", [False, True])
def test_a_pf_whose_sub_function_a_pod_holds_is_never_a_device(allow: bool) -> None:  # noqa: FBT001
    node = host(MLX, FREE)
    pools = assigned(node, pool("pf", allowInUse=allow), SFS, held=held("sf", FREE))
    assert members(pools) == {"pf": [], "sf": [FREE.id]}
    assert why(pools, MLX) == (
        Refusal.SUB_FUNCTIONS,
        f"not in intel.com/pf: pods use its sub-functions: {FREE.id}: such a PF is never allocated",
    )
    assert ("without SFs in use", 0) in [(s.step, s.remaining) for s in pools.pools[0].funnel]


def test_the_sub_function_counts_regardless_of_the_plugin_that_allocated_it() -> None:
    pools = assigned(host(MLX, FREE), pool("pf"), held=held("of-another-plugin", FREE))
    assert members(pools) == {"pf": []}


def test_a_sub_function_without_its_netdev_is_in_use_before_kubelet_reports_it() -> None:
    away = sf(MLX, 1, 2, rdma=(RdmaDevice("mlx5_2"),))
    assert members(assigned(host(MLX, away), pool("pf"))) == {"pf": []}


@pytest.mark.parametrize(
    "unused",
    [FREE, sf(MLX, 1, driver=None), sf(MLX, 1, vdpa=(VdpaDevice("vdpa0", None),))],
    ids=["netdev here", "no driver", "vDPA device here"],
)
def test_a_pf_stays_a_device_while_its_sub_functions_are_on_the_host(unused: Device) -> None:
    assert members(assigned(host(MLX, unused), pool("pf"))) == {"pf": [MLX.id]}


def test_a_pf_that_a_pod_holds_stays_in_its_pool_though_its_sub_functions_are_in_use() -> None:
    away = sf(MLX, 1, 2)
    pools = assigned(host(MLX, away), pool("pf"), held=held("pf", MLX))
    assert members(pools) == {"pf": [MLX.id]}


def test_of_many_sub_functions_in_use_a_few_are_named() -> None:
    subs = [sf(MLX, n, n) for n in range(5)]
    pools = assigned(host(MLX, *subs), pool("pf"))
    assert pools.sub_functions_in_use == {
        MLX.id: "pods use its sub-functions: mlx5_core.sf.0, mlx5_core.sf.1, mlx5_core.sf.2 and "
        "2 more"
    }
