from __future__ import annotations

import json

import pytest

from agent.rpc.agent import v1
from agent.status.json_mapping import compact, document, text


def test_names_are_camel_case_and_what_is_empty_is_left_out() -> None:
    message = v1.Pf(address="0000:3b:00.0", num_vfs=2)
    assert document(message) == {"address": "0000:3b:00.0", "numVfs": 2, "totalVfs": 0}


def test_flags_and_numbers_are_written_even_if_they_are_zero() -> None:
    assert document(v1.Scan()) == {"number": 0, "tookMs": 0.0, "stalledS": 0.0, "functions": 0}


def test_an_optional_number_that_is_zero_differs_from_one_that_is_not_known() -> None:
    assert document(v1.Pf(numa_node=0))["numaNode"] == 0
    assert "numaNode" not in document(v1.Pf())


def test_nested_messages_and_lists_are_followed() -> None:
    message = v1.Explanation(
        "x", device=v1.DeviceExplanation(facts=[v1.Fact("a", "b")]), near=["y"]
    )
    assert document(message) == {
        "subject": "x",
        "device": {"facts": [{"name": "a", "value": "b"}]},
        "near": ["y"],
    }


def test_the_document_can_be_read_by_protobufs_own_mapping() -> None:
    message = v1.StatusReply(
        version="1",
        ready=True,
        pools=[v1.Pool(resource="r", server=v1.Server(since=1.5))],
        devices=[v1.Device(id="d", index=0, since=2.5, holder=v1.Holder(pod="p"))],
    )
    assert v1.StatusReply.from_dict(document(message)) == message


def test_compact_and_indented_text_have_the_same_content() -> None:
    message = v1.Fact("a", "b")
    assert json.loads(compact(message)) == json.loads(text(message)) == document(message)
    assert b" " not in compact(message)
    assert text(message).endswith("}\n")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_compact_writes_lists_that_replace_those_of_the_message(count: int) -> None:
    devices = [v1.Device(id=f"d{i}", index=i) for i in range(count)]
    whole = v1.StatusReply(
        version="1", devices=devices, pools=[v1.Pool(resource="r")], scan=v1.Scan(number=3)
    )
    without = v1.StatusReply(version="1", pools=whole.pools, scan=whole.scan)
    as_before = json.dumps(document(whole), separators=(",", ":")).encode()
    assert compact(whole) == compact(without, devices=iter(devices)) == as_before


def test_an_empty_message_is_an_empty_object() -> None:
    assert compact(v1.Explanation()) == b"{}"
