from __future__ import annotations

import asyncio
import io
from pathlib import Path

from agent.cli.validate import run_validate
from agent.model.snapshot import Snapshot
from tests.support.devices import host, pf

GOOD = '{"resourceList": [{"resourceName": "r", "selectors": {"pfNames": ["pf0"]}}]}'


async def validated(
    path: Path, node_name: str | None = None, snapshot: Snapshot | None = None
) -> tuple[int, str]:
    """In a thread, since validate has a loop of its own."""
    out = io.StringIO()
    code = await asyncio.to_thread(
        run_validate,
        path,
        default_prefix="intel.com",
        out=out,
        node_name=node_name,
        snapshot=snapshot,
    )
    return code, out.getvalue()


async def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    assert await validated(path) == (2, f"{path}: error: {path} does not exist\n")


async def test_a_directory_without_a_key_for_the_node_is_fine(tmp_path: Path) -> None:
    code, told = await validated(tmp_path, "worker-1")
    assert code == 0
    assert "note:" in told


async def test_a_directory_is_validated_by_the_node_s_key(tmp_path: Path) -> None:
    (tmp_path / "worker-1").write_text(GOOD)
    assert await validated(tmp_path, "worker-1") == (
        0,
        (
            f"{tmp_path}/worker-1: 1 pool accepted, 0 refused (no problems)\n"
            "  accepted intel.com/r (netDevice)\n"
        ),
    )


async def test_with_a_host_validate_reports_selectors_that_match_nothing_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.json"
    path.write_text(GOOD)
    code, told = await validated(path, snapshot=host(pf("0000:3b:00.0", "ens1")))
    assert code == 0
    assert told.endswith(
        "on this host: intel.com/r: pfNames: no PF on this host is named pf0; PFs here: ens1\n"
    )


async def test_a_terminal_without_unicode_gets_escapes(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"resourceList": [], "schlüssel": 1}', encoding="utf-8")
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    await asyncio.to_thread(run_validate, path, default_prefix="intel.com", out=out)
    out.flush()
    assert b'unknown key "schl\\xfcssel"' in raw.getvalue()
