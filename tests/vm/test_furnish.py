"""What cannot be had for the second guest is said, and the guest comes without it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from . import builds
from .debian import Packages, Unobtainable
from .furnish import furnished
from .wiring import BUILDS, LACKING, VIRTIO

if TYPE_CHECKING:
    from pathlib import Path

RELEASE = "6.12.1+deb12-amd64"


@pytest.fixture
def packages(tmp_path: Path) -> Packages:
    (tmp_path / "packages/kernel/lib/modules" / RELEASE).mkdir(parents=True)
    taken = "busybox-static_1_amd64\nlinux-image-6.12.1+deb12-amd64_6.12.1-1~bpo12+1_amd64\n"
    (tmp_path / "packages/packages.txt").write_text(taken, encoding="utf-8")
    return Packages(tree=tmp_path / "packages/tree", kernel=tmp_path / "packages/kernel")


def test_on_a_host_without_tools_the_missing_ones_are_named(
    tmp_path: Path, packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    machine, variables = furnished(tmp_path / "cache", packages, said.append)
    assert not machine.virtio_nic
    assert machine.built is None
    assert not set(builds.MODULES) & set(machine.modules)
    assert json.loads(variables[LACKING]) == {
        VIRTIO: "apt-get is not there",
        BUILDS: "gcc is not there to build modules of the kernel",
    }
    assert [line.partition(":")[0] for line in said] == [f"no {VIRTIO}", f"no {BUILDS}"]


def test_modules_that_could_not_be_built_are_tried_again(
    tmp_path: Path, packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    furnished(tmp_path / "cache", packages, lambda _: None)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_the_kernels_version_is_that_of_the_package(packages: Packages) -> None:
    assert packages.kernel_version == "6.12.1-1~bpo12+1"
    assert packages.release == RELEASE


def test_a_changed_source_is_not_treated_as_unchanged() -> None:
    with pytest.raises(Unobtainable, match=r"dev\.c has changed"):
        builds.edited("nothing of what is looked for", "netdevsim/dev.c")


def test_every_edit_of_the_source_is_made() -> None:
    source = """
        devlink_info_version_running_put_ext(req, "fw.mgmt", "1");
        DEVLINK_PARAM_DRIVER(NSIM_DEVLINK_PARAM_ID_TEST1,
            "test1", DEVLINK_PARAM_TYPE_BOOL,
        devl_param_driverinit_value_set(devlink,
            NSIM_DEVLINK_PARAM_ID_TEST1, value);
    """
    made = builds.edited(source, "netdevsim/dev.c")
    assert "fw.mgmt" not in made
    assert "TEST1" not in made
    assert "DEVLINK_PARAM_GENERIC(ENABLE_RDMA," in made
    assert made.count("DEVLINK_PARAM_GENERIC_ID_ENABLE_RDMA") == 1
