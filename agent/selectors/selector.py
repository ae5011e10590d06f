"""The record that describes one selector: everything that validation, matching and docs need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from agent.attrs_classes import frozen
from agent.kinds import KINDS, Kind
from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.selectors.present_values import Hint, PresentValues

ALL_KINDS = frozenset(KINDS.values())
PCI_KINDS = frozenset(kind for kind in ALL_KINDS if kind.on_pci)
NETDEV_KINDS = frozenset(kind for kind in ALL_KINDS if kind.has_netdev)

MATCHES_NOTHING = "(no value that can match)"
"""How a selector is shown all of whose configured values can match nothing."""


class Shape(StrEnum):
    """How a selector's value is written in the file."""

    LIST = "list of strings"
    BOOL = "boolean"
    CHOICE = "string"


def text(raw: str) -> str:
    """The text itself without surrounding blanks; raises ValueError where nothing is left."""
    if not (stripped := raw.strip()):
        raise ValueError("an empty string can match nothing")
    return stripped


def listed(wanted: Iterable[str]) -> str:
    """Wanted values as people read them, sorted."""
    return ", ".join(sorted(wanted))


def _always(_device: Device) -> bool:
    return True


def _no_faults(_raw: str) -> tuple[str, ...]:
    return ()


def _no_hints(_wanted: object, _present_values: PresentValues) -> tuple[Hint, ...]:
    return ()


@frozen(eq=False)
class Selector:
    """One selector, in one place."""

    key: str
    """Canonical spelling in the file."""
    kinds: frozenset[Kind]
    """Device types it belongs to; elsewhere it is reported and not read."""
    meaning: str
    """One sentence for the documentation."""
    allowed: str
    """What its values look like, for the documentation and for messages."""
    example: Any
    """A JSON value that loads."""
    matches: Callable[[Device, Any, Snapshot], bool]
    """Whether a device satisfies what :attr:`combine` made."""
    actual: Callable[[Device, Snapshot], str]
    """The fact that was looked at, in words for people."""
    is_observable: Callable[[Device], bool] = _always
    """Whether the fact can be seen here: some go with a device into a pod's network namespace."""
    shape: Shape = Shape.LIST
    parse: Callable[[str], Any] = text
    """One configured string in its normal form; raises ValueError naming the value."""
    faults: Callable[[str], tuple[str, ...]] = _no_faults
    """What is wrong with parts of a string that :attr:`parse` accepts; one sentence each."""
    combine: Callable[[Iterable[Any]], Any] = frozenset
    """All parsed values as one hashable wanted value; any one of them is enough (OR)."""
    to_text: Callable[[Any], str] = listed
    """A wanted value as text."""
    to_json: Callable[[Any], Any] = sorted
    """A wanted value as JSON that loads to the same value."""
    diagnose: Callable[[Any, PresentValues], tuple[Hint, ...]] = _no_hints
    """Why a wanted value cannot match on this host: cause and fix."""
    choices: tuple[str, ...] = ()
    """The only values of a :attr:`Shape.CHOICE`."""
    is_filter: bool = True
    """False for an option that hands something out and filters nothing."""

    def text_of(self, wanted: Any) -> str:  # noqa: ANN401 - what combine made
        """A wanted value as people read it, also one of which no configured value can match."""
        return self.to_text(wanted) or MATCHES_NOTHING
