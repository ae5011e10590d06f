"""Devlink's answers, built as uapi linux/devlink.h numbers them, and the file that stands in."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.host import devlink, sysfs
from agent.host.devlink import DevlinkFacts, parse_info, parse_params
from agent.host.netlink import attribute

_BUS, _DEVICE, _DRIVER, _SERIAL = 1, 2, 98, 99
_PARAM, _PARAM_NAME, _PARAM_GENERIC, _PARAM_TYPE = 80, 81, 82, 83
_VALUES, _VALUE, _DATA, _CMODE = 84, 85, 86, 87
_FIXED, _RUNNING, _STORED, _NAME, _CONTENT = 100, 101, 102, 103, 104
_NESTED = 0x8000
_FLAG = 6  # NLA_FLAG: the type of boolean parameters
_RUNTIME, _DRIVERINIT = b"\0", b"\1"


def instance(name: str, *attributes: bytes, bus: str = "pci") -> bytes:
    """One message of a dump: generic header, handle, content."""
    handle = attribute(_BUS, f"{bus}\0".encode()) + attribute(_DEVICE, f"{name}\0".encode())
    return bytes(4) + handle + b"".join(attributes)


def version(kind: int, name: str, content: str) -> bytes:
    """A version of ``devlink dev info``."""
    named = attribute(_NAME, f"{name}\0".encode()) + attribute(_CONTENT, f"{content}\0".encode())
    return attribute(kind | _NESTED, named)


def parameter(name: str, *values: tuple[bytes, bool]) -> bytes:
    """A boolean parameter with its (mode, value) pairs."""
    listed = b"".join(
        attribute(
            _VALUE | _NESTED,
            (attribute(_DATA, b"") if value else b"") + attribute(_CMODE, mode),
        )
        for mode, value in values
    )
    return attribute(
        _PARAM | _NESTED,
        attribute(_PARAM_NAME, f"{name}\0".encode())
        + attribute(_PARAM_GENERIC, b"")
        + attribute(_PARAM_TYPE, bytes([_FLAG]))
        + attribute(_VALUES | _NESTED, listed),
    )


def test_only_the_running_ddp_profile_counts() -> None:
    info = instance(
        "0000:3b:00.0",
        attribute(_DRIVER, b"ice\0"),
        attribute(_SERIAL, b"00-00\0"),
        version(_FIXED, "board.id", "K91258-000"),
        version(_RUNNING, "fw.mgmt", "6.4.5"),
        version(_RUNNING, "fw.app.name", "ICE COMMS Package"),
        version(_RUNNING, "fw.app", "1.3.45.0"),
        version(_STORED, "fw.app.name", "ICE OS Default Package"),
    )
    assert parse_info([info]) == {"0000:3b:00.0": "ICE COMMS Package"}


def test_devices_without_a_profile_are_left_out() -> None:
    silent = instance("0000:3b:00.1", version(_RUNNING, "fw.mgmt", "6.4.5"))
    empty = instance("0000:3b:00.2", version(_RUNNING, "fw.app.name", ""))
    assert parse_info([silent, empty]) == {}


# What Linux 6.12 says of a netdevsim device whose firmware and switch have these names: the dump of
# DEVLINK_CMD_INFO_GET, then the two messages of DEVLINK_CMD_PARAM_GET.
_RECORDED_INFO = (
    "330100000e0001006e657464657673696d0000000f0002006e657464657673696d31000024006600"
    "1000670066772e6170702e6e616d65000d00680031302e32302e3330000000002400650010006700"
    "66772e6170702e6e616d65000d00680031302e32302e3330000000000e0062006e65746465767369"
    "6d000000"
)
_RECORDED_MAX_MACS = (
    "260100000e0001006e657464657673696d0000000f0002006e657464657673696d31000038005000"
    "0d0051006d61785f6d61637300000000040052000500530003000000180054001400550005005700"
    "010000000800560020000000"
)
_RECORDED_ENABLE_RDMA = (
    "260100000e0001006e657464657673696d0000000f0002006e657464657673696d31000034005000"
    "10005100656e61626c655f72646d6100040052000500530006000000140054001000550005005700"
    "0100000004005600"
)


def test_recorded_messages_of_a_real_kernel_are_decoded() -> None:
    params = [bytes.fromhex(message) for message in (_RECORDED_MAX_MACS, _RECORDED_ENABLE_RDMA)]
    assert parse_info([bytes.fromhex(_RECORDED_INFO)]) == {"netdevsim1": "10.20.30"}
    assert parse_params(params) == {"netdevsim1": True}


def test_enable_rdma_is_read_for_functions_and_auxiliary_devices() -> None:
    on = instance("0000:03:00.2", parameter("enable_rdma", (_DRIVERINIT, True)))
    off = instance(
        "mlx5_core.sf.4", parameter("enable_rdma", (_DRIVERINIT, False)), bus="auxiliary"
    )
    other = instance("0000:03:00.2", parameter("enable_roce", (_DRIVERINIT, True)))
    assert parse_params([on, off, other]) == {"0000:03:00.2": True, "mlx5_core.sf.4": False}


def test_only_the_value_of_mode_driverinit_counts() -> None:
    both = instance(
        "0000:03:00.2", parameter("enable_rdma", (_RUNTIME, True), (_DRIVERINIT, False))
    )
    assert parse_params([both]) == {"0000:03:00.2": False}


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_truncated_messages_cause_no_wrong_result(cut: int) -> None:
    whole = instance("0000:03:00.2", parameter("enable_rdma", (_DRIVERINIT, True)))
    assert parse_params([whole[:cut]]) in ({}, {"0000:03:00.2": True})
    assert parse_info([whole[:cut]]) == {}


def test_only_needed_facts_are_requested_from_the_running_kernel() -> None:
    assert devlink.from_kernel(frozenset()) == DevlinkFacts()
    facts = devlink.from_kernel(frozenset({devlink.DDP}))
    assert facts.enable_rdma == {}


def read(folder: Path) -> DevlinkFacts:
    with sysfs.folder(folder) as host:
        assert host is not None
        return devlink.from_file(host)


def test_a_laid_out_host_has_the_output_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "devlink.json").write_text(
        """{
          "info": {
            "pci/0000:3b:00.0": {"driver": "ice", "versions": {
              "fixed": {"board.id": "x"}, "running": {"fw.app.name": "ICE COMMS Package"}}},
            "pci/0000:3b:00.1": {"driver": "ice", "versions": {"running": {}}}},
          "param": {
            "pci/0000:03:00.2": [
              {"name": "enable_roce", "type": "generic", "values": [{"value": true}]},
              {"name": "enable_rdma", "type": "generic",
               "values": [{"cmode": "driverinit", "value": false}]}]}}"""
    )
    assert read(tmp_path) == DevlinkFacts(
        ddp={"0000:3b:00.0": "ICE COMMS Package"}, enable_rdma={"0000:03:00.2": False}
    )


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "7", '{"info": []}', '{"param": {"pci/x": [{"name": "enable_rdma"}]}}'],
)
def test_an_invalid_file_has_no_facts(tmp_path: Path, content: str) -> None:
    (tmp_path / "devlink.json").write_text(content)
    assert read(tmp_path) == DevlinkFacts()


def test_a_host_without_the_file_has_no_facts(tmp_path: Path) -> None:
    assert read(tmp_path) == DevlinkFacts()
