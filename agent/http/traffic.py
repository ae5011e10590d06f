"""Optional metrics per VF, under the names of the SR-IOV network metrics exporter.

Dashboards for that exporter work unchanged: ``sriov_vf_*`` has the traffic, and
``sriov_kubepoddevice`` joins it with pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from agent.model.device import Device, Role
from agent.model.traffic import Traffic, VfTraffic
from agent.status.state import AgentState

_TEXTS = {
    "rx_bytes": "Bytes that a VF received.",
    "tx_bytes": "Bytes that a VF sent.",
    "rx_packets": "Packets that a VF received.",
    "tx_packets": "Packets that a VF sent.",
    "rx_dropped": "Packets for a VF that were dropped on receipt.",
    "tx_dropped": "Packets of a VF that were dropped on transmission.",
    "rx_broadcast": "Broadcast packets that a VF received.",
    "rx_multicast": "Multicast packets that a VF received.",
}


def traffic_families(state: AgentState, traffic: Traffic) -> Iterator[Metric]:
    """One family for each counter, then the pods that have the VFs."""
    vfs = [
        (_labels(device), counted)
        for device in state.pools.snapshot.devices
        if device.role is Role.VF and (counted := _counted(device, traffic))
    ]
    for name, text in _TEXTS.items():
        # Not of type counter: the library would add "_total" to the name.
        family = Metric(f"sriov_vf_{name}", text, "unknown")
        for labels, counted in vfs:
            if (number := getattr(counted, name)) is not None:
                family.add_sample(family.name, labels, number)
        yield family
    yield _pods(state)


def _counted(device: Device, traffic: Traffic) -> VfTraffic | None:
    if device.index is None:
        return None
    return traffic.get(device.pf_address or "", {}).get(device.index)


def _labels(device: Device) -> dict[str, str]:
    return {
        "pf": device.pf_name or "",
        "vf": str(device.index),
        "pciAddr": device.id,
        "numa_node": "" if device.numa_node is None else str(device.numa_node),
    }


def _pods(state: AgentState) -> Metric:
    family = GaugeMetricFamily(
        "sriov_kubepoddevice",
        "1 for each device that is allocated to a pod; join it with sriov_vf_* on pciAddr.",
        labels=("pciAddr", "dev_type", "pod", "namespace", "container"),
    )
    for device_id, holder in sorted(state.pools.held.holders.items()):
        device = state.pools.snapshot.by_id.get(device_id)
        if holder.pod and device is not None and device.pci_address == device_id:
            pod = (holder.pod, holder.namespace or "", holder.container or "")
            family.add_metric((device_id, holder.resource, *pod), 1)
    return family
