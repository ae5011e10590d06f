"""Each set of values of the matrix renders, byte for byte, what was looked at and found good."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.helm import Helm
from tests.chart.values import MATRIX

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", MATRIX)
def test_the_chart_renders_the_golden_manifests(
    helm: Helm, name: str, request: pytest.FixtureRequest
) -> None:
    golden = GOLDEN / f"{name}.yaml"
    rendered = _without_blank_lines(helm.template(MATRIX[name]))
    if request.config.getoption("--write-golden", default=False):
        golden.write_text(rendered, encoding="utf-8")
    assert rendered == golden.read_text("utf-8")


def _without_blank_lines(text: str) -> str:
    """Major versions of helm differ in the blank lines between documents."""
    return "".join(line for line in text.splitlines(keepends=True) if line.strip())


@pytest.mark.parametrize("name", ["defaults", "pools", "takeover", "pod-monitor", "bare"])
def test_the_notes_after_an_install_say_how_to_check_it(
    newest_helm: Helm, name: str, request: pytest.FixtureRequest
) -> None:
    golden = GOLDEN / f"{name}.notes.txt"
    notes = newest_helm.notes(MATRIX[name])
    if request.config.getoption("--write-golden", default=False):
        golden.write_text(notes, encoding="utf-8")
    assert notes == golden.read_text("utf-8")


@pytest.mark.parametrize(("address", "is_local"), [("10.1.1.1", False), ("127.0.0.2", True)])
def test_the_notes_name_no_address_without_a_listener(
    newest_helm: Helm, address: str, *, is_local: bool
) -> None:
    notes = newest_helm.notes({"http": {"enabled": True, "address": address}})
    assert ("port-forward" in notes) == is_local
    assert (f"port 9811 of {address}" in notes) != is_local


def test_every_golden_file_belongs_to_a_set_of_values() -> None:
    assert {path.name.partition(".")[0] for path in GOLDEN.iterdir()} == set(MATRIX)
