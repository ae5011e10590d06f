"""Selector ``drivers``: the kernel driver that is bound, by its name in ``bus/*/drivers``.

An auxiliary device has a driver (``mlx5_core.sf``), and so has the PCI function below which it is
(``mlx5_core``). Existing configurations name the function's driver; either matches.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.selectors.present_values import Hint, PresentValues, absent, present
from agent.selectors.selector import ALL_KINDS, EmptyStep, Selector, text

_AUXILIARY = frozenset({"mlx5_ib", "irdma", "bnxt_re", "ice_ib"})
"""Drivers that bind to auxiliary devices of a function, and never to the function itself."""


_NETDEV_DRIVERS = {
    "mlx4_en": "mlx4_core",
    "mlx5_en": "mlx5_core",
    "mlx5e_rep": "mlx5_core",
    "mlx4_core[ib_ipoib]": "mlx4_core",
    "mlx5_core[ib_ipoib]": "mlx5_core",
    "virtio_net": "virtio-pci",
}
"""Netdev driver, as ``ethtool -i`` or lsmod show it -> driver of the PCI function."""
_HEX_ID = re.compile(r"0x[0-9a-f]{1,4}|[0-9][0-9a-f]{3}", re.IGNORECASE)
"""Ids that start with a digit, which are no driver names (e100 is one)."""


def parse_driver(raw: str) -> str:
    """A driver's name; raises ValueError for a value that cannot be one."""
    name = text(raw)
    if _HEX_ID.fullmatch(name) or any(mark in name for mark in ":,;/#"):
        raise ValueError(f"{name[:40]!r} is not the name of a driver")
    return name


def driver_faults(raw: str) -> tuple[str, ...]:
    """The name of a netdev's driver, with that of the PCI function's driver to write instead."""
    name = raw.strip()
    return (_pci_driver(name),) if name in _NETDEV_DRIVERS else ()


def _pci_driver(name: str) -> str:
    pci = _NETDEV_DRIVERS[name]
    return (
        f"{name} is the driver of the netdev; the driver of the PCI function is {pci}: "
        f'write "{pci}"'
    )


def drivers_of(device: Device, by_id: Mapping[str, Device]) -> tuple[str, ...]:
    """Its driver, and for an auxiliary device its function's; ``by_id`` = the host's devices."""
    own = (device.driver,) if device.driver else ()
    if device.kind.on_pci:
        return own
    parent = by_id.get(device.pci_address)
    return (*own, parent.driver) if parent is not None and parent.driver else own


def matches_driver(device: Device, wanted: frozenset[str], snapshot: Snapshot) -> bool:
    """One of its drivers is among the wanted ones; a function without a driver never matches."""
    return any(driver in wanted for driver in drivers_of(device, snapshot.by_id))


def _describe(device: Device, snapshot: Snapshot) -> str:
    drivers = drivers_of(device, snapshot.by_id)
    if not drivers:
        return "no driver bound"
    own = f"driver {drivers[0]}" if device.driver else "no driver bound"
    return own if drivers[-1] == device.driver else f"{own}, its function's is {drivers[-1]}"


def _hints(wanted: frozenset[str], present_values: PresentValues) -> tuple[Hint, ...]:
    counts = present_values.count("drivers", lambda d: drivers_of(d, present_values.by_id))
    return tuple(
        Hint(
            f"drivers: no {present_values.kind} here is bound to a driver named {driver}; "
            f"bound: {present(counts)}{_unbound(present_values)}{remedy(driver, counts)}",
            driver,
        )
        for driver in absent(wanted, counts)
    )


def _unbound(present_values: PresentValues) -> str:
    return f"; without a driver: {present_values.unbound}" if present_values.unbound else ""


def remedy(driver: str, counts: Mapping[str, int]) -> str:
    """What to do about a driver that no device here is bound to, after a semicolon, or empty."""
    if driver in _NETDEV_DRIVERS:
        return f"; {_pci_driver(driver)}"
    if driver in _AUXILIARY:
        return f"; {driver} is an RDMA driver that binds below the function: use isRdma instead"
    if driver == "vfio-pci":
        return "; load vfio-pci and bind the functions to it (driverctl, or driver_override)"
    meant = driver.replace("_", "-").lower()
    near = get_close_matches(meant, [*counts, "vfio-pci"], n=1, cutoff=0.8)
    return f"; did you mean {near[0]}?" if near and near[0] != driver else ""


def _fix(step: EmptyStep) -> Iterator[str]:
    """Functions without a driver need one; others need another driver, or another selector."""
    example = step.example.id
    driver = "vfio-pci" if "vfio-pci" in step.wanted else min(step.wanted)
    bound = Counter(d.driver for d in step.devices if d.driver)
    if driver != "vfio-pci" and (text := remedy(driver, bound)):
        yield text.removeprefix("; ")
    elif not bound:
        yield f"bind one: `modprobe {driver}`, then `echo {example} > /sys/bus/pci/drivers_probe`"
    else:
        yield f"bind them to it, for example `driverctl set-override {example} {driver}`"
        yield f'or select "drivers": ["{bound.most_common(1)[0][0]}"]'


DRIVERS = Selector(
    key="drivers",
    kinds=ALL_KINDS,
    meaning="The kernel driver that is bound now, of an auxiliary device also its function's; a "
    "function without a driver never matches.",
    allowed="driver names as in /sys/bus/pci/drivers, compared exactly",
    example=["vfio-pci"],
    parse=parse_driver,
    faults=driver_faults,
    matches=matches_driver,
    index_by=lambda device, snapshot: drivers_of(device, snapshot.by_id),
    is_promised=True,
    describe=_describe,
    diagnose=_hints,
    is_fixed_by_diagnosis=False,
    fix=_fix,
    differs_between_pf_and_vf=True,
)
