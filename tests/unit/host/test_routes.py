"""Default routes as a real kernel tells them, by netlink and by procfs, in a network namespace."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.host import netlink, routes, sysfs
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
def test_nexthop_objects_are_resolved_to_interfaces(
    namespace: NetNamespace, compatible: int
) -> None:
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


def test_a_default_route_may_have_a_destination_attribute_or_not() -> None:
    explicit = attribute(1, bytes(4))
    assert default_route_legs(route(OUT_7)) == ((7,), None)
    assert default_route_legs(route(explicit, OUT_7)) == ((7,), None)


def test_the_table_attribute_overrides_the_header() -> None:
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


def test_multipath_nexthops_of_any_length_are_read() -> None:
    gateway = attribute(5, bytes(4))
    first = struct.pack("=HBBi", 8 + len(gateway), 0, 0, 3) + gateway
    second = struct.pack("=HBBi", 8, 0, 0, 5)
    assert default_route_legs(route(attribute(9, first + second))) == ((3, 5), None)


@pytest.mark.parametrize("cut", range(len(route(OUT_7))))
def test_a_truncated_message_names_no_interface(cut: int) -> None:
    assert default_route_legs(route(OUT_7)[:cut]) == ((), None)


def test_an_interface_index_is_the_first_four_bytes_of_its_attribute() -> None:
    longer = attribute(4, struct.pack("=I", 7) + b"\1\0\0\0")
    assert default_route_legs(route(longer)) == ((7,), None)


class Kernel:
    """Answers route dumps; the first ``interrupted`` of them are interrupted by a change."""

    def __init__(self, interrupted: int = 0) -> None:
        self.asked: list[tuple[int, int]] = []
        """Family and table (0 = all) of each question."""
        self._interrupted = interrupted

    def answer(self, _protocol: int, question: bytes, *, strict: bool = False) -> Iterator[bytes]:
        assert strict
        ((_kind, _flags, payload),) = netlink.messages(question)
        family, *filters = _RTMSG.unpack_from(payload)
        assert not any(filters)
        tables = [value for kind, value in netlink.attributes(payload[_RTMSG.size :]) if kind == 15]
        self.asked.append(
            (family, *(struct.unpack("=I", table)[0] for table in tables or [bytes(4)]))
        )
        if len(self.asked) <= self._interrupted:
            raise InterruptedError
        yield route(attribute(4, struct.pack("=I", 1)))


def asked_of(kernel: Kernel, tables: set[int], monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setattr(netlink, "answer", kernel.answer)
    monkeypatch.setattr(socket, "if_indextoname", lambda index: f"eth{index}")
    return routes.from_kernel(tables)


def test_a_dump_that_a_change_interrupts_is_repeated_up_to_five_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert asked_of(Kernel(interrupted=4), {254}, monkeypatch) == ("eth1",)
    always = Kernel(interrupted=99)
    with pytest.raises(InterruptedError):
        asked_of(always, {254}, monkeypatch)
    assert always.asked == [(socket.AF_INET, 254)] * 5


@pytest.mark.parametrize("count", [1, 8])
def test_with_few_tables_only_their_routes_are_dumped(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    kernel, tables = Kernel(), {*range(254, 254 - count, -1)}
    asked_of(kernel, tables, monkeypatch)
    families = (socket.AF_INET, socket.AF_INET6)
    assert kernel.asked == [(family, table) for family in families for table in sorted(tables)]


def test_with_many_tables_all_routes_are_dumped_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Kernel()
    asked_of(kernel, {*range(246, 255)}, monkeypatch)
    assert kernel.asked == [(socket.AF_INET, 0), (socket.AF_INET6, 0)]


@needs_root
def test_routes_of_many_tables_are_found_and_those_of_unused_tables_are_not(
    namespace: NetNamespace,
) -> None:
    namespace.ip(
        "route add default via 10.1.0.2 table 104",
        "route add default via 10.2.0.2 table 1000",
        "route add default via 10.3.0.2 table 2000",
    )
    ask = "from agent.host import routes; print(*routes.from_kernel({*range(100, 110), 1000}))"
    run = [*namespace.wrapper, sys.executable, "-c", ask]
    assert subprocess.run(run, check=True, capture_output=True).stdout.split() == [b"v4", b"w4"]


def test_a_truncated_nexthop_group_has_its_complete_members() -> None:
    members = struct.pack("=IBBHIB", 1, 0, 0, 0, 2, 0)
    message = bytes(8) + attribute(1, struct.pack("=I", 10)) + attribute(2, members)
    assert parse_nexthop(message) == (10, Nexthop(group=(1,)))


def test_a_nexthop_group_names_its_members() -> None:
    members = struct.pack("=IBBHIBBH", 1, 0, 0, 0, 2, 0, 0, 0)
    message = bytes(8) + attribute(1, struct.pack("=I", 10)) + attribute(2, members)
    assert parse_nexthop(message) == (10, Nexthop(group=(1, 2)))


def test_an_unknown_or_a_blackhole_nexthop_has_no_interface() -> None:
    known = {1: Nexthop(ifindex=4), 2: Nexthop(), 10: Nexthop(group=(1, 2, 3))}
    assert resolve(10, known) == (4,)
    assert resolve(99, known) == ()


def test_a_procfs_without_route_tables_has_no_default_route(tmp_path: Path) -> None:
    with sysfs.folder(tmp_path) as proc:
        assert proc is not None
        assert routes.from_procfs(proc) == ()


NET, OTHER_NET = "00000000", "0000000A"
V6, OTHER_V6 = "0" * 32, "fd000001" + "0" * 24


def ipv4_line(name: str, *, to: str = NET, flags: str = "0003", mask: str = NET) -> str:
    return f"{name} {to} 0100000A {flags} 0 0 0 {mask}"


def ipv6_line(name: str, *, to: str = V6, length: str = "00", flags: str = "00000003") -> str:
    return f"{to} {length} {V6} 00 {OTHER_V6} 00000400 00000001 00000000 {flags} {name}"


def from_tables(proc: Path, table: str, *lines: str) -> tuple[str, ...]:
    """The default routes by one table of procfs."""
    (proc / "net").mkdir()
    (proc / "net" / table).write_text("".join(f"{line}\n" for line in lines))
    with sysfs.folder(proc) as folder:
        assert folder is not None
        return routes.from_procfs(folder)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param(ipv4_line("eth1"), ("eth1",), id="shortest form"),
        pytest.param(ipv4_line("eth1") + " 0 0 0", ("eth1",), id="with MTU, window and IRTT"),
        pytest.param(ipv4_line("eth1", flags="0001"), ("eth1",), id="without a gateway"),
        pytest.param(ipv4_line("eth1", flags="0002"), (), id="not up"),
        pytest.param(ipv4_line("eth1", flags="0201"), (), id="rejects"),
        pytest.param(ipv4_line("eth1", flags="zz"), (), id="flags that are no number"),
        pytest.param(ipv4_line("eth1", to=OTHER_NET), (), id="another destination"),
        pytest.param(ipv4_line("eth1", mask="000000FF"), (), id="another mask"),
        pytest.param(ipv4_line("eth1", to=OTHER_NET, mask=OTHER_NET), (), id="neither"),
        pytest.param(ipv4_line("lo"), (), id="loopback"),
        pytest.param(ipv4_line("*"), (), id="no interface"),
        pytest.param("Iface Destination Gateway", (), id="headline"),
        pytest.param("eth1 00000000", (), id="cut short"),
    ],
)
def test_a_line_of_the_ipv4_table_is_a_default_route_if_it_is_up_and_has_destination_0(
    tmp_path: Path, line: str, found: tuple[str, ...]
) -> None:
    assert from_tables(tmp_path, "route", line) == found
    after_another = from_tables(tmp_path / "net", "route", line, ipv4_line("eth9"))
    assert after_another == (*found, "eth9")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param(ipv6_line("eth1"), ("eth1",), id="default route"),
        pytest.param(ipv6_line("eth1", flags="00000001"), ("eth1",), id="without a gateway"),
        pytest.param(ipv6_line("eth1", flags="00000002"), (), id="not up"),
        pytest.param(ipv6_line("eth1", flags="00200200"), (), id="rejects"),
        pytest.param(ipv6_line("eth1", flags="00000201"), (), id="up and rejects"),
        pytest.param(ipv6_line("eth1", to=OTHER_V6, length="40"), (), id="a network"),
        pytest.param(ipv6_line("lo"), (), id="loopback"),
        pytest.param(ipv6_line("eth1").rpartition(" ")[0], (), id="cut short"),
        pytest.param("", (), id="empty"),
    ],
)
def test_a_line_of_the_ipv6_table_is_a_default_route_if_it_is_up_and_has_destination_0(
    tmp_path: Path, line: str, found: tuple[str, ...]
) -> None:
    assert from_tables(tmp_path, "ipv6_route", line) == found
    after_another = from_tables(tmp_path / "net", "ipv6_route", line, ipv6_line("eth9"))
    assert after_another == (*found, "eth9")


def test_a_route_table_that_is_a_folder_counts_as_absent(tmp_path: Path) -> None:
    (tmp_path / "net/route").mkdir(parents=True)
    with sysfs.folder(tmp_path) as proc:
        assert proc is not None
        assert routes.from_procfs(proc) == ()
