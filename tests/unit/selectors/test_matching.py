from __future__ import annotations

from typing import Any

import attrs
import pytest

from agent.kinds import ACCELERATOR
from agent.model.device import Device, Netdev, RdmaDevice, Role, VdpaDevice
from agent.selectors import (
    SELECTORS,
    Criterion,
    SelectorObject,
    Shape,
    Verdict,
    evaluate,
    first_refusal,
)
from tests.support.devices import host, pf, sf, vf

IB0 = pf("0000:5e:00.0", "ib0", netdevs=(Netdev("ib0", link_type="infiniband"),), num_vfs=1)
IB_VF = vf("0000:5e:00.1", IB0, 0, driver="mlx5_core", pkey=0x8001, rdma=(RdmaDevice("mlx5_1"),))
"""A VF whose netdev is in a pod; its RDMA device is shared with the host."""
IB_VM = vf("0000:00:05.0", None, None, pci_class=0x020700, driver="vfio-pci")
"""A VF in a virtual machine, where its PF is not seen."""
IB_PF = pf("0000:5f:00.0", None, pci_class=0x020700, driver="vfio-pci")
PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
VF1 = vf(
    "0000:3b:02.1",
    PF0,
    1,
    netdevs=(Netdev("pf0v1", link_type="ether"),),
    acpi_index="101",
    ddp_profile="ICE COMMS Package",
    pkey=0x8001,
    rdma=(RdmaDevice("irdma0"),),
    vdpa=(VdpaDevice("vdpa0", "vhost", "/dev/vhost-vdpa-0"),),
)
BARE = vf("0001:00:02.0", None, None, vendor="15b3", device="101e", driver=None)
SF_PF = pf("0000:08:00.0", "p0", vendor="15b3", device="a2d6", driver="mlx5_core")
SF4 = sf(SF_PF, 4)
OTHER_AUX = attrs.evolve(SF4, id="mlx5_core.eth.1", role=Role.AUX, aux_type="eth", index=None)
DPDK_VF = vf("0000:3b:02.2", PF0, 2, driver="vfio-pci")
FEC = pf("0000:f7:00.0", None, kind=ACCELERATOR, pci_class=0x120000, driver="vfio-pci")
FEC_VF = vf("0000:f7:00.1", FEC, 0, driver="vfio-pci")
HOST = host(
    *(PF0, VF1, DPDK_VF, BARE, IB0, IB_VF, IB_VM, IB_PF),
    *(SF_PF, SF4, OTHER_AUX, FEC, FEC_VF),
)


def wanted(key: str, *values: object) -> object:
    """What a configured value becomes, as the configuration reads it."""
    selector = SELECTORS[key]
    if selector.shape is Shape.LIST:
        return selector.combine([selector.parse(str(v)) for v in values])
    return values[0]


def matches(device: Device, key: str, *values: object) -> bool:
    return SELECTORS[key].matches(device, wanted(key, *values), HOST)


@pytest.mark.parametrize(
    ("key", "device", "values"),
    [
        ("vendors", VF1, ["0x8086"]),
        ("vendors", SF4, ["15B3"]),
        ("devices", VF1, ["1572", "154C"]),
        ("classes", FEC, ["0b40", "0x1200"]),
        ("drivers", VF1, ["vfio-pci", "iavf"]),
        ("drivers", SF4, ["mlx5_core"]),
        ("drivers", SF4, ["mlx5_core.sf"]),
        ("pciAddresses", VF1, ["3B:02.1"]),
        ("pciAddresses", SF4, ["0000:08:00.0"]),
        ("acpiIndexes", VF1, ["101"]),
        ("rootDevices", VF1, ["3b:00.0"]),
        ("rootDevices", VF1, ["0000:3b:00.0#0-1"]),
        ("rootDevices", SF4, ["0000:08:00.0#4"]),
        ("rootDevices", FEC_VF, ["f7:00.0#0"]),
        ("pfNames", VF1, ["pf0"]),
        ("pfNames", VF1, ["PF0#0-1"]),
        ("pfNames", VF1, ["Pf[01]"]),
        ("pfNames", VF1, ["pf0#1"]),
        ("pfNames", VF1, ["pf*#0-1"]),
        ("pfNames", VF1, ["pf[01]"]),
        ("pfNames", SF4, ["p0#4-9"]),
        ("pfNames", OTHER_AUX, ["p0"]),
        ("linkTypes", VF1, ["ETH"]),
        ("linkTypes", VF1, ["ib", "ethernet"]),
        ("linkTypes", DPDK_VF, ["ether"]),
        ("linkTypes", SF4, ["ether"]),
        ("linkTypes", IB_VF, ["infiniband"]),
        ("linkTypes", IB_VM, ["infiniband"]),
        ("linkTypes", IB_PF, ["infiniband"]),
        ("ddpProfiles", VF1, ["ICE COMMS Package"]),
        ("pKeys", IB_VF, ["8001"]),
        ("pKeys", IB_VF, ["0X8001"]),
        ("auxTypes", SF4, ["sf"]),
        ("auxTypes", OTHER_AUX, ["sf", "eth"]),
        ("isRdma", VF1, [True]),
        ("isRdma", attrs.evolve(BARE, rdma_enabled=True), [True]),
        ("vdpaType", VF1, ["vhost"]),
        ("needVhostNet", BARE, [True]),
    ],
)
def test_a_selector_selects(key: str, device: Device, values: list[Any]) -> None:
    assert matches(device, key, *values)


@pytest.mark.parametrize(
    ("key", "device", "values"),
    [
        ("vendors", BARE, ["8086"]),
        ("devices", BARE, ["154c"]),
        ("classes", BARE, ["0b40", "12"]),
        ("drivers", VF1, ["IAVF"]),
        ("drivers", VF1, ["iav"]),
        ("drivers", BARE, ["iavf"]),
        ("drivers", SF4, ["vfio-pci"]),
        ("drivers", VF1, ["i40e"]),
        ("pciAddresses", BARE, ["0000:00:02.0"]),
        ("acpiIndexes", BARE, ["101"]),
        ("rootDevices", VF1, ["3b:00.0#0"]),
        ("rootDevices", VF1, ["3b:02.1"]),
        ("rootDevices", BARE, ["3b:00.0"]),
        ("rootDevices", PF0, ["3b:00.0"]),
        ("pfNames", VF1, ["pf"]),
        ("pfNames", VF1, ["pf0#0,2-7"]),
        ("pfNames", PF0, ["pf0"]),
        ("pfNames", BARE, ["*"]),
        ("pfNames", SF4, ["p0#1"]),
        ("pfNames", OTHER_AUX, ["p0#0-9"]),
        ("linkTypes", VF1, ["infiniband"]),
        ("linkTypes", DPDK_VF, ["infiniband"]),
        ("linkTypes", IB_VF, ["ether"]),
        ("linkTypes", BARE, ["ether", "infiniband"]),
        ("ddpProfiles", VF1, ["ice comms package"]),
        ("ddpProfiles", BARE, ["ICE COMMS Package"]),
        ("pKeys", IB_VF, ["0x0001"]),
        ("pKeys", VF1, ["0x8001"]),
        ("pKeys", BARE, ["0xffff"]),
        ("auxTypes", OTHER_AUX, ["sf"]),
        ("isRdma", BARE, [True]),
        ("vdpaType", VF1, ["virtio"]),
        ("vdpaType", BARE, ["vhost"]),
    ],
)
def test_a_selector_refuses(key: str, device: Device, values: list[Any]) -> None:
    assert not matches(device, key, *values)


def test_the_table_has_a_test_of_every_filter() -> None:
    marks = [
        mark
        for test in (test_a_selector_selects, test_a_selector_refuses)
        for mark in test.pytestmark
    ]
    for mark in marks:
        tested = {case[0] for case in mark.args[1]}
        assert tested >= {key for key, s in SELECTORS.items() if s.is_filter}


def selection(**chosen: list[object]) -> SelectorObject:
    return SelectorObject(
        tuple(Criterion(k, wanted(k, *chosen[k])) for k in SELECTORS if k in chosen)
    )


def test_the_first_refusal_is_the_first_in_the_order_of_the_table() -> None:
    chosen = selection(vendors=["8086"], pfNames=["pf1"], drivers=["vfio-pci"])
    assert first_refusal(VF1, chosen, HOST) == Criterion("pfNames", wanted("pfNames", "pf1"))
    assert first_refusal(BARE, chosen, HOST) == Criterion("vendors", frozenset({"8086"}))


def test_there_is_no_refusal_if_all_selectors_match() -> None:
    chosen = selection(vendors=["8086"], pfNames=["pf0"], drivers=["iavf"], isRdma=[True])
    assert first_refusal(VF1, chosen, HOST) is None
    assert first_refusal(BARE, SelectorObject(), HOST) is None


def test_judging_goes_on_after_the_first_refusal() -> None:
    chosen = selection(
        vendors=["15b3", "8086"], pfNames=["pf0#0", "pf1"], drivers=["vfio-pci"], linkTypes=["eth"]
    )
    assert evaluate(VF1, chosen, HOST) == (
        Verdict("vendors", "15b3, 8086", "vendor 8086", passed=True),
        Verdict("pfNames", "pf0#0, pf1", "pf0#1", passed=False),
        Verdict("drivers", "vfio-pci", "driver iavf", passed=False),
        Verdict("linkTypes", "ether", "link type ether", passed=True),
    )


@pytest.mark.parametrize(
    ("key", "device", "text"),
    [
        ("drivers", BARE, "no driver bound"),
        ("acpiIndexes", BARE, "no ACPI index"),
        ("acpiIndexes", VF1, "ACPI index 101"),
        ("pciAddresses", SF4, "PCI address 0000:08:00.0"),
        ("rootDevices", VF1, "0000:3b:00.0#1"),
        ("rootDevices", PF0, "is a PF itself"),
        ("rootDevices", BARE, "its PF is not on this host"),
        ("pfNames", PF0, "is the PF pf0 itself"),
        ("pfNames", FEC, "is a PF itself"),
        ("pfNames", BARE, "its PF is not on this host"),
        ("pfNames", OTHER_AUX, "function of p0"),
        (
            "pfNames",
            FEC_VF,
            "its PF 0000:f7:00.0 has no netdev here (driver vfio-pci): use rootDevices",
        ),
        ("linkTypes", VF1, "link type ether"),
        ("linkTypes", DPDK_VF, "link type ether of its PF (it has no netdev here)"),
        ("linkTypes", IB_VM, "link type infiniband by its PCI class (it has no netdev here)"),
        ("drivers", SF4, "driver mlx5_core.sf, its function's is mlx5_core"),
        ("drivers", attrs.evolve(SF4, driver=None), "no driver bound, its function's is mlx5_core"),
        ("linkTypes", BARE, "no link type: neither the function nor its PF has a netdev here"),
        ("ddpProfiles", BARE, "no DDP profile known"),
        ("pKeys", BARE, "no P_Key"),
        ("pKeys", IB_VF, "P_Key 0x8001"),
        (
            "pKeys",
            VF1,
            "no InfiniBand port: the P_Key of an Ethernet (RoCE) port is always 0xffff",
        ),
        ("auxTypes", SF4, "auxiliary type sf"),
        ("isRdma", VF1, "RDMA device irdma0"),
        ("isRdma", BARE, "no RDMA device"),
        (
            "isRdma",
            attrs.evolve(BARE, rdma_enabled=True),
            "RDMA enabled, but its RDMA device is not in this network namespace",
        ),
        ("vdpaType", VF1, "vDPA device vdpa0 of type vhost"),
        ("vdpaType", BARE, "no vDPA device"),
    ],
)
def test_the_fact_is_shown_as_text(key: str, device: Device, text: str) -> None:
    assert SELECTORS[key].describe(device, HOST) == text


@pytest.mark.parametrize(
    ("key", "raw", "problem"),
    [
        ("vendors", "80866", "'80866' is not a 16-bit hexadecimal id"),
        ("devices", "", "'' is not a 16-bit hexadecimal id"),
        ("drivers", " ", "an empty string can match nothing"),
        ("pciAddresses", "3b:00", "'3b:00' is not a PCI address"),
        ("acpiIndexes", "x1", "'x1' is not an ACPI index"),
        ("rootDevices", "pf0#1", "'pf0' is not a PCI address"),
        ("rootDevices", "3b:00.*", "'3b:00.*' is not a PCI address"),
        ("pfNames", "pf0#3-", "'pf0#3-': an index is missing"),
        ("linkTypes", "fc", "'fc' is not a link type; allowed are ether .* and infiniband"),
        ("pKeys", "0x10000", "'0x10000' is not a P_Key"),
        ("pKeys", "0x", "'0x' is not a P_Key"),
        ("auxTypes", "", "an empty string can match nothing"),
    ],
)
def test_a_malformed_value_is_an_error_that_names_it(key: str, raw: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        SELECTORS[key].parse(raw)
