"""The socket filter by which the kernel drops rtnetlink messages that do not matter to the guard.

Classic BPF (kernel documentation, networking/filter): an instruction has a code, two jump distances
and a number. The extension SKF_AD_NLATTR finds an attribute of a message.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Collection, Iterator

RTM_NEWLINK = 16  # uapi linux/rtnetlink.h
RTM_NEWADDR, RTM_DELADDR = 20, 21
_RTM_NEWROUTE = 24
_RTM_NEWRULE = 32
_AF_INET = 2
_SCOPE_LINK = 253
_RTA_OIF = 4
_IFLA_MASTER = 10  # uapi linux/if_link.h
IFF_UP = 1
WATCHED_AT_MOST = 100
"""More interfaces than this are not listed in the filter: it then accepts the messages of all.
The kernel limits the size of filters (sysctl net.core.optmem_max)."""

_STEP = struct.Struct("=HBBI")  # struct sock_filter (uapi linux/filter.h)
# A socket filter loads words in network order, netlink has host order: so single bytes are loaded.
_LOW_OF_16, _LOW_OF_32 = (0, 0) if sys.byteorder == "little" else (1, 3)
# Offsets behind struct nlmsghdr, 16 bytes; only the type is in it.
_TYPE = 4 + _LOW_OF_16
_FAMILY = 16
_RTM_DST_LEN = 17  # of struct rtmsg
_RTM_ATTRIBUTES = 28
_IFA_SCOPE = 19  # of struct ifaddrmsg
_IFI_INDEX = 20  # of struct ifinfomsg
_IFI_FLAGS = 24 + _LOW_OF_32
_IFI_CHANGE = 28 + _LOW_OF_32
_IFI_ATTRIBUTES = 32
_FIND_ATTRIBUTE = 0x100000000 - 0x1000 + 12  # SKF_AD_OFF + SKF_AD_NLATTR
_LOAD_BYTE, _LOAD_WORD, _LOAD_WORD_AT_X = 0x30, 0x20, 0x40
_SET_A, _SET_X, _COPY_TO_X = 0x00, 0x01, 0x07
_JUMP, _EQUAL, _AT_LEAST, _SET_BITS, _RETURN = 0x05, 0x15, 0x35, 0x45, 0x06
_ALL = 0xFFFFFFFF

_NO_CONDITION = (0, 0)  # jump distances, which only conditional jumps use

Step = tuple[int, int, int, int]
_KEEP: Step = (_RETURN, *_NO_CONDITION, _ALL)
_DROP: Step = (_RETURN, *_NO_CONDITION, 0)


Interfaces = Collection[int] | None
"""By ifindex; None = all."""


def program(addressed: Interfaces, stacked: Interfaces) -> bytes:
    """The filter, given the interfaces for which more messages are accepted."""
    return b"".join(_STEP.pack(*step) for step in _steps(addressed, stacked))


def _steps(addressed: Interfaces, stacked: Interfaces) -> Iterator[Step]:
    links, routes, addresses = [*_links(stacked)], [*_routes(addressed)], [*_addresses()]
    yield (_LOAD_BYTE, *_NO_CONDITION, _TYPE)
    yield from _when(RTM_NEWADDR, addresses)
    yield from _when(RTM_DELADDR, [*_addresses_that_go(), *addresses])
    yield (_AT_LEAST, 0, 1, _RTM_NEWRULE)
    yield _KEEP
    yield (_AT_LEAST, 0, 1, _RTM_NEWROUTE)
    yield (_JUMP, *_NO_CONDITION, 2 + len(links))  # to the routes: only such a jump reaches so far
    yield (_EQUAL, 1, 0, RTM_NEWLINK)
    yield _DROP
    yield from links
    yield from routes


def _when(kind: int, steps: list[Step]) -> Iterator[Step]:
    """Run these steps, which end with a verdict, for messages of one type."""
    yield (_EQUAL, 0, len(steps), kind)
    yield from steps


def _addresses() -> Iterator[Step]:
    """Keep addresses with a scope wider than the link."""
    yield (_LOAD_BYTE, *_NO_CONDITION, _IFA_SCOPE)
    yield (_AT_LEAST, 0, 1, _SCOPE_LINK)
    yield _DROP
    yield _KEEP


def _addresses_that_go() -> Iterator[Step]:
    """Keep removed IPv4 addresses: the kernel may remove routes with them."""
    yield (_LOAD_BYTE, *_NO_CONDITION, _FAMILY)
    yield (_EQUAL, 0, 1, _AF_INET)
    yield _KEEP


def _routes(addressed: Interfaces) -> Iterator[Step]:
    """Keep default routes, and all routes of the addressed interfaces."""
    yield (_LOAD_BYTE, *_NO_CONDITION, _RTM_DST_LEN)
    yield (_EQUAL, 0, 1, 0)
    yield _KEEP
    if addressed is None or addressed:
        yield from _find(_RTA_OIF, _RTM_ATTRIBUTES)
        yield (_EQUAL, 0, 1, 0)
        yield _DROP
        yield (_COPY_TO_X, *_NO_CONDITION, 0)
        yield (_LOAD_WORD_AT_X, *_NO_CONDITION, 4)  # behind the attribute's own header
        yield from _keep_if_any(addressed)
    yield _DROP


def _links(stacked: Interfaces) -> Iterator[Step]:
    """Keep interfaces that are set down, those with a master, and the stacked ones."""
    yield (_LOAD_BYTE, *_NO_CONDITION, _IFI_CHANGE)
    yield (_SET_BITS, 0, 3, IFF_UP)
    yield (_LOAD_BYTE, *_NO_CONDITION, _IFI_FLAGS)
    yield (_SET_BITS, 1, 0, IFF_UP)
    yield _KEEP
    yield from _find(_IFLA_MASTER, _IFI_ATTRIBUTES)
    yield (_EQUAL, 1, 0, 0)
    yield _KEEP
    if stacked is None or stacked:
        yield (_LOAD_WORD, *_NO_CONDITION, _IFI_INDEX)
        yield from _keep_if_any(stacked)
    yield _DROP


def _find(attribute: int, first_at: int) -> Iterator[Step]:
    """Load the offset of an attribute, 0 if it is absent."""
    yield (_SET_A, *_NO_CONDITION, first_at)
    yield (_SET_X, *_NO_CONDITION, attribute)
    yield (_LOAD_WORD, *_NO_CONDITION, _FIND_ATTRIBUTE)


def _keep_if_any(ifindexes: Interfaces) -> Iterator[Step]:
    if ifindexes is None or len(ifindexes) > WATCHED_AT_MOST:
        yield _KEEP
        return
    for ifindex in sorted(ifindexes):
        yield (_EQUAL, 0, 1, int.from_bytes(struct.pack("=I", ifindex), "big"))
        yield _KEEP
