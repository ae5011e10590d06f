"""Decodes kubelet's list of pods, only as far as it concerns our devices.

An answer may have 16 MiB and hundreds of thousands of device ids of other plugins. A decoder that
makes objects of all of them takes many times that memory, and seconds.

The list is complete once kubelet has received its pods from the API server. After a restart it
serves pod-resources before that, and lists no pods, or only static pods, which it reads from files,
although all other pods still run. All pods of the API server arrive together, so one of them in the
list shows that it is complete.

Encoding: https://protobuf.dev/programming-guides/encoding. Messages: protos/podresources/v1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from agent.attrs_classes import frozen
from agent.errors import KubeletUnavailableError

PODS_AT_MOST = 65_536
"""Longer lists are refused: kubelet's default limit is 110 pods, and 1,000 are a large node."""
_PCI_OR_SF = re.compile(rb"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]|\.sf\.[0-9]")
"""Occurs in the id of a PCI function or a sub-function."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTH = {_FIXED64: 8, _FIXED32: 4}


@frozen
class AgentPod:
    """The agent's own pod and node, as far as known: shows whether a list of pods is complete."""

    name: str | None = None
    """$POD_NAME."""
    namespace: str | None = None
    """$POD_NAMESPACE."""
    node: str | None = None
    """Name of the node: kubelet ends the names of static pods with ``-<node>``."""

    def shows_completeness(self, namespace: str, pod: str) -> bool:
        """Whether a list that has this pod is complete.

        If the agent's own pod is known, it must be listed; otherwise any pod that is not static.
        """
        if self.name is not None and not self._is_static(self.name):
            return pod == self.name and self.namespace in {None, namespace}
        return not self._is_static(pod)

    def _is_static(self, pod: str) -> bool:
        return self.node is not None and pod.endswith(f"-{self.node.lower()}")


@frozen
class ContainerAllocation:
    """The devices of one resource that one container holds."""

    namespace: str
    pod: str
    container: str
    resource: str
    device_ids: tuple[str, ...]


@frozen
class PodList:
    """Kubelet's answer, as far as it concerns our devices."""

    allocations: tuple[ContainerAllocation, ...]
    """Sorted."""
    is_complete: bool
    """Whether a listed pod shows that the list is complete."""


def read_pod_list(
    reply: bytes, resources: Collection[str], shows_completeness: Callable[[str, str], bool]
) -> PodList:
    """Decode ``ListPodResourcesResponse``.

    The result has the devices of ``resources``, and of any resource those whose id may be that of a
    PCI function or a sub-function. ``shows_completeness`` is called with namespace and name of the
    pods until it returns True. Raises KubeletUnavailableError for malformed bytes.
    """
    try:
        return _read(reply, resources, shows_completeness)
    except (IndexError, ValueError) as error:  # ValueError also for text that is not UTF-8
        raise KubeletUnavailableError(f"pod-resources not understood: {error}") from error


def _read(
    reply: bytes, resources: Collection[str], shows_completeness: Callable[[str, str], bool]
) -> PodList:
    names = frozenset(r.encode() for r in resources)
    marks = (*sorted({n.partition(b"/")[0] + b"/" for n in names}), b":", b".sf.")
    found: dict[tuple[str, str, str, str], set[str]] = {}
    is_complete = False
    for count, (begin, end) in enumerate(_values(reply, 0, len(reply), 1)):
        if count >= PODS_AT_MOST:
            raise ValueError(f"more than {PODS_AT_MOST} pods")
        is_of_interest = any(reply.find(mark, begin, end) >= 0 for mark in marks)
        if is_complete and not is_of_interest:
            continue
        name, namespace = _text(reply, begin, end, 1), _text(reply, begin, end, 2)
        is_complete = is_complete or shows_completeness(namespace, name)
        if is_of_interest:
            for container, resource, ids in _devices(reply, begin, end, names):
                found.setdefault((namespace, name, container, resource), set()).update(ids)
    wanted = (ContainerAllocation(*key, tuple(sorted(found[key]))) for key in sorted(found))
    return PodList(tuple(wanted), is_complete)


def _devices(
    reply: bytes, begin: int, end: int, names: Collection[bytes]
) -> Iterator[tuple[str, str, list[str]]]:
    """(container, resource, ids) of each entry of a pod that may name our devices.

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
    """A string field."""
    return str(_bytes(reply, begin, end, wanted), "utf-8")


def _bytes(reply: bytes, begin: int, end: int, wanted: int) -> bytes:
    """The last occurrence of a field, as protobuf requires; empty if there is none."""
    found = b""
    for b, e in _values(reply, begin, end, wanted):
        found = reply[b:e]
    return found


def _values(reply: bytes, begin: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
    """Start and end of each value of the length-delimited field ``wanted``.

    Raises ValueError if the field has another wire type, or if anything is cut off.
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
    """A varint (seven bits a byte, lowest first, at most ten bytes), and the offset after it."""
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
