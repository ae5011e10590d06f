"""Builds the image from the real Containerfile, without a registry: the base is made of Debian.

    python -m tests.cluster.build [ARCHIVE]     build; write an OCI archive if asked to

The base stands in for docker.io/library/python:3.13-slim: a Python of that version and pip in
Debian trixie, and like that image without any bytecode.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kubelet import debian
from tests.kubelet.cache import cache_folder, made_once

REPOSITORY = Path(__file__).parents[2]
CONTAINERFILE = REPOSITORY / "Containerfile"
TAG = "localhost/sriov-node-agent:test"
BASE = "docker.io/library/python:3.13-slim"
# What .containerignore lets in, besides the package itself.
_CONTEXT = (
    *("Containerfile", ".containerignore", "requirements.lock"),
    *("LICENSE", "README.md", "pyproject.toml"),
)
_REVISION = "org.opencontainers.image.revision"
_SUITE = "trixie"
_PACKAGES = ("ca-certificates", "python3", "python3-pip", "python3-venv")
# `python` and pip as in the image that is stood in for; no bytecode, no documentation.
_HOOK = (
    'ln -s python3 "$1/usr/bin/python"; '
    'rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED; '
    'cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"; '
    'find "$1/usr" -name __pycache__ -prune -exec rm -rf {} +'
)


def missing() -> str | None:
    """Why no image can be built here, or None if it can."""
    for tool in ("buildah", "mmdebstrap"):
        if shutil.which(tool) is None:
            return f"{tool} is not there: run .ci/install {tool}"
    return None if debian.mirror() else "apt has no Debian mirror among its sources"


def built() -> str:
    """Build the image, unless this very checkout has been built; its name in the suite's store."""
    if BASE not in _names():
        text = "FROM scratch\nADD root.tar /\n"
        _buildah("build", "--tag", BASE, "--file", "-", str(_base()), text=text)
    revision = _revision()
    if TAG not in _names() or inspected()["config"]["Labels"].get(_REVISION) != revision:
        # The docker format, since OCI's has no health check.
        options = ("--format", "docker", "--pull-never", f"--build-arg=REVISION={revision}")
        context = ("--file", str(CONTAINERFILE), str(REPOSITORY))
        _buildah("build", *options, "--tag", TAG, *context)
        _buildah("rmi", "--prune")
    return TAG


def _revision() -> str:
    """A digest of all that the build reads of the checkout."""
    told = hashlib.sha256()
    paths = [REPOSITORY / name for name in _CONTEXT]
    for path in (*paths, *sorted(REPOSITORY.glob("agent/**/*"))):
        if path.is_file() and path.parent.name != "__pycache__":
            told.update(f"{path.relative_to(REPOSITORY)}\0".encode() + path.read_bytes())
    return told.hexdigest()


def archived(archive: Path) -> Path:
    """The built image as an OCI archive, as a node imports it."""
    archive.unlink(missing_ok=True)
    _buildah("push", "--quiet", TAG, f"oci-archive:{archive}:{TAG}")
    return archive


def inspected() -> dict[str, Any]:
    """What is written in the built image: its configuration in docker's form."""
    told: dict[str, Any] = json.loads(_buildah("inspect", "--type", "image", TAG))["Docker"]
    return told


def sizes() -> dict[str, int]:
    """Size in bytes of the base and of the image."""
    images = json.loads(_buildah("images", "--json"))
    return {
        name: _bytes(image["size"])
        for image in images
        for name in image.get("names") or ()
        if name in {BASE, TAG}
    }


def run(*command: str, environ: dict[str, str] | None = None) -> str:
    """What a command prints in a container of the built image, as root."""
    container = _buildah("from", "--pull-never", TAG).strip()
    variables = (word for item in (environ or {}).items() for word in ("--env", "=".join(item)))
    try:
        return _buildah("run", "--isolation", "chroot", *variables, container, "--", *command)
    finally:
        _buildah("rm", container)


def _base() -> Path:
    """The folder with the base's root file system, made at the first call (40 s)."""
    return made_once(cache_folder().with_name("image") / "base", _make_base)


def _make_base(folder: Path) -> None:
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    source = f"deb [signed-by={keyring}] {debian.mirror()} {_SUITE} main"
    excluded = (f"--dpkgopt=path-exclude=/usr/share/{kind}/*" for kind in ("doc", "man", "locale"))
    command = (
        *("mmdebstrap", "--quiet", "--variant=apt", f"--include={','.join(_PACKAGES)}"),
        *(*excluded, f"--customize-hook={_HOOK}"),
        *(_SUITE, str(folder / "root.tar"), source),
    )
    subprocess.run(command, check=True)


def _names() -> set[str]:
    return {
        name
        for image in json.loads(_buildah("images", "--json"))
        for name in image.get("names") or ()
    }


def _bytes(size: str) -> int:
    number, unit = size.split()
    return int(float(number) * {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3}[unit])


def _buildah(*arguments: str, text: str | None = None) -> str:
    store = cache_folder().with_name("image") / "store"
    where = ("--root", str(store / "root"), "--runroot", str(store / "run"))
    network = ("--isolation", "chroot", "--network", "host") if arguments[0] == "build" else ()
    command, *rest = arguments
    done = subprocess.run(
        ["nice", "buildah", *where, "--storage-driver=overlay", command, *network, *rest],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(
            f"buildah {' '.join(arguments)}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )
    return done.stdout


if __name__ == "__main__":
    built()
    for path in sys.argv[1:]:
        archived(Path(path))
    sys.stdout.write(f"{sizes()}\n")
