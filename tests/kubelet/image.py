"""The container image of the suite's pods, made on the spot: one static busybox, no registry."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BUSYBOX = "localhost/busybox:1"
PAUSE = "localhost/pause:1"
# What a container runs unless its manifest says otherwise: it waits, and ends when asked to.
_WAIT = ["/bin/sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done"]


def write_images(busybox: Path, archive: Path) -> None:
    """Write an OCI image layout with both images to the tar file `archive`."""
    with tarfile.open(archive, "w") as layout:
        _add(layout, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        layer = _layer(busybox)
        packed = gzip.compress(layer, compresslevel=1, mtime=0)
        layer_blob = _blob(layout, packed, "application/vnd.oci.image.layer.v1.tar+gzip")
        manifests = [_image(layout, name, layer, layer_blob) for name in (BUSYBOX, PAUSE)]
        index = {"schemaVersion": 2, "manifests": manifests}
        _add(layout, "index.json", json.dumps(index).encode())


def _image(
    layout: tarfile.TarFile, name: str, layer: bytes, layer_blob: dict[str, object]
) -> dict[str, object]:
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": _WAIT, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    kind = "application/vnd.oci.image.config.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _blob(layout, json.dumps(config).encode(), kind),
        "layers": [layer_blob],
    }
    blob = _blob(layout, json.dumps(manifest).encode(), str(manifest["mediaType"]))
    return {**blob, "annotations": {"io.containerd.image.name": name}}


def _layer(busybox: Path) -> bytes:
    """A root file system: busybox under the name of each of its commands."""
    applets = subprocess.run([busybox, "--list"], check=True, stdout=subprocess.PIPE, text=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as root:
        for folder in ("bin", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            root.addfile(entry)
        _add(root, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for applet in applets.stdout.split():
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            if applet != "busybox":
                root.addfile(entry)
    return packed.getvalue()


def _blob(layout: tarfile.TarFile, content: bytes, media_type: str) -> dict[str, object]:
    digest = _digest(content)
    path = f"blobs/{digest.replace(':', '/')}"
    if path not in layout.getnames():
        _add(layout, path, content)
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
