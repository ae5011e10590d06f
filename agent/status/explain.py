"""The answer of ``explain``: why a device is in a pool or in none, or a pool has its devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from agent.model.address import parse_bdf
from agent.model.device import Device, Netdev
from agent.model.pci_class import passed_over
from agent.pools.allocation import device_nodes, missing_node
from agent.pools.groups import mates_text
from agent.pools.pool import Pool
from agent.pools.reasons import ObjectVerdict, PoolVerdict, pool_verdict, reason
from agent.rpc.agent import v1
from agent.status.report import device_message, given_last, overlap_message, pool_message
from agent.status.state import AgentState

_NEAR = 5
_LONGEST_NAME = 128
"""No subject has a longer name; the time of a comparison grows with the product of the lengths."""


def explain(subject: str, state: AgentState) -> v1.Explanation:
    """Explain a device id, a netdev's name or a resource; for unknown ones, the nearest names."""
    if device := _device_named(subject, state):
        return v1.Explanation(subject, device=_device(device, state))
    if pool := _pool_named(subject, state):
        return v1.Explanation(subject, pool=_pool(pool, state))
    note = _refused(subject, state) or _passed_over(subject, state)
    return v1.Explanation(subject, near=_near(subject, state), note=note)


def _refused(subject: str, state: AgentState) -> str:
    """A note about a pool of the file that was refused; empty for other subjects."""
    for resource in state.config.refused:
        if subject in {resource, resource.rpartition("/")[2]}:
            return (
                f"pool {resource} is in the file but was refused because of its errors: "
                f"`sriov-agent validate {state.config.path}` lists them (with --use-cdi where the "
                "agent has it)"
            )
    return ""


def _passed_over(subject: str, state: AgentState) -> str:
    """A note about a function whose class no pool selects; empty for other subjects."""
    address = _address(subject)
    pci_class = dict(state.pools.snapshot.passed_over).get(address)
    if pci_class is None:
        return ""
    return passed_over(address, pci_class)


def _device_named(subject: str, state: AgentState) -> Device | None:
    snapshot = state.pools.snapshot
    known = {m.device.id: m.device for p in state.pools.pools for m in p.members}
    for name in (subject, _address(subject)):
        if device := snapshot.by_id.get(name) or known.get(name):
            return device
    if owner := snapshot.netdev_owner.get(subject):
        return owner
    return next((pf for pf in snapshot.pfs.values() if subject in pf.altnames), None)


def _address(subject: str) -> str:
    try:
        return parse_bdf(subject)
    except ValueError:
        return ""


def _pool_named(subject: str, state: AgentState) -> Pool | None:
    """Find a pool by its full name, or by its name without the prefix if only one pool has it."""
    if pool := state.pools.by_resource.get(subject):
        return pool
    named = [p for p in state.pools.pools if p.config.name == subject]
    return named[0] if len(named) == 1 else None


def _near(subject: str, state: AgentState) -> list[str]:
    """Similar names; the first pools if no name is similar."""
    snapshot = state.pools.snapshot
    resources = [p.resource for p in state.pools.pools]
    meant = {name: [name] for name in (*snapshot.by_id, *snapshot.netdev_owner, *resources)}
    for pool in state.pools.pools:
        meant.setdefault(pool.config.name, []).append(pool.resource)
    near = [subject] if subject in meant else _similar(subject, meant)
    found = [name for key in near for name in meant[key]]
    return list(dict.fromkeys(found))[:_NEAR] or resources[:_NEAR]


def _similar(subject: str, names: Iterable[str]) -> list[str]:
    if len(subject) > _LONGEST_NAME:
        return []
    return get_close_matches(subject, names, _NEAR, 0.6)


def _device(device: Device, state: AgentState) -> v1.DeviceExplanation:
    pools = state.pools
    health = state.health_of(device.id)
    return v1.DeviceExplanation(
        device=device_message(device, state),
        summary=reason(device, pools).text,
        facts=[v1.Fact(name, value) for name, value in _facts(device, state) if value],
        in_use=pools.in_use.get(device.id, ""),
        health_detail=health.detail if health else "",
        pools=[_verdict(pool_verdict(device, c, pools)) for c in pools.config.pools],
    )


def _facts(device: Device, state: AgentState) -> Iterator[tuple[str, str]]:
    yield "kind", str(device.kind)
    yield "role", _role(device)
    yield "vendor:device", f"{device.vendor}:{device.device}"
    yield "PCI address", device.pci_address if device.pci_address != device.id else ""
    yield "class", f"0x{device.pci_class:06x}"
    yield "driver", device.driver or "none bound"
    yield "NUMA node", "" if device.numa_node is None else str(device.numa_node)
    yield "PF", _pf(device)
    newest = (state.links.newest(n) for n in device.netdevs)
    yield "netdev", ", ".join(_netdev(n) for n in newest if n)
    yield "also named", ", ".join(device.altnames)
    ports = device.infiniband_ports
    yield "RDMA port", ", ".join(f"{p.rdma}/{p.number} {p.state or 'unknown'}" for p in ports)
    yield "IOMMU group", _iommu_group(device, state)
    yield "VFIO device", device.vfio_device or ""
    yield "device nodes", _device_nodes(device, state)
    yield "uio", ", ".join(device.uio)
    yield "RDMA", ", ".join(r.name for r in device.rdma)
    yield "P_Key", "" if device.pkey is None else f"0x{device.pkey:04x}"
    yield "vDPA", ", ".join(f"{v.name} ({v.type or 'unbound'})" for v in device.vdpa)
    yield "DDP profile", device.ddp_profile or ""
    yield "representor", device.representor or ""
    yield "ACPI index", device.acpi_index or ""
    is_in_pool = device.id in state.pools.resource_of
    yield "given last", given_last(device, state) if is_in_pool else ""


def _iommu_group(device: Device, state: AgentState) -> str:
    if device.iommu_group is None:
        return ""
    shared = mates_text(device, state.pools.snapshot)
    return f"{device.iommu_group}, shared with {shared}" if shared else str(device.iommu_group)


def _device_nodes(device: Device, state: AgentState) -> str:
    """What a pod would get of the host's ``/dev``, or why it gets nothing."""
    pools = state.pools
    resource = pools.resource_of.get(device.id)
    member = pools.by_resource[resource].by_id[device.id] if resource else None
    if member is None or not member.present:
        return ""
    host = pools.snapshot.nodes
    lack = missing_node(member, host)
    if lack:
        return f"none: {lack}"
    return ", ".join(node.host_path for node in device_nodes(member, host))


def _role(device: Device) -> str:
    vfs = f" with {device.num_vfs} of {device.total_vfs} VFs" if device.total_vfs else ""
    return f"{device.role}{vfs}"


def _pf(device: Device) -> str:
    if device.pf_address in {None, device.id}:
        return ""
    name = f"{device.pf_name} ({device.pf_address})" if device.pf_name else str(device.pf_address)
    return name if device.index is None else f"{name}, index {device.index}"


def _netdev(netdev: Netdev) -> str:
    states = [
        netdev.link_type,
        {True: "up", False: "administratively down", None: None}[netdev.admin_up],
        {True: "carrier", False: "no carrier", None: None}[netdev.carrier],
        f"part of {netdev.master}" if netdev.master else None,
    ]
    text = ", ".join(s for s in states if s)
    return f"{netdev.name} ({text})" if text else netdev.name


def _verdict(verdict: PoolVerdict) -> v1.PoolVerdict:
    return v1.PoolVerdict(
        resource=verdict.resource,
        chosen=verdict.chosen,
        outcome=verdict.text,
        objects=[_object(o) for o in verdict.objects],
    )


def _object(verdict: ObjectVerdict) -> v1.ObjectVerdict:
    return v1.ObjectVerdict(
        selector_object=verdict.selector_object + 1,
        verdicts=[
            v1.SelectorVerdict(v.key, v.wanted, v.actual, v.passed) for v in verdict.verdicts
        ],
        outcome=verdict.text,
    )


def _pool(pool: Pool, state: AgentState) -> v1.PoolExplanation:
    message = pool_message(pool, state)
    return v1.PoolExplanation(
        pool=message,
        summary=_summary(message, state),
        members=[device_message(m.device, state) for m in pool.members],
        overlaps=[
            overlap_message(o) for o in state.pools.overlaps if pool.resource in {o.winner, o.loser}
        ],
    )


def _summary(pool: v1.Pool, state: AgentState) -> str:
    if not pool.devices:
        is_offered = pool.server is not None
        shown = "kubelet shows it as 0" if is_offered else "it is not registered with kubelet"
        return f"no devices: {shown}"
    sick = "".join(f", {c.devices} unhealthy: {c.cause}" for c in pool.causes)
    held = f", {pool.held} held by pods" if pool.held else ""
    devices = "1 device" if pool.devices == 1 else f"{pool.devices} devices"
    text = f"{devices}, {pool.healthy} healthy{held}{sick}"
    if state.servers and not (pool.server and pool.server.stream_live):
        text += "; kubelet does not follow the list, so it counts none of them"
    return text
