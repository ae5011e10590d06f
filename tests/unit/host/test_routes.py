"""Default routes as a real kernel tells them, by netlink and by procfs, in a network namespace."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.host import routes, sysfs
from agent.host.netlink import attribute
from agent.host.routes import Nexthop, default_route_legs, parse_nexthop, resolve
from tests.support.inside import in_own_network
from tests.support.netns import NetNamespace, needs_root

_ASK = """
import json
from agent.host import routes, sysfs
with sysfs.folder("/proc") as proc:
    print(json.dumps([routes.from_kernel(), routes.from_procfs(proc)]))
"""


@pytest.fixture
def namespace() -> Iterator[NetNamespace]:
    """Three cables: v4, w4 and x4, each with an address."""
    with NetNamespace() as made:
        for number, name in enumerate(("v4", "w4", "x4"), 1):
            made.veth(name, f"{name}peer")
            made.ip(
                f"address add 10.{number}.0.1/24 dev {name}",
                f"address add fd00:{number}::1/64 dev {name} nodad",
            )
        yield made


def asked(namespace: NetNamespace) -> tuple[list[str], list[str]]:
    """What the kernel's dump and what procfs say, inside."""
    run = [*namespace.wrapper, sys.executable, "-c", _ASK]
    answer = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
    return answer[0], answer[1]


@needs_root
@pytest.mark.parametrize(
    ("commands", "netlink", "procfs"),
    [
        pytest.param((), [], [], id="none"),
        pytest.param(("route add default via 10.1.0.2 dev v4",), ["v4"], ["v4"], id="ipv4"),
        pytest.param(("route add ::/0 via fd00:1::2 dev v4",), ["v4"], ["v4"], id="ipv6"),
        pytest.param(("route add default dev w4",), ["w4"], ["w4"], id="without a gateway"),
        pytest.param(
            ("route add default nexthop via 10.1.0.2 dev v4 nexthop via 10.2.0.2 dev w4",),
            ["v4", "w4"],
            ["v4"],
            id="multipath, of which procfs tells the first leg",
        ),
        pytest.param(
            ("route add ::/0 nexthop via fd00:1::2 dev v4 nexthop via fd00:2::2 dev w4",),
            ["v4", "w4"],
            ["v4", "w4"],
            id="ipv6 multipath",
        ),
        pytest.param(
            ("route add default via 10.1.0.2", "route add default via 10.2.0.2 metric 500"),
            ["v4", "w4"],
            ["v4", "w4"],
            id="a second one of higher metric",
        ),
        pytest.param(
            ("route add default via 10.1.0.2", "route add ::/0 via fd00:2::2"),
            ["v4", "w4"],
            ["v4", "w4"],
            id="one of each family",
        ),
        pytest.param(("route add default via 10.1.0.2 table 100",), [], [], id="another table"),
        pytest.param(
            ("route add default via 10.1.0.2 table 1000",), [], [], id="a table above 255"
        ),
        pytest.param(("route add unreachable default",), [], [], id="unreachable"),
        pytest.param(("route add blackhole default",), [], [], id="black hole"),
        pytest.param(("route add unreachable ::/0 dev lo",), [], [], id="ipv6 unreachable"),
        pytest.param(("route add 10.9.0.0/16 via 10.1.0.2",), [], [], id="not a default route"),
        pytest.param(
            ("route add 0.0.0.0/1 via 10.1.0.2", "route add 128.0.0.0/1 via 10.2.0.2"),
            [],
            [],
            id="two halves are no default route",
        ),
        pytest.param(
            ("route add default via inet6 fd00:3::2 dev x4",),
            ["x4"],
            ["x4"],
            id="ipv4 over an ipv6 gateway",
        ),
    ],
)
def test_default_routes_are_found_in_every_form(
    namespace: NetNamespace, commands: tuple[str, ...], netlink: list[str], procfs: list[str]
) -> None:
    namespace.ip(*commands)
    assert asked(namespace) == (netlink, procfs)


@needs_root
@pytest.mark.parametrize("compatible", [0, 1])
def test_nexthop_objects_lead_to_interfaces(namespace: NetNamespace, compatible: int) -> None:
    namespace.ip(
        "nexthop add id 1 via 10.1.0.2 dev v4",
        "nexthop add id 2 via 10.2.0.2 dev w4",
        "nexthop add id 10 group 1/2",
        "nexthop add id 3 via fd00:3::2 dev x4",
        "route add default nhid 10",
        "route add ::/0 nhid 3",
    )
    setting = f"echo {compatible} > /proc/sys/net/ipv4/nexthop_compat_mode"
    subprocess.run([*namespace.wrapper, "sh", "-c", setting], check=True)
    assert asked(namespace)[0] == ["v4", "w4", "x4"]


@needs_root
def test_a_namespace_that_never_had_a_route_has_no_default_route() -> None:
    # its kernel has no main table yet, and ends the dump with ENOENT
    assert in_own_network(routes.from_kernel) == ()


@needs_root
def test_a_dump_of_many_routes_is_read_to_its_end(namespace: NetNamespace) -> None:
    namespace.ip(
        *(f"route add 10.{high}.{low}.0/24 via 10.1.0.2" for high in (8, 9) for low in range(256)),
        "route add default via 10.3.0.2",
    )
    assert asked(namespace) == (["x4"], ["x4"])


_RTMSG = struct.Struct("=BBBBBBBBI")


def route(*attributes: bytes, length: int = 0, table: int = 254, kind: int = 1) -> bytes:
    """A route message's payload."""
    return _RTMSG.pack(2, length, 0, 0, table, 3, 0, kind, 0) + b"".join(attributes)


OUT_7 = attribute(4, struct.pack("=I", 7))


def test_a_default_route_may_name_its_destination_or_not() -> None:
    explicit = attribute(1, bytes(4))
    assert default_route_legs(route(OUT_7)) == ((7,), None)
    assert default_route_legs(route(explicit, OUT_7)) == ((7,), None)


def test_the_table_attribute_outweighs_the_header() -> None:
    compat = 252  # RT_TABLE_COMPAT: the number did not fit into the header
    assert default_route_legs(
        route(OUT_7, attribute(15, struct.pack("=I", 1000)), table=compat)
    ) == (
        (),
        None,
    )
    assert default_route_legs(route(attribute(15, struct.pack("=I", 254)), OUT_7, table=0)) == (
        (7,),
        None,
    )


def test_multipath_legs_of_any_length_are_read() -> None:
    gateway = attribute(5, bytes(4))
    first = struct.pack("=HBBi", 8 + len(gateway), 0, 0, 3) + gateway
    second = struct.pack("=HBBi", 8, 0, 0, 5)
    assert default_route_legs(route(attribute(9, first + second))) == ((3, 5), None)


@pytest.mark.parametrize("cut", range(len(route(OUT_7))))
def test_a_message_that_is_cut_short_names_no_interface(cut: int) -> None:
    assert default_route_legs(route(OUT_7)[:cut]) == ((), None)


def test_a_nexthop_group_names_its_members() -> None:
    members = struct.pack("=IBBHIBBH", 1, 0, 0, 0, 2, 0, 0, 0)
    message = bytes(8) + attribute(1, struct.pack("=I", 10)) + attribute(2, members)
    assert parse_nexthop(message) == (10, Nexthop(group=(1, 2)))


def test_an_unknown_or_a_blackhole_nexthop_leads_nowhere() -> None:
    known = {1: Nexthop(ifindex=4), 2: Nexthop(), 10: Nexthop(group=(1, 2, 3))}
    assert resolve(10, known) == (4,)
    assert resolve(99, known) == ()


def test_a_procfs_without_route_tables_has_no_default_route(tmp_path: Path) -> None:
    with sysfs.folder(tmp_path) as proc:
        assert proc is not None
        assert routes.from_procfs(proc) == ()


def test_broken_lines_of_a_route_table_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/route").write_text(
        "Iface\tDestination\tGateway\n"
        "eth9\t00000000\t0100000A\tzz\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth1 00000000\n"
        "eth2\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\n"
    )
    with sysfs.folder(tmp_path) as proc:
        assert proc is not None
        assert routes.from_procfs(proc) == ("eth2",)


def test_a_route_table_that_is_a_folder_counts_as_absent(tmp_path: Path) -> None:
    (tmp_path / "net/route").mkdir(parents=True)
    with sysfs.folder(tmp_path) as proc:
        assert proc is not None
        assert routes.from_procfs(proc) == ()


def test_a_file_without_an_end_is_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "endless").symlink_to("/dev/zero")
    with sysfs.folder(tmp_path) as folder:
        assert folder is not None
        assert len(sysfs.read_all(folder, "endless")) <= 64 * 2**20 + 2**16
