"""Which modules are loaded, and in which order, is read from the modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .modules import loadable

if TYPE_CHECKING:
    from pathlib import Path


def _module(depends: str = "", softdep: str = "") -> bytes:
    info = b"\0license=GPL\0depends=" + depends.encode() + b"\0"
    return info + (b"\0softdep=pre: " + softdep.encode() + b"\0" if softdep else b"")


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A kernel with two modules, of which one is built in."""
    (tmp_path / "modules.order").write_text("lib/sum-lib.ko\nlib/sum_fast.ko\n", encoding="ascii")
    (tmp_path / "modules.builtin").write_text("core/base.ko\n", encoding="ascii")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/sum-lib.ko").write_bytes(_module(softdep="sum sum-fast"))
    (tmp_path / "lib/sum_fast.ko").write_bytes(_module(depends="base"))
    return tmp_path


def test_a_module_comes_after_its_dependencies(kernel: Path) -> None:
    """What it asks for may be an alias, which no file has for its name."""
    assert list(loadable(kernel, ["sum_lib"])) == ["sum_fast", "sum_lib"]


def test_a_loaded_module_is_not_loaded_again(kernel: Path) -> None:
    assert list(loadable(kernel, ["sum_lib"], loaded=["sum_fast"])) == ["sum_lib"]


def test_a_module_that_was_built_has_its_dependencies_in_the_kernel(
    kernel: Path, tmp_path: Path
) -> None:
    built = tmp_path / "own.ko"
    built.write_bytes(_module(depends="sum-lib,base"))
    found = loadable(kernel, ["own"], further={"own": built})
    assert list(found) == ["sum_fast", "sum_lib", "own"]
    assert found["own"] == built.read_bytes()


def test_a_module_that_does_not_exist_is_reported_as_missing(kernel: Path) -> None:
    with pytest.raises(KeyError, match="nowhere"):
        loadable(kernel, ["nowhere"])
