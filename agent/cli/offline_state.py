"""The state of an agent without a running agent: from one scan, the configuration and kubelet."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from argparse import Namespace

from agent import __version__
from agent.cli.arguments import DEFAULT_CONFIG_FILE
from agent.cli.discover import ALL_NEEDS
from agent.cli.inputs import config_or_none, node_name, roots_of, wants_netlink
from agent.config.schema import Config
from agent.config.watcher import ConfigStatus
from agent.discovery.scan import scan
from agent.health.pool_health import assess_pool
from agent.kubelet.checkpoint import CheckpointReader
from agent.kubelet.pod_list import AgentPod
from agent.kubelet.podresources import list_pod_resources
from agent.model.link import Links
from agent.pools.allocated import AllocatedDevices, PodOwner
from agent.pools.assign import assign
from agent.pools.needs import needs_of
from agent.roots import Roots
from agent.status.state import AgentState

KUBELET_LIMIT_S = 2.0


def moment_of(arguments: Namespace) -> AgentState:
    """The state of an agent with these arguments after its start. Raises ConfigError."""
    roots = roots_of(arguments)
    config, loaded = config_or_none(arguments, DEFAULT_CONFIG_FILE)
    for line in loaded.lines() if loaded else ():
        print(line, file=sys.stderr)
    needs = ALL_NEEDS | needs_of(config)
    snapshot = scan(roots, netlink=wants_netlink(arguments, roots), needs=needs)
    pools = assign(snapshot, config, _held(roots, config))
    refused = (
        tuple(r.resource or f"resourceList[{r.index}]" for r in loaded.refused) if loaded else ()
    )
    path = loaded.source if loaded else DEFAULT_CONFIG_FILE
    return AgentState(
        version=__version__,
        pid=os.getpid(),
        node=node_name() or "",
        now=time.time(),
        config=ConfigStatus(path, in_force=True, refused=refused),
        serving=True,
        pools=pools,
        pools_health={
            p.resource: assess_pool(None, p, pools, Links(), 0.0, {}) for p in pools.pools
        },
    )


def _held(roots: Roots, config: Config) -> AllocatedDevices:
    """The devices that pods hold, by kubelet's reports; none on a recorded host."""
    resources = {p.resource for p in config.pools}
    claims = CheckpointReader(roots).read()
    holders = {c.device_id: PodOwner(c.resource, uid=c.pod_uid) for c in claims or ()}
    if roots.pod_resources_socket.is_socket():
        request = list_pod_resources(
            roots, resources, AgentPod(node=node_name()), limit_s=KUBELET_LIMIT_S
        )
        if (report := asyncio.run(request)) is not None:
            listed = {
                device_id: PodOwner(h.resource, h.pod, h.namespace, h.container)
                for device_id, h in report.by_device.items()
            }
            holders = listed if report.is_complete else {**holders, **listed}
    return AllocatedDevices(holders=holders)
