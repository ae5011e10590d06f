"""A value under the wrong selector, or several in one string: the message names key and form."""

from __future__ import annotations

import pytest

from agent.kinds import ACCELERATOR, NET_DEVICE
from agent.selectors.better_place import better_place

NET = NET_DEVICE


@pytest.mark.parametrize(
    ("key", "value", "form"),
    [
        ("pfNames", "ens1f0,ens1f1", '"pfNames": ["ens1f0", "ens1f1"]'),
        ("pfNames", "ens1f0 ens1f1", '"pfNames": ["ens1f0", "ens1f1"]'),
        ("pfNames", "ens1f0#0,2-3,ens1f1#1", '"pfNames": ["ens1f0#0,2-3", "ens1f1#1"]'),
        ("pfNames", "a,b,c,d,e", '"pfNames": ["a", "b", "c", "d", ...]'),
        ("rootDevices", "3b:00.0#0,2;3b:00.1", '"rootDevices": ["3b:00.0#0,2", "3b:00.1"]'),
        ("pciAddresses", "3b:00.0, 3b:00.1", '"pciAddresses": ["3b:00.0", "3b:00.1"]'),
        ("devices", "3b:00.0,3b:00.1", '"pciAddresses": ["3b:00.0", "3b:00.1"]'),
        ("devices", "154c,1889", '"devices": ["154c", "1889"]'),
        ("vendors", "8086;15b3", '"vendors": ["8086", "15b3"]'),
        ("drivers", "vfio-pci,iavf", '"drivers": ["vfio-pci", "iavf"]'),
        ("linkTypes", "ether,ib", '"linkTypes": ["ether", "ib"]'),
        ("pKeys", "0x8001,0x8002", '"pKeys": ["0x8001", "0x8002"]'),
        ("acpiIndexes", "1,2", '"acpiIndexes": ["1", "2"]'),
        ("auxTypes", "sf,eth", '"auxTypes": ["sf", "eth"]'),
        ("devices", "3B:01.0", '"pciAddresses": ["0000:3b:01.0"]'),
        ("vendors", "0000:3b:01.0", '"rootDevices": ["0000:3b:01.0"]'),
        ("drivers", "0000:3b:01.0", '"pciAddresses": ["0000:3b:01.0"]'),
        ("linkTypes", "3b:00.0", '"pciAddresses": ["0000:3b:00.0"]'),
        ("pfNames", "3b:00.0", '"rootDevices": ["3b:00.0"]'),
        ("pfNames", "3b:00.0#0-3", '"rootDevices": ["3b:00.0#0-3"]'),
        ("pciAddresses", "3b:00.0#0-3", '"rootDevices": ["3b:00.0#0-3"]'),
        ("pciAddresses", "ens1f0", '"pfNames": ["ens1f0"]'),
        ("rootDevices", "ens1f0#0-3", '"pfNames": ["ens1f0#0-3"]'),
        ("rootDevices", "ens1*", '"pfNames": ["ens1*"]'),
        ("devices", "ens1f0", '"pfNames": ["ens1f0"]'),
        ("devices", "8086:154C", '"vendors": ["8086"], "devices": ["154c"]'),
        ("vendors", "8086:154c", '"vendors": ["8086"], "devices": ["154c"]'),
        ("devices", "iavf", '"drivers": ["iavf"]'),
        ("pciAddresses", "vfio-pci", '"drivers": ["vfio-pci"]'),
        ("vendors", "Mellanox", '"vendors": ["15b3"]'),
        ("drivers", "8086", '"vendors": ["8086"]'),
        ("drivers", "0x154C", '"devices": ["154c"]'),
        ("devices", "infiniband", '"linkTypes": ["infiniband"]'),
        ("linkTypes", "RoCE", '"linkTypes": ["ether"], "isRdma": true'),
        ("auxTypes", "mlx5_core.sf.4", '"auxTypes": ["sf"]'),
        ("pciAddresses", "mlx5_core.sf.4", '"deviceType": "auxNetDevice"'),
        ("devices", "sf", '"auxTypes": ["sf"]'),
        ("pfNames", '["ens1f0", "ens1f1"]', '"pfNames": ["ens1f0", "ens1f1"]'),
        ("pfNames", "{ens1f0,ens1f1}", '"pfNames": ["ens1f0", "ens1f1"]'),
        ("pfNames", "ens1f0:0-3", '"pfNames": ["ens1f0#0-3"]'),
        ("pciAddresses", "pci/0000:3B:00.0", '"pciAddresses": ["0000:3b:00.0"]'),
        ("rootDevices", "/sys/bus/pci/devices/0000:3b:00.0", '"rootDevices": ["0000:3b:00.0"]'),
    ],
)
def test_the_right_key_and_form_are_named(key: str, value: str, form: str) -> None:
    assert form in better_place(key, value, NET)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vendors", ""),
        ("vendors", "80866"),
        ("pciAddresses", "0000:zz:00.0"),
        ("linkTypes", "token-ring"),
        ("pfNames", "#0"),
        ("acpiIndexes", "0x1"),
        ("devices", "x" * 5000),
    ],
)
def test_for_a_value_that_resembles_nothing_known_no_guess_is_made(key: str, value: str) -> None:
    assert better_place(key, value, NET) == ""


def test_an_accelerator_has_no_netdev_to_be_named_by() -> None:
    place = better_place("rootDevices", "ens1f0", ACCELERATOR)
    assert place == "it looks like the name of a netdev, and deviceType accelerator has none"


@pytest.mark.parametrize("value", ["0000:3b:00.0#3-2", "3b:00.0#x", "0000:3b:00.0#"])
def test_an_error_in_a_range_of_root_devices_does_not_suggest_the_same_text(value: str) -> None:
    assert better_place("rootDevices", value, NET_DEVICE) == ""
