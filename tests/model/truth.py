"""What must hold once everything is quiet: kubelet has the truth, and nothing is left over."""

from __future__ import annotations

import json
from collections import Counter

from agent.bus import Bus
from agent.discovery.scan import scan
from agent.export.cdi import cdi_kind, has_cdi_entry
from agent.health.pool_health import assess_pool
from agent.kubelet.resource_locks import ResourceLocks
from agent.model.answers import DeviceListing
from agent.model.link import Links
from agent.model.plugin_events import PoolServerState
from agent.pools.allocated import AllocatedDevices, PodOwner
from agent.pools.assign import assign
from agent.pools.pool import Pools
from agent.status.readiness import Readiness, readiness
from tests.model.kubelet import Seen
from tests.model.node import PREFIX, Node

FIXED_TASKS = Counter(
    {
        "Node._live": 1,
        "Startup._live": 1,
        "KubeletWatch.run": 1,
        "PodResourcesPoller.run": 1,
        "RdmaPortWatch.run": 1,
        "RescanLoop.run": 1,
        "Reconciler.run": 1,
        "scan_silent_facts": 1,
        "ResourceLocks.run": 1,
        "follow_tree": 1,
        "ConfigWatcher.run": 1,
        "ConfigWatcher._follow": 1,
        "ConfigWatcher._reload_when": 1,
        "ConfigWatcher._reload_asked": 1,
        "Endpoints.run": 1,
        "Endpoints._admin": 1,
        "ReadinessLogger.run": 1,
    }
)
TASKS_OF_A_POOL = ("ResourcePlugin.run", "ResourcePlugin._follow_files", "request_handler")
FIXED_SOCKETS = 5
"""The loop's own pair, the admin socket, kubelet.sock, and that of pod-resources."""
SOCKETS_OF_A_POOL = 3
"""One that listens, and both ends of kubelet's connection."""


def assigned(node: Node) -> Pools:
    """Every pool of the configuration, worked out anew from the host and the pods as they are."""
    snapshot = scan(node.roots)
    node.facts |= snapshot.by_id
    held = node.pods.held
    known = {i: node.facts[i] for i in held if i in node.facts}
    holders = {device: PodOwner(resource) for device, resource in held.items()}
    return assign(snapshot, node.wanted, AllocatedDevices(holders, known, complete=True))


def offers(pools: Pools) -> dict[str, DeviceListing]:
    """What kubelet should have of each pool."""
    pools_health = (assess_pool(None, p, pools, Links(), 0.0, {}) for p in pools.pools)
    return {offer.resource: offer for offer in (o.offer() for o in pools_health)}


def servers_of(node: Node) -> tuple[PoolServerState, ...]:
    """The agent's word on its pools."""
    return node.run(_servers(node))  # type: ignore[no-any-return]


def check_registered(node: Node) -> None:
    """Every pool that the agent serves is with kubelet, and kubelet has no other."""
    view, servers = node.kubelet.view(), servers_of(node)
    assert {s.resource for s in servers if s.registered_by and s.stream_live} == view.keys()
    assert {s.resource for s in servers} == view.keys()
    assert node.streams() == Counter(view.keys())
    assert node.sockets() == sorted(s.socket or "" for s in servers)


def check_resources(node: Node) -> None:
    """Every pool that kubelet must have is there, and no other than those of the configuration."""
    resources, view = {p.resource for p in node.wanted.pools}, node.kubelet.view()
    assert {p.resource for p in assigned(node).pools if p.members} <= view.keys() <= resources


def check_view(node: Node) -> None:
    """Kubelet's view is the truth."""
    pools, view = assigned(node), node.kubelet.view()
    truth = offers(pools)
    told = {r: tuple((d.id, d.healthy) for d in o.devices) for r, o in truth.items()}
    assert _comparable(node, pools, view) == _comparable(node, pools, told)
    assert view.keys() <= truth.keys()
    for config in node.wanted.pools:
        assert config.resource in view or not config.advertise_empty
    assert all(resource.startswith(PREFIX) for resource in view)
    prefers = {r: c.prefers for r, c in node.kubelet.clients.items() if r in view}
    assert prefers == dict.fromkeys(view, True)
    node.shown |= {resource for resource, devices in view.items() if devices}
    assert node.shown <= view.keys()
    assert node.run(_readiness(node)).missing == ()


async def _servers(node: Node) -> tuple[PoolServerState, ...]:
    return node.daemon.state().servers


async def _readiness(node: Node) -> Readiness:
    return readiness(node.daemon.state())


def _comparable(node: Node, pools: Pools, view: dict[str, Seen]) -> dict[str, Seen]:
    """Lists in their order, unless one has a device of which little may be known."""
    seen = pools.snapshot.by_id
    is_known = all(device in seen for device in node.pods.held)
    return {r: d if is_known else tuple(sorted(d)) for r, d in view.items() if d}


def check_pods(node: Node) -> None:
    """What pods hold stays where it is, and is Unhealthy if it is no more; nothing else is so."""
    view, seen = node.kubelet.view(), scan(node.roots).by_id
    configured = {p.resource for p in node.wanted.pools}
    for device, resource in node.pods.held.items():
        places = {
            r: dict(devices)[device] for r, devices in view.items() if device in dict(devices)
        }
        assert places.keys() == {resource} & configured
        assert device in seen or not any(places.values())
    lists = [device for devices in view.values() for device, _ in devices]
    assert len(lists) == len(set(lists))


def check_answers(node: Node) -> None:
    """Every device that kubelet may give is given, and is the one asked for; none that is gone is.

    Kubelet records nothing of these answers.
    """
    seen = scan(node.roots).by_id
    for resource, devices in node.kubelet.view().items():
        for device, is_healthy in devices:
            answer = node.run(node.kubelet.allocate(resource, device))
            assert answer is not None or not is_healthy
            if answer is not None:
                assert device in seen
                assert _envs(answer.envs) == [device]


def _envs(envs: dict[str, str]) -> list[str]:
    return [value for name, value in envs.items() if not name.endswith("_INFO")]


def check_cdi(node: Node) -> None:
    """The specs name the devices of their pools, and what pods may still need."""
    pools = assigned(node)
    host = pools.snapshot.nodes
    wanted = {
        (cdi_kind(p.config), m.device.id)
        for p in pools.pools
        for m in p.members
        if m.present and has_cdi_entry(m, host)
    }
    found = _cdi_entries(node)
    assert len(found) == len(set(found))
    assert wanted <= set(found)
    needed = node.pods.held.keys() | node.pods.answered
    assert {device for _, device in set(found) - wanted} <= needed


def named_by_cdi(node: Node) -> set[str]:
    """The devices that any spec names."""
    return {device for _, device in _cdi_entries(node)}


def _cdi_entries(node: Node) -> list[tuple[str, str]]:
    """Kind and name of each device of all specs."""
    specs = [json.loads(path.read_bytes()) for path in node.roots.cdi.glob("*")]
    return [(spec["kind"], device["name"]) for spec in specs for device in spec["devices"]]


def check_nothing_is_left_over(node: Node) -> None:
    """One socket, one stream and one connection for each pool, and the tasks that belong to it."""
    servers = servers_of(node)
    of_pools = Counter(dict.fromkeys(TASKS_OF_A_POOL, len(servers)))
    assert node.tasks() == FIXED_TASKS + of_pools
    assert Node.open_files()["socket"] - node.files_before["socket"] == (
        FIXED_SOCKETS + SOCKETS_OF_A_POOL * len(servers)
    )


def check_locks(node: Node) -> None:
    """Another agent could take none of the resources that are served, and every other."""
    with ResourceLocks(node.roots, Bus()) as second:
        assert second.others() == {server.resource for server in servers_of(node)}


def check_all(node: Node) -> None:
    """All of it."""
    check_registered(node)
    check_view(node)
    check_pods(node)
    check_cdi(node)
    check_locks(node)
