"""Runs the benchmarks of two checkouts in turn and prints their figures side by side.

``python -m tests.bench.compare CHECKOUT`` compares this checkout with another one, for example a
worktree of the commit before a change. Each benchmark runs ``--rounds`` times in each of them, one
after the other; the least value of each figure counts, since other work on the machine only adds.
``--python`` is the interpreter of an environment in which the other checkout's requirements are
installed. Exit code 1 if a figure is worse by more than ``--most`` percent; figures of memory are
printed and not judged.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from tests.bench.harness import HOSTS, shown
from tests.bench.report import BENCHES

_HERE = Path(__file__).parents[2]
_NOT_JUDGED = frozenset({"memory"})


@attrs.frozen
class Checkout:
    """A checkout, the interpreter that runs it, and a folder for its hosts."""

    root: Path
    python: str
    folder: Path

    def compile(self) -> None:
        """Write the bytecode of the agent and its libraries, which some installers do not."""
        libraries = "import sysconfig; print(sysconfig.get_path('purelib'))"
        found = subprocess.check_output([self.python, "-c", libraries], text=True).strip()
        command = [self.python, "-m", "compileall", "-qq", found, str(self.root / "agent")]
        subprocess.run(command, check=False)  # some libraries contain files that do not compile

    def figures(self, bench: str, *, quick: bool) -> list[dict[str, object]]:
        """Run one benchmark; its figures in their order."""
        found = self.folder / "figures.json"
        command = [self.python, "-m", f"tests.bench.{bench}", "--json", str(found)]
        command += ["--quick"] if quick else []
        env = {**os.environ, "PYTHONPATH": str(self.root), HOSTS: str(self.folder)}
        subprocess.run(command, check=True, cwd=self.root, env=env, stdout=subprocess.DEVNULL)
        figures: list[dict[str, object]] = json.loads(found.read_text())["figures"]
        return figures


@attrs.frozen
class Pair:
    """One figure before and after."""

    stage: str
    name: str
    unit: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """In percent of the value before."""
        return 100 * (self.after / self.before - 1) if self.before else 0.0

    def __str__(self) -> str:
        values = f"{shown(self.before):>9} -> {shown(self.after):>9} {self.unit:<8}"
        return f"{self.stage:<10} {self.name:<66} {values} {self.change:+6.1f} %"


def main() -> int:
    """Compare; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compare", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the other checkout")
    parser.add_argument("--python", default=sys.executable, help="its interpreter")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each benchmark; default 3")
    parser.add_argument("--quick", action="store_true", help="few rounds and small hosts")
    parser.add_argument("--most", type=float, default=10.0, help="percent; default 10")
    parser.add_argument("bench", nargs="*", default=BENCHES, help="only these")
    options = parser.parse_intermixed_args()
    worse = False
    with TemporaryDirectory(dir="/dev/shm") as one, TemporaryDirectory(dir="/dev/shm") as other:
        before = Checkout(options.checkout.resolve(), options.python, Path(one))
        after = Checkout(_HERE, sys.executable, Path(other))
        before.compile()
        after.compile()
        for bench in options.bench:
            for pair in compared(before, after, bench, options.rounds, quick=options.quick):
                print(pair, flush=True)
                worse |= pair.stage not in _NOT_JUDGED and pair.change > options.most
    return int(worse)


def compared(
    before: Checkout, after: Checkout, bench: str, rounds: int, *, quick: bool
) -> Iterator[Pair]:
    """The figures of one benchmark that both checkouts have, matched by their order."""
    runs: dict[Path, list[list[dict[str, object]]]] = {before.root: [], after.root: []}
    for number in range(rounds):
        for checkout in (before, after) if number % 2 == 0 else (after, before):
            runs[checkout.root].append(checkout.figures(bench, quick=quick))
    for old, new in zip(
        zip(*runs[before.root], strict=True), zip(*runs[after.root], strict=True), strict=False
    ):
        stage, name, unit = (str(new[0][key]) for key in ("stage", "name", "unit"))
        yield Pair(stage, name, unit, least(old), least(new))


def least(runs: Sequence[dict[str, object]]) -> float:
    """The least value of a figure in several runs."""
    return min(float(str(figure["value"])) for figure in runs)


if __name__ == "__main__":
    sys.exit(main())
