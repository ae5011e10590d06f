"""Device lists as bytes: each device is encoded once, a list is its devices' bytes joined.

Protobuf's repeated fields concatenate, so the joined bytes are a ListAndWatchResponse.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.model.answers import Advertised

_SPARE = 64


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, body: bytes) -> bytes:
    """A length-delimited field (wire type 2)."""
    return bytes((number << 3 | 2,)) + _varint(len(body)) + body


def encode_device(device: Advertised) -> bytes:
    """A Device as one entry of ListAndWatchResponse.devices; without a NUMA node no topology."""
    body = _field(1, device.id.encode())
    body += _field(2, b"Healthy" if device.healthy else b"Unhealthy")
    if device.numa_node is not None:
        # Node 0 is an empty NUMANode: proto3 leaves zeros out.
        node = b"\x08" + _varint(device.numa_node) if device.numa_node else b""
        body += _field(3, _field(1, node))
    return _field(1, body)


class ListEncoder:
    """Encodes the successive lists of one resource; what it has seen before costs a look-up."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, bool, int | None], bytes] = {}

    def encode(self, devices: tuple[Advertised, ...]) -> bytes:
        """The bytes of a ListAndWatchResponse that holds ``devices`` in this order."""
        # Each device is worth keeping twice, healthy and not; more are devices of the past.
        if len(self._seen) > 2 * len(devices) + _SPARE:
            self._seen.clear()
        return b"".join(self._parts(devices))

    def _parts(self, devices: tuple[Advertised, ...]) -> Iterable[bytes]:
        seen = self._seen
        for device in devices:
            key = (device.id, device.healthy, device.numa_node)
            part = seen.get(key)
            if part is None:
                part = seen[key] = encode_device(device)
            yield part
