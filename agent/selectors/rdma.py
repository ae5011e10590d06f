"""Selector ``isRdma``: the device supports RDMA, and pods get its RDMA device nodes."""

from __future__ import annotations

from collections.abc import Iterator

from agent.model.device import UIO_DRIVERS, Device
from agent.model.needs import ENABLE_RDMA
from agent.model.snapshot import Snapshot
from agent.selectors.present_values import Hint, PresentValues
from agent.selectors.selector import NETDEV_KINDS, EmptyStep, Selector, Shape

_MODULES = {"15b3": "mlx5_ib", "8086": "irdma", "14e4": "bnxt_re", "1077": "qedr"}
"""PCI vendor -> the kernel module that creates its RDMA devices."""


def matches_rdma(device: Device, wanted: bool, _snapshot: Snapshot) -> bool:  # noqa: FBT001
    """It has an RDMA device here, or devlink shows that RDMA is enabled for it."""
    return device.is_rdma is wanted


def _describe(device: Device, _snapshot: Snapshot) -> str:
    if device.rdma:
        return f"RDMA device {', '.join(r.name for r in device.rdma)}"
    return (
        "RDMA enabled, but its RDMA device is not in this network namespace"
        if device.is_rdma
        else "no RDMA device"
    )


def _hints(_wanted: bool, present_values: PresentValues) -> tuple[Hint, ...]:  # noqa: FBT001
    if not present_values.allocatable or any(d.is_rdma for d in present_values.allocatable):
        return ()
    kernel = {
        d.vendor
        for d in present_values.allocatable
        if d.driver not in UIO_DRIVERS and not d.is_vfio
    }
    modules = [f"{module} for vendor {v}" for v, module in _MODULES.items() if v in kernel]
    hint = f"isRdma: no {present_values.kind} on this host has an RDMA device"
    if modules:
        hint += f"; load the kernel module that creates them ({', '.join(sorted(modules))})"
    elif not kernel:
        hint += "; functions that are bound to a userspace driver (vfio-pci) have none"
    return (Hint(hint),)


def _fix(step: EmptyStep) -> Iterator[str]:
    address = step.devices[0].pci_address
    yield (
        f"see `rdma dev` and `devlink dev param show pci/{address} name enable_rdma`, or leave "
        "isRdma out"
    )


IS_RDMA = Selector(
    key="isRdma",
    kinds=NETDEV_KINDS,
    meaning="true = only devices with RDMA, and pods get their RDMA device nodes.",
    allowed="true or false; false = no filter; not together with vdpaType",
    example=True,
    shape=Shape.BOOL,
    grants="is_rdma",
    matches=matches_rdma,
    needs=lambda _wanted: frozenset({ENABLE_RDMA}),
    changes_silently=lambda _device: False,
    describe=_describe,
    is_observable=lambda device: bool(device.rdma),
    to_text=lambda wanted: "true" if wanted else "false",
    to_json=bool,
    diagnose=_hints,
    fix=_fix,
)
