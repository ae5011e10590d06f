"""Addresses and routes of the host's own, as a real kernel tells them, by netlink and procfs."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.host import addresses, sysfs
from agent.host.addresses import OwnRoutes, is_link_local, legs, owner_of_address
from agent.host.netlink import attribute
from agent.host.route_rules import table_of
from tests.support.netns import NetNamespace, needs_root

_ASK = """
import json
from agent.host import addresses, route_rules, routes, sysfs
names = ("v4", "w4")
tables = route_rules.tables_in_use()
own = addresses.from_kernel(names, tables)
with sysfs.folder("/proc") as proc:
    file = addresses.from_procfs(proc, names)
print(json.dumps([own.addressed, own.routed, file.routed, routes.from_kernel(tables)]))
"""


@pytest.fixture
def namespace() -> Iterator[NetNamespace]:
    """Cables v4, w4 and x4 without addresses; x4 is none of ours."""
    with NetNamespace() as made:
        for name in ("v4", "w4", "x4"):
            made.veth(name, f"{name}peer")
        yield made


def asked(namespace: NetNamespace) -> list[list[str]]:
    """Addressed, routed by netlink, routed by procfs, and the default routes, inside."""
    run = [*namespace.wrapper, sys.executable, "-c", _ASK]
    answer: list[list[str]] = json.loads(
        subprocess.run(run, check=True, capture_output=True).stdout
    )
    return answer


NETWORK = "addr add 10.1.0.1/24 dev v4"


@needs_root
@pytest.mark.parametrize(
    ("commands", "addressed", "routed", "procfs"),
    [
        pytest.param((), [], [], [], id="nothing but link-local addresses of IPv6"),
        pytest.param((NETWORK,), ["v4"], ["v4"], ["v4"], id="IPv4 with its network's route"),
        pytest.param(
            ("addr add fd00:1::1/64 dev v4 nodad",), ["v4"], ["v4"], ["v4"], id="IPv6 of a network"
        ),
        pytest.param(("addr add 10.1.0.1/32 dev v4",), ["v4"], [], [], id="IPv4 without a route"),
        pytest.param(
            ("addr add fd00:1::1/64 dev v4 nodad noprefixroute",),
            ["v4"],
            [],
            [],
            id="IPv6 without a route",
        ),
        pytest.param(
            ("addr add 10.1.0.1/32 dev v4", "route add 10.9.0.0/16 dev v4"),
            ["v4"],
            ["v4"],
            ["v4"],
            id="a route of another network",
        ),
        pytest.param(
            (NETWORK, "addr add 10.2.0.1/24 dev w4", "route add 10.9.0.0/16 nexthop dev w4"),
            ["v4", "w4"],
            ["v4", "w4"],
            ["v4", "w4"],
            id="two",
        ),
        pytest.param(("addr add 169.254.3.4/16 dev v4",), [], [], [], id="IPv4 link-local"),
        pytest.param(
            ("addr add fd00:1::1/64 dev v4 nodad valid_lft 900 preferred_lft 900",),
            [],
            [],
            [],
            id="an address with a lifetime",
        ),
        pytest.param(("addr add 10.3.0.1/24 dev x4",), [], [], [], id="of another interface"),
        pytest.param((NETWORK, "link set v4 down"), ["v4"], [], [], id="set down"),
    ],
)
def test_an_address_and_a_route_together_are_found(
    namespace: NetNamespace,
    commands: tuple[str, ...],
    addressed: list[str],
    routed: list[str],
    procfs: list[str],
) -> None:
    namespace.ip(*commands)
    assert asked(namespace)[:3] == [addressed, routed, procfs]


@needs_root
def test_for_very_many_interfaces_all_routes_are_dumped_at_once(namespace: NetNamespace) -> None:
    many = [f"m{n}" for n in range(20)]
    namespace.ip(
        *(f"link add {m} type veth peer name {m}p" for m in many),
        *(f"link set {m} up" for m in many),
        *(f"link set {m}p up" for m in many),
        *(f"addr add 10.7.{n}.1/24 dev {m}" for n, m in enumerate(many)),
    )
    ask = f"""
from agent.host import addresses
print(len(addresses.from_kernel({many}, (254,)).routed))
"""
    run = [*namespace.wrapper, sys.executable, "-c", ask]
    assert subprocess.run(run, check=True, capture_output=True).stdout == b"20\n"


@needs_root
@pytest.mark.parametrize(
    ("rules", "default"),
    [
        pytest.param((), [], id="no rule"),
        pytest.param(("rule add from 10.1.0.1 lookup 1000",), ["v4"], id="IPv4"),
        pytest.param(("-6 rule add lookup 1000",), ["v4"], id="IPv6"),
        pytest.param(
            ("rule add lookup 1000 suppress_prefixlength 0",), [], id="short prefixes passed over"
        ),
        pytest.param(("rule add from 10.1.0.1 unreachable",), [], id="no table"),
        pytest.param(
            tuple(f"rule add from 10.1.0.{n} lookup {990 + n}" for n in range(1, 20)),
            ["v4"],
            id="many tables",
        ),
    ],
)
def test_a_default_route_counts_in_each_table_that_a_rule_uses(
    namespace: NetNamespace, rules: tuple[str, ...], default: list[str]
) -> None:
    namespace.ip(NETWORK, "route add default dev v4 table 1000")
    for rule in rules:  # one by one: a batch is of one family
        subprocess.run([*namespace.wrapper, "ip", *rule.split()], check=True)
    assert asked(namespace)[3] == default


def test_truncated_messages_are_ignored() -> None:
    assert owner_of_address(b"\x02\x18") is None
    assert list(legs(b"\x02", (254,))) == []
    assert table_of(b"\x02") == 0


@pytest.mark.parametrize(
    ("address", "is_local"),
    [
        (b"\xa9\xfe\x01\x02", True),
        (b"\xa9\xfd\x01\x02", False),
        (b"\xe0\x00\x00\x01", True),
        (b"\xfe\x80" + bytes(14), True),
        (b"\xfe\xbf" + bytes(14), True),
        (b"\xfe\xc0" + bytes(14), False),
        (b"\xff\x02" + bytes(14), True),
        (b"\xfd\x00" + bytes(14), False),
    ],
)
def test_link_local_and_multicast_addresses_are_distinguished(
    address: bytes,
    is_local: bool,  # noqa: FBT001
) -> None:
    assert is_link_local(address) is is_local


def test_a_route_counts_if_it_is_unicast_and_in_a_table_in_use() -> None:
    header = struct.Struct("=BBBBBBBBI")
    out = attribute(4, struct.pack("=I", 7))
    for table, kind, found in ((254, 1, [7]), (100, 1, []), (254, 2, [])):
        message = header.pack(2, 24, 0, 0, table, 2, 0, kind, 0) + out
        assert list(legs(message, (254,))) == found


ROUTE = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
NET = "\t00000000\t{}\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"


@pytest.mark.parametrize(
    "line",
    [
        "v4\t000200C0" + NET.format("0000"),
        "v4\t0000FEA9" + NET.format("0001"),
        "v4\tnothing" + NET.format("0001"),
        "v4\t000200C0\n",
        "other\t000200C0" + NET.format("0001"),
    ],
    ids=["down", "link-local", "no number", "cut short", "another interface"],
)
def test_lines_of_procfs_that_do_not_count(tmp_path: Path, line: str) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/route").write_text(ROUTE + line)
    (tmp_path / "net/if_inet6").write_text("x 02 40 00 80 v4\nshort\n")
    with sysfs.folder(tmp_path) as proc:
        assert proc is not None
        assert addresses.from_procfs(proc, ("v4",)) == OwnRoutes()
        (tmp_path / "net/route").write_text(ROUTE + "v4\t000200C0" + NET.format("0001"))
        assert addresses.from_procfs(proc, ("v4",)) == OwnRoutes(("v4",), ("v4",))
