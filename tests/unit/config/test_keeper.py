from __future__ import annotations

from pathlib import Path

import pytest

from agent.bus import Bus
from agent.config.keeper import ConfigKeeper
from tests.support.log_lines import LogLines

GOOD = '{"resourceList": [{"resourceName": "net", "selectors": {"vendors": ["8086"]}}]}'


def keeper_of(path: Path, node_name: str | None = None) -> ConfigKeeper:
    return ConfigKeeper(path, Bus(), prefix="intel.com", node_name=node_name, strict=False)


async def lost_its_file(folder: Path) -> ConfigKeeper:
    """A keeper that began with a file in the folder, which has gone since."""
    file = folder / "config.json"
    file.write_text(GOOD)
    keeper = keeper_of(folder)
    await keeper.start()
    file.unlink()
    await keeper.reload()
    return keeper


async def test_a_file_that_goes_from_a_plain_folder_takes_no_pools_away(
    tmp_path: Path, log_lines: LogLines
) -> None:
    keeper = await lost_its_file(tmp_path)
    assert [p.name for p in keeper.config.pools] == ["net"]
    (rejected,) = log_lines.fields("config.rejected")
    assert rejected["reason"].startswith(f"{tmp_path} holds no config.json")
    (tmp_path / "config.json").write_text(GOOD)
    await keeper.reload()
    assert keeper.standing.rejected == ""


async def test_a_key_that_goes_from_a_config_map_takes_its_pools_along(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    keeper = await lost_its_file(tmp_path)
    assert (keeper.config.pools, keeper.standing.rejected) == ((), "")


@pytest.mark.parametrize("is_config_map", [True, False])
async def test_a_folder_without_a_file_at_the_start_is_idle_until_one_comes(
    tmp_path: Path, *, is_config_map: bool
) -> None:
    if is_config_map:
        (tmp_path / "..data").mkdir()
    keeper = keeper_of(tmp_path, "worker-1")
    await keeper.start()
    await keeper.reload()
    assert (keeper.config.pools, keeper.standing.in_force) == ((), True)
    assert keeper.standing.rejected == ""
    assert "holds neither worker-1 nor config.json" in keeper.standing.idle
    (tmp_path / "worker-1").write_text(GOOD)
    await keeper.reload()
    assert (keeper.standing.path, keeper.standing.idle) == (str(tmp_path / "worker-1"), "")
    assert [p.name for p in keeper.config.pools] == ["net"]


async def test_a_folder_that_cannot_be_looked_into_keeps_what_is_in_force(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "config.json").write_text(GOOD)
    keeper = keeper_of(folder)
    await keeper.start()
    folder.rename(tmp_path / "away")
    folder.symlink_to(folder)
    await keeper.reload()
    assert [p.name for p in keeper.config.pools] == ["net"]
    assert "Too many levels of symbolic links" in keeper.standing.rejected
