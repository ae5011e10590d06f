"""Google's own decoder is the measure: what it reads is read alike, what it refuses is refused."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from hypothesis import given
from hypothesis import strategies as st

from agent.plugin.decoding import MAX_CONTAINERS, MAX_FIELDS, MAX_OTHER_BYTES, PluginCodec
from agent.rpc import v1beta1
from tests.support.protocol import message

CODEC = PluginCodec()
IDS = st.lists(st.text(max_size=20), max_size=5)
SIZES = st.integers(-(2**31), 2**31 - 1)
PREFERENCES = st.lists(st.tuples(IDS, IDS, SIZES), max_size=3)


def google(name: str) -> Any:  # noqa: ANN401 - the class is made at run time
    return message(f"v1beta1.{name}")


def preference(containers: list[tuple[list[str], list[str], int]]) -> bytes:
    request = google("PreferredAllocationRequest")()
    for available, must_include, size in containers:
        request.container_requests.add(
            available_device_ids=available,
            must_include_device_ids=must_include,
            allocation_size=size,
        )
    encoded: bytes = request.SerializeToString()
    return encoded


def read_preference(data: bytes) -> list[tuple[list[str], list[str], int]]:
    read = CODEC.decode(data, v1beta1.PreferredAllocationRequest)
    return [
        (c.available_device_ids, c.must_include_device_ids, c.allocation_size)
        for c in read.container_requests
    ]


def read_allocation(data: bytes) -> list[list[str]]:
    read = CODEC.decode(data, v1beta1.AllocateRequest)
    return [c.devices_ids for c in read.container_requests]


def status_of(data: bytes, kind: type = v1beta1.AllocateRequest) -> Status:
    with pytest.raises(GRPCError) as caught:
        CODEC.decode(data, kind)
    return caught.value.status


@given(PREFERENCES)
def test_a_preference_is_read_as_it_was_written(
    containers: list[tuple[list[str], list[str], int]],
) -> None:
    assert read_preference(preference(containers)) == containers


@given(st.lists(IDS, max_size=3))
def test_an_allocation_is_read_as_it_was_written(containers: list[list[str]]) -> None:
    request = google("AllocateRequest")()
    for ids in containers:
        request.container_requests.add(devices_ids=ids)
    assert read_allocation(request.SerializeToString()) == containers


@given(PREFERENCES, st.data())
def test_damaged_bytes_are_read_as_by_googles_library_or_refused(
    containers: list[tuple[list[str], list[str], int]], data: st.DataObject
) -> None:
    damaged = bytearray(preference(containers))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(damaged)))
        damaged[start : start + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    try:
        known = google("PreferredAllocationRequest").FromString(bytes(damaged))
    except DecodeError:
        assert (
            status_of(bytes(damaged), v1beta1.PreferredAllocationRequest) is Status.INVALID_ARGUMENT
        )
        return
    try:
        read = read_preference(bytes(damaged))
    except GRPCError as error:  # groups went out of use before kubelet was there
        refused = str(error.message)
        read = None
    if read is None:
        assert "unknown type" in refused
        return
    assert read == [
        (list(c.available_device_ids), list(c.must_include_device_ids), c.allocation_size)
        for c in known.container_requests
    ]


@pytest.mark.parametrize("field", [b"\x08", b"\x18", b"\x18\x80"], ids=bytes.hex)
def test_a_number_that_ends_after_its_container_is_refused(field: bytes) -> None:
    cut_off = b"\x0a" + bytes([len(field)]) + field
    whole = b"\x0a\x03\x0a\x01a"
    assert status_of(cut_off + whole) is Status.INVALID_ARGUMENT
    assert status_of(cut_off + whole, v1beta1.PreferredAllocationRequest) is Status.INVALID_ARGUMENT


def test_unknown_fields_are_ignored() -> None:
    unknown = b"\x50\x07" + b"\x5a\x01x" + b"\x65abcd" + b"\x69abcdefgh"
    assert read_allocation(unknown + b"\x0a\x03\x0a\x01a" + unknown) == [["a"]]


def test_a_few_mib_of_empty_fields_are_refused_at_once() -> None:
    for unit in (b"\x0a\x00", b"\x78\x00", b"x0"):
        assert status_of(unit * 2**20) is Status.RESOURCE_EXHAUSTED
    assert status_of(b"\x0a\x80\x80\x80\x01" + b"\x0a\x00" * 2**20) is Status.RESOURCE_EXHAUSTED


def test_a_request_of_the_largest_possible_pool_is_accepted() -> None:
    ids = [f"0000:{i:04x}:00.0" for i in range(135_000)]
    assert read_preference(preference([(ids, ids, 1)])) == [(ids, ids, 1)]
    assert 2 * len(ids) < MAX_FIELDS


def test_more_containers_than_any_kubelet_requests_are_refused() -> None:
    assert len(read_allocation(b"\x0a\x00" * MAX_CONTAINERS)) == MAX_CONTAINERS
    assert status_of(b"\x0a\x00" * (MAX_CONTAINERS + 1)) is Status.RESOURCE_EXHAUSTED


def test_requests_without_devices_are_small() -> None:
    assert CODEC.decode(b"", v1beta1.Empty) == v1beta1.Empty()
    too_long = b"\x00" * (MAX_OTHER_BYTES + 1)
    assert status_of(too_long, v1beta1.Empty) is Status.RESOURCE_EXHAUSTED
