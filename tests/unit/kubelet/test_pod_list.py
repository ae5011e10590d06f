from __future__ import annotations

import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import KubeletUnavailableError
from agent.kubelet.pod_list import PODS_AT_MOST, ContainerAllocation, read_pod_list
from agent.rpc import v1
from tests.support.protocol import message

VF = "intel.com/vf"
NAMES = st.text(min_size=0, max_size=12)
IDS = st.sampled_from(("0000:3b:02.1", "mlx5_core.sf.4", "a", "", "GPU-1", "ü", "x" * 200))
RESOURCES = st.sampled_from((VF, "intel.com/rdma", "other.io/gpu", ""))
ENTRIES = st.lists(st.tuples(NAMES, NAMES, NAMES, RESOURCES, st.lists(IDS)), max_size=6)


def encoded(entries: list[tuple[str, str, str, str, list[str]]]) -> bytes:
    """What Go's and C's protobuf send, with the fields that nobody asks for."""
    reply = message("v1.ListPodResourcesResponse")()
    for namespace, pod, container, resource, ids in entries:
        found = reply.pod_resources.add(name=pod, namespace=namespace)
        devices = found.containers.add(name=container).devices.add(
            resource_name=resource, device_ids=ids
        )
        devices.topology.nodes.add(id=1)
    data: bytes = reply.SerializeToString()
    return data


def decoded(data: bytes) -> tuple[ContainerAllocation, ...]:
    """The same by the generated decoder, which makes objects of everything."""
    found: dict[tuple[str, str, str, str], set[str]] = {}
    for pod in v1.ListPodResourcesResponse.parse(data).pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                key = (pod.namespace, pod.name, container.name, devices.resource_name)
                ids = [i for i in devices.device_ids if _is_ours(devices.resource_name, i)]
                if ids:
                    found.setdefault(key, set()).update(ids)
    return tuple(ContainerAllocation(*key, tuple(sorted(found[key]))) for key in sorted(found))


def _is_ours(resource: str, device_id: str) -> bool:
    return resource == VF or device_id in {"0000:3b:02.1", "mlx5_core.sf.4"}


def read(data: bytes, *resources: str) -> tuple[ContainerAllocation, ...]:
    return read_pod_list(data, resources or (VF,), lambda *_: False).allocations


@given(ENTRIES)
def test_the_decoder_has_the_same_result_as_the_generated_one(
    entries: list[tuple[str, str, str, str, list[str]]],
) -> None:
    data = encoded(entries)
    assert read(data) == decoded(data)


@given(ENTRIES, st.integers(0, 400), st.binary(max_size=8))
def test_damaged_bytes_are_read_or_raise_the_documented_error(
    entries: list[tuple[str, str, str, str, list[str]]], at: int, garbage: bytes
) -> None:
    data = encoded(entries)
    for damaged in (data[:at], data[:at] + garbage + data[at:], data[:at] + garbage):
        with suppress(KubeletUnavailableError):
            read(damaged)


@pytest.mark.parametrize(
    "data",
    [
        b"\x08\x01",  # a number in place of a pod
        b"\x0a\x05ab",  # shorter than it says
        b"\x0a",
        b"\x0b\x0c",  # a group, which proto3 does not have
        b"\x00",  # field 0
        b"\xff" * 11,
        b"\x0d\x00",  # the pods' field with four bytes
        b"\x0a\x04\x0a\x02\xff:",  # a name that is no UTF-8, of a pod that concerns us
    ],
    ids=lambda data: data.hex(),
)
def test_bytes_that_are_no_list_of_pods_are_not_understood(data: bytes) -> None:
    with pytest.raises(KubeletUnavailableError, match="pod-resources not understood"):
        read(data)


def test_unknown_fields_of_every_type_are_skipped() -> None:
    known = encoded([("ns", "pod", "main", VF, ["a"])])
    unknown = b"\x78\x96\x01" + b"\x7a\x02hi" + b"\x7d1234" + b"\x79" + b"12345678"
    assert read(unknown + known + unknown) == (
        ContainerAllocation("ns", "pod", "main", VF, ("a",)),
    )


def test_pods_are_requested_until_one_is_accepted() -> None:
    asked: list[tuple[str, str]] = []

    def shows_completeness(namespace: str, pod: str) -> bool:
        asked.append((namespace, pod))
        return pod == "b"

    pods: list[tuple[str, str, str, str, list[str]]] = [
        ("ns", name, "main", "other.io/gpu", []) for name in "abc"
    ]
    assert read_pod_list(encoded(pods), (VF,), shows_completeness).is_complete
    assert asked == [("ns", "a"), ("ns", "b")]


def test_more_pods_than_a_node_can_have_are_refused() -> None:
    with pytest.raises(KubeletUnavailableError, match=f"more than {PODS_AT_MOST} pods"):
        read(b"\x0a\x00" * (PODS_AT_MOST + 1))


def test_a_large_answer_takes_little_memory_beside_its_bytes() -> None:
    reply: Any = message("v1.ListPodResourcesResponse")()
    for pod in range(200):
        devices = reply.pod_resources.add(name=f"pod-{pod}", namespace="ns").containers.add()
        devices.devices.add(resource_name="other.io/gpu", device_ids=["x" * 60] * 1000)
    data = reply.SerializeToString() + encoded([("ns", "mine", "main", VF, ["a"])])
    assert len(data) > 11 * 2**20
    tracemalloc.start()
    assert read(data) == (ContainerAllocation("ns", "mine", "main", VF, ("a",)),)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
