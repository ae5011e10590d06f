"""Values of additionalInfo may be secrets of workloads: no log line and no problem tells any."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.allocator import Allocator
from agent.bus import Bus
from agent.config.load import load_config
from agent.config.watcher import ConfigWatcher
from agent.errors import ConfigError, DeviceNotUsableError
from agent.model.device import Device
from agent.roots import Roots
from tests.support.devices import host, pf, vf
from tests.support.log_lines import LogLines
from tests.support.pools import assigned, pool

VALUE = "Tr0ub4dorAnd3"
PF0 = pf("0000:3b:00.0", "pf0", num_vfs=4)
VF = vf("0000:3b:02.0", PF0, 0)
PLACES = st.sampled_from(["*", VF.id, "mlx5_core.sf.4", "nonsense", "3b:02.0", ""])
VALUES = st.recursive(
    st.just(VALUE) | st.sampled_from([7, True, None, "plain"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("key"), inner),
    max_leaves=3,
)
INFO = VALUES | st.dictionaries(PLACES, VALUES, max_size=3)
DAMAGE = st.sampled_from(["", "'", "}", ",", "\\", "\n", "nul", "#"])


def file_with(info: object) -> str:
    return json.dumps({"resourceList": [pool("vf", additionalInfo=info)]}, indent=1)


@given(info=INFO, strict=st.booleans())
def test_no_problem_of_a_file_contains_a_value(info: object, strict: bool) -> None:  # noqa: FBT001
    loaded = load_config(
        file_with(info).encode(), source="c.json", default_prefix="intel.com", strict=strict
    )
    assert VALUE not in "\n".join(loaded.lines())


@given(data=st.data(), damage=DAMAGE)
def test_no_problem_of_an_invalid_file_contains_a_quoted_value(
    data: st.DataObject, damage: str
) -> None:
    whole = file_with({"*": {"key": VALUE, "more": VALUE}})
    at = data.draw(st.integers(0, len(whole)))
    broken = whole[:at] + damage + (whole[at:] if data.draw(st.booleans()) else "")
    loaded = load_config(broken.encode(), source="c.json", default_prefix="intel.com")
    assert VALUE not in "\n".join(loaded.lines())


async def test_log_events_on_valid_and_invalid_files_contain_no_value(
    tmp_path: Path, log_lines: LogLines
) -> None:
    path = tmp_path / "config.json"
    config_watcher = ConfigWatcher(
        path, Bus(), prefix="intel.com", node_name=None, strict=False, cdi=False
    )
    for info in ({"*": {"key": VALUE}}, {"*": VALUE}, VALUE, [VALUE], {"x": {"k": [VALUE]}}):
        path.write_text(file_with(info))
        if not config_watcher.status.in_force:
            await config_watcher.start()
        await config_watcher.reload()
    assert "config.rejected" in log_lines.events()
    assert VALUE not in log_lines.stream.getvalue()
    assert VALUE not in str(attrs.asdict(config_watcher.status))


async def test_the_error_on_a_file_that_is_refused_at_the_start_contains_no_value(
    tmp_path: Path, log_lines: LogLines
) -> None:
    path = tmp_path / "config.json"
    path.write_text(file_with({"*": VALUE}))
    config_watcher = ConfigWatcher(
        path, Bus(), prefix="intel.com", node_name=None, strict=False, cdi=False
    )
    with pytest.raises(ConfigError) as refused:
        await config_watcher.start()
    assert VALUE not in str(refused.value)
    assert "config.error" in log_lines.events()
    assert VALUE not in log_lines.stream.getvalue()


async def test_an_allocation_passes_the_value_to_the_container_only(
    tmp_path: Path, log_lines: LogLines
) -> None:
    roots = Roots(tmp_path)
    pools = assigned(host(PF0, VF), pool("vf", additionalInfo={"*": {"key": VALUE}}))
    allocator = Allocator(roots, Bus(), lambda: pools, unchanged)
    answer = await allocator.allocate("intel.com/vf", (VF.id,))
    info: dict[str, Any] = json.loads(dict(answer.envs)["PCIDEVICE_INTEL_COM_VF_INFO"])
    assert info[VF.id]["extra"] == {"key": VALUE}
    assert log_lines.events() == ["allocation.made"]
    assert VALUE not in log_lines.stream.getvalue()
    written = await asyncio.to_thread(
        lambda: [p.read_text() for p in tmp_path.rglob("*") if p.is_file()]
    )
    assert written
    assert VALUE not in "".join(written)


async def test_the_error_of_a_refused_allocation_contains_no_value(
    tmp_path: Path, log_lines: LogLines
) -> None:
    pools = assigned(host(PF0, VF), pool("vf", additionalInfo={"*": {"key": VALUE}}))
    allocator = Allocator(Roots(tmp_path), Bus(), lambda: pools, lambda _: ())
    with pytest.raises(DeviceNotUsableError) as refused:
        await allocator.allocate("intel.com/vf", (VF.id,))
    assert VALUE not in str(refused.value)
    assert "allocation.refused" in log_lines.events()
    assert VALUE not in log_lines.stream.getvalue()


def unchanged(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    return devices
