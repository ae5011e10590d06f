"""The record that describes a device type; each file beside this one holds one such record."""

from __future__ import annotations

import attrs

from agent.attrs_classes import frozen


@frozen(eq=False, kw_only=True)
class Kind:
    """A device type: all that differs between device types, and what selectors derive from."""

    name: str
    """The value of ``deviceType`` in the configuration file."""
    noun: str
    """One such device in messages, for example in ``every network function``."""
    base_classes: frozenset[int] = frozenset()
    """PCI base classes (0xCC of 0xCCSSPP) of its functions; empty = it is not a PCI function."""
    aux_types: frozenset[str] = frozenset()
    """Types of auxiliary devices known to work; empty = it is not on the auxiliary bus."""
    has_netdev: bool
    """Whether its kernel drivers make network interfaces; selectors on interfaces belong to it."""
    takes_other_classes: bool = False
    """Whether a pool can name PCI classes (selector ``classes``) besides the base classes."""
    device_info: bool
    """Whether a device-info file is written for the CNI plugin."""
    cdi_class: str
    """Class part of its CDI kind, ``<prefix>/<class>`` (contract of the Go plugin)."""
    how_to_create: str = ""
    """What to do on a host without any, as a clause of a sentence; empty = nothing can be done."""
    on_pci: bool = attrs.field(init=False)
    """Whether it is a PCI function; otherwise it is an auxiliary device below one."""

    @on_pci.default
    def _has_base_classes(self) -> bool:
        return bool(self.base_classes)

    @property
    def noun_with_class(self) -> str:
        """The noun with its PCI classes, for example ``network function (PCI class 0x02)``."""
        classes = " or ".join(f"0x{base:02x}" for base in sorted(self.base_classes))
        return f"{self.noun} (PCI class {classes})" if classes else self.noun

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__
