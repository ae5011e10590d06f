"""Encodes device lists: the bytes around a device's id are the same for most devices, and cached.

Repeated fields of protobuf concatenate, so the joined bytes of all devices are a
ListAndWatchResponse.
"""

from __future__ import annotations

from functools import lru_cache

from agent.model.answers import ListedDevice


def encode_list(devices: tuple[ListedDevice, ...]) -> bytes:
    """The bytes of a ListAndWatchResponse that holds ``devices`` in this order."""
    return b"".join(
        [(name := d.id.encode()).join(_around(len(name), d.healthy, d.numa_node)) for d in devices]
    )


@lru_cache(maxsize=256)
def _around(length: int, healthy: bool, numa_node: int | None) -> tuple[bytes, bytes]:  # noqa: FBT001 - a key
    """The bytes before and after an id of ``length`` bytes; without a NUMA node, no topology."""
    tail = _field(2, b"Healthy" if healthy else b"Unhealthy")
    if numa_node is not None:
        # Node 0 is an empty NUMANode: proto3 leaves zeros out.
        node = b"\x08" + _varint(numa_node) if numa_node else b""
        tail += _field(3, _field(1, node))
    head = _head(1, length)
    return _head(1, len(head) + length + len(tail)) + head, tail


def _field(number: int, body: bytes) -> bytes:
    return _head(number, len(body)) + body


def _head(number: int, length: int) -> bytes:
    """The start of a length-delimited field (wire type 2)."""
    return bytes((number << 3 | 2,)) + _varint(length)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
