"""Events of pools and of the functions that their selectors match."""

from __future__ import annotations

from logging import INFO, WARNING

from agent.events.event import LogEvent


class PoolAssigned(LogEvent, name="pool.assigned", level=INFO):
    """The result of a pool's selectors on this host: how many functions each step left."""

    resource: str
    devices: int
    funnel: str


class PoolEmpty(LogEvent, name="pool.empty", level=WARNING):
    """No function is in the pool. The field why names the step that left none, what was there,
    and the fix. `sriov-agent explain RESOURCE` prints the same at any time.
    """

    resource: str
    why: str


class PoolNote(LogEvent, name="pool.note", level=WARNING):
    """A selector of the pool can match nothing on this host. The note gives the cause and the
    fix.
    """

    resource: str
    note: str


class PoolAlternatives(LogEvent, name="pool.alternatives", level=INFO):
    """Nothing on this host has these values of a list or this selector object, but others of
    the pool match. This is normal where one configuration serves several kinds of node.
    """

    resource: str
    absent: str


class PoolRemoved(LogEvent, name="pool.removed", level=INFO):
    """A pool was removed from the configuration."""

    resource: str


class PoolOverlap(LogEvent, name="pool.overlap", level=WARNING):
    """Two pools select the same devices. The pool that comes first in the file gets them."""

    winner: str
    loser: str
    count: int
    devices: str
