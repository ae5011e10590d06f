"""Health check *link*: whether a device's traffic can leave the host.

The ports of the PF decide for its VFs and SFs, never a VF's own netdev, which is administratively
down while it is idle. A VF's link policy comes first. An unknown link counts as healthy: that of a
netdev in a pod's network namespace, and that of a PF that is only administratively down, unless
its driver is known to stop its VFs then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from agent.attrs_classes import frozen
from agent.config.schema import SelectorObject
from agent.health.check import Check, CheckInputs, MemberCheck
from agent.health.verdict import HEALTHY, Cause, Health
from agent.model.device import Device, InfinibandPort, Netdev, Role
from agent.model.link import DRIVERS_THAT_STOP_VFS, Links, VfLinkPolicy, link_netdevs
from agent.model.snapshot import Snapshot
from agent.selectors.pf_functions import PF_NAMES

_OPERSTATES_WITHOUT_CARRIER = frozenset({"down", "lowerlayerdown", "notpresent"})
_NOT_SET_UP = frozenset({"INIT", "ARMED"})


@frozen
class Port:
    """One port of a function, and whether it has a link."""

    has_link: bool | None
    """None = unknown."""
    fault: Health = HEALTHY
    """What is wrong if there is no link."""
    names: tuple[str, ...] = ()
    """The netdev's names from the scan, which ``pfNames`` can select."""


@frozen
class _Uplink:
    """The ports of a PF, and the health that its functions have from it."""

    ports: tuple[Port, ...]
    policies: Mapping[int, VfLinkPolicy]
    verdict: Health
    """The health by all its ports."""


class LinkAssessor:
    """Assesses many devices by the same links: the ports of a PF are assessed once."""

    def __init__(self, snapshot: Snapshot, links: Links) -> None:
        self._snapshot = snapshot
        self._links = links
        self._uplinks: dict[str, _Uplink] = {}

    def assess(self, device: Device, selectors: SelectorObject | None = None) -> Health:
        """Unhealthy if the link that carries the device's traffic is known to be down.

        ``selectors`` is the selector object that chose the device: of a PF with several ports,
        only those that its ``pfNames`` names count.
        """
        pf = None if device.role is Role.PF else self._snapshot.pf_of(device)
        if pf is None:
            return _united(_ports(device, self._links, _own_port))
        uplink = self._uplinks.get(pf.id) or self._uplink_of(pf)
        if uplink.policies and device.role is Role.VF and device.index is not None:
            policy = uplink.policies.get(device.index, VfLinkPolicy.AUTO)
            if policy is VfLinkPolicy.ENABLE:
                return HEALTHY
            # A new InfiniBand VF has this policy until its CNI plugin sets another.
            if policy is VfLinkPolicy.DISABLE and not pf.infiniband_ports:
                return Health(Cause.LINK_DISABLED, "its link state is set to disable on the PF")
        verdict = uplink.verdict
        if len(uplink.ports) > 1 and selectors is not None:
            verdict = _united(_selected(uplink.ports, device, selectors))
        if verdict.cause is Cause.PF_DOWN and self._has_own_carrier(device):
            return HEALTHY
        return verdict

    def is_unproven(self, pf: Device) -> bool:
        """Whether a PF's functions count as healthy only because their link is unknown."""
        uplink = self._uplinks.get(pf.id) or self._uplink_of(pf)
        return all(port.has_link is None for port in uplink.ports)

    def _uplink_of(self, pf: Device) -> _Uplink:
        """The ports that count for a PF's VFs and SFs: the PF's own, or its bond."""
        fact = self._links.fact(self._snapshot.pf_netdev(pf))
        bond = self._lag_of(pf)
        if bond is not None:
            ports: tuple[Port, ...] = (_pf_port(bond, what="bond"),)
        else:
            ports = tuple(_ports(pf, self._links, partial(_pf_port, driver=pf.driver)))
        policies = (fact.vf_policies or {}) if fact else {}
        uplink = self._uplinks[pf.id] = _Uplink(ports, policies, _united(ports))
        return uplink

    def _lag_of(self, pf: Device) -> Netdev | None:
        """The bond of a VF LAG, while it is up and the PF is part of it."""
        scanned = self._snapshot.lag_of.get(pf.id)
        bond = self._links.newest(scanned)
        if bond is None or bond.admin_up is False:
            return None
        fact, of_bond = self._links.fact(self._snapshot.pf_netdev(pf)), self._links.fact(scanned)
        ifindex = of_bond.ifindex if of_bond else bond.ifindex
        return bond if fact is None or fact.master == ifindex else None

    def _has_own_carrier(self, vf: Device) -> bool:
        """Whether the current state of the device's own netdev proves that it has a link."""
        newest = (self._links.newest(netdev) for netdev in vf.netdevs)
        return any(n.admin_up and has_carrier(n) for n in newest if n is not None)


def carriers(devices: Iterable[Device], snapshot: Snapshot) -> tuple[Netdev, ...]:
    """The netdevs that decide on the links of these devices, each once."""
    return tuple(dict.fromkeys(link_netdevs(devices, snapshot)))


def unproven_pfs(netdevs: Iterable[Netdev], snapshot: Snapshot, links: Links) -> Iterator[Device]:
    """The PFs with some of these netdevs that are down, so that their functions' link is unknown.

    Their VFs and SFs count as healthy, although nothing proves that they have a link.
    """
    newest = (links.newest(netdev) for netdev in netdevs)
    down = {n.name for n in newest if n is not None and n.admin_up is False}
    if not down:
        return
    assessor = LinkAssessor(snapshot, links)
    parents = {d.pf_address for d in snapshot.devices if d.role is not Role.PF}
    for pf in snapshot.pfs.values():
        uplink = links.newest(snapshot.pf_netdev(pf))
        is_down = uplink is not None and uplink.name in down
        if is_down and pf.id in parents and assessor.is_unproven(pf):
            yield pf


def port_states(pf: Device, links: Links) -> tuple[bool | None, ...]:
    """Whether each port of a PF has a link; None = unknown."""
    return tuple(port.has_link for port in _ports(pf, links, _pf_port))


def has_carrier(netdev: Netdev) -> bool | None:
    """The carrier; from operstate if the carrier cannot be read; None = unknown."""
    if netdev.carrier is not None:
        return netdev.carrier
    if netdev.operstate in _OPERSTATES_WITHOUT_CARRIER:
        return False
    return True if netdev.operstate == "up" else None


def _united(ports: Iterable[Port]) -> Health:
    """One link is enough; without one, the first fault counts, then an unknown link."""
    fault = HEALTHY
    for port in ports:
        if port.has_link:
            return HEALTHY
        if fault is HEALTHY:
            fault = port.fault
    return fault


def _selected(ports: tuple[Port, ...], vf: Device, selectors: SelectorObject) -> Iterable[Port]:
    """The ports that a selector object names for this function; all ports if it names none."""
    wanted = next((c.wanted for c in selectors.criteria if c.key == PF_NAMES.key), None)
    if wanted is None:
        return ports
    named = [p for p in ports if any(wanted.cover(name, vf.index) for name in p.names)]
    return named or ports


def _ports(device: Device, links: Links, port_of: Callable[[Netdev], Port]) -> Iterator[Port]:
    """The current ports of a function; ``port_of`` makes one from an Ethernet netdev."""
    netdevs = [(n, newest) for n in device.ports if (newest := links.newest(n)) is not None]
    if not device.infiniband_ports:
        for scanned, newest in netdevs:
            yield _named(port_of(newest), scanned)
        return
    ipoib = [(scanned, newest) for scanned, newest in netdevs if scanned.link_type != "ether"]
    for port in device.infiniband_ports:
        own = ((s, n) for s, n in ipoib if s.dev_port in {None, port.number - 1})
        of_port, newest_of_port = next(own, (None, None))
        infiniband = _infiniband_port(port, newest_of_port)
        yield _named(infiniband, of_port) if of_port else infiniband
    for scanned, newest in netdevs:
        if scanned.link_type == "ether":
            yield _named(port_of(newest), scanned)


def _named(port: Port, netdev: Netdev) -> Port:
    return Port(port.has_link, port.fault, (netdev.name, *netdev.altnames))


def _own_port(netdev: Netdev) -> Port:
    """A port of a function without a PF: its carrier, while it is up."""
    return _by_carrier(netdev, netdev.name) if netdev.admin_up else Port(None)


def _pf_port(netdev: Netdev, driver: str | None = None, what: str = "PF") -> Port:
    """A port of a PF with VFs or SFs: without a carrier, their traffic cannot leave the host."""
    name = f"{what} {netdev.name}"
    if netdev.admin_up is not False:
        return _by_carrier(netdev, name)
    if driver not in DRIVERS_THAT_STOP_VFS:
        return Port(None)
    detail = f"{name} is administratively down, and the driver {driver} stops its VFs then"
    return Port(has_link=False, fault=Health(Cause.PF_DOWN, detail))


def _infiniband_port(port: InfinibandPort, ipoib: Netdev | None) -> Port:
    """A port whose state is its link; IPoIB counts only if the state cannot be read.

    ``ACTIVE_DEFER`` is a short interruption (InfiniBand architecture, link states): unknown.
    """
    if port.state is None:
        return Port(None) if ipoib is None else _own_port(ipoib)
    if port.state == "ACTIVE":
        return Port(has_link=True)
    if port.state == "ACTIVE_DEFER":
        return Port(None)
    detail = f"RDMA port {port.rdma}/{port.number} is {port.state}"
    if port.phys_state is not None:
        detail += f" (physical state {port.phys_state})"
    if port.state in _NOT_SET_UP:
        detail += ": no subnet manager has set it up"
    return Port(has_link=False, fault=Health(Cause.NO_CARRIER, detail))


def _by_carrier(netdev: Netdev, name: str) -> Port:
    carrier = has_carrier(netdev)
    fault = Health(Cause.NO_CARRIER, f"{name} has no carrier") if carrier is False else HEALTHY
    return Port(carrier, fault)


def _prepare(inputs: CheckInputs) -> MemberCheck:
    assess = LinkAssessor(inputs.snapshot, inputs.links).assess
    return lambda member: assess(member.device, member.selectors)


LINK = Check(
    causes=frozenset({Cause.PF_DOWN, Cause.NO_CARRIER, Cause.LINK_DISABLED}),
    prepare=_prepare,
    applies_to=lambda config: config.health.link,
    reads_links=True,
)
