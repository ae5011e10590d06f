"""The picture of the demo shows the demo as it is told today, and loads nothing from elsewhere."""

from __future__ import annotations

import html
import inspect
import re
from pathlib import Path

import pytest

from agent.cli import demo
from agent.sample.node import DPDK_POOL

PICTURES = Path(__file__).resolve().parents[3] / "docs/pictures"


def test_every_step_of_the_demo_is_in_the_picture() -> None:
    svg = html.unescape((PICTURES / "demo.svg").read_text())
    rows = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    shown = " ".join(" ".join(rows).replace("\N{NO-BREAK SPACE}", " ").split())
    told = re.findall(r'_step\(f?"([^"]+)"\)', inspect.getsource(demo))
    steps = [step.replace("{DPDK_POOL}", DPDK_POOL) for step in told]
    assert len(steps) >= 7
    assert [step for step in steps if step not in shown] == [], "run python docs/picture.py"


@pytest.mark.parametrize("picture", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_has_no_external_references(picture: Path) -> None:
    assert not re.search(r'(?:href="|src="|url\(["\']?)https?:', picture.read_text())
