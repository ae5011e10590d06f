"""Device-info files (device-info spec 1.1.0): what CNI plugins read about an allocated device.

Written at Allocate and never removed while the agent runs: kubelet replays an allocation at every
restart of a container, also while the agent is down.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agent.config.schema import PoolConfig
from agent.export.atomic import in_folder, write_now
from agent.export.names import safe_file_name
from agent.pools.pool import Member

SPEC_VERSION = "1.1.0"
FILE_MODE = 0o444


def device_info_name(config: PoolConfig, device_id: str) -> str:
    """``<prefix>-<resource>-<id>-device.json``, as multus looks it up."""
    return safe_file_name(f"{config.prefix}-{config.name}-{device_id}", "-device.json")


def device_info_document(member: Member) -> dict[str, object]:
    """The content of a member's file: type ``vdpa`` if its pool selects vDPA, else ``pci``."""
    device = member.device
    shared = {
        "pci-address": device.pci_address,
        "rdma-device": ",".join(r.name for r in device.rdma),
        "pf-pci-address": device.pf_address if device.pf_address != device.id else None,
        "representor-device": device.representor,
    }
    vdpa = next((v for v in device.vdpa if v.type == member.selectors.vdpa_type), None)
    if member.selectors.vdpa_type is None or vdpa is None:
        return {"type": "pci", "version": SPEC_VERSION, "pci": _known(shared)}
    del shared["rdma-device"]
    facts = {"parent-device": vdpa.name, "driver": vdpa.type, "path": vdpa.char_device, **shared}
    return {"type": "vdpa", "version": SPEC_VERSION, "vdpa": _known(facts)}


def _known(facts: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in facts.items() if value}


async def write_device_info(folder: Path, config: PoolConfig, members: Sequence[Member]) -> None:
    """Write the files of ``members``, atomically, mode 0444. Raises OSError.

    Kinds without a CNI plugin (accelerators) get none.
    """
    if not config.kind.device_info:
        return
    files = {
        device_info_name(config, m.device.id): json.dumps(
            device_info_document(m), separators=(",", ":")
        )
        for m in members
    }

    def write() -> None:
        for name, document in files.items():
            write_now(folder / name, document.encode(), FILE_MODE)

    await in_folder(folder, write)
