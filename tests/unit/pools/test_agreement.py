"""On any small host: assigning does what the rules say, and every reason agrees with it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.config.schema import PoolConfig
from agent.kinds import ACCELERATOR, AUX_NET_DEVICE, KINDS, NET_DEVICE, Kind
from agent.model.device import Device, Netdev, RdmaDevice, Role
from agent.model.snapshot import Snapshot
from agent.pools.allocated import AllocatedDevices, PodOwner
from agent.pools.assign import assign
from agent.pools.guard import functions_in_use
from agent.pools.reasons import Refusal, pool_verdict, reason
from agent.selectors import first_refusal
from tests.support.devices import pf, sf, vf
from tests.support.pools import Json, config, pool

DRIVERS = st.sampled_from([None, "iavf", "vfio-pci"])
SF_DRIVERS = st.sampled_from([None, "mlx5_core.sf"])
RDMA = st.sampled_from([(), (RdmaDevice("mlx5_0"),)])
RESOURCES = ("a", "b", "c", "retired")


@st.composite
def functions(draw: st.DrawFn, number: int) -> list[Device]:
    """One PF with its VFs and SFs."""
    name = draw(st.sampled_from([None, f"pf{number}"]))
    vfs, sfs = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    kind = draw(st.sampled_from([NET_DEVICE, NET_DEVICE, ACCELERATOR]))
    parent = pf(f"0000:{number:02x}:00.0", name, num_vfs=vfs, kind=kind, rdma=draw(RDMA))
    found = [parent]
    for i in range(vfs):
        netdevs = draw(st.sampled_from([(), (Netdev(f"pf{number}v{i}", link_type="ether"),)]))
        facts = {"driver": draw(DRIVERS), "rdma": draw(RDMA), "netdevs": netdevs}
        found.append(vf(f"0000:{number:02x}:02.{i}", parent, i, **facts))
    if kind is NET_DEVICE:
        for n in range(sfs):
            netdevs = draw(st.sampled_from([(), (Netdev(f"pf{number}s{n}"),)]))
            facts = {"driver": draw(SF_DRIVERS), "rdma": draw(RDMA), "netdevs": netdevs}
            found.append(sf(parent, n, number * 10 + n, **facts))
    return found


@st.composite
def hosts(draw: st.DrawFn) -> Snapshot:
    devices = [d for n in range(draw(st.integers(1, 3))) for d in draw(functions(n))]
    netdevs = sorted({n.name for d in devices for n in d.netdevs})
    routes = draw(st.lists(st.sampled_from(netdevs), max_size=2, unique=True)) if netdevs else []
    return Snapshot(devices=tuple(devices), default_route_netdevs=tuple(sorted(routes)))


@st.composite
def selector_objects(draw: st.DrawFn, kind: Kind) -> Json:
    ranges = [f"{n}{tail}" for n in ("pf0", "pf1", "pf*") for tail in ("", "#0", "#1-2")]
    roots = [f"0000:{n:02x}:00.0{tail}" for n in range(3) for tail in ("", "#0-1")]
    choices: dict[str, st.SearchStrategy[Any]] = {
        "vendors": st.sampled_from([["8086"], ["15b3"]]),
        "drivers": st.lists(st.sampled_from(["iavf", "vfio-pci", "i40e"]), min_size=1),
        "rootDevices": st.lists(st.sampled_from(roots), min_size=1, max_size=2),
    }
    if kind is not ACCELERATOR:
        choices["pfNames"] = st.lists(st.sampled_from(ranges), min_size=1, max_size=2)
        choices["isRdma"] = st.booleans()
    keys = draw(st.lists(st.sampled_from(sorted(choices)), max_size=2, unique=True))
    chosen = {key: draw(choices[key]) for key in keys}
    return {**chosen, "auxTypes": ["sf"]} if kind is AUX_NET_DEVICE else chosen


@st.composite
def pool_files(draw: st.DrawFn) -> list[Json]:
    pools = []
    for name in RESOURCES[: draw(st.integers(1, 3))]:
        kind = draw(st.sampled_from(list(KINDS.values())))
        objects = draw(st.lists(selector_objects(kind), min_size=1, max_size=2))
        pools.append(pool(name, *objects, deviceType=str(kind), allowInUse=draw(st.booleans())))
    return pools


@st.composite
def holdings(draw: st.DrawFn, snapshot: Snapshot) -> AllocatedDevices:
    ids = [d.id for d in snapshot.devices] + ["0000:99:00.0", "mlx5_core.sf.99"]
    chosen = draw(st.lists(st.sampled_from(ids), max_size=3, unique=True))
    return AllocatedDevices(
        {i: PodOwner(f"intel.com/{draw(st.sampled_from(RESOURCES))}") for i in chosen}
    )


def has_sub_functions_in_use(pf: Device, snapshot: Snapshot, held: AllocatedDevices) -> bool:
    subs = [d for d in snapshot.devices if d.role is Role.SF and d.pf_address == pf.id]
    return pf.role is Role.PF and any(
        d.id in held.holders or not (d.netdevs or d.lacks_driver) for d in subs
    )


def chosen_by_the_rules(
    device: Device, pools: tuple[PoolConfig, ...], snapshot: Snapshot, held: AllocatedDevices
) -> str | None:
    """The resource that a device on the host belongs to, worked out the plain way."""
    holder = held.holders.get(device.id)
    if holder is not None:
        named = next((p for p in pools if p.resource == holder.resource), None)
        return named.resource if named else None
    if device.has_vfs or device.lacks_driver or has_sub_functions_in_use(device, snapshot, held):
        return None
    for candidate in pools:
        allowed = candidate.allow_in_use or device.id not in functions_in_use(snapshot)
        matches = any(
            first_refusal(device, selectors, snapshot) is None for selectors in candidate.selectors
        )
        if candidate.kind is device.kind and allowed and matches:
            return candidate.resource
    return None


@given(st.data())
def test_assigning_does_what_the_rules_say_for_every_device(data: st.DataObject) -> None:
    snapshot, made = data.draw(hosts()), config(*data.draw(pool_files()))
    held = data.draw(holdings(snapshot))
    pools = assign(snapshot, made, held)
    for device in snapshot.devices:
        expected = chosen_by_the_rules(device, made.pools, snapshot, held)
        assert pools.resource_of.get(device.id) == expected


@given(st.data())
def test_no_device_is_in_two_pools_and_the_order_of_members_is_stable(
    data: st.DataObject,
) -> None:
    snapshot, made = data.draw(hosts()), config(*data.draw(pool_files()))
    held = data.draw(holdings(snapshot))
    pools = assign(snapshot, made, held)
    ids = [m.device.id for p in pools.pools for m in p.members]
    assert len(ids) == len(set(ids))
    turned = Snapshot(
        devices=tuple(reversed(snapshot.devices)),
        default_route_netdevs=snapshot.default_route_netdevs,
    )
    again = assign(turned, made, held)
    assert [p.members for p in pools.pools] == [p.members for p in again.pools]
    assert [p.funnel for p in pools.pools] == [p.funnel for p in again.pools]


@given(st.data())
def test_every_reason_agrees_with_the_assignment(data: st.DataObject) -> None:
    snapshot, made = data.draw(hosts()), config(*data.draw(pool_files()))
    pools = assign(snapshot, made, data.draw(holdings(snapshot)))
    for device in snapshot.devices:
        told = reason(device, pools)
        assert told.resource == pools.resource_of.get(device.id)
        assert (told.refusal is None) == (told.resource is not None)
        assert told.refusal is not Refusal.UNSETTLED
        for candidate in made.pools:
            verdict = pool_verdict(device, candidate, pools)
            assert verdict.chosen == (told.resource == candidate.resource)
            assert verdict.chosen == (verdict.refusal is None)
            assert verdict.text


@given(st.data())
def test_the_last_step_of_a_funnel_of_one_object_is_the_size_of_the_pool(
    data: st.DataObject,
) -> None:
    snapshot, made = data.draw(hosts()), config(*data.draw(pool_files()))
    for chosen in assign(snapshot, made).pools:
        if len(chosen.config.selectors) == 1:
            assert chosen.funnel[-1].remaining == len(chosen.members)
        left = [s.remaining for s in chosen.funnel if s.selector_object <= 0]
        assert left == sorted(left, reverse=True)
