"""Decodes kubelet's two requests that name devices; ``encoding`` encodes the lists.

The library takes some 10 microseconds for each id, on the one loop of all pools: 40 ms for a pool
of 4096 devices, and a minute for a few MiB of empty fields. This decoder takes a fraction of that,
and refuses requests that no kubelet sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from agent.rpc import v1beta1
from agent.transport.grpc import WireCodec

MAX_FIELDS = 300_000
"""Kubelet accepts lists of about 135,000 devices, and may name each of them twice."""
MAX_CONTAINERS = 100
"""Kubelet asks for one container at a time."""
MAX_OTHER_BYTES = 64 * 1024
"""Requests that name no devices are empty or hold a name."""

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_WIDTHS = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_MAX_VARINT_BITS = 63
_MAX_FIELD = 2**29 - 1
_INT32 = 2**32


class PluginCodec(WireCodec):
    """The codec of a plugin's server."""

    def decode(self, data: bytes, message_type: Any) -> Any:  # noqa: ANN401 - grpclib's signature
        """Decode a message; raises GRPCError if it is malformed, or larger than any kubelet's."""
        decode = _DECODERS.get(message_type)
        if decode is None:
            if len(data) > MAX_OTHER_BYTES:
                raise _too_much(f"{len(data)} bytes")
            return super().decode(data, message_type)
        try:
            return decode(_Fields(data))
        except ValueError as error:
            raise GRPCError(Status.INVALID_ARGUMENT, f"message not understood: {error}") from error


class _Fields:
    """The fields of an encoded message (protobuf's encoding specification)."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.end = len(data)
        self._left = MAX_FIELDS

    def within(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """(number, wire type, value or its start, its end) of each field between two offsets.

        Raises ValueError if the bytes are not fields, GRPCError if there are too many.
        """
        data, at = self.data, start
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise _too_much(f"over {MAX_FIELDS} fields")
            tag = data[at]
            if tag < 0x80:
                at += 1
            else:
                tag, at = self.varint(at)
            number, wire_type = tag >> 3, tag & 7
            if not 0 < number <= _MAX_FIELD:
                raise ValueError("a field without a number")
            if wire_type == _VARINT:
                value, at = self.varint(at)
                if at > end:
                    raise ValueError("a number that is cut off")
                yield number, wire_type, value, at
                continue
            if wire_type == _LENGTH and at < end and data[at] < 0x80:
                length, at = data[at], at + 1
            elif wire_type == _LENGTH:
                length, at = self.varint(at)
            else:
                length = _WIDTHS.get(wire_type, self.end)
            if at + length > end:
                raise ValueError("a field that is cut off, or of an unknown type")
            yield number, wire_type, at, at + length
            at += length

    def varint(self, at: int) -> tuple[int, int]:
        """A number, and the offset after it."""
        value = shift = 0
        while at < self.end:
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 2**64 - 1, at
            shift += 7
            if shift > _MAX_VARINT_BITS:
                break
        raise ValueError("a number that does not end")

    def text(self, start: int, end: int) -> str:
        """A string; raises ValueError if it is not UTF-8."""
        return self.data[start:end].decode()

    def containers(self) -> Iterator[tuple[int, int]]:
        """Start and end of each container's request: field 1 of both messages."""
        count = 0
        for number, wire_type, start, end in self.within(0, self.end):
            if number == 1 and wire_type == _LENGTH:
                count += 1
                if count > MAX_CONTAINERS:
                    raise _too_much(f"over {MAX_CONTAINERS} containers")
                yield start, end


def _allocate(fields: _Fields) -> v1beta1.AllocateRequest:
    requests = []
    for container in fields.containers():
        ids = [
            fields.text(start, end)
            for number, wire_type, start, end in fields.within(*container)
            if number == 1 and wire_type == _LENGTH
        ]
        requests.append(v1beta1.ContainerAllocateRequest(devices_ids=ids))
    return v1beta1.AllocateRequest(container_requests=requests)


def _prefer(fields: _Fields) -> v1beta1.PreferredAllocationRequest:
    requests = []
    for container in fields.containers():
        ids: tuple[list[str], list[str]] = [], []
        size = 0
        for number, wire_type, start, end in fields.within(*container):
            if wire_type == _LENGTH and number in {1, 2}:
                ids[number - 1].append(fields.text(start, end))
            elif wire_type == _VARINT and number == 3:
                size = (start + _INT32 // 2) % _INT32 - _INT32 // 2
        request = v1beta1.ContainerPreferredAllocationRequest(
            available_device_ids=ids[0], must_include_device_ids=ids[1], allocation_size=size
        )
        requests.append(request)
    return v1beta1.PreferredAllocationRequest(container_requests=requests)


_DECODERS: Mapping[Any, Callable[[_Fields], Any]] = {
    v1beta1.AllocateRequest: _allocate,
    v1beta1.PreferredAllocationRequest: _prefer,
}


def _too_much(what: str) -> GRPCError:
    return GRPCError(Status.RESOURCE_EXHAUSTED, f"{what}: more than any kubelet sends")
