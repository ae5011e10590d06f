"""The record that describes one selector: validation, matching, advice and docs derive from it."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable
from enum import StrEnum
from typing import Any

from agent.attrs_classes import frozen
from agent.kinds import KINDS, Kind
from agent.model.device import Device, Role
from agent.model.snapshot import Snapshot
from agent.selectors.present_values import Hint, PresentValues

ALL_KINDS = frozenset(KINDS.values())
PCI_KINDS = frozenset(kind for kind in ALL_KINDS if kind.on_pci)
NETDEV_KINDS = frozenset(kind for kind in ALL_KINDS if kind.has_netdev)

MATCHES_NOTHING = "(no value that can match)"
"""The text of a selector if none of its configured values can match."""


class Shape(StrEnum):
    """How a selector's value is written in the file."""

    LIST = "list of strings"
    BOOL = "boolean"
    CHOICE = "string"


def text(raw: str) -> str:
    """The text without surrounding blanks; raises ValueError if nothing is left."""
    if not (stripped := raw.strip()):
        raise ValueError("an empty string can match nothing")
    return stripped


def listed(wanted: Iterable[str]) -> str:
    """Wanted values as text, sorted."""
    return ", ".join(sorted(wanted))


def _always(_device: Device) -> bool:
    return True


def _none(_value: object) -> tuple[str, ...]:
    return ()


def _no_needs(_wanted: object) -> frozenset[str]:
    return frozenset()


def _no_hints(_wanted: object, _present_values: PresentValues) -> tuple[Hint, ...]:
    return ()


@frozen(eq=False)
class EmptyStep:
    """The step of a pool's funnel at which a selector left no device."""

    wanted: Any
    """What :attr:`Selector.combine` made of the configured values."""
    kind: Kind
    """The pool's device type."""
    devices: tuple[Device, ...]
    """The devices that were left before this step; at least one."""
    snapshot: Snapshot
    in_use: Container[str]
    """Ids of devices that the host itself uses."""

    @property
    def example(self) -> Device:
        """The device of an example command: one that the host does not use, if possible no PF."""
        free = [d for d in self.devices if d.id not in self.in_use] or self.devices
        return min(free, key=lambda d: d.role is Role.PF)


def _no_fix(_step: EmptyStep) -> tuple[str, ...]:
    return ()


@frozen(eq=False, kw_only=True)
class Selector:
    """One selector: all that the agent knows of it.

    Only ``key``, ``kinds``, ``meaning``, ``allowed``, ``example``, ``matches`` and ``describe``
    are required; the other fields say where a selector differs from a plain list of strings.
    """

    key: str
    """The name in the configuration file."""
    kinds: frozenset[Kind]
    """Device types it belongs to; in a pool of another type it is reported and not read."""
    meaning: str
    """One sentence for the documentation."""
    allowed: str
    """The form of its values, for the documentation and for messages."""
    example: Any
    """A JSON value that loads."""

    # Reading
    shape: Shape = Shape.LIST
    choices: tuple[str, ...] = ()
    """The only values of a :attr:`Shape.CHOICE`."""
    parse: Callable[[str], Any] = text
    """One configured string in its normal form; raises ValueError naming the value."""
    number_as_text: Callable[[float], str] = str
    """The string to write where the file has a number, for the message about it."""
    faults: Callable[[str], Iterable[str]] = _none
    """What is wrong with parts of a string that :attr:`parse` accepts; one sentence each."""
    combine: Callable[[Iterable[Any]], Any] = frozenset
    """All parsed values as one hashable wanted value; any one of them is enough (OR)."""
    cautions: Callable[[Any], Iterable[str]] = _none
    """Why a wanted value, which is read, may not do what is expected; one sentence each."""
    is_required: bool = False
    """Whether a selector object of one of its device types must have it."""
    excludes: frozenset[str] = frozenset()
    """Keys of selectors that a selector object must not have besides it."""
    grants: str = ""
    """The field of :class:`SelectorObject` that takes the wanted value; empty = none."""
    is_filter: bool = True
    """False for an option that selects nothing, and only grants something to pods."""
    to_text: Callable[[Any], str] = listed
    """A wanted value as text."""
    to_json: Callable[[Any], Any] = sorted
    """A wanted value as JSON that loads to the same value."""

    # Matching
    matches: Callable[[Device, Any, Snapshot], bool]
    """Whether a device satisfies what :attr:`combine` made."""
    index_by: Callable[[Device, Snapshot], Iterable[Hashable]] | None = None
    """The values of a device; it matches if the wanted set has any of them.

    With it, the match index groups devices by these values and does not call :attr:`matches`.
    """
    pf_names: Callable[[Device, Snapshot], Iterable[str]] | None = None
    """The names of a device's PF; it matches if the wanted ``FunctionRanges`` cover one of them.

    With it, the match index groups devices by PF and index and does not call :attr:`matches`.
    """
    needs: Callable[[Any], frozenset[str]] = _no_needs
    """Which facts of :mod:`agent.model.needs` a scan must read for a wanted value."""
    changes_silently: Callable[[Device], bool] | None = None
    """Whether to read a device again each minute, since its fact changes without a kernel event.

    None = each change comes with an event. Questions to devlink are asked again with every scan,
    regardless of the devices that are read.
    """
    is_observable: Callable[[Device], bool] = _always
    """Whether the fact can be seen here: some move with a device to a pod's network namespace."""
    is_promised: bool = False
    """Whether the fact must stay while a pod holds the device; otherwise it is Unhealthy."""

    # Explaining
    describe: Callable[[Device, Snapshot], str]
    """The fact of a device that is compared, as text."""
    summarize: Callable[[Device, Snapshot], str] | None = None
    """The same, for counting devices: less detailed; None = :attr:`describe`."""
    diagnose: Callable[[Any, PresentValues], tuple[Hint, ...]] = _no_hints
    """Why a wanted value cannot match on this host: cause and fix."""
    fix: Callable[[EmptyStep], Iterable[str]] = _no_fix
    """What to do if it leaves no device; one clause each."""
    is_fixed_by_diagnosis: bool = True
    """Whether the texts of :attr:`diagnose` belong to the fixes; False = they would repeat it."""
    identifies_hardware: bool = False
    """Whether devices of other types that it matches are a sign of a wrong device type."""
    differs_between_pf_and_vf: bool = False
    """Whether creating VFs is a fix if only PFs reached it."""

    def text_of(self, wanted: Any) -> str:  # noqa: ANN401 - what combine made
        """A wanted value as text, also one of which no configured value can match."""
        return self.to_text(wanted) or MATCHES_NOTHING

    def summary(self, device: Device, snapshot: Snapshot) -> str:
        """The fact of a device as text for counting."""
        return (self.summarize or self.describe)(device, snapshot)
