"""Generates agent/rpc from the .proto files; with --check, only says whether it is up to date."""

from __future__ import annotations

import argparse
import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROTOS = Path(__file__).resolve().parent
TARGET = PROTOS.parent / "agent" / "rpc"


def generate(target: Path) -> None:
    """Write the generated package to ``target``, which must exist and be empty."""
    sources = sorted(str(p.relative_to(PROTOS)) for p in PROTOS.rglob("*.proto"))
    options = "client_generation=async,server_generation=async"
    subprocess.run(
        [
            sys.executable,
            *("-m", "grpc_tools.protoc", "-I."),
            f"--python_betterproto2_out={target}",
            f"--python_betterproto2_opt={options}",
            *sources,
        ],
        cwd=PROTOS,
        check=True,
    )


def differences(left: Path, right: Path) -> list[str]:
    """Relative names of files that differ or stand on one side only, sorted."""
    names = {
        p.relative_to(root).as_posix()
        for root in (left, right)
        for p in root.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    return sorted(
        n
        for n in names
        if not ((left / n).is_file() and (right / n).is_file())
        or not filecmp.cmp(left / n, right / n, shallow=False)
    )


def main() -> int:
    """Generate, or compare; exit code 1 where the committed code is not what the protos make."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        changed = differences(fresh, TARGET)
        if not check:
            shutil.rmtree(TARGET, ignore_errors=True)
            shutil.copytree(fresh, TARGET)
    for name in changed:
        print(f"{'differs' if check else 'written'}: agent/rpc/{name}")
    return 1 if check and changed else 0


if __name__ == "__main__":
    raise SystemExit(main())
