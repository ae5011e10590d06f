"""RDMA devices, their character devices, and vDPA and auxiliary devices below functions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent.discovery.scan import Scanner, scan
from agent.host.devlink import ENABLE_RDMA
from agent.kinds import AUX_NET_DEVICE, NET_DEVICE
from agent.model.device import Device, InfinibandPort, RdmaDevice, Role, VdpaDevice
from tests.support.hardware import ACC100, CONNECTX6, CONNECTX6_INFINIBAND, Hardware
from tests.support.host_builder import HostBuilder

PF = "0000:03:00.0"
VF0, VF1 = "0000:03:01.0", "0000:03:01.1"


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    host = HostBuilder(tmp_path)
    host.pf(PF, "ens3", CONNECTX6, vfs=2, numa=1)
    return host


def device(host: HostBuilder, name: str) -> Device:
    return scan(host.roots).by_id[name]


def test_an_rdma_device_is_read_with_its_nodes_and_pkey(host: HostBuilder) -> None:
    on_pf, on_vf = host.rdma(PF, "mlx5_0"), host.rdma(VF0, "mlx5_2", pkey=0x8001)
    snapshot = scan(host.roots)
    assert snapshot.by_id[PF].rdma == (on_pf,)
    assert snapshot.by_id[VF0].rdma == (on_vf,)
    assert (snapshot.by_id[PF].pkey, snapshot.by_id[VF0].pkey) == (0xFFFF, 0x8001)
    assert snapshot.by_id[VF1].is_rdma is False
    assert (snapshot.nodes.rdma_cm, snapshot.missing_rdma_modules) == (True, ())


def test_a_function_may_have_several_rdma_devices(host: HostBuilder) -> None:
    second, first = host.rdma(VF0, "roceb"), host.rdma(VF0, "rocea", pkey=0x1234)
    found = device(host, VF0)
    assert (found.rdma, found.pkey) == ((first, second), 0x1234)


def test_old_connection_manager_nodes_are_found(host: HostBuilder) -> None:
    host.rdma(VF0, "mlx5_2")
    host.write(host.root / "sys/class/infiniband_cm/ucm0/ibdev", "mlx5_2")
    assert device(host, VF0).rdma[0].ucm == ("/dev/infiniband/ucm0",)


def test_a_device_with_some_nodes_missing_stays_and_the_modules_are_named(
    host: HostBuilder,
) -> None:
    host.rdma(VF0, "mlx5_2", umad=False)
    (host.root / "dev/infiniband/rdma_cm").unlink()
    snapshot = scan(host.roots)
    assert snapshot.by_id[VF0].rdma == (RdmaDevice("mlx5_2", uverbs=("/dev/infiniband/uverbs0",)),)
    assert snapshot.missing_rdma_modules == ("ib_umad", "rdma_ucm")
    assert snapshot.nodes.rdma_cm is False


def test_a_loaded_module_without_nodes_for_iwarp_devices_is_not_reported_as_missing(
    host: HostBuilder,
) -> None:
    host.rdma(VF0, "irdma0", umad=False)
    host.write(host.root / "sys/class/infiniband_mad/abi_version", 5)
    assert scan(host.roots).missing_rdma_modules == ()


def test_a_host_without_rdma_devices_has_no_missing_modules(host: HostBuilder) -> None:
    assert scan(host.roots).missing_rdma_modules == ()


def test_rdma_devices_that_no_class_links_are_found_in_the_functions_own_folder(
    host: HostBuilder,
) -> None:
    on_pf, on_vf = host.rdma(PF, "mlx5_0"), host.rdma(VF0, "mlx5_2")
    shutil.rmtree(host.root / "sys/class/infiniband")
    found = scan(host.roots).by_id
    assert (found[PF].rdma, found[VF0].rdma) == ((on_pf,), (on_vf,))


def test_infiniband_functions_are_network_functions(host: HostBuilder) -> None:
    host.pf("0000:af:00.0", "ib0", CONNECTX6_INFINIBAND, vfs=1)
    assert device(host, "0000:af:01.0").kind is NET_DEVICE


def test_an_rdma_function_of_another_class_is_a_network_function(host: HostBuilder) -> None:
    other = Hardware("1dd8", "100a", "vendor_rdma", 0x0B4000)
    host.function("0000:c1:00.0", other)
    assert scan(host.roots).skipped_classes == (("0x0b40", 1),)
    host.rdma("0000:c1:00.0", "rdma0")
    found = scan(host.roots)
    assert found.by_id["0000:c1:00.0"].kind is NET_DEVICE
    assert found.skipped_classes == ()


def test_a_sub_function_is_read_with_all_facts_of_the_host(host: HostBuilder) -> None:
    name = host.sf(PF, 88, "en3s88")
    rdma = host.rdma(name, "mlx5_4", pkey=0x7FFF)
    found = device(host, name)
    assert found.netdev is not None
    assert found == Device(
        id="mlx5_core.sf.2",
        kind=AUX_NET_DEVICE,
        role=Role.SF,
        pci_address=PF,
        vendor="15b3",
        device="101d",
        pci_class=0x020000,
        driver="mlx5_core.sf",
        numa_node=1,
        pf_address=PF,
        pf_name="ens3",
        index=88,
        netdevs=(found.netdev,),
        rdma=(rdma,),
        pkey=0x7FFF,
        aux_type="sf",
    )
    assert found.netdev.name == "en3s88"


def test_auxiliary_devices_of_every_type_are_kept_behind_their_function(host: HostBuilder) -> None:
    for name in ("mlx5_core.eth.0", "mlx5_core.rdma.0", "mlx5_core.sf.10"):
        host.auxiliary(PF, name)
    host.auxiliary(VF0, "mlx5_core.eth.2")
    host.sf(PF, 7)
    found = [(d.id, d.role, d.pf_address) for d in scan(host.roots).devices]
    assert found == [
        (PF, Role.PF, PF),
        ("mlx5_core.eth.0", Role.AUX, PF),
        ("mlx5_core.rdma.0", Role.AUX, PF),
        ("mlx5_core.sf.2", Role.SF, PF),
        ("mlx5_core.sf.10", Role.SF, PF),
        (VF0, Role.VF, PF),
        ("mlx5_core.eth.2", Role.AUX, PF),
        (VF1, Role.VF, PF),
    ]


def test_auxiliary_devices_of_a_sub_function_are_not_devices(host: HostBuilder) -> None:
    sf = host.sf(PF, 88)
    host.auxiliary(sf, "mlx5_core.eth.5")
    assert "mlx5_core.eth.5" not in scan(host.roots).by_id


def test_auxiliary_devices_below_accelerators_are_ignored(host: HostBuilder) -> None:
    host.accelerator("0000:b1:00.0", ACC100)
    host.auxiliary("0000:b1:00.0", "vendor.part.0")
    assert "vendor.part.0" not in scan(host.roots).by_id


def test_a_bus_of_plain_folders_finds_the_parent_in_its_listing(host: HostBuilder) -> None:
    host.write(host.root / "sys/bus/auxiliary/devices/mlx5_core.sf.4/sfnum", 12)
    (host.folder(PF) / "mlx5_core.sf.4").mkdir()
    found = device(host, "mlx5_core.sf.4")
    assert (found.pci_address, found.index) == (PF, 12)


@pytest.mark.parametrize(
    ("vdpa_type", "char_device"), [("vhost", "/dev/vhost-vdpa-0"), ("virtio", None), (None, None)]
)
def test_a_vdpa_device_belongs_to_the_function_above_it(
    host: HostBuilder, vdpa_type: str | None, char_device: str | None
) -> None:
    name = host.vdpa(VF1, vdpa_type)
    snapshot = scan(host.roots)
    assert snapshot.by_id[VF1].vdpa == (VdpaDevice(name, vdpa_type, char_device),)
    assert snapshot.by_id[VF0].vdpa == snapshot.by_id[PF].vdpa == ()


def test_a_vdpa_device_belongs_to_a_sub_function_rather_than_to_its_parent(
    host: HostBuilder,
) -> None:
    sf = host.sf(PF, 88)
    host.vdpa(sf, "vhost")
    found = scan(host.roots).by_id
    assert (len(found[sf].vdpa), found[PF].vdpa) == (1, ())


def test_devlink_facts_of_a_laid_out_host_reach_its_devices(host: HostBuilder) -> None:
    sf = host.sf(PF, 88)
    host.write(
        host.root / "devlink.json",
        f"""{{"info": {{"pci/{PF}": {{"versions": {{"running": {{"fw.app.name": "Comms"}}}}}}}},
             "param": {{
               "pci/{VF0}": [{{"name": "enable_rdma", "values": [{{"value": true}}]}}],
               "auxiliary/{sf}": [{{"name": "enable_rdma", "values": [{{"value": false}}]}}]}}}}""",
    )
    found = scan(host.roots).by_id
    assert [found[d].ddp_profile for d in (PF, VF0, sf)] == ["Comms"] * 3
    assert [found[d].rdma_enabled for d in (PF, VF0, sf)] == [None, True, False]
    assert found[VF0].is_rdma


IB = "0000:af:00.0"


def infiniband(host: HostBuilder) -> None:
    host.pf(IB, "ibs1", CONNECTX6_INFINIBAND, vfs=1)
    host.rdma(IB, "mlx5_0")
    host.rdma(host.vfs(IB)[0], "mlx5_1")


def test_the_ports_of_an_infiniband_pf_are_read_and_not_those_of_its_vfs(host: HostBuilder) -> None:
    infiniband(host)
    snapshot = scan(host.roots)
    port = InfinibandPort("mlx5_0", 1, "ACTIVE", "LinkUp")
    assert snapshot.by_id[IB].infiniband_ports == (port,)
    assert snapshot.by_id[host.vfs(IB)[0]].infiniband_ports == ()
    host.set_rdma_port(IB, "mlx5_0", "1: DOWN", "3: Disabled")
    assert device(host, IB).infiniband_ports == (InfinibandPort("mlx5_0", 1, "DOWN", "Disabled"),)


def test_a_port_without_a_link_layer_has_the_type_of_its_netdev_or_its_class(
    host: HostBuilder,
) -> None:
    infiniband(host)
    host.rdma(PF, "mlx5_2")
    for address, name in ((IB, "mlx5_0"), (PF, "mlx5_2")):
        (host.folder(address) / f"infiniband/{name}/ports/1/link_layer").unlink()
    host.remove_netdev("ibs1")
    assert len(device(host, IB).infiniband_ports) == 1
    assert device(host, PF).infiniband_ports == ()


def test_a_roce_port_is_not_an_infiniband_port(host: HostBuilder) -> None:
    host.rdma(PF, "mlx5_2")
    assert device(host, PF).infiniband_ports == ()


def test_the_ports_of_an_rdma_device_are_distinguished_by_their_link_layer(
    host: HostBuilder,
) -> None:
    infiniband(host)
    second = host.folder(IB) / "infiniband/mlx5_0/ports/2"
    for name, value in (("link_layer", "Ethernet"), ("state", "4: ACTIVE")):
        host.write(second / name, value)
    assert [p.number for p in device(host, IB).infiniband_ports] == [1]
    host.write(second / "link_layer", "InfiniBand")
    assert [p.number for p in device(host, IB).infiniband_ports] == [1, 2]


def test_a_vf_whose_pf_is_not_on_this_host_has_its_ports_read(host: HostBuilder) -> None:
    infiniband(host)
    guest = host.vfs(IB)[0]
    host.remove(IB)
    assert device(host, guest).infiniband_ports == (
        InfinibandPort("mlx5_1", 1, "ACTIVE", "LinkUp"),
    )


def test_the_netdevs_type_tells_more_than_the_class_where_a_port_has_no_link_layer(
    host: HostBuilder,
) -> None:
    infiniband(host)
    (host.folder(IB) / "infiniband/mlx5_0/ports/1/link_layer").unlink()
    host.write(host.root / "sys/class/net/ibs1/type", 1)
    assert device(host, IB).infiniband_ports == ()


def test_a_rescan_reads_a_function_whose_enable_rdma_changed(host: HostBuilder) -> None:
    def say(value: str) -> None:
        parameter = f'{{"name": "enable_rdma", "values": [{{"value": {value}}}]}}'
        text = f'{{"param": {{"pci/{VF0}": [{parameter}]}}}}'
        host.write(host.root / "devlink.json", text)

    scanner = Scanner(host.roots)
    say("true")
    needs = frozenset({ENABLE_RDMA})
    assert scanner.scan(needs=needs).by_id[VF0].rdma_enabled is True
    say("false")
    assert scanner.scan(needs=needs, touched=frozenset()).by_id[VF0].rdma_enabled is False
