"""Decides which netdevs of a PF are its own and which are representors; pure, by port names.

In switchdev mode the PF's ``net`` folder lists the uplink and the representors of everything that
the embedded switch connects. Port names are those of net/devlink/port.c: ``p<N>`` (``p<N>s<M>``
where a port is split, ``l<N>`` before it on a line card) is physical; ``pf<N>``, ``pf<N>vf<M>`` and
``pf<N>sf<M>`` are representors, of another controller with ``c<K>`` before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import inf

from agent.attrs_classes import frozen
from agent.model.device import Netdev

_UPLINK = re.compile(r"(?:l\d+)?p\d+(?:s\d+)?")
_REPRESENTOR = re.compile(r"(c\d+)?pf(\d+)(?:(vf|sf)(\d+))?")

Port = tuple[str, int]
"""``vf`` or ``sf``, and its number."""


@frozen
class Representor:
    """A netdev that represents a VF or SF of this host's own controller."""

    name: str
    switch_id: str | None
    pf_number: int
    port: Port


@frozen
class Eswitch:
    """A PF's netdevs, sorted into its own and representors."""

    own: tuple[Netdev, ...] = ()
    """Everything that is not a representor, sorted by name."""
    uplink: str | None = None
    """The netdev that carries the PF's traffic and names the PF."""
    switch_id: str | None = None
    representors: tuple[Representor, ...] = ()
    """Those of this host's own controller."""
    names: tuple[str, ...] = ()
    """All netdevs, including representors of other controllers."""


def is_representor(netdev: Netdev) -> bool:
    """Whether a netdev represents another function.

    Linux before 5.1 (mlx5) names the port of a VF's representor by its bare number.
    """
    port = netdev.phys_port_name
    if port is None:
        return False
    bare_number = netdev.phys_switch_id is not None and port.isdecimal()
    return bare_number or _REPRESENTOR.fullmatch(port) is not None


def representor_of(netdev: Netdev) -> Representor | None:
    """What a netdev represents; None for ports of PFs and of other controllers."""
    port = _REPRESENTOR.fullmatch(netdev.phys_port_name or "")
    if port is None or port[1] is not None or port[3] is None:
        return None
    return Representor(
        name=netdev.name,
        switch_id=netdev.phys_switch_id,
        pf_number=int(port[2]),
        port=(port[3], int(port[4])),
    )


def eswitch_of(netdevs: Iterable[Netdev]) -> Eswitch:
    """Sort the netdevs of one PF into its own, its uplink, and representors.

    The uplink is the netdev with a switch id and the name of a physical port. If none has both, it
    is the PF's own netdev that was registered first (a function may have several ports), never the
    first by name.
    """
    netdevs = tuple(netdevs)
    own = tuple(sorted((n for n in netdevs if not is_representor(n)), key=lambda n: n.name))
    uplink = min(own, key=_uplink_order, default=None)
    return Eswitch(
        own=own,
        uplink=uplink.name if uplink else None,
        switch_id=uplink.phys_switch_id if uplink else None,
        representors=tuple(r for n in netdevs if (r := representor_of(n)) is not None),
        names=tuple(n.name for n in netdevs),
    )


def ports_of(
    eswitch: Eswitch, function_number: int, elsewhere: Iterable[Representor] = ()
) -> Mapping[Port, str]:
    """Representor by port for one PF, whose number is its PCI function number.

    If all representors in the PF's own folder have the same other number, they are its own too: a
    driver may count ports instead. ``elsewhere`` has representors whose netdevs are below no
    function, or below another one; they count if switch id and number agree.
    """
    numbers = {r.pf_number for r in eswitch.representors}
    number = numbers.pop() if len(numbers) == 1 else function_number
    ports = {
        r.port: r.name
        for r in elsewhere
        if r.switch_id is not None and r.switch_id == eswitch.switch_id and r.pf_number == number
    }
    ports.update((r.port, r.name) for r in eswitch.representors if r.pf_number == number)
    return ports


def _uplink_order(netdev: Netdev) -> tuple[bool, bool, float, str]:
    physical = _UPLINK.fullmatch(netdev.phys_port_name or "") is not None
    ifindex = netdev.ifindex if netdev.ifindex is not None else inf
    return not (physical and netdev.phys_switch_id is not None), not physical, ifindex, netdev.name
