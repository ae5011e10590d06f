"""The second guest: a newer QEMU with a virtio NIC that has VFs, and modules built for its kernel.

Each of these is optional. What cannot be had is told to the guest, whose tests then skip with the
reason.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from . import builds, debian
from .qemu import Machine
from .wiring import BUILDS, LACKING, VIRTIO

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .debian import Packages


# Those of the kernel package; the built ones come on top, of which siw wants the checksum.
_MODULES = ("virtio_net", "crc32c_generic", "ib_uverbs", "ib_umad", "rdma_ucm", "vhost_vdpa")


def furnished(
    cache: Path, packages: Packages, echo: Callable[[str], None]
) -> tuple[Machine, dict[str, str]]:
    """The machine as far as its parts can be had, and the variable that says what it lacks."""
    lacking: dict[str, str] = {}
    machine = Machine(modules=_MODULES)
    try:
        machine = attrs.evolve(machine, qemu=debian.newer_qemu(cache), virtio_nic=True)
    except debian.Unobtainable as error:
        lacking[VIRTIO] = str(error)
    try:
        folder = builds.built(cache, packages, echo)
        machine = attrs.evolve(machine, built=folder, modules=(*_MODULES, *builds.MODULES))
    except debian.Unobtainable as error:
        lacking[BUILDS] = str(error)
    for part, reason in lacking.items():
        echo(f"no {part}: {reason}")
    return machine, {LACKING: json.dumps(lacking)}
