"""One function per selector, in a table from which validation, matching and docs derive."""

from __future__ import annotations

from agent.selectors.criteria import Criterion, SelectorObject, Verdict
from agent.selectors.evaluate import diagnose, evaluate, first_refusal
from agent.selectors.selector import Selector, Shape
from agent.selectors.table import SELECTORS

__all__ = [
    "SELECTORS",
    "Criterion",
    "Selector",
    "SelectorObject",
    "Shape",
    "Verdict",
    "diagnose",
    "evaluate",
    "first_refusal",
]
