"""The JSON document of ``discover -o json``: every fact that a scan reads, and what comes of it.

It is not the schema of ``status`` and ``explain`` (docs/adr/0007-one-schema.md says why).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.model.device import Device, Netdev
from agent.pools.pool import Pool, Pools
from agent.pools.reasons import Reason, reason

Json = dict[str, Any]


def document(pools: Pools) -> Json:
    """The result of a scan and an assignment: devices with reasons, pools with funnels."""
    return {
        "devices": [device_view(d, reason(d, pools)) for d in pools.snapshot.devices],
        "pools": [pool_view(p) for p in pools.pools],
        "overlaps": [
            {"winner": o.winner, "loser": o.loser, "devices": list(o.device_ids)}
            for o in pools.overlaps
        ],
        "skippedClasses": dict(pools.snapshot.skipped_classes),
        "defaultRouteNetdevs": list(pools.snapshot.default_route_netdevs),
        "missingRdmaModules": list(pools.snapshot.missing_rdma_modules),
    }


def device_view(device: Device, why: Reason) -> Json:
    """One device: its facts, its pool or why it has none; facts that are not known are omitted."""
    facts: Mapping[str, object] = {
        "id": device.id,
        "kind": str(device.kind),
        "role": str(device.role),
        "pciAddress": device.pci_address,
        "vendor": device.vendor,
        "device": device.device,
        "class": f"0x{device.pci_class:06x}",
        "driver": device.driver,
        "numaNode": device.numa_node,
        "pfAddress": device.pf_address,
        "pfName": device.pf_name,
        "index": device.index,
        "totalVfs": device.total_vfs or None,
        "numVfs": device.num_vfs if device.total_vfs else None,
        "netdevs": [netdev_view(n) for n in device.netdevs],
        "netdev": device.netdev.name if device.netdev else None,
        "linkType": device.netdev.link_type if device.netdev else None,
        "iommuGroup": device.iommu_group,
        "noIommu": device.noiommu or None,
        "vfioDevice": device.vfio_device,
        "uio": list(device.uio),
        "acpiIndex": device.acpi_index,
        "rdma": [{"name": r.name, "nodes": list(r.nodes)} for r in device.rdma],
        "rdmaEnabled": device.rdma_enabled,
        "pKey": None if device.pkey is None else f"0x{device.pkey:04x}",
        "vdpa": [
            _known({"name": v.name, "type": v.type, "charDevice": v.char_device})
            for v in device.vdpa
        ],
        "ddpProfile": device.ddp_profile,
        "auxType": device.aux_type,
        "representor": device.representor,
        "pool": why.resource,
        "refusal": str(why.refusal) if why.refusal else None,
        "reason": why.text,
    }
    return {"pool": None, **_known(facts)}


def netdev_view(netdev: Netdev) -> Json:
    """One interface."""
    return _known(
        {
            "name": netdev.name,
            "ifindex": netdev.ifindex,
            "linkType": netdev.link_type,
            "adminUp": netdev.admin_up,
            "carrier": netdev.carrier,
            "operstate": netdev.operstate,
            "speedMbps": netdev.speed_mbps,
            "master": netdev.master,
            "uppers": list(netdev.uppers),
        }
    )


def pool_view(pool: Pool) -> Json:
    """One pool: its members in the order of kubelet's list, and its funnel."""
    return {
        "resource": pool.resource,
        "deviceType": str(pool.config.kind),
        "devices": [
            {"id": m.device.id, "selectorObject": m.selector_object, "present": m.present}
            for m in pool.members
        ],
        "funnel": [
            _known(
                {
                    "selectorObject": s.selector_object if s.selector_object >= 0 else None,
                    "step": s.step,
                    "wanted": s.wanted or None,
                    "remaining": s.remaining,
                }
            )
            for s in pool.funnel
        ],
        "notes": list(pool.notes),
    }


def _known(facts: Mapping[str, object]) -> Json:
    return {key: value for key, value in facts.items() if value is not None and value != []}
