from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

from agent.export.device_info import device_info_document, write_device_info
from agent.kinds import ACCELERATOR
from agent.model.device import Device, RdmaDevice, VdpaDevice
from agent.pools.pool import Pool
from tests.support.devices import host, pf, sf, vf
from tests.support.pools import one_pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=4)
VHOST = VdpaDevice("vdpa0", "vhost", "/dev/vhost-vdpa-0")
VIRTIO = VdpaDevice("vdpa1", "virtio")


def function(**facts: object) -> Device:
    return vf("0000:3b:02.0", PF0, 0, **facts)


def pool_of(device: Device, **selectors: object) -> Pool:
    return one_pool(host(PF0, device), selectors)


def info(chosen: Pool) -> dict[str, object]:
    return device_info_document(chosen.members[0])


def written(folder: Path) -> dict[str, Any]:
    return {p.name: json.loads(p.read_bytes()) for p in sorted(folder.iterdir())}


def test_a_vf_has_its_own_address_and_its_pfs() -> None:
    assert info(pool_of(function())) == {
        "type": "pci",
        "version": "1.1.0",
        "pci": {"pci-address": "0000:3b:02.0", "pf-pci-address": "0000:3b:00.0"},
    }


def test_rdma_devices_and_the_representor_are_in_the_file_if_they_are_known() -> None:
    rdma = (RdmaDevice("mlx5_2"), RdmaDevice("mlx5_3"))
    assert info(pool_of(function(rdma=rdma, representor="pf0_0")))["pci"] == {
        "pci-address": "0000:3b:02.0",
        "rdma-device": "mlx5_2,mlx5_3",
        "pf-pci-address": "0000:3b:00.0",
        "representor-device": "pf0_0",
    }


def test_the_document_of_a_pf_does_not_name_it_as_its_own_pf() -> None:
    chosen = one_pool(host(pf("0000:3b:00.1", "pf1")))
    assert info(chosen)["pci"] == {"pci-address": "0000:3b:00.1"}


def test_a_vf_whose_pf_is_elsewhere_has_only_the_pfs_address() -> None:
    chosen = one_pool(host(vf("0000:05:00.0", None)))
    assert info(chosen)["pci"] == {"pci-address": "0000:05:00.0"}


def test_the_file_of_a_vhost_vdpa_device_has_its_path_and_no_rdma() -> None:
    device = function(vdpa=(VIRTIO, VHOST), rdma=(RdmaDevice("mlx5_2"),), representor="pf0_0")
    assert info(pool_of(device, vdpaType="vhost")) == {
        "type": "vdpa",
        "version": "1.1.0",
        "vdpa": {
            "parent-device": "vdpa0",
            "driver": "vhost",
            "path": "/dev/vhost-vdpa-0",
            "pci-address": "0000:3b:02.0",
            "pf-pci-address": "0000:3b:00.0",
            "representor-device": "pf0_0",
        },
    }


def test_a_virtio_vdpa_device_has_no_path() -> None:
    assert info(pool_of(function(vdpa=(VHOST, VIRTIO)), vdpaType="virtio"))["vdpa"] == {
        "parent-device": "vdpa1",
        "driver": "virtio",
        "pci-address": "0000:3b:02.0",
        "pf-pci-address": "0000:3b:00.0",
    }


def test_a_vdpa_device_in_a_pool_without_vdpa_type_has_a_pci_file() -> None:
    assert info(pool_of(function(vdpa=(VHOST,))))["type"] == "pci"


def test_a_vdpa_device_that_was_removed_meanwhile_has_a_pci_file() -> None:
    member = pool_of(function(vdpa=(VHOST,)), vdpaType="vhost").members[0]
    bare = attrs.evolve(member, device=function())
    assert device_info_document(bare)["type"] == "pci"


async def test_the_files_have_the_name_mode_and_text_that_cni_plugins_expect(
    tmp_path: Path,
) -> None:
    chosen = pool_of(function())
    await write_device_info(tmp_path / "dp", chosen.config, chosen.members)
    path = tmp_path / "dp" / "intel.com-vf-0000:3b:02.0-device.json"
    assert written(tmp_path / "dp") == {path.name: info(chosen)}
    assert path.stat().st_mode & 0o777 == 0o444


async def test_a_sub_function_has_a_device_info_file_with_its_own_name(tmp_path: Path) -> None:
    uplink = pf("0000:d8:00.0", "mlx0")
    sub = sf(uplink, 1, 2, rdma=(RdmaDevice("mlx5_5"),), representor="mlx0_sf1")
    chosen = one_pool(host(uplink, sub), {"auxTypes": ["sf"]}, deviceType="auxNetDevice")
    await write_device_info(tmp_path, chosen.config, chosen.members)
    assert written(tmp_path) == {
        "intel.com-vf-mlx5_core.sf.2-device.json": {
            "type": "pci",
            "version": "1.1.0",
            "pci": {
                "pci-address": "0000:d8:00.0",
                "rdma-device": "mlx5_5",
                "pf-pci-address": "0000:d8:00.0",
                "representor-device": "mlx0_sf1",
            },
        }
    }


async def test_accelerators_have_no_file(tmp_path: Path) -> None:
    fec = pf("0000:b0:00.0", kind=ACCELERATOR, pci_class=0x120000)
    chosen = one_pool(host(fec), deviceType="accelerator")
    assert chosen.members
    await write_device_info(tmp_path / "dp", chosen.config, chosen.members)
    assert not (tmp_path / "dp").exists()


async def test_another_allocation_replaces_the_file_of_an_earlier_pod(tmp_path: Path) -> None:
    before, after = pool_of(function()), pool_of(function(representor="pf0_0"))
    for chosen in (before, after):
        await write_device_info(tmp_path, chosen.config, chosen.members)
    assert list(written(tmp_path).values()) == [info(after)]
