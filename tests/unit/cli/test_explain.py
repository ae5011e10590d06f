from __future__ import annotations

import io

import attrs

from agent.cli.console import Screen
from agent.cli.explain import show
from agent.model.link import LinkFact, Links
from agent.status.explain import explain
from agent.status.state import AgentState
from tests.support.devices import host, pf, vf
from tests.support.moment import NOW, moment
from tests.support.pools import held, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
VF0, VF1 = (vf(f"0000:3b:02.{i}", PF0, i) for i in range(2))
NODE = host(PF0, VF0, VF1)
NET = pool("net", {"pfNames": ["pf0#0"]}, {"vendors": ["15b3"], "drivers": ["iavf"]})
LATE = pool("late", {"drivers": ["iavf"]})


def shown(subject: str, state: AgentState) -> str:
    out = io.StringIO()
    show(explain(subject, state), Screen(out))
    return out.getvalue()


def test_a_device_is_explained_with_all_verdicts_in_order() -> None:
    down = Links().with_fact(LinkFact(4, "pf0", admin_up=True, carrier=False))
    netdev = attrs.evolve(PF0.netdevs[0], ifindex=4)
    node = host(attrs.evolve(PF0, netdevs=(netdev,)), VF0, VF1)
    state = moment(node, NET, LATE, links=down, held=held("net", VF0), changed_at={VF0.id: NOW})
    assert shown(VF0.id, state) == (
        "0000:3b:02.0: selected by intel.com/net, selector object 1; held by pod default/pod\n"
        "  kind:          netDevice\n"
        "  role:          VF\n"
        "  vendor:device: 8086:154c\n"
        "  class:         0x020000\n"
        "  driver:        iavf\n"
        "  PF:            pf0 (0000:3b:00.0), index 0\n"
        "  health:        Unhealthy since 2023-11-14T22:13:20Z, no carrier: "
        "PF pf0 has no carrier\n"
        "  pod:           default/pod (main)\n"
        "\n"
        "intel.com/net: selected by intel.com/net, selector object 1; held by pod default/pod\n"
        "  SELECTOR     WANTED  FOUND        VERDICT\n"
        "  [1] pfNames  pf0#0   pf0#0        passed\n"
        "  [1] =>                            matches\n"
        "  [2] vendors  15b3    vendor 8086  refused\n"
        "  [2] drivers  iavf    driver iavf  passed\n"
        "  [2] =>                            vendors: vendor 8086, wanted 15b3\n"
        "\n"
        "intel.com/late: taken by the earlier pool intel.com/net\n"
        "  SELECTOR  WANTED  FOUND        VERDICT\n"
        "  drivers   iavf    driver iavf  passed\n"
        "  =>                             taken by the earlier pool intel.com/net\n"
    )


def test_a_pool_is_explained_with_funnel_members_and_overlaps() -> None:
    assert shown("net", moment(NODE, NET, LATE)) == (
        "intel.com/net (netDevice): 1 device, 1 healthy\n"
        "  note: vendors: no netDevice of vendor 15b3 on this host; present: 8086 (2)\n"
        "  devices that the later pool intel.com/late matches too: 1\n"
        "\n"
        "  FUNCTIONS LEFT  AFTER           WANTED\n"
        "       3          kind            netDevice\n"
        "       2          without VFs\n"
        "       1          [1] pfNames     pf0#0\n"
        "       1          [1] not in use\n"
        "       1          [1] not taken\n"
        "       0          [2] vendors     15b3\n"
        "       0          [2] drivers     iavf\n"
        "       0          [2] not in use\n"
        "       0          [2] not taken\n"
        "\n"
        "  DEVICE        PF            HEALTH   POD\n"
        "  0000:3b:02.0  0000:3b:00.0  Healthy  -\n"
    )


def test_the_pool_that_lost_devices_names_the_pool_that_has_them() -> None:
    assert "matching devices in the earlier pool intel.com/net: 1" in shown(
        "late", moment(NODE, NET, LATE)
    )


def test_an_empty_pool_says_why() -> None:
    text = shown("none", moment(NODE, pool("none", {"vendors": ["15b3"]})))
    assert text.startswith("intel.com/none (netDevice): no devices: it is not registered")
    assert "  why: vendors 15b3 leaves none of 2 functions" in text


def test_only_the_first_devices_of_a_large_pool_are_listed() -> None:
    many = host(PF0, *(vf(f"0000:3b:{2 + i // 8:02x}.{i % 8}", PF0, i) for i in range(40)))
    text = shown("all", moment(many, pool("all", {"pfNames": ["pf0"]})))
    assert "... 8 more; `status --devices` lists all" in text


def test_use_by_the_host_is_shown() -> None:
    node = attrs.evolve(host(PF0, pf("0000:18:00.0", "eno1")), default_route_netdevs=("eno1",))
    assert "  in use by the host: eno1 carries the default route\n" in shown("eno1", moment(node))
