"""Devices and snapshots for tests of pure functions: only the facts that a test names differ."""

from __future__ import annotations

from typing import Any

from agent.kinds import AUX_NET_DEVICE, NET_DEVICE
from agent.model.device import Device, Netdev, Role
from agent.model.snapshot import Snapshot


def pf(address: str, name: str | None = None, **facts: Any) -> Device:  # noqa: ANN401
    """An Intel PF with one netdev (or none), without VFs unless ``num_vfs`` says so."""
    netdevs = (Netdev(name, link_type="ether"),) if name else ()
    plain: dict[str, Any] = {
        "id": address,
        "kind": NET_DEVICE,
        "role": Role.PF,
        "pci_address": address,
        "vendor": "8086",
        "device": "1572",
        "pci_class": 0x020000,
        "driver": "i40e",
        "pf_address": address,
        "pf_name": name,
        "total_vfs": 64,
        "netdevs": netdevs,
    }
    return Device(**plain | facts)


def vf(address: str, of: Device | None, index: int | None = 0, **facts: Any) -> Device:  # noqa: ANN401
    """A VF of a PF (None: its PF is not on this host)."""
    plain: dict[str, Any] = {
        "id": address,
        "kind": of.kind if of else NET_DEVICE,
        "role": Role.VF,
        "pci_address": address,
        "vendor": "8086",
        "device": "154c",
        "pci_class": 0x020000,
        "driver": "iavf",
        "pf_address": of.id if of else None,
        "pf_name": of.pf_name if of else None,
        "index": index,
    }
    return Device(**plain | facts)


def sf(of: Device, sfnum: int, number: int = 0, **facts: Any) -> Device:  # noqa: ANN401
    """A sub-function of a PF."""
    plain: dict[str, Any] = {
        "id": f"mlx5_core.sf.{number}",
        "kind": AUX_NET_DEVICE,
        "role": Role.SF,
        "pci_address": of.id,
        "vendor": of.vendor,
        "device": of.device,
        "pci_class": 0x020000,
        "driver": "mlx5_core.sf",
        "pf_address": of.id,
        "pf_name": of.pf_name,
        "index": sfnum,
        "aux_type": "sf",
    }
    return Device(**plain | facts)


def host(*devices: Device) -> Snapshot:
    """A snapshot of these devices."""
    return Snapshot(devices=devices)
