"""``needVhostNet``: an option that selects nothing; pods get /dev/vhost-net and /dev/net/tun."""

from __future__ import annotations

from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.selectors.selector import NETDEV_KINDS, Selector, Shape


def matches_any(_device: Device, _wanted: bool, _snapshot: Snapshot) -> bool:  # noqa: FBT001
    """Every device matches."""
    return True


NEED_VHOST_NET = Selector(
    key="needVhostNet",
    kinds=NETDEV_KINDS,
    meaning="true = pods get /dev/vhost-net and /dev/net/tun; filters nothing.",
    allowed="true or false",
    example=True,
    shape=Shape.BOOL,
    matches=matches_any,
    describe=lambda _device, _snapshot: "an option, not a filter",
    to_text=lambda wanted: "true" if wanted else "false",
    to_json=bool,
    grants="need_vhost_net",
    is_filter=False,
)
