"""Evaluates selector objects: the verdicts on one device, and why one can match nothing here."""

from __future__ import annotations

from agent.kinds import Kind
from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.selectors.classes import criteria_for
from agent.selectors.criteria import Criterion, SelectorObject, Verdict
from agent.selectors.present_values import first_texts, present_values
from agent.selectors.table import SELECTORS


def evaluate(
    device: Device, selector_object: SelectorObject, snapshot: Snapshot
) -> tuple[Verdict, ...]:
    """The verdict of each selector in the order of the criteria, also after the first refusal."""
    criteria = criteria_for(selector_object, device.kind, (device,))
    return tuple(_verdict(device, criterion, snapshot) for criterion in criteria)


def first_refusal(
    device: Device, selector_object: SelectorObject, snapshot: Snapshot
) -> Criterion | None:
    """The first criterion that the device does not satisfy; None = it satisfies all."""
    for criterion in criteria_for(selector_object, device.kind, (device,)):
        if not SELECTORS[criterion.key].matches(device, criterion.wanted, snapshot):
            return criterion
    return None


def diagnose(selector_object: SelectorObject, kind: Kind, snapshot: Snapshot) -> tuple[str, ...]:
    """Sentences about selectors that cannot match on this host: cause and fix.

    Each selector is looked at alone, regardless of what the others leave. Linear in devices; the
    counts are made once for a snapshot.
    """
    counted = present_values(kind, snapshot)
    return tuple(
        text
        for criterion in selector_object.criteria
        for text in first_texts(SELECTORS[criterion.key].diagnose(criterion.wanted, counted))
    )


def _verdict(device: Device, criterion: Criterion, snapshot: Snapshot) -> Verdict:
    selector = SELECTORS[criterion.key]
    return Verdict(
        key=criterion.key,
        wanted=selector.text_of(criterion.wanted),
        actual=selector.describe(device, snapshot),
        passed=selector.matches(device, criterion.wanted, snapshot),
    )
