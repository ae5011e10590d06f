from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from agent.host.pci_ids import PciIds, titles
from agent.roots import Roots

TEXT = """\
# A list of PCI ID's
8086  Intel Corporation
\t1572  Ethernet Controller X710 for 10GbE SFP+
\t\t1028 1f99  Ethernet 10G 4P X710/I350 rNDC
\t1889  Ethernet Adaptive Virtual Function
15b3  Mellanox Technologies
\t101e  ConnectX Family mlx5Gen Virtual Function
ffff  Illegal Vendor ID
C 02  Network controller
\t00  Ethernet controller
C 8086  not a vendor
"""
X710 = ("8086", "1572")


def found(*wanted: tuple[str, str]) -> dict[tuple[str, str], str]:
    return dict(titles(TEXT.splitlines(keepends=True), set(wanted)))


def test_vendor_and_device_are_named() -> None:
    assert found(X710, ("15b3", "101e")) == {
        X710: "Intel Corporation Ethernet Controller X710 for 10GbE SFP+",
        ("15b3", "101e"): "Mellanox Technologies ConnectX Family mlx5Gen Virtual Function",
    }


def test_for_an_unknown_device_the_vendor_is_named() -> None:
    assert found(("8086", "ffff")) == {("8086", "ffff"): "Intel Corporation"}


def test_an_unknown_vendor_has_no_name() -> None:
    assert found(("1234", "1572")) == {}


def test_subsystems_and_classes_are_not_devices() -> None:
    assert found(("8086", "1028"), ("8086", "00  ")) == {
        ("8086", "1028"): "Intel Corporation",
        ("8086", "00  "): "Intel Corporation",
    }


@pytest.mark.parametrize("name", ["usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids.gz"])
def test_the_file_is_found_below_the_host_root(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(TEXT.encode()) if name.endswith("gz") else TEXT.encode())
    ids = PciIds(Roots(tmp_path))
    assert ids.title(*X710).startswith("Intel Corporation Ethernet")
    path.unlink()
    assert ids.title(*X710).startswith("Intel Corporation"), "a name that is known stays"


def test_many_names_are_read_in_one_pass(tmp_path: Path) -> None:
    path = tmp_path / "usr/share/hwdata/pci.ids"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    ids = PciIds(Roots(tmp_path))
    ids.load([X710, ("8086", "1889"), ("9999", "0001")])
    path.unlink()
    assert ids.title("8086", "1889") == "Intel Corporation Ethernet Adaptive Virtual Function"
    assert ids.title("9999", "0001") == ""


def test_an_invalid_file_has_no_names(tmp_path: Path) -> None:
    path = tmp_path / "usr/share/hwdata/pci.ids"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xfe\n\t\n\t\t\n" + bytes(100))
    assert PciIds(Roots(tmp_path)).title(*X710) == ""
