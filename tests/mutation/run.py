"""Puts one small fault at a time into a copy of the agent, and runs the tests that must find it.

``tox -e mutation -- --count 71 --seed 1``: so many faults, drawn by the seed from all of them and
run in the order drawn, so that a run that is cut off is a fair sample; without ``--count``, all.
``--only TEXT`` takes the files whose path holds the text, ``--list``
prints the faults and runs nothing. Prints each fault that no test finds, then the share of those
found. Exit code 1 if that is below ``--least`` percent.

The unit tests of a file run first; the others (end-to-end, model, fuzz) where those pass, and
not at all with ``--unit-only``. A fault that makes the tests hang is found: they end at their time
limit. Nothing of the checkout is changed; each worker has a copy of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from tests.mutation.faults import Fault, faults_of
from tests.mutation.targets import EVERY_FILE, SAME_BEHAVIOUR, TESTS

_REPOSITORY = Path(__file__).parents[2]
_PATIENCE_S = 900.0
_SLOWER = 3.0
"""How many times longer than without a fault the tests may take."""
_SPARE_S = 30.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; returns the exit code."""
    options = _parser().parse_args(arguments)
    faults = _drawn(options.only, options.count, options.seed)
    if options.list:
        print(*faults, sep="\n")
        return 0
    with _copies(options.workers) as copies, ThreadPoolExecutor(options.workers) as workers:
        limits = _Limits()
        found = list(
            workers.map(
                lambda f: _is_found(f, copies, limits, is_unit_only=options.unit_only), faults
            )
        )
    survivors = [fault for fault, is_found in zip(faults, found, strict=True) if not is_found]
    share = 100 * sum(found) / max(1, len(found))
    print(f"seed {options.seed}, {'unit tests only' if options.unit_only else 'all mapped tests'}")
    print(f"found {sum(found)} of {len(found)} faults ({share:.0f} %)")
    print(*survivors, sep="\n")
    return 0 if share >= options.least else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tox -e mutation --", description=__doc__)
    parser.add_argument("--count", type=int, help="how many faults; default all")
    parser.add_argument("--seed", type=int, default=1, help="which ones are drawn; default 1")
    parser.add_argument("--only", default="", help="files whose path holds this text")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--least", type=float, default=0.0, help="percent, below which it fails")
    parser.add_argument(
        "--unit-only", action="store_true", help="the unit tests only: quicker, finds fewer"
    )
    parser.add_argument("--list", action="store_true", help="print the faults, run nothing")
    return parser


def _drawn(only: str, count: int | None, seed: int) -> list[Fault]:
    files = [file for file in TESTS if only in file]
    faults = [f for file in files for f in _faults_in(file)]
    if count is None or count >= len(faults):
        return faults
    return random.Random(seed).sample(faults, count)  # noqa: S311 - no secret


def _faults_in(file: str) -> Iterator[Fault]:
    """The faults of a file that change its behaviour."""
    source = (_REPOSITORY / file).read_bytes()
    lines = source.decode().splitlines()
    for fault in faults_of(file, source):
        change = (fault.file, fault.before, fault.after)
        if not any(
            change == (name, before, after) and re.search(pattern, lines[fault.line - 1])
            for name, pattern, before, after in SAME_BEHAVIOUR
        ):
            yield fault


@contextmanager
def _copies(count: int) -> Iterator[SimpleQueue[Path]]:
    """Copies of the checkout, to be taken and given back."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=_REPOSITORY, capture_output=True, check=True).stdout
    files = [os.fsdecode(name) for name in names.split(b"\0") if name]
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            copy = Path(folder) / str(number)
            for file in files:
                if (_REPOSITORY / file).is_file():
                    (copy / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(_REPOSITORY / file, copy / file)
            copies.put(copy)
        yield copies


class _Limits:
    """How long each set of tests may take, measured once without a fault: they must pass then."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._locks: dict[tuple[str, ...], Lock] = {}
        self._limits_s: dict[tuple[str, ...], float] = {}

    def of(self, tests: tuple[str, ...], copy: Path) -> float:
        """Seconds; the first call for a set runs it in a copy that holds no fault."""
        with self._lock:
            lock = self._locks.setdefault(tests, Lock())
        with lock:
            if tests not in self._limits_s:
                began_s = time.monotonic()
                is_passed, output = _pass(copy, tests, _PATIENCE_S)
                if not is_passed:
                    named = " ".join(tests)
                    raise SystemExit(f"without a fault, these tests fail: {named}\n{output}")
                self._limits_s[tests] = _SLOWER * (time.monotonic() - began_s) + _SPARE_S
            return self._limits_s[tests]


def _stages(tests: tuple[str, ...], *, is_unit_only: bool) -> Iterator[tuple[str, ...]]:
    """The unit tests of a file, which take seconds, then the others."""
    unit = tuple(test for test in tests if test.startswith("tests/unit"))
    others = tuple(test for test in tests if test not in unit)
    if unit:
        yield unit
    if others and not is_unit_only:
        yield others


def _is_found(
    fault: Fault, copies: SimpleQueue[Path], limits: _Limits, *, is_unit_only: bool
) -> bool:
    """Whether the tests of a file fail with a fault in it."""
    copy = copies.get()
    path = copy / fault.file
    source = path.read_bytes()
    is_passed = True
    try:
        for tests in _stages((*TESTS[fault.file], *EVERY_FILE), is_unit_only=is_unit_only):
            limit_s = limits.of(tests, copy)
            path.write_bytes(fault.applied(source))
            is_passed, _ = _pass(copy, tests, limit_s)
            path.write_bytes(source)
            if not is_passed:
                break
    finally:
        path.write_bytes(source)
        copies.put(copy)
    print(f"{'SURVIVED' if is_passed else 'found   '} {fault}", flush=True)
    return not is_passed


def _pass(copy: Path, tests: tuple[str, ...], limit_s: float) -> tuple[bool, str]:
    """Whether all tests pass in time, and the end of what they print."""
    # The mutated modules must be compiled anew: a file's time in a .pyc counts in seconds.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            command, cwd=copy, env=env, stdout=output, stderr=output, start_new_session=True
        ) as process,
    ):
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            # Also agents that the tests started and did not stop.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        return code == 0, output.read().decode(errors="replace")[-2000:]


if __name__ == "__main__":
    sys.exit(main())
