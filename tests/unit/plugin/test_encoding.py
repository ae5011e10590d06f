from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.model.answers import ListedDevice
from agent.plugin.encoding import encode_list
from agent.rpc import v1beta1
from tests.support.protocol import message

devices = st.builds(
    ListedDevice,
    id=st.text(st.characters(codec="utf-8"), max_size=300),
    healthy=st.booleans(),
    numa_node=st.none() | st.integers(0, 2**40),
)


def encoded_by_the_library(listed: list[ListedDevice]) -> bytes:
    return bytes(
        v1beta1.ListAndWatchResponse(
            devices=[
                v1beta1.Device(
                    id=device.id,
                    health="Healthy" if device.healthy else "Unhealthy",
                    topology=None
                    if device.numa_node is None
                    else v1beta1.TopologyInfo(nodes=[v1beta1.NumaNode(id=device.numa_node)]),
                )
                for device in listed
            ]
        )
    )


@given(st.lists(devices))
def test_the_bytes_are_those_of_the_library(listed: list[ListedDevice]) -> None:
    if any(not device.id for device in listed):
        # No device has an empty id; proto3 leaves the field out, the encoder does not.
        listed = [device for device in listed if device.id]
    assert encode_list(tuple(listed)) == encoded_by_the_library(listed)


def test_googles_decoder_reads_the_list() -> None:
    listed = (ListedDevice("a", True, 0), ListedDevice("b", False, 3), ListedDevice("c"))
    decoded = message("v1beta1.ListAndWatchResponse").FromString(encode_list(listed))
    assert [(d.id, d.health, [n.id for n in d.topology.nodes]) for d in decoded.devices] == [
        ("a", "Healthy", [0]),
        ("b", "Unhealthy", [3]),
        ("c", "Healthy", []),
    ]
    assert not decoded.devices[2].HasField("topology")
