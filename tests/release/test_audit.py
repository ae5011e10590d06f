"""What the locks name: no known vulnerability, and files with the digests that were reviewed.

The first needs a source of vulnerabilities, and says so where none can be reached. The second
needs the package index only, and stands for itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.release.artifacts import REPOSITORY, run

LOCKS = pytest.mark.parametrize("lock", ["requirements.lock", "tests/requirements.lock"])
_SOURCES = ("pypi", "osv")


@LOCKS
def test_nothing_in_a_lock_has_a_known_vulnerability(lock: str) -> None:
    unreached = []
    for source in _SOURCES:
        report, trouble = _audited(lock, source)
        known = {d["name"]: d["vulns"] for d in report if d.get("vulns")}
        assert known == {}
        missed = [d["name"] for d in report if "skip_reason" in d]
        if report and not missed:
            return
        unreached.append(f"{source}: {trouble or 'knows nothing of ' + ', '.join(missed)}")
    pytest.skip("NOT AUDITED, no source has data: " + "; ".join(unreached))


def _audited(lock: str, source: str) -> tuple[list[Mapping[str, Any]], str]:
    """What is known of each package of a lock, and what kept pip-audit from telling."""
    told = subprocess.run(
        [
            *(sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"),
            *("--vulnerability-service", source, "--format", "json", "--progress-spinner", "off"),
            *("--requirement", lock),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        return json.loads(told.stdout)["dependencies"], ""
    except ValueError:
        return [], (told.stderr.strip().splitlines() or ["no answer"])[-1][:300]


@LOCKS
def test_the_package_index_has_the_files_of_the_locks(lock: str, tmp_path: Path) -> None:
    run(
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
        *("--no-deps", "--require-hashes", "--dest", tmp_path, "--requirement", lock),
        cwd=REPOSITORY,
    )
    assert list(tmp_path.iterdir())
