from __future__ import annotations

from typing import Any

import attrs
import pytest

from agent.kinds import ACCELERATOR, AUX_NET_DEVICE, NET_DEVICE, Kind
from agent.model.device import Netdev, RdmaDevice, VdpaDevice
from agent.model.snapshot import Snapshot
from agent.selectors import SELECTORS, Criterion, SelectorObject, Shape, diagnose
from tests.support.devices import host, pf, sf, vf

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
IDLE = pf("0000:3b:00.1", "pf1")
VF0 = vf("0000:3b:02.0", PF0, 0)
VF1 = vf("0000:3b:02.1", PF0, 1, driver="vfio-pci")
HOST = host(PF0, IDLE, VF0, VF1)


def told(
    key: str, *values: object, on: Snapshot = HOST, kind: Kind = NET_DEVICE
) -> tuple[str, ...]:
    selector = SELECTORS[key]
    wanted: object = values[0]
    if selector.shape is Shape.LIST:
        wanted = selector.combine([selector.parse(str(v)) for v in values])
    return diagnose(SelectorObject((Criterion(key, wanted),)), kind, on)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("vendors", ["8086"]),
        ("devices", ["154c"]),
        ("drivers", ["iavf", "vfio-pci"]),
        ("pciAddresses", ["3b:02.0"]),
        ("rootDevices", ["3b:00.0", "3b:00.0#0-1"]),
        ("pfNames", ["pf0#0-1"]),
    ],
)
def test_selectors_that_match_cause_no_note(key: str, values: list[str]) -> None:
    assert told(key, *values) == ()


@pytest.mark.parametrize(
    ("key", "values", "hint"),
    [
        (
            "vendors",
            ["15b3"],
            "vendors: no netDevice of vendor 15b3 on this host; present: 8086 (3)",
        ),
        (
            "devices",
            ["101e"],
            (
                "devices: no netDevice with device id 101e on this host; present (vendor:device): "
                "8086:154c (2), 8086:1572 (1); 0000:3b:00.1 supports VFs, but its "
                "sriov_numvfs is 0"
            ),
        ),
        (
            "drivers",
            ["mlx5_ib"],
            (
                "drivers: no netDevice here is bound to a driver named mlx5_ib; bound: i40e (1), "
                "iavf (1), vfio-pci (1); mlx5_ib is an RDMA driver that binds below the function: "
                "use isRdma instead"
            ),
        ),
        (
            "drivers",
            ["vfio_pci"],
            (
                "drivers: no netDevice here is bound to a driver named vfio_pci; bound: i40e (1), "
                "iavf (1), vfio-pci (1); did you mean vfio-pci?"
            ),
        ),
        (
            "pciAddresses",
            ["0000:99:00.0"],
            "pciAddresses: no function at 0000:99:00.0 on this host",
        ),
        (
            "pciAddresses",
            ["3b:00.0"],
            (
                "pciAddresses: 0000:3b:00.0 is a PF with 2 VFs: such a PF is never a device; "
                "its VFs "
                'are selected by rootDevices ["0000:3b:00.0"]'
            ),
        ),
        (
            "acpiIndexes",
            ["7"],
            (
                "acpiIndexes: no netDevice with ACPI index 7 on this host; present: none (the "
                "firmware "
                "gives no indexes)"
            ),
        ),
        (
            "pfNames",
            ["mlx-*"],
            "pfNames: no PF on this host matches mlx-*; PFs here: pf0, pf1",
        ),
        (
            "pfNames",
            ["pf2"],
            "pfNames: no PF on this host is named pf2; PFs here: pf0, pf1; did you mean pf1?",
        ),
        (
            "pfNames",
            ["pf1"],
            (
                "pfNames: pf1 has no VFs: pfNames selects a PF's functions, never the PF "
                "itself; to "
                'offer the PF use pciAddresses ["0000:3b:00.1"], for VFs write a number up to '
                "64 to "
                "its sriov_numvfs"
            ),
        ),
        (
            "pfNames",
            ["pf0#8-15"],
            "pfNames: pf0#8-15 covers functions that do not exist: pf0 has 2 (index 0 to 1)",
        ),
        (
            "pfNames",
            ["pf0#0-15"],
            "pfNames: pf0#0-15 extends beyond the last VF: pf0 has 2 (up to index 1)",
        ),
        (
            "rootDevices",
            ["99:00.0"],
            (
                "rootDevices: no PF on this host has the address 0000:99:00.0; PFs here: "
                "0000:3b:00.0, 0000:3b:00.1"
            ),
        ),
        (
            "rootDevices",
            ["3b:02.1"],
            (
                "rootDevices: no PF on this host has the address 0000:3b:02.1; PFs here: "
                "0000:3b:00.0, "
                "0000:3b:00.1; 0000:3b:02.1 is a function of 0000:3b:00.0 "
                "itself: use pciAddresses for it"
            ),
        ),
        (
            "linkTypes",
            ["IB"],
            ("linkTypes: no netDevice of link type infiniband on this host; present: ether (3)"),
        ),
        (
            "ddpProfiles",
            ["GTPv1"],
            "ddpProfiles: no netDevice has the profile 'GTPv1' on this host; present: none",
        ),
        (
            "isRdma",
            [True],
            (
                "isRdma: no netDevice on this host has an RDMA device; load the kernel module that "
                "creates them (irdma for vendor 8086)"
            ),
        ),
        (
            "vdpaType",
            ["vhost"],
            (
                "vdpaType: no netDevice on this host has a vDPA device of type vhost; present: "
                "none; "
                "create one with 'vdpa dev add' and bind it to vhost_vdpa"
            ),
        ),
    ],
)
def test_selectors_that_match_nothing_here_are_reported_with_cause_and_fix(
    key: str, values: list[Any], hint: str
) -> None:
    assert told(key, *values) == (hint,)


def test_the_id_of_a_pf_with_vfs_is_explained() -> None:
    assert told("devices", "1572", on=host(PF0, VF0)) == (
        (
            "devices: 1572 is the id of PFs with VFs here (0000:3b:00.0), which are never devices; "
            "VFs have an id of their own"
        ),
    )


def test_functions_without_a_driver_are_counted() -> None:
    (hint,) = told("drivers", "vfio-pci", on=host(PF0, vf("0000:3b:02.0", PF0, 0, driver=None)))
    assert hint == (
        "drivers: no netDevice here is bound to a driver named vfio-pci; bound: none; without a "
        "driver: 1; load vfio-pci and bind the functions to it (driverctl, or driver_override)"
    )


def test_rdma_is_not_promised_to_functions_bound_to_vfio() -> None:
    assert told("isRdma", True, on=host(PF0, VF1)) == (
        (
            "isRdma: no netDevice on this host has an RDMA device; functions that are bound to a "
            "userspace driver (vfio-pci) have none"
        ),
    )


def test_one_rdma_device_is_enough_to_suppress_the_note() -> None:
    assert told("isRdma", True, on=host(vf("0000:3b:02.0", None, rdma=(RdmaDevice("r0"),)))) == ()


def test_a_netdev_that_is_not_a_pf_is_recognised() -> None:
    other = vf("0000:3b:02.0", PF0, 0, netdevs=(Netdev("eth5"),))
    (hint,) = told("pfNames", "eth5", on=host(PF0, other))
    assert hint.endswith(
        "; eth5 is the netdev of 0000:3b:02.0, which is not a PF: use pciAddresses"
    )


def test_a_kind_is_not_searched_among_others() -> None:
    accelerator = pf("0000:f7:00.0", None, kind=ACCELERATOR)
    assert told("pciAddresses", "f7:00.0", on=host(accelerator)) == (
        "pciAddresses: 0000:f7:00.0 has deviceType accelerator, this pool has netDevice",
    )


def test_a_pf_without_sub_functions_is_reported() -> None:
    assert told("pfNames", "pf1", kind=AUX_NET_DEVICE) == (
        "pfNames: pf1 (0000:3b:00.1) has no auxiliary network devices on this host",
    )


def test_gaps_between_sfnums_are_normal() -> None:
    snapshot = host(IDLE, sf(IDLE, 4, 1), sf(IDLE, 88, 2))
    assert told("pfNames", "pf1#0-99", on=snapshot, kind=AUX_NET_DEVICE) == ()
    assert told("pfNames", "pf1#5-9", on=snapshot, kind=AUX_NET_DEVICE) == (
        "pfNames: pf1#5-9 covers functions that do not exist: pf1 has 2 (index 4 to 88)",
    )
    assert told("auxTypes", "eth", on=snapshot, kind=AUX_NET_DEVICE) == (
        "auxTypes: no auxiliary network device of type eth on this host; present: sf (2)",
    )


def test_a_pkey_that_differs_in_its_membership_bit_is_recognised() -> None:
    infiniband = vf("0000:3b:02.0", None, pkey=0x8001, pci_class=0x020700)
    roce = vf("0000:5e:02.0", None, pkey=0xFFFF)
    (hint,) = told("pKeys", "0x0001", on=host(infiniband, roce))
    assert hint == (
        "pKeys: no netDevice on InfiniBand has the P_Key 0x0001 on this host; present: 0x8001 (1); "
        "0x8001 is the same partition with the membership bit"
    )


def test_pfs_that_have_functions_and_no_netdev_are_named_by_address() -> None:
    nameless = pf("0000:5e:00.0", None, num_vfs=1, driver="vfio-pci")
    (hint,) = told("pfNames", "zz9", on=host(PF0, VF0, nameless, vf("0000:5e:02.0", nameless)))
    assert hint == (
        "pfNames: no PF on this host is named zz9; PFs here: pf0; "
        "select PFs without a netdev here by rootDevices: 0000:5e:00.0"
    )


def test_functions_without_any_link_type_are_counted() -> None:
    (hint,) = told("linkTypes", "ether", on=host(vf("0000:3b:02.0", None)))
    assert hint == (
        "linkTypes: no netDevice of link type ether on this host; present: none; "
        "1 have none, since their PF has no netdev here either"
    )


def test_a_pf_name_that_is_nearly_right_is_suggested_whatever_its_case() -> None:
    (hint,) = told("pfNames", "PFX0", on=HOST)
    assert hint.startswith("pfNames: no PF on this host is named PFX0; PFs here: pf0, pf1; did you")


def test_unbound_vdpa_devices_are_explained() -> None:
    snapshot = host(vf("0000:3b:02.0", None, vdpa=(VdpaDevice("vdpa0", None),)))
    (hint,) = told("vdpaType", "virtio", on=snapshot)
    assert "present: unbound (1)" in hint


def test_hints_of_all_criteria_are_in_their_order() -> None:
    chosen = SelectorObject(
        (Criterion("vendors", frozenset({"15b3"})), Criterion("drivers", frozenset({"x"})))
    )
    assert [h.split(":")[0] for h in diagnose(chosen, NET_DEVICE, HOST)] == [
        "vendors",
        "drivers",
    ]


def test_a_long_list_of_present_values_is_cut() -> None:
    many = [pf(f"0000:{i:02x}:00.0", f"p{i}") for i in range(12)]
    assert "p7 and 4 more" in told("pfNames", "ens1", on=host(*many))[0]


def test_acpi_indexes_that_are_no_numbers_are_listed_too() -> None:
    odd = [attrs.evolve(VF0, id=f"0000:3b:03.{n}", acpi_index=i) for n, i in enumerate("9zx")]
    tens = attrs.evolve(VF0, id="0000:3b:04.0", acpi_index="10")
    (hint,) = told("acpiIndexes", "7", on=host(tens, *odd))
    assert hint.endswith("present: 9, x, z, 10")
