"""What one container gets for the devices that kubelet chose: environment and device nodes.

A pure function of the pool's members and their facts. Running workloads depend on the output:
names and forms are those of the Go plugin; the order is stable where the Go plugin's is random.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from agent.config.names import env_names, info_name
from agent.config.schema import PoolConfig
from agent.errors import DeviceNotUsableError, UnknownDeviceError
from agent.model.answers import Allocation, DeviceNode
from agent.model.device import UIO_DRIVERS, Device
from agent.model.nodes import IOMMUFD, RDMA_CM, VFIO_CONTROL, VHOST_NET, VHOST_TUN, HostNodes
from agent.pools.order import device_order
from agent.pools.pool import Member, Pool

Info = dict[str, dict[str, str]]

_ESCAPED_AS_IN_GO = {
    **{ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"},
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),  # half a surrogate pair: invalid in UTF-8
}


def members_for(pool: Pool, device_ids: Sequence[str]) -> tuple[Member, ...]:
    """The pool's members for a request, each once, in stable order regardless of the request's.

    Raises UnknownDeviceError for ids that are not in the pool, and DeviceNotUsableError for a
    device that the host no longer has: a pod must never get less than it requested.
    """
    unknown = sorted({i for i in device_ids if i not in pool.by_id})
    if unknown:
        raise UnknownDeviceError(pool.resource, tuple(unknown))
    members = [pool.by_id[i] for i in dict.fromkeys(device_ids)]
    for member in members:
        if not member.present:
            raise DeviceNotUsableError(member.device.id, "is no longer on the host")
    return tuple(sorted(members, key=lambda m: device_order(m.device)))


def allocation(
    config: PoolConfig, members: Sequence[Member], host: HostNodes, asked: Sequence[str] = ()
) -> Allocation:
    """Envs and device nodes for ``members``, which are in stable order and on the host.

    Nodes are in the order of the ids in ``asked``, as in the Go plugin; without ``asked`` in that
    of the members. ``host`` shows which device nodes the host has. Raises DeviceNotUsableError.
    """
    info = {m.device.id: device_info(config, m, host) for m in members}
    place = {device_id: number for number, device_id in enumerate(dict.fromkeys(asked))}
    in_order = sorted(members, key=lambda m: place.get(m.device.id, len(place)))
    nodes = dict.fromkeys(n for m in in_order for n in device_nodes(m, host))
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


def device_nodes(member: Member, host: HostNodes) -> Iterable[DeviceNode]:
    """The device nodes of one member, in the order of the sections of its info.

    Raises DeviceNotUsableError if a node is missing that its driver or selectors promise.
    """
    device, selectors = member.device, member.selectors
    if lack := missing_node(member, host):
        raise DeviceNotUsableError(device.id, lack)
    yield from vfio_nodes(device, host)
    if device.driver in UIO_DRIVERS:
        yield from (same(f"/dev/{name}") for name in device.uio)
    if selectors.is_rdma:
        yield from (same(path) for rdma in device.rdma for path in rdma.nodes)
        if device.rdma and host.rdma_cm:
            yield same(RDMA_CM)
    if selectors.need_vhost_net and not missing_vhost_nodes(host):
        yield same(VHOST_NET)
        yield same(VHOST_TUN)
    if vdpa := vhost_vdpa(member):
        yield same(vdpa)


def device_info(config: PoolConfig, member: Member, host: HostNodes) -> Info:
    """The sections of a device in the ``_INFO`` variable, as far as they apply.

    As in the Go plugin, the section ``vhost`` depends on ``/dev/vhost-net`` alone.
    """
    device, selectors = member.device, member.selectors
    info: Info = {"generic": {"deviceID": device.id}}
    if device.is_vfio:
        info["vfio"] = _vfio_info(device, host)
    if device.driver in UIO_DRIVERS and device.uio:
        info["uio"] = {"mount": ",".join(f"/dev/{name}" for name in device.uio)}
    if selectors.is_rdma:
        info["rdma"] = _rdma_info(device, rdma_cm=host.rdma_cm)
    if selectors.need_vhost_net and not host.lacks(VHOST_NET):
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


def missing_node(member: Member, host: HostNodes) -> str:
    """What a member lacks that its driver or its selector object promises a pod; empty = nothing.

    Otherwise the pod would fail later, and nothing would show why.
    """
    if lack := lost_node(member, host):
        return lack
    if member.selectors.is_rdma and not member.device.rdma:
        return "has no RDMA device in the host's network namespace"
    if member.selectors.vdpa_type == "vhost" and not vhost_vdpa(member):
        return "has no vhost-vdpa node (driver vhost_vdpa)"
    return ""


def lost_node(member: Member, host: HostNodes) -> str:
    """The same, except RDMA and vDPA devices, which a pod's network namespace may hide.

    A node that sysfs names and ``/dev`` lacks counts: a container runtime could not add it.
    """
    device = member.device
    if device.is_vfio:
        return _lost_vfio_node(device, host)
    if device.driver in UIO_DRIVERS and not device.uio:
        return f"is bound to {device.driver} but has no UIO node"
    if not (device.uio or device.rdma or device.vdpa):
        return ""
    vdpa = vhost_vdpa(member)
    named = [
        *(f"/dev/{name}" for name in device.uio if device.driver in UIO_DRIVERS),
        *(path for rdma in device.rdma if member.selectors.is_rdma for path in rdma.nodes),
        *((vdpa,) if vdpa else ()),
    ]
    return _missing_on_host(named, host)


def _lost_vfio_node(device: Device, host: HostNodes) -> str:
    if device.iommu_group is None and device.vfio_device is None:
        return f"is bound to {device.driver} but has no IOMMU group"
    if _has_group_node(device, host) or _has_device_node(device, host):
        return ""
    return _missing_on_host(_vfio_paths(device), host)


def _missing_on_host(paths: Iterable[str], host: HostNodes) -> str:
    missing = next(filter(host.lacks, paths), None)
    return f"the host has no device node {missing}" if missing else ""


def missing_vhost_nodes(host: HostNodes) -> tuple[str, ...]:
    """The nodes of ``needVhostNet`` that the host lacks; one is useless without the other."""
    return tuple(filter(host.lacks, (VHOST_NET, VHOST_TUN)))


def vfio_nodes(device: Device, host: HostNodes) -> Iterator[DeviceNode]:
    """The nodes of a device that is bound to vfio; none if the host lacks them.

    These are its IOMMU group's node with the control node, and its own node (Linux 6.6,
    CONFIG_VFIO_DEVICE_CDEV) with iommufd's, if the host has them.
    """
    if not device.is_vfio:
        return
    if _has_group_node(device, host):
        yield same(VFIO_CONTROL)
        yield DeviceNode(vfio_container_path(device), vfio_host_path(device))
    if _has_device_node(device, host):
        yield same(IOMMUFD)
        yield same(vfio_device_path(device))


def _has_group_node(device: Device, host: HostNodes) -> bool:
    return (
        device.iommu_group is not None
        and (host.has_vfio_groups or device.vfio_device is None)
        and not host.lacks(vfio_host_path(device))
        and not host.lacks(VFIO_CONTROL)
    )


def _has_device_node(device: Device, host: HostNodes) -> bool:
    return (
        device.vfio_device is not None
        and (host.is_seen or not host.has_vfio_groups)
        and host.has(vfio_device_path(device))
        and host.has(IOMMUFD)
    )


def _vfio_paths(device: Device) -> Iterator[str]:
    """The paths to look for on the host, the most likely first."""
    if device.iommu_group is not None:
        yield vfio_host_path(device)
        yield VFIO_CONTROL
    if device.vfio_device is not None:
        yield vfio_device_path(device)
        yield IOMMUFD


def _vfio_info(device: Device, host: HostNodes) -> dict[str, str]:
    info: dict[str, str] = {}
    if _has_group_node(device, host):
        info |= {"mount": VFIO_CONTROL, "dev-mount": vfio_container_path(device)}
    if _has_device_node(device, host):
        info |= {"cdev-mount": vfio_device_path(device), "iommufd-mount": IOMMUFD}
    return info


def vfio_device_path(device: Device) -> str:
    """Path of the device's own VFIO node (kernel: Documentation/driver-api/vfio.rst)."""
    return f"/dev/vfio/devices/{device.vfio_device}"


def node_names(member: Member) -> Iterator[str]:
    """Every device node that a member can bring, as paths below ``/dev``."""
    device, selectors = member.device, member.selectors
    paths: list[str] = list(_vfio_paths(device)) if device.is_vfio else []
    paths += [f"/dev/{name}" for name in device.uio]
    paths += [path for rdma in device.rdma for path in rdma.nodes]
    paths += [v.char_device for v in device.vdpa if v.char_device is not None]
    if selectors.need_vhost_net:
        paths += [VHOST_NET, VHOST_TUN]
    yield from (path.removeprefix("/dev/") for path in paths)


def vfio_container_path(device: Device) -> str:
    """Path of the VFIO group in the container: the group's number, with and without an IOMMU."""
    return f"/dev/vfio/{device.iommu_group}"


def vfio_host_path(device: Device) -> str:
    """Path of the VFIO group on the host (kernel: no-IOMMU groups are ``noiommu-<group>``)."""
    return f"/dev/vfio/{'noiommu-' if device.noiommu else ''}{device.iommu_group}"


def same(path: str) -> DeviceNode:
    """A device node that has the same path in the container as on the host."""
    return DeviceNode(container_path=path, host_path=str(PurePosixPath(path)))


def info_json(info: Mapping[str, Info]) -> str:
    """The value of the ``_INFO`` variable: compact JSON of device id -> section -> key -> value.

    It is byte for byte what the Go plugin writes, since workloads parse it and some compare it.
    Go's encoding/json sorts the keys of maps, writes characters as they are, and escapes those
    that could end a script element in HTML.
    """
    text = json.dumps(info, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.translate(_ESCAPED_AS_IN_GO)
