from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.export.specs import CdiSpecs
from agent.health.verdict import Cause, Health
from agent.model.device import Device
from agent.pools.allocated import AllocatedDevices, PodOwner
from agent.pools.pool import Pools
from agent.roots import Roots
from tests.support.devices import host, pf, vf
from tests.support.inside import in_own_mounts, needs_root
from tests.support.log_lines import LogLines
from tests.support.pools import Json, assigned, pool
from tests.support.usage import without_descriptors

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=4)
KNOWN = AllocatedDevices(complete=True)


def vfio(index: int, group: int) -> Device:
    return vf(f"0000:3b:02.{index}", PF0, index, driver="vfio-pci", iommu_group=group)


def node(*devices: Device, pools: tuple[Json, ...] = (pool("vf"),)) -> Pools:
    return assigned(host(PF0, *devices), *pools, held=KNOWN)


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return Roots(tmp_path)


def contents(roots: Roots) -> dict[str, str]:
    return {p.name: p.read_text() for p in sorted(roots.cdi.iterdir())}


def in_the_way(roots: Roots, name: str = "sriov-dp-intel.com-net-pci-vf.json") -> Path:
    """A folder where the spec should be: it cannot be replaced by a file."""
    path = roots.cdi / name
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    return path


@contextmanager
def mounted(folder: Path) -> Iterator[None]:
    """A file system of its own at ``folder``."""
    folder.mkdir(parents=True)
    mount("-t", "tmpfs", "tmpfs", folder)
    yield
    unmount(folder)


def mount(*words: str | Path) -> None:
    """Mount something, in mounts of its own."""
    subprocess.run(["mount", *words], check=True)


def unmount(place: Path) -> None:
    """Take it away again."""
    subprocess.run(["umount", place], check=True)


async def test_without_cdi_nothing_is_written(roots: Roots) -> None:
    assert await CdiSpecs(roots, on=False).write(node(vfio(0, 21))) == {}
    assert not roots.cdi.exists()


async def test_each_pool_has_its_spec_in_the_folder_that_runtimes_read(roots: Roots) -> None:
    pools = (pool("a", {"pfNames": ["pf0#0"]}), pool("b"))
    assert await CdiSpecs(roots, on=True).write(node(vfio(0, 21), vfio(1, 22), pools=pools)) == {}
    assert roots.cdi == roots.host / "var/run/cdi"
    assert list(contents(roots)) == [
        "sriov-dp-intel.com-net-pci-a.json",
        "sriov-dp-intel.com-net-pci-b.json",
    ]


async def test_unchanged_records_are_not_compared_in_depth(
    roots: Roots, log_lines: LogLines
) -> None:
    specs = CdiSpecs(roots, on=True)
    await specs.write(node(vfio(0, 21)))
    in_the_way(roots)
    assert await specs.write(node(vfio(0, 21))) == {}
    assert log_lines.events() == ["cdi.written"]


async def test_a_spec_that_cannot_be_written_makes_its_devices_unhealthy_until_it_can(
    roots: Roots, log_lines: LogLines
) -> None:
    specs = CdiSpecs(roots, on=True)
    obstacle = in_the_way(roots)
    plain = vf("0000:3b:02.1", PF0, 1)
    for _ in range(3):
        failed = await specs.write(node(vfio(0, 21), plain))
        (verdict,) = failed["intel.com/vf"].values()
        assert list(failed["intel.com/vf"]) == ["0000:3b:02.0"]
        assert (verdict.cause, "CDI spec cannot be written" in verdict.detail) == (Cause.NODE, True)
    obstacle.rmdir()
    assert await specs.write(node(vfio(0, 21), plain)) == {}
    assert list(contents(roots)) == [obstacle.name]
    assert log_lines.events() == ["cdi.failed", "cdi.written"]


async def test_after_a_failure_facts_that_return_to_an_earlier_state_are_written_again(
    roots: Roots,
) -> None:
    specs = CdiSpecs(roots, on=True)
    await specs.write(node(vfio(0, 21)))
    obstacle = in_the_way(roots)
    assert await specs.write(node(vfio(0, 22)))
    obstacle.rmdir()
    assert await specs.write(node(vfio(0, 21))) == {}
    assert list(contents(roots)) == [obstacle.name]


@needs_root
def test_entries_that_are_up_to_date_are_valid_even_if_nothing_can_be_written(
    roots: Roots, log_lines: LogLines
) -> None:
    async def work() -> tuple[dict[str, Health], object]:
        specs = CdiSpecs(roots, on=True)
        with mounted(roots.cdi):
            assert await specs.write(node(vfio(0, 21), vfio(1, 22), vfio(2, 23))) == {}
            mount("-o", "remount,ro", roots.cdi)
            failed = await specs.write(node(vfio(0, 21), vfio(1, 24), vfio(3, 25)))
            mount("-o", "remount,rw", roots.cdi)
            return dict(failed["intel.com/vf"]), await specs.write(node(vfio(0, 21), vfio(1, 24)))

    failed, afterwards = in_own_mounts(lambda: asyncio.run(work()))
    assert list(failed) == ["0000:3b:02.1", "0000:3b:02.3"]  # another group; new
    assert afterwards == {}
    (line,) = log_lines.fields("cdi.failed")
    assert line["error"].endswith("mount it writable")


@needs_root
def test_a_device_that_two_specs_name_is_not_listed_until_the_first_spec_can_be_written(
    roots: Roots,
) -> None:
    device = vfio(0, 21)
    both = (pool("a", {"pfNames": ["pf0#0"]}), pool("b", {"pfNames": ["pf0#1"]}))
    moved = (pool("a", {"pfNames": ["pf0#7"]}), pool("b"))

    async def work() -> tuple[dict[str, Health], object]:
        specs = CdiSpecs(roots, on=True)
        await specs.write(node(device, pools=both))
        held_fast = roots.cdi / "sriov-dp-intel.com-net-pci-a.json"
        mount("--bind", held_fast, held_fast)  # it cannot go
        failed = await specs.write(node(device, pools=moved))
        unmount(held_fast)
        return dict(failed["intel.com/b"]), await specs.write(node(device, pools=moved))

    failed, afterwards = in_own_mounts(lambda: asyncio.run(work()))
    assert failed[device.id].detail == "the CDI spec of intel.com/a still names it"
    assert afterwards == {}
    assert list(contents(roots)) == ["sriov-dp-intel.com-net-pci-b.json"]


async def test_a_pool_that_is_removed_while_its_spec_fails_is_no_longer_a_fault(
    roots: Roots,
) -> None:
    specs = CdiSpecs(roots, on=True)
    in_the_way(roots)
    assert await specs.write(node(vfio(0, 21)))
    assert await specs.write(node(vfio(0, 21), pools=())) == {}


async def test_one_pool_that_fails_does_not_prevent_writing_the_others(
    roots: Roots,
) -> None:
    in_the_way(roots, "sriov-dp-intel.com-net-pci-a.json")
    pools = (pool("a", {"pfNames": ["pf0#0"]}), pool("b"))
    failed = await CdiSpecs(roots, on=True).write(node(vfio(0, 21), vfio(1, 22), pools=pools))
    assert list(failed) == ["intel.com/a"]
    assert "sriov-dp-intel.com-net-pci-b.json" in [p.name for p in roots.cdi.glob("*b.json")]


async def test_a_pool_that_is_removed_loses_its_spec_and_gets_it_again(
    roots: Roots, log_lines: LogLines
) -> None:
    specs = CdiSpecs(roots, on=True)
    await specs.write(node(vfio(0, 21)))
    before = contents(roots)
    await specs.write(node(vfio(0, 21), pools=()))
    assert contents(roots) == {}
    await specs.write(node(vfio(0, 21)))
    assert contents(roots) == before
    assert log_lines.events() == ["cdi.written", "cdi.removed", "cdi.written"]


async def test_nothing_that_a_pod_may_hold_is_removed_before_kubelet_has_reported(
    roots: Roots,
) -> None:
    await CdiSpecs(roots, on=True).write(node(vfio(0, 21), pools=(pool("old"),)))
    specs = CdiSpecs(roots, on=True)
    unknown = assigned(host(PF0), pool("new"))
    await specs.write(unknown)
    assert list(contents(roots)) == ["sriov-dp-intel.com-net-pci-old.json"]
    await specs.write(node(pools=(pool("new"),)))
    assert contents(roots) == {}


async def test_a_device_that_moves_to_another_pool_is_removed_from_the_old_spec_at_once(
    roots: Roots,
) -> None:
    await CdiSpecs(roots, on=True).write(node(vfio(0, 21), pools=(pool("old"),)))
    specs = CdiSpecs(roots, on=True)
    await specs.write(assigned(host(PF0), pool("new")))
    await specs.write(assigned(host(PF0, vfio(0, 21)), pool("new")))
    assert list(contents(roots)) == ["sriov-dp-intel.com-net-pci-new.json"]


async def test_the_entry_of_a_held_device_is_kept_while_descriptors_are_exhausted(
    roots: Roots,
) -> None:
    specs = CdiSpecs(roots, on=True)
    await specs.write(node(vfio(0, 7)))
    before = contents(roots)
    holder = PodOwner("intel.com/vf", "pod", "default", "main")
    gone = assigned(
        host(PF0), pool("vf"), held=AllocatedDevices({vfio(0, 7).id: holder}, complete=True)
    )
    with without_descriptors():
        assert "intel.com/vf" in await specs.write(gone)
    assert not await specs.write(gone)
    assert contents(roots) == before


async def test_leftovers_that_cannot_be_removed_are_logged_once_and_tried_again(
    roots: Roots, log_lines: LogLines
) -> None:
    specs = CdiSpecs(roots, on=True)
    obstacle = in_the_way(roots, "sriov-dp-intel.com-net-pci-old.json")
    for _ in range(2):
        assert await specs.write(node(vfio(0, 21))) == {}
    obstacle.rmdir()
    obstacle.write_text("{}")
    await specs.write(node(vfio(0, 21)))
    assert log_lines.events() == ["cdi.written", "cdi.skipped", "cdi.removed"]


@pytest.mark.parametrize("prefix", ["3com.io", "0.example.com"])
async def test_a_prefix_that_runtimes_reject_as_a_vendor_is_reported_with_the_fix(
    roots: Roots, log_lines: LogLines, prefix: str
) -> None:
    pools = (pool("vf", {"pfNames": ["pf0#0"]}, resourcePrefix=prefix), pool("other"))
    failed = await CdiSpecs(roots, on=True).write(node(vfio(0, 21), vfio(1, 22), pools=pools))
    verdict = failed[f"{prefix}/vf"]["0000:3b:02.0"]
    assert not verdict.healthy
    assert "another resourcePrefix, or run without --use-cdi" in verdict.detail
    assert f"{prefix}/vf" in [f["resource"] for f in log_lines.fields("cdi.failed")]
    assert list(contents(roots)) == ["sriov-dp-intel.com-net-pci-other.json"]


async def test_a_prefix_that_is_not_a_cdi_vendor_does_not_matter_to_devices_without_nodes(
    roots: Roots,
) -> None:
    plain = vf("0000:3b:02.0", PF0, 0)
    specs = CdiSpecs(roots, on=True)
    failed = await specs.write(node(plain, pools=(pool("vf", resourcePrefix="3com.io"),)))
    assert failed == {"3com.io/vf": {}}


async def test_the_spec_of_a_resource_that_another_agent_serves_is_not_changed(
    roots: Roots,
) -> None:
    other = pool("vf", deviceType="netDevice")
    await CdiSpecs(roots, on=True).write(node(vfio(0, 21), pools=(other,)))
    before = contents(roots)
    served_elsewhere = {"intel.com/vf"}
    specs = CdiSpecs(roots, on=True, others=lambda: frozenset(served_elsewhere))
    # Neither where it is not configured here, nor where it is, with other devices or none.
    for pools in ((pool("new", {"pfNames": ["none"]}),), (other,)):
        assert await specs.write(node(vfio(0, 22), pools=pools)) == {}
        assert contents(roots) == before
    served_elsewhere.clear()
    await specs.write(node(vfio(0, 22), pools=(other,)))
    assert contents(roots) != before
    await specs.write(node(vfio(0, 22), pools=()))
    assert contents(roots) == {}


async def test_specs_of_another_agent_are_removed_once_it_no_longer_serves_the_resource(
    roots: Roots,
) -> None:
    await CdiSpecs(roots, on=True).write(node(vfio(0, 21), pools=(pool("other"),)))
    served_elsewhere = {"intel.com/other"}
    specs = CdiSpecs(roots, on=True, others=lambda: frozenset(served_elsewhere))
    await specs.write(node(pools=(pool("new"),)))
    assert list(contents(roots)) == ["sriov-dp-intel.com-net-pci-other.json"]
    served_elsewhere.clear()
    await specs.write(node(pools=(pool("new"),)))
    assert contents(roots) == {}
