"""What pools ask for that a scan reads on request only."""

from __future__ import annotations

from agent.config.schema import Config
from agent.model.pci_class import class_need


def class_needs(config: Config) -> frozenset[str]:
    """The PCI classes that selectors name, in the form that a scan takes."""
    return frozenset(
        class_need(digits)
        for pool in config.pools
        for selectors in pool.selectors
        for criterion in selectors.criteria
        if criterion.key == "classes"
        for digits in criterion.wanted
    )
