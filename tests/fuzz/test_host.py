from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from agent.config.load import load_config
from agent.config.schema import Config
from agent.discovery.scan import scan
from agent.health.pool_health import PoolHealth, assess_pool
from agent.http.counters import Counters
from agent.http.exposition import exposition
from agent.model.address import bus_order
from agent.model.link import Links
from agent.model.snapshot import Snapshot
from agent.plugin.encoding import encode_list
from agent.pools.assign import assign
from agent.pools.pool import Pool, Pools
from agent.pools.reasons import pool_verdict, reason
from agent.roots import Roots
from agent.rpc.agent.v1 import Explanation, StatusReply
from agent.status.explain import explain
from agent.status.json_mapping import compact
from agent.status.printable import encoded, legible
from agent.status.report import status
from agent.status.state import AgentState
from tests.fuzz.configs import right_configs
from tests.fuzz.hosts import (
    CONTENTS,
    HOSTS,
    NAMES,
    TARGETS,
    Damage,
    HostPlan,
    damaged,
    entries,
    laid_out,
    rich_host,
    without_privilege,
)
from tests.fuzz.json_text import write
from tests.fuzz.profile import FACTOR, fuzz
from tests.support.host_builder import HostBuilder
from tests.support.pools import config, pool
from tests.support.protocol import message

SAMPLE = 100
BROKEN = frozenset({errno.ENOTDIR, errno.ELOOP, errno.EACCES})
NEEDS = frozenset({"ddp", "enable_rdma"})


@contextmanager
def refusing_broken_lists() -> Iterator[None]:
    """A host whose lists of functions or devices cannot be read is refused: pass over it."""
    try:
        yield
    except OSError as error:
        if error.errno not in BROKEN:
            raise
        reject()


def scanned(plan: HostPlan) -> Snapshot:
    with laid_out(plan) as roots, without_privilege(), refusing_broken_lists():
        return scan(roots, needs=NEEDS)
    raise AssertionError


def as_config(document: Any, seed: int) -> Config:  # noqa: ANN401 - JSON is what it is
    data = write(document, seed).text.encode()
    loaded = load_config(data, source="config.json", default_prefix="intel.com")
    assert loaded.config is not None
    return loaded.config


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@fuzz(25)
@given(HOSTS)
def test_any_host_can_be_scanned_twice_with_the_same_sorted_outcome(plan: HostPlan) -> None:
    with laid_out(plan) as roots, without_privilege():
        before = open_files()
        with refusing_broken_lists():
            first, second = scan(roots, needs=NEEDS), scan(roots, needs=NEEDS)
        assert open_files() == before
    assert first == second
    ids = [d.id for d in first.devices]
    assert len(ids) == len(set(ids))
    functions = [d.id for d in first.devices if d.id == d.pci_address]
    assert functions == sorted(functions, key=bus_order)
    assert list(first.default_route_netdevs) == sorted(first.default_route_netdevs)
    assert list(first.netdev_parents) == sorted(first.netdev_parents)
    for device in first.devices:
        assert [n.name for n in device.netdevs] == sorted(n.name for n in device.netdevs)
        assert list(device.uio) == sorted(device.uio)


def check_pools(pools: Pools) -> None:
    members = [m.device.id for p in pools.pools for m in p.members]
    assert len(members) == len(set(members))
    for made in pools.pools:
        check_funnel(made, pools)


def check_funnel(made: Pool, pools: Pools) -> None:
    number_of = dict.fromkeys(range(len(made.config.selectors)), 0)
    for m in made.members:
        number_of[m.selector_object] += 1
    for number, count in number_of.items():
        steps = [s.remaining for s in made.funnel if s.selector_object in {-1, number}]
        assert steps == sorted(steps, reverse=True)
        assert steps[-1] >= count
        if number == 0:
            assert steps[-1] == count
    assert pools.by_resource[made.resource] is made


@fuzz(20)
@given(HOSTS, right_configs(), st.integers(0, 99))
def test_pools_of_any_host_are_consistent_with_their_explanation(
    plan: HostPlan,
    document_: Any,  # noqa: ANN401 - JSON is what it is
    seed: int,
) -> None:
    made = as_config(document_, seed)
    pools = assign(scanned(plan), made)
    check_pools(pools)
    for device in pools.snapshot.devices:
        told = reason(device, pools)
        assert told.resource == pools.resource_of.get(device.id)
        assert (told.refusal is None) == (told.resource is not None)
        for candidate in made.pools:
            verdict = pool_verdict(device, candidate, pools)
            assert verdict.chosen == (told.resource == candidate.resource)
            assert verdict.chosen == (verdict.refusal is None)


def outlooks_of(pools: Pools) -> dict[str, PoolHealth]:
    return {p.resource: assess_pool(None, p, pools, Links(), 0.0, {}) for p in pools.pools}


def check_what_leaves(pools: Pools) -> None:
    """Kubelet, people and their tools can read all that is said of it."""
    pools_health = outlooks_of(pools)
    state = AgentState(pools=pools, pools_health=pools_health)
    for pool_health in pools_health.values():
        devices = pool_health.offer().devices
        read = message("v1beta1.ListAndWatchResponse").FromString(encode_list(devices))
        assert [d.id for d in read.devices] == [d.id for d in devices]
    told = status(state, devices=True)
    assert StatusReply.parse(encoded(told)) == legible(told)
    assert json.loads(compact(told))
    for subject in (*pools.snapshot.by_id, *pools.snapshot.netdev_owner, *pools_health):
        answer = explain(subject, state)
        assert Explanation.parse(encoded(answer)) == legible(answer)
        assert compact(answer).decode()
    assert exposition(state, Counters()).body


@fuzz(20)
@given(HOSTS, right_configs(), st.integers(0, 99))
def test_any_host_can_be_shown_by_every_command(
    plan: HostPlan,
    document_: Any,  # noqa: ANN401 - JSON is what it is
    seed: int,
) -> None:
    check_what_leaves(assign(scanned(plan), as_config(document_, seed)))


EVERYTHING = config(
    pool("net", {"isRdma": True}, {"acpiIndexes": ["1"]}, {"pfNames": ["x#1"]}, {}),
    pool("accel", deviceType="accelerator"),
    pool("sf", {"auxTypes": ["sf"], "linkTypes": ["ether"]}, deviceType="auxNetDevice"),
    pool("none", {"pKeys": ["1"], "ddpProfiles": ["x"], "devices": ["1"], "drivers": ["x"]}),
    pool("vdpa", {"vdpaType": "vhost", "rootDevices": ["0000:3b:00.0"]}),
)
ODD = Damage("add", 0, b"", b"", b"")
WAYS = (
    *(attrs.evolve(ODD, kind=kind) for kind in ("remove", "forbid", "loop", "folder")),
    *(attrs.evolve(ODD, kind="write", content=content) for content in CONTENTS),
    *(attrs.evolve(ODD, kind="link", target=target) for target in TARGETS),
    *(attrs.evolve(ODD, kind="rename", name=name) for name in NAMES),
    *(attrs.evolve(ODD, kind="add", name=name, place=1) for name in NAMES),
    *(attrs.evolve(ODD, kind="add", name=name, place=2) for name in NAMES),
)


@pytest.fixture(scope="module")
def rich() -> Iterator[Roots]:
    with TemporaryDirectory(prefix="fuzz-") as folder:
        Path(folder).chmod(0o755)
        builder = HostBuilder(Path(folder))
        rich_host(builder)
        yield builder.roots


def test_every_entry_of_a_host_may_be_invalid_in_every_way(rich: Roots) -> None:
    """One oddity at a time, in each place; the short run takes a sample of the pairs."""
    places = entries(os.fsencode(rich.host))
    pairs = [(way, place) for way in WAYS for place in places]
    step = max(1, len(pairs) // (SAMPLE * FACTOR))
    plain = scan(rich, needs=NEEDS)
    failures: dict[str, tuple[Damage, bytes]] = {}
    for way, place in pairs[::step]:
        with damaged(way, place):
            try:
                with without_privilege():
                    snapshot = scan(rich, needs=NEEDS)
                pools = assign(snapshot, EVERYTHING)
                check_pools(pools)
                check_what_leaves(pools)
            except OSError as error:
                if error.errno not in BROKEN:
                    failures.setdefault(f"{error!r:.100}", (way, place))
            except Exception as error:  # noqa: BLE001 - all kinds are told at the end
                failures.setdefault(f"{error!r:.100}", (way, place))
    assert not failures
    assert scan(rich, needs=NEEDS) == plain
