"""Health of single devices."""

from __future__ import annotations

from agent.config.schema import SelectorObject
from agent.health.link import LinkAssessor
from agent.health.verdict import Health
from agent.model.device import Device
from agent.model.link import Links
from agent.model.snapshot import Snapshot


def check_link(
    device: Device, snapshot: Snapshot, links: Links, selectors: SelectorObject | None = None
) -> Health:
    """The health of a device as far as its link is concerned."""
    return LinkAssessor(snapshot, links).assess(device, selectors)
