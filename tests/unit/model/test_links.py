from __future__ import annotations

import pytest

from agent.model.device import Netdev
from agent.model.link import LinkFact, Links, VfLinkPolicy

SCANNED = Netdev("pf0", ifindex=5, link_type="ether", admin_up=True, carrier=None, speed_mbps=10)
TOLD = LinkFact(5, "pf0", admin_up=False, carrier=False, operstate="down")


def links(*facts: LinkFact) -> Links:
    made = Links()
    for fact in facts:
        made = made.with_fact(fact)
    return made


def test_netlink_messages_replace_scanned_states_and_the_rest_stays() -> None:
    assert links(TOLD).newest(SCANNED) == Netdev(
        "pf0",
        ifindex=5,
        link_type="ether",
        admin_up=False,
        carrier=False,
        operstate="down",
        speed_mbps=10,
    )


def test_for_an_interface_without_a_netlink_message_the_scan_has_the_latest_state() -> None:
    assert links(LinkFact(6, "pf1")).newest(SCANNED) is SCANNED
    assert Links().newest(SCANNED) is SCANNED
    assert Links().newest(None) is None
    assert links(TOLD).fact(None) is None


def test_an_interface_that_left_the_namespace_has_no_latest_state() -> None:
    assert links(LinkFact(5, "pf0", gone=True)).newest(SCANNED) is None


@pytest.mark.parametrize(
    ("facts", "netdev", "found"),
    [
        ([LinkFact(5, "pf0")], Netdev("pf0", ifindex=5), 5),
        ([LinkFact(5, "eno1")], Netdev("pf0", ifindex=5), 5),
        ([LinkFact(9, "pf0")], Netdev("pf0", ifindex=5), 9),
        ([LinkFact(9, "pf0")], Netdev("pf0"), 9),
        ([LinkFact(5, "other"), LinkFact(9, "pf0")], Netdev("pf0", ifindex=5), 9),
        ([LinkFact(5, "other"), LinkFact(9, "pf0", gone=True)], Netdev("pf0", ifindex=5), 5),
        ([LinkFact(8, "pf0", gone=True), LinkFact(9, "pf0")], Netdev("pf0"), 9),
        ([LinkFact(9, "pf0"), LinkFact(8, "pf0", gone=True)], Netdev("pf0"), 9),
        ([LinkFact(8, "pf0", gone=True)], Netdev("pf0"), 8),
        ([LinkFact(9, "pf1")], Netdev("pf0"), None),
    ],
    ids=[
        "same number and name",
        "renamed",
        "another number",
        "no number scanned",
        "number taken by another",
        "renamed, and an older one of its name left",
        "came back under another number",
        "in the other order",
        "left",
        "a stranger",
    ],
)
def test_an_interface_is_identified_by_name_and_number_together_then_by_either(
    facts: list[LinkFact], netdev: Netdev, found: int | None
) -> None:
    fact = links(*facts).fact(netdev)
    assert (fact.ifindex if fact else None) == found


def test_an_event_without_policies_keeps_the_known_ones() -> None:
    policies = {0: VfLinkPolicy.DISABLE}
    made = links(LinkFact(5, "pf0", vf_policies=policies), LinkFact(5, "pf0", carrier=True))
    assert made.by_ifindex[5] == LinkFact(5, "pf0", carrier=True, vf_policies=policies)
    assert made.with_fact(LinkFact(5, "pf0", vf_policies={})).by_ifindex[5].vf_policies == {}


def test_adding_a_fact_does_not_change_the_earlier_value() -> None:
    before = links(TOLD)
    after = before.with_fact(LinkFact(5, "pf0", carrier=True))
    assert before.by_ifindex == {5: TOLD}
    assert after.by_ifindex[5].carrier is True
