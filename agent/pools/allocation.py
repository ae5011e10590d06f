"""What one container gets for the devices that kubelet chose: envs, mounts, device nodes.

A pure function of the pool's members and their facts. The outputs are a contract with running
workloads: names and shapes are those of the Go plugin, the order is stable where its was random.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from agent.config.names import env_names, info_name
from agent.config.schema import PoolConfig
from agent.errors import DeviceNotUsableError, UnknownDeviceError
from agent.model.answers import Allocation, DeviceNode
from agent.model.device import Device
from agent.pools.info_json import info_json
from agent.pools.order import device_order
from agent.pools.records import Member, Pool

VFIO_CONTROL = "/dev/vfio/vfio"
VHOST_NET = "/dev/vhost-net"
VHOST_TUN = "/dev/net/tun"
RDMA_CM = "/dev/infiniband/rdma_cm"
VFIO_DRIVERS = frozenset({"vfio-pci"})
UIO_DRIVERS = frozenset({"uio", "igb_uio", "uio_pci_generic"})

Info = dict[str, dict[str, str]]


def members_for(pool: Pool, device_ids: Sequence[str]) -> tuple[Member, ...]:
    """The pool's members for a request, each once, in stable order whatever the request's.

    Raises UnknownDeviceError for ids that the pool does not hold, DeviceNotUsableError for a
    device that is gone from the host: a pod must never get less than it asked for.
    """
    unknown = sorted({i for i in device_ids if i not in pool.by_id})
    if unknown:
        raise UnknownDeviceError(pool.resource, tuple(unknown))
    members = [pool.by_id[i] for i in dict.fromkeys(device_ids)]
    for member in members:
        if not member.present:
            raise DeviceNotUsableError(member.device.id, "is gone from the host")
    return tuple(sorted(members, key=lambda m: device_order(m.device)))


def allocation(config: PoolConfig, members: Sequence[Member], *, rdma_cm: bool) -> Allocation:
    """Envs and device nodes for ``members``, which are in stable order and on the host.

    ``rdma_cm`` tells whether the host has the RDMA connection manager's node.
    """
    info = {m.device.id: device_info(config, m, rdma_cm=rdma_cm) for m in members}
    nodes = dict.fromkeys(n for m in members for n in device_nodes(m, rdma_cm=rdma_cm))
    by_host_path = {n.host_path: n for n in reversed(nodes)}
    return Allocation(
        envs=tuple(sorted(_envs(config, [m.device.id for m in members], info).items())),
        nodes=tuple(n for n in nodes if by_host_path[n.host_path] is n),
    )


def _envs(
    config: PoolConfig, device_ids: Sequence[str], info: Mapping[str, Info]
) -> dict[str, str]:
    envs: dict[str, str] = {}
    text = info_json(info)
    for name in env_names(config.resource):
        envs[name] = ",".join(device_ids)
        envs[info_name(name)] = text
    return envs


def device_nodes(member: Member, *, rdma_cm: bool) -> Iterable[DeviceNode]:
    """The device nodes that one member brings, in the order of the sections of its info.

    Raises DeviceNotUsableError where a node is missing that its driver or selectors promise.
    """
    device, selectors = member.device, member.selectors
    if lack := missing_node(member):
        raise DeviceNotUsableError(device.id, lack)
    if device.driver in VFIO_DRIVERS:
        yield same(VFIO_CONTROL)
        yield DeviceNode(vfio_container_path(device), vfio_host_path(device))
    if device.driver in UIO_DRIVERS:
        yield from (same(f"/dev/{name}") for name in device.uio)
    if selectors.is_rdma:
        yield from (same(path) for rdma in device.rdma for path in rdma.nodes)
        if device.rdma and rdma_cm:
            yield same(RDMA_CM)
    if selectors.need_vhost_net:
        yield same(VHOST_NET)
        yield same(VHOST_TUN)
    if vdpa := vhost_vdpa(member):
        yield same(vdpa)


def device_info(config: PoolConfig, member: Member, *, rdma_cm: bool) -> Info:
    """The sections of a device in the ``_INFO`` env; one is present where its provider applies."""
    device, selectors = member.device, member.selectors
    info: Info = {"generic": {"deviceID": device.id}}
    if device.driver in VFIO_DRIVERS:
        info["vfio"] = {"mount": VFIO_CONTROL, "dev-mount": vfio_container_path(device)}
    if device.driver in UIO_DRIVERS and device.uio:
        info["uio"] = {"mount": ",".join(f"/dev/{name}" for name in device.uio)}
    if selectors.is_rdma:
        info["rdma"] = _rdma_info(device, rdma_cm=rdma_cm)
    if selectors.need_vhost_net:
        info["vhost"] = {"net-mount": VHOST_NET, "tun-mount": VHOST_TUN}
    if selectors.vdpa_type:
        vdpa = vhost_vdpa(member)
        info["vdpa"] = {"mount": vdpa} if vdpa else {}
    if config.additional_info is not None:
        info["extra"] = extra_info(config, device)
    return info


def _rdma_info(device: Device, *, rdma_cm: bool) -> dict[str, str]:
    facts = {
        "rdma_dev": ",".join(r.name for r in device.rdma),
        "uverbs": ",".join(p for r in device.rdma for p in r.uverbs),
        "umad": ",".join(p for r in device.rdma for p in r.umad),
        "issm": ",".join(p for r in device.rdma for p in r.issm),
        "ucm": ",".join(p for r in device.rdma for p in r.ucm),
        "rdma_cm": RDMA_CM if device.rdma and rdma_cm else "",
    }
    return {key: value for key, value in facts.items() if value}


def extra_info(config: PoolConfig, device: Device) -> dict[str, str]:
    """AdditionalInfo of a device: ``*``, then its PCI address, then its own name, key by key."""
    merged: dict[str, str] = {}
    for key in dict.fromkeys(("*", device.pci_address, device.id)):
        merged |= (config.additional_info or {}).get(key, {})
    return merged


def vhost_vdpa(member: Member) -> str | None:
    """Path of the member's vhost vDPA node, if its selector object wants that type."""
    if member.selectors.vdpa_type != "vhost":
        return None
    vhost = (v.char_device for v in member.device.vdpa if v.type == "vhost")
    return next((path for path in vhost if path), None)


def missing_node(member: Member) -> str:
    """What a member lacks that its driver or its selector object promises a pod; empty = nothing.

    A pod that got less than it asked for would fail later, where nobody sees why.
    """
    device, selectors = member.device, member.selectors
    if device.driver in VFIO_DRIVERS and device.iommu_group is None:
        return f"is bound to {device.driver} but has no IOMMU group"
    if device.driver in UIO_DRIVERS and not device.uio:
        return f"is bound to {device.driver} but has no UIO node"
    if selectors.is_rdma and not device.rdma:
        return "has no RDMA device in the host's network namespace"
    if selectors.vdpa_type == "vhost" and not vhost_vdpa(member):
        return "has no vhost-vdpa node (driver vhost_vdpa)"
    return ""


def vfio_container_path(device: Device) -> str:
    """Path of the VFIO group in the container: the group's number, with and without an IOMMU."""
    return f"/dev/vfio/{device.iommu_group}"


def vfio_host_path(device: Device) -> str:
    """Path of the VFIO group on the host (kernel: no-IOMMU groups are ``noiommu-<group>``)."""
    return f"/dev/vfio/{'noiommu-' if device.noiommu else ''}{device.iommu_group}"


def same(path: str) -> DeviceNode:
    """A device node that has the same path in the container as on the host."""
    return DeviceNode(container_path=path, host_path=str(PurePosixPath(path)))
