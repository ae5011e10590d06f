"""Auxiliary devices (``bus/auxiliary/devices``): sub-functions and other parts of a function."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import attrs

from agent.attrs_classes import frozen
from agent.host import sysfs

BUS = "bus/auxiliary/devices"
SUB_FUNCTION = "sf"
_NAME = re.compile(r"[\w-]+\.[\w.-]+\.\d+", re.ASCII)


@frozen
class AuxiliaryBus:
    """The devices of the bus by the function that they belong to."""

    children: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Name of the folder above a device -> names of the devices in it."""
    unplaced: frozenset[str] = frozenset()
    """Devices whose entry on the bus is not a link, so that their parent is unknown."""

    @property
    def is_empty(self) -> bool:
        """Whether the host has no auxiliary devices at all."""
        return not self.children and not self.unplaced

    def below(self, parent: str, entries: Collection[str] = ()) -> list[str]:
        """The devices directly below a function, given what its folder lists; sorted."""
        return sorted({*self.children.get(parent, ()), *self.unplaced.intersection(entries)})


def read_bus(sys: int, parents: Mapping[str, str] | None = None) -> AuxiliaryBus:
    """Read the bus once; ``<driver>.<type>.<id>`` is the form of every name on it.

    ``parents`` has devices whose parents are known already: their links are not read.
    """
    parents = parents or {}
    children: dict[str, list[str]] = {}
    unplaced = []
    for name in sysfs.class_names(sys, BUS):
        if not _NAME.fullmatch(name):
            continue
        parent = parents.get(name)
        if parent is None:
            target = sysfs.link_target(sys, f"{BUS}/{name}")
            if target is None:
                unplaced.append(name)
                continue
            parent = _folder_above(target)
        children.setdefault(parent, []).append(name)
    return AuxiliaryBus(
        children={parent: tuple(names) for parent, names in children.items()},
        unplaced=frozenset(unplaced),
    )


def type_of(name: str) -> str:
    """The middle part of a name: what kind of auxiliary device it is."""
    return name.split(".")[-2]


def order(name: str) -> tuple[str, str, int]:
    """Sort key of names below one function: driver, type, then the id as a number."""
    driver, kind, number = name.rsplit(".", 2)
    return driver, kind, int(number) if number.isdecimal() else 0


def _folder_above(target: str) -> str:
    return target.rpartition("/")[0].rpartition("/")[2]
