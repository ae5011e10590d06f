"""One function per selector, in a table from which validation, matching and docs derive."""

from __future__ import annotations

from agent.selectors.criteria import Criterion, SelectorSet, Verdict
from agent.selectors.judge import first_refusal, hints, judge
from agent.selectors.selector import Selector, Shape
from agent.selectors.table import SELECTORS

__all__ = [
    "SELECTORS",
    "Criterion",
    "Selector",
    "SelectorSet",
    "Shape",
    "Verdict",
    "first_refusal",
    "hints",
    "judge",
]
