"""Netlink's wire form, by hand-made messages and by the running kernel."""

from __future__ import annotations

import errno
import os
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host import netlink as wire

_HEADER = struct.Struct("=IHHII")
_DONE, _ERROR = 3, 2
_DUMP_INTERRUPTED = 0x10


def message(kind: int, payload: bytes = b"", flags: int = 2) -> bytes:
    """A message as the kernel sends it."""
    padding = bytes(-len(payload) % 4)
    return _HEADER.pack(_HEADER.size + len(payload), kind, flags, 1, 0) + payload + padding


@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.binary(max_size=64))))
def test_attributes_come_back_as_they_were_written(pairs: list[tuple[int, bytes]]) -> None:
    data = b"".join(wire.attribute(kind, value) for kind, value in pairs)
    assert list(wire.attributes(data)) == pairs


@given(st.binary(max_size=256))
def test_any_bytes_are_read_without_a_fault(data: bytes) -> None:
    assert sum(len(value) for _, value in wire.attributes(data)) <= len(data)
    assert sum(len(payload) for _, _, payload in wire.messages(data)) <= len(data)


def test_flags_of_nesting_and_byte_order_are_no_part_of_a_type() -> None:
    assert list(wire.attributes(wire.attribute(0x8000 | 0x4000 | 9, b"x"))) == [(9, b"x")]


def test_a_dump_ends_with_the_kernel_s_end_message() -> None:
    datagrams = [message(24, b"one.") + message(24, b"two."), message(24, b"last") + message(_DONE)]
    assert list(wire.payloads([*datagrams, message(24)], dumping=True)) == [
        b"one.",
        b"two.",
        b"last",
    ]


def test_an_answer_that_is_not_a_dump_is_one_datagram() -> None:
    assert list(wire.payloads([message(16, b"here"), message(16)], dumping=False)) == [b"here"]


def test_an_acknowledgement_is_an_empty_answer() -> None:
    assert list(wire.payloads([message(_ERROR, bytes(4))], dumping=True)) == []


def test_a_refusal_is_raised_with_the_error_number_of_the_kernel() -> None:
    refusal = message(_ERROR, struct.pack("=i", -errno.EOPNOTSUPP))
    with pytest.raises(OSError, match=os.strerror(errno.EOPNOTSUPP)):
        list(wire.payloads([refusal], dumping=True))


def test_a_dump_that_fails_in_the_middle_raises_an_error_and_is_never_treated_as_complete() -> None:
    datagrams = [message(24, b"one."), message(_DONE, struct.pack("=i", -errno.ENOMEM))]
    read: list[bytes] = []
    with pytest.raises(OSError, match=os.strerror(errno.ENOMEM)):
        read.extend(wire.payloads(datagrams, dumping=True))
    assert read == [b"one."]


def test_a_dump_that_ends_with_error_number_zero_is_complete() -> None:
    assert list(wire.payloads([message(24, b"one."), message(_DONE, bytes(4))], dumping=True)) == [
        b"one."
    ]


def test_a_dump_that_a_change_interrupted_raises_an_error_at_its_end() -> None:
    datagrams = [
        message(24, b"one.", flags=_DUMP_INTERRUPTED),
        message(24, b"two."),
        message(_DONE),
    ]
    read: list[bytes] = []
    with pytest.raises(InterruptedError):
        read.extend(wire.payloads(datagrams, dumping=True))
    assert read == [b"one.", b"two."]


def test_text_ends_at_its_first_nul() -> None:
    assert (wire.text(b"pci\0rest"), wire.text(b"pci"), wire.text(b"")) == ("pci", "pci", "")


def test_the_running_kernel_answers_a_dump() -> None:
    links = wire.request(18, bytes(16), dump=True)  # RTM_GETLINK
    names = [
        wire.text(value)
        for payload in wire.answer(socket.NETLINK_ROUTE, links)
        for kind, value in wire.attributes(payload[16:])
        if kind == 3  # IFLA_IFNAME
    ]
    assert "lo" in names


def test_the_running_kernel_refuses_a_family_that_it_does_not_have() -> None:
    ask = struct.pack("=BBH", 3, 1, 0) + wire.attribute(2, b"nosuchfamily\0")  # CTRL_CMD_GETFAMILY
    with pytest.raises(FileNotFoundError):
        list(wire.answer(wire.NETLINK_GENERIC, wire.request(16, ask, dump=False)))
