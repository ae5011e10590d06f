"""Reads kubelet's list of pods from its bytes: only what is asked for becomes an object.

An answer may have 16 MiB and hundreds of thousands of device ids of other plugins. A decoder that
makes objects of all of them takes many times that memory, and seconds.

Encoding: https://protobuf.dev/programming-guides/encoding. Messages: protos/podresources/v1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from agent.attrs_classes import frozen
from agent.errors import KubeletUnavailableError

PODS_AT_MOST = 65_536
"""A list of more pods is not kubelet's: 110 is its default limit, and 1,000 are a large node."""
_PCI_OR_SF = re.compile(rb"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]|\.sf\.[0-9]")
"""What the id of a PCI function or of a sub-function has in it."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTH = {_FIXED64: 8, _FIXED32: 4}


@frozen
class ContainerAllocation:
    """What one container holds of one resource."""

    namespace: str
    pod: str
    container: str
    resource: str
    device_ids: tuple[str, ...]


@frozen
class PodList:
    """Kubelet's answer, as far as it was asked for."""

    holdings: tuple[ContainerAllocation, ...]
    """Sorted."""
    is_vouched: bool
    """Whether a pod is listed that ``vouches`` accepted."""


def read_pod_list(
    reply: bytes, resources: Collection[str], vouches: Callable[[str, str], bool]
) -> PodList:
    """Decode ``ListPodResourcesResponse``.

    Holdings are those of ``resources``, and those of devices whose id may be a PCI function's or a
    sub-function's, whatever the resource. ``vouches`` is asked with namespace and name of the pods
    until it accepts one. Raises KubeletUnavailableError for bytes that are no such message.
    """
    try:
        return _read(reply, resources, vouches)
    except (IndexError, ValueError) as error:  # the latter with text that is no UTF-8
        raise KubeletUnavailableError(f"pod-resources not understood: {error}") from error


def _read(reply: bytes, resources: Collection[str], vouches: Callable[[str, str], bool]) -> PodList:
    names = frozenset(r.encode() for r in resources)
    marks = (*sorted({n.partition(b"/")[0] + b"/" for n in names}), b":", b".sf.")
    found: dict[tuple[str, str, str, str], set[str]] = {}
    is_vouched = False
    for count, (begin, end) in enumerate(_values(reply, 0, len(reply), 1)):
        if count >= PODS_AT_MOST:
            raise ValueError(f"more than {PODS_AT_MOST} pods")
        is_of_interest = any(reply.find(mark, begin, end) >= 0 for mark in marks)
        if is_vouched and not is_of_interest:
            continue
        name, namespace = _text(reply, begin, end, 1), _text(reply, begin, end, 2)
        is_vouched = is_vouched or vouches(namespace, name)
        if is_of_interest:
            for container, resource, ids in _devices(reply, begin, end, names):
                found.setdefault((namespace, name, container, resource), set()).update(ids)
    wanted = (ContainerAllocation(*key, tuple(sorted(found[key]))) for key in sorted(found))
    return PodList(tuple(wanted), is_vouched)


def _devices(
    reply: bytes, begin: int, end: int, names: Collection[bytes]
) -> Iterator[tuple[str, str, list[str]]]:
    """(container, resource, ids) of each entry of a pod that concerns us.

    Kubelet makes one entry for each NUMA node, not one for each resource.
    """
    for c_begin, c_end in _values(reply, begin, end, 3):
        for d_begin, d_end in _values(reply, c_begin, c_end, 2):
            resource = _bytes(reply, d_begin, d_end, 1)
            ids = [reply[b:e] for b, e in _values(reply, d_begin, d_end, 2)]
            if resource not in names:
                ids = [i for i in ids if _PCI_OR_SF.search(i)]
            if ids:
                container = _text(reply, c_begin, c_end, 1)
                yield container, str(resource, "utf-8"), [str(i, "utf-8") for i in ids]


def _text(reply: bytes, begin: int, end: int, wanted: int) -> str:
    """A field of text."""
    return str(_bytes(reply, begin, end, wanted), "utf-8")


def _bytes(reply: bytes, begin: int, end: int, wanted: int) -> bytes:
    """A field; the last one counts, as protobuf has it, and a missing one is empty."""
    found = b""
    for b, e in _values(reply, begin, end, wanted):
        found = reply[b:e]
    return found


def _values(reply: bytes, begin: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each value of the field ``wanted``, which has a length; others are skipped.

    Raises ValueError where the field is of another type, or anything is cut off.
    """
    at = begin
    while at < end:
        tag, at = _varint(reply, at, end)
        number, kind = tag >> 3, tag & 7
        if number == wanted and kind != _BYTES:
            raise ValueError(f"field {wanted} has the wire type {kind} in place of {_BYTES}")
        if kind == _BYTES:
            length, at = _varint(reply, at, end)
            after = at + length
        elif kind == _VARINT:
            after = _varint(reply, at, end)[1]
        elif kind in _WIDTH:
            after = at + _WIDTH[kind]
        else:
            raise ValueError(f"wire type {kind} of field {number} is unknown")
        if after > end or not number:
            raise ValueError("it is cut off")
        if number == wanted:
            yield at, after
        at = after


def _varint(reply: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, lowest first, at most ten bytes; and where it ends."""
    value = reply[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for shift in range(7, 70, 7):
        at += 1
        if at >= end:
            break
        byte = reply[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise ValueError("a number is cut off or too long")
