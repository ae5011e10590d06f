"""Decides which representor represents which VF or SF, for the ports of all eswitches.

Runs after PFs and before VFs are read: the netdev of a representor is below its PF, below another
PF of the same switch, or below no function.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

import attrs

from agent.discovery.functions import Pf, ScanContext
from agent.host import netdev, switchdev, sysfs
from agent.host.switchdev import Representor
from agent.model.address import bdf_order


def with_ports(
    host: ScanContext, pfs: Mapping[str, Pf], owned: set[str], not_representors: AbstractSet[str]
) -> Iterator[tuple[str, Pf]]:
    """Give every PF the representors of its VFs and SFs, wherever their netdevs are in sysfs.

    ``owned`` has the PFs' netdevs; representors below no function are added to it. Netdevs in
    ``not_representors`` are not read. A PF with unchanged ports stays the same record.
    """
    elsewhere: dict[str, list[Representor]] = defaultdict(list)
    if any(pf.eswitch.switch_id for pf in pfs.values()):
        below = (r for pf in pfs.values() for r in pf.eswitch.representors)
        for representor in (*below, *_detached(host, owned, not_representors)):
            elsewhere[representor.switch_id or ""].append(representor)
    for bdf, pf in pfs.items():
        others = elsewhere.get(pf.eswitch.switch_id or "", ())
        ports: Mapping[switchdev.Port, str] = {}
        if others or pf.eswitch.representors:
            ports = switchdev.ports_of(pf.eswitch, bdf_order(bdf)[3], others)
        yield bdf, pf if ports == pf.ports else attrs.evolve(pf, ports=ports)


def _detached(
    host: ScanContext, owned: set[str], not_representors: AbstractSet[str]
) -> Iterator[Representor]:
    """Representors whose netdevs are below no function."""
    if host.net.folder is None:
        return
    for name in sorted(set(host.net.names).difference(owned, not_representors)):
        with sysfs.folder(name, host.net.folder) as folder:
            port = netdev.read_port(folder, name) if folder is not None else None
            representor = switchdev.representor_of(port) if port else None
            if representor is not None:
                owned.add(name)
                yield representor
