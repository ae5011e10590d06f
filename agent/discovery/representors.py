"""Which representor stands for which VF or SF: the ports of all eswitches, told apart by a scan.

Between the PFs and their VFs: representors lie below their PF, below another PF of the same
switch, or below no function at all.
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
    host: ScanContext, pfs: Mapping[str, Pf], owned: set[str], passed_over: AbstractSet[str]
) -> Iterator[tuple[str, Pf]]:
    """Give every PF the representors of its VFs and SFs, wherever their netdevs lie.

    ``owned`` are the PFs' netdevs, to which stray representors are added. Those to be passed over
    are known to be none. A PF whose ports are as they were stays the same record.
    """
    elsewhere: dict[str, list[Representor]] = defaultdict(list)
    if any(pf.eswitch.switch_id for pf in pfs.values()):
        below = (r for pf in pfs.values() for r in pf.eswitch.representors)
        for representor in (*below, *_detached(host, owned, passed_over)):
            elsewhere[representor.switch_id or ""].append(representor)
    for bdf, pf in pfs.items():
        others = elsewhere.get(pf.eswitch.switch_id or "", ())
        ports: Mapping[switchdev.Port, str] = {}
        if others or pf.eswitch.representors:
            ports = switchdev.ports_of(pf.eswitch, bdf_order(bdf)[3], others)
        yield bdf, pf if ports == pf.ports else attrs.evolve(pf, ports=ports)


def _detached(
    host: ScanContext, owned: set[str], passed_over: AbstractSet[str]
) -> Iterator[Representor]:
    """Representors that no function's folder lists."""
    if host.net.folder is None:
        return
    for name in sorted(set(host.net.names).difference(owned, passed_over)):
        with sysfs.folder(name, host.net.folder) as folder:
            port = netdev.read_port(folder, name) if folder is not None else None
            representor = switchdev.representor_of(port) if port else None
            if representor is not None:
                owned.add(name)
                yield representor
