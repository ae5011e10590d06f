"""A moment of the agent without an agent: one scan, the configuration, what kubelet says."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from argparse import Namespace

from agent import __version__
from agent.cli.arguments import DEFAULT_CONFIG_FILE
from agent.cli.discover import ALL_NEEDS
from agent.cli.host import config_or_none, node_name, roots_of, wants_netlink
from agent.config.keeper import ConfigStanding
from agent.discovery.scan import scan
from agent.health.outlook import look
from agent.kubelet.podresources import read_holdings
from agent.model.link import Links
from agent.pools.assign import assign
from agent.pools.held import Held, Holder
from agent.roots import Roots
from agent.standing.state import AgentState

KUBELET_LIMIT_S = 2.0


def moment_of(arguments: Namespace) -> AgentState:
    """What an agent with these arguments would know at its start. Raises ConfigError."""
    roots = roots_of(arguments)
    config, loaded = config_or_none(arguments, DEFAULT_CONFIG_FILE)
    for line in loaded.lines() if loaded else ():
        print(line, file=sys.stderr)
    snapshot = scan(roots, netlink=wants_netlink(arguments, roots), needs=ALL_NEEDS)
    pools = assign(snapshot, config, _held(roots))
    refused = (
        tuple(r.resource or f"resourceList[{r.index}]" for r in loaded.refused) if loaded else ()
    )
    path = loaded.source if loaded else DEFAULT_CONFIG_FILE
    return AgentState(
        version=__version__,
        pid=os.getpid(),
        node=node_name() or "",
        now=time.time(),
        config=ConfigStanding(path, in_force=True, refused=refused),
        serving=True,
        pools=pools,
        outlooks={p.resource: look(None, p, pools, Links(), 0.0, {}) for p in pools.pools},
    )


def _held(roots: Roots) -> Held:
    """Who holds what, if kubelet tells; not to know is normal on a recorded host."""
    if not roots.pod_resources_socket.is_socket():
        return Held()
    told = asyncio.run(read_holdings(roots, lambda _: True, limit_s=KUBELET_LIMIT_S))
    if told is None:
        return Held()
    holders = {
        device_id: Holder(h.resource, h.pod, h.namespace, h.container)
        for device_id, h in told.by_device.items()
    }
    return Held(holders=holders)
