"""How large a configuration may be: each limit is named, with what was found and where."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.bus import Bus
from agent.config import watcher as keeper_module
from agent.config.limits import (
    MAX_ENTRIES,
    MAX_LENGTH,
    MAX_OBJECTS_OF_FILE,
    MAX_POOLS,
    MAX_SELECTOR_OBJECTS,
    MAX_VALUES_OF_FILE,
)
from agent.config.load import Loaded, load_config
from agent.config.watcher import LARGE_BYTES, ConfigWatcher

VENDOR = {"vendors": ["8086"]}


def load(*pools: dict[str, Any]) -> Loaded:
    data = json.dumps({"resourceList": pools}).encode()
    return load_config(data, source="f", default_prefix="x.io", strict=False)


def pool(name: str, selectors: object) -> dict[str, Any]:
    return {"resourceName": name, "selectors": selectors}


def errors(loaded: Loaded) -> list[tuple[str, str]]:
    return [(p.path, p.message) for p in loaded.errors]


def test_a_file_with_as_many_pools_as_allowed_is_served_and_one_with_more_refused() -> None:
    pools = [pool(f"p{n}", VENDOR) for n in range(MAX_POOLS + 1)]
    whole = load(*pools[:-1])
    assert whole.config is not None
    assert (len(whole.config.pools), whole.problems) == (MAX_POOLS, ())
    refused = load(*pools)
    assert refused.config is None
    assert errors(refused) == [("$.resourceList", "1001 pools, at most 1000 are allowed")]


def test_a_pool_with_too_many_selector_objects_is_refused_and_the_others_served() -> None:
    loaded = load(
        pool("many", [VENDOR] * (MAX_SELECTOR_OBJECTS + 1)),
        pool("most", [VENDOR] * MAX_SELECTOR_OBJECTS),
    )
    assert loaded.config is not None
    assert [p.name for p in loaded.config.pools] == ["most"]
    assert errors(loaded) == [
        ("$.resourceList[0].selectors", "257 selector objects, at most 256 are allowed")
    ]


@pytest.mark.parametrize("key", ["pciAddresses", "pfNames", "rootDevices", "acpiIndexes"])
def test_a_list_with_too_many_values_is_refused(key: str) -> None:
    is_address = key in {"pciAddresses", "rootDevices"}
    values = [f"{n:04x}:3b:00.0" if is_address else f"{n}" for n in range(MAX_ENTRIES + 1)]
    assert errors(load(pool("r", {key: values}))) == [
        (f"$.resourceList[0].selectors.{key}", "8193 values, at most 8192 are allowed")
    ]
    assert errors(load(pool("r", {key: values[:-1]}))) == []


@pytest.mark.parametrize("key", ["vendors", "drivers", "pfNames", "ddpProfiles", "pciAddresses"])
def test_a_value_that_is_too_long_is_left_out_and_the_others_count(key: str) -> None:
    good = {"vendors": "8086", "pciAddresses": "0000:3b:00.0"}.get(key, "good")
    loaded = load(pool("r", {key: ["x" * (MAX_LENGTH + 1), good]}))
    assert loaded.config is not None
    assert errors(loaded) == []
    (warning,) = loaded.problems
    assert warning.path == f"$.resourceList[0].selectors.{key}[0]"
    assert "is 4097 characters long, at most 4096 are allowed" in warning.message
    assert len(warning.message) < 400


def test_all_pools_together_have_limits_too() -> None:
    each = MAX_SELECTOR_OBJECTS
    pools = [pool(f"p{n}", [VENDOR] * each) for n in range(MAX_OBJECTS_OF_FILE // each + 1)]
    assert errors(load(*pools)) == [
        ("$.resourceList", "4352 selector objects in all pools, at most 4096 are allowed")
    ]
    drivers = [[f"d{n}-{i}" for i in range(MAX_ENTRIES)] for n in range(4)]
    pools = [pool(f"p{n}", {"drivers": drivers[n]}) for n in range(4)]
    assert errors(load(*pools)) == [
        ("$.resourceList", "32772 values of selectors in all pools, at most 32768 are allowed")
    ]
    assert MAX_VALUES_OF_FILE == 32768


def test_the_work_of_loading_grows_with_the_number_of_pools() -> None:
    _, few, more, many = map(lines_run, (1, 50, 100, 200))  # the first fills caches
    assert (many - more) / (more - few) == pytest.approx(2, rel=0.02)


def lines_run(pools: int) -> int:
    """How many lines of Python loading so many pools takes."""
    described = [pool(f"net{n}", [VENDOR, {"pfNames": [f"ens{n}#0-7"]}]) for n in range(pools)]
    count = 0

    def trace(_frame: object, event: str, _arg: object) -> Any:  # noqa: ANN401 - of sys.settrace
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        loaded = load(*described)
    finally:
        sys.settrace(before)
    assert loaded.problems == ()
    return count


@pytest.mark.parametrize(("size", "beside"), [(LARGE_BYTES + 1, True), (LARGE_BYTES, False)])
async def test_a_large_file_is_read_without_blocking_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, *, beside: bool
) -> None:
    """What is watched is the real function: only where it runs is asked for."""
    path = tmp_path / "config.json"
    threads: list[bool] = []

    def watched(*args: Any, **kwargs: Any) -> Loaded:  # noqa: ANN401 - the function's own
        threads.append(threading.current_thread() is not threading.main_thread())
        return load_config(*args, **kwargs)

    monkeypatch.setattr(keeper_module, "load_config", watched)
    config_watcher = ConfigWatcher(
        path, Bus(), prefix="x.io", node_name=None, strict=False, cdi=False
    )
    text = json.dumps({"resourceList": [pool("a", VENDOR)]})
    path.write_text(text.ljust(size))
    await config_watcher.start()
    path.write_text(text.replace('"a"', '"b"').ljust(size))
    await config_watcher.reload()
    assert [p.name for p in config_watcher.config.pools] == ["b"]
    assert threads == [beside, beside]
