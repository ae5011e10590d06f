"""Writes the pages that are made from the code's own tables; with --check, says what is stale."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agent.config.reference import Row, pool_rows, selector_rows

DOCS = Path(__file__).resolve().parent


def configuration() -> str:
    """docs/configuration.md: every key of the configuration file."""
    return "\n".join(
        [
            "# Configuration reference",
            "",
            '`{"resourceList": [pool, ...]}`, the file of the SR-IOV network device plugin. Keys',
            "match without regard to case; null is absent; an empty list is no filter. Keys marked",
            "with * are extensions. `sriov-agent validate FILE` checks a file.",
            "",
            "## Keys of a pool",
            "",
            *_table(pool_rows()),
            "",
            "## Selectors",
            "",
            "All selectors of an object must hold. A list of objects is tried in order. They stand",
            "here in the order in which a pool's funnel applies them.",
            "",
            *_table(selector_rows()),
            "",
        ]
    )


def _table(rows: Iterable[Row]) -> Iterable[str]:
    yield "| key | device types | meaning | values | example |"
    yield "|---|---|---|---|---|"
    for row in rows:
        star = "*" if row.is_extension else ""
        cells = (f"`{row.key}`{star}", ", ".join(row.kinds), row.meaning, row.allowed)
        yield "| " + " | ".join((*map(_cell, cells), f"`{_cell(row.example)}`")) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


PAGES: Mapping[str, Callable[[], str]] = {"configuration.md": configuration}


def stale() -> list[str]:
    """Names of pages whose committed text is not what the code makes."""
    return [n for n, make in PAGES.items() if (DOCS / n).read_text() != make()]


def main() -> int:
    """Write, or compare; exit code 1 where a page is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    if parser.parse_args().check:
        for name in stale():
            print(f"stale: docs/{name}: run python docs/generate.py")
        return 1 if stale() else 0
    for name, make in PAGES.items():
        (DOCS / name).write_text(make())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
