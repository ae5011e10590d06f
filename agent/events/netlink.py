"""Events of the netlink sockets."""

from __future__ import annotations

from logging import INFO, WARNING

from agent.events.event import LogEvent, RepeatedEvent


class NetlinkOpened(LogEvent, name="netlink.open", level=INFO):
    """The agent follows links, kernel events and default routes on netlink sockets."""

    receive_buffer_bytes: int


class NetlinkLost(RepeatedEvent, name="netlink.lost", level=WARNING):
    """The netlink sockets could not be opened or failed. The agent opens them again; until then
    it scans the host periodically.
    """

    error: str
    failures: int


class NetlinkOverrun(LogEvent, name="netlink.overrun", level=WARNING):
    """The kernel dropped events of links or devices. The agent reads again everything that they
    may have announced.
    """

    overruns: int


class NetlinkUnanswered(RepeatedEvent, name="netlink.unanswered", level=WARNING):
    """The kernel did not report the state of an interface and the link policies of its VFs. The
    agent uses the state from events, and treats the policies as auto.
    """

    interface: str
    error: str
