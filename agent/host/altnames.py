"""Alternative names of netdevs (``ip link property add dev NAME altname OTHER``, Linux 5.5).

Sysfs does not show them: the kernel is asked, one question for each netdev, without its statistics.
"""

from __future__ import annotations

import os
import socket
import sys

from agent.host import netlink as wire
from agent.host import sysfs
from agent.host.rtnl_link import IFLA_PROP_LIST, altnames

ALTNAMES = "altnames"
"""What a scan is asked for, since it costs a question for each netdev of a PF."""

_RTM_GETLINK = 18  # uapi linux/rtnetlink.h
_IFINFOMSG_SIZE = 16
_IFLA_IFNAME, _IFLA_EXT_MASK = 3, 29  # uapi linux/if_link.h
_RTEXT_FILTER_SKIP_STATS = (8).to_bytes(4, sys.byteorder)


def altnames_of(name: str) -> tuple[str, ...]:
    """The alternative names of an interface in this network namespace, sorted; none if unknown.

    Raises OSError only where the process is out of descriptors or memory.
    """
    attributes = (
        wire.attribute(_IFLA_IFNAME, os.fsencode(name) + b"\0"),
        wire.attribute(_IFLA_EXT_MASK, _RTEXT_FILTER_SKIP_STATS),
    )
    question = wire.request(_RTM_GETLINK, bytes(_IFINFOMSG_SIZE) + b"".join(attributes), dump=False)
    try:
        for answer in wire.answer(socket.NETLINK_ROUTE, question):
            found = dict(wire.attributes(answer[_IFINFOMSG_SIZE:]))
            return altnames(found.get(IFLA_PROP_LIST))
    except OSError as error:
        sysfs.raise_if_exhausted(error)
    return ()
