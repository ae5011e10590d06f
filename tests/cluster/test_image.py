"""What is in the image, and what is not."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import agent
from tests.cluster import build

# Listed by a Python of the image that loads nothing of the agent first.
_LOADED = """
import sys
from agent.daemon import run_agent
import agent.http.serve
for module in sys.modules.values():
    cached, file = getattr(module, "__cached__", None), getattr(module, "__file__", None)
    frozen = module.__name__ in ("importlib._bootstrap", "importlib._bootstrap_external")
    if file and file.endswith(".py") and not frozen and module.__spec__.origin != "frozen":
        data = open(cached, "rb").read(8) if cached else b""
        print(file, int.from_bytes(data[4:8], "little") if data else "none")
"""


def locked() -> dict[str, str]:
    """Name -> version of everything that is meant to be in the image."""
    text = (build.REPOSITORY / "requirements.lock").read_text("utf-8")
    lines = re.findall(r"^([\w.-]+)==(\S+)(.*)", text, re.MULTILINE)
    return {
        canonicalize_name(name): version for name, version, rest in lines if "win32" not in rest
    }


def test_the_lock_has_every_dependency_within_its_bounds() -> None:
    project = tomllib.loads((build.REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    for text in project["dependencies"]:
        wanted = Requirement(text)
        assert locked()[canonicalize_name(wanted.name)] in wanted.specifier, text


def test_the_lock_can_be_installed_on_arm64_without_a_compiler(tmp_path: Path) -> None:
    platforms = ("manylinux2014_aarch64", "manylinux_2_28_aarch64")
    command = (
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
        *("--only-binary=:all:", "--python-version=3.13", "--implementation=cp"),
        *(f"--platform={platform}" for platform in platforms),
        *("--dest", str(tmp_path), "--requirement", str(build.REPOSITORY / "requirements.lock")),
    )
    subprocess.run(command, check=True)
    native = {path.name.split("-")[0] for path in tmp_path.glob("*aarch64.whl")}
    assert native == {"multidict"}, "everything else is pure Python"


def test_the_image_has_the_locked_packages_and_the_agent(image: str) -> None:
    folder = build.run("ls", "/opt/sriov-agent/lib/python3.13/site-packages")
    found = re.findall(r"^(.+)-([^-]+)\.dist-info$", folder, re.MULTILINE)
    installed = {canonicalize_name(name): version for name, version in found}
    assert installed == {**locked(), "sriov-node-agent": agent.__version__}


def test_every_module_that_runs_comes_as_bytecode_that_is_not_checked(image: str) -> None:
    python = "/opt/sriov-agent/bin/python"
    loaded = build.run(python, "-c", _LOADED).splitlines()
    assert len(loaded) > 100
    # PEP 552: bit 0 = hash-based, bit 1 = the source is looked at.
    assert [line for line in loaded if not line.endswith(" 1")] == []


def test_the_entry_point_is_a_program_and_no_shell(image: str) -> None:
    configured = build.inspected()["config"]
    assert configured["Entrypoint"] == ["env", "--block-signal=TERM,INT,QUIT,HUP", "sriov-agent"]
    assert not configured.get("Cmd")
    assert configured["Healthcheck"]["Test"] == ["CMD", "sriov-agent", "status"]
    assert configured["Labels"]["org.opencontainers.image.version"] == agent.__version__
    assert configured["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert build.run("sriov-agent", "--version").strip() == agent.__version__


def test_the_agent_adds_less_than_45_mb_to_its_base(image: str) -> None:
    sizes = build.sizes()
    assert sizes[build.TAG] - sizes[build.BASE] < 45e6
