"""The guest's first file system: busybox, the init script, and the modules it loads."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from .cache import made_once
from .modules import loadable

if TYPE_CHECKING:
    from .debian import Packages
    from .qemu import Machine

# Without their dependencies, which are found in the modules themselves.
MODULES = (
    "9pnet_virtio",
    "9p",
    "overlay",
    "igb",
    "igbvf",
    "vfio_pci",
    "vfio_iommu_type1",
)
_INIT = Path(__file__).with_name("init.sh")
_FOLDERS = ("bin", "dev", "lower", "modules", "proc", "root", "sys", "upper")


def built(cache: Path, packages: Packages, machine: Machine) -> Path:
    """The compressed archive, built again when the script, the modules or the packages change."""
    further = f"{machine.modules}{machine.built}" if machine.modules else ""
    inputs = f"{packages.kernel}{MODULES}{further}".encode() + _INIT.read_bytes()
    key = hashlib.sha256(inputs).hexdigest()[:12]
    target = cache / f"initramfs-{key}"
    return made_once(target, lambda folder: _build(folder, packages, machine)) / "gz"


def _build(folder: Path, packages: Packages, machine: Machine) -> None:
    tree = folder / "tree"
    for name in _FOLDERS:
        (tree / name).mkdir(parents=True)
    shutil.copy(packages.tree / "bin/busybox", tree / "bin/busybox")
    shutil.copy(_INIT, tree / "init")
    (tree / "init").chmod(0o755)
    further = {path.stem: path for path in machine.built.glob("*.ko")} if machine.built else {}
    modules = loadable(packages.modules, (*MODULES, *machine.modules), further=further)
    for name, content in modules.items():
        (tree / f"modules/{name}.ko").write_bytes(content)
    (tree / "modules/order").write_text("\n".join(modules) + "\n", encoding="ascii")
    _archive(tree, packages.tree / "bin/busybox", folder / "gz")
    shutil.rmtree(tree)


def _archive(tree: Path, busybox: Path, target: Path) -> None:
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    cpio = subprocess.run(
        [busybox, "cpio", "-o", "-H", "newc"],
        cwd=tree,
        input="\n".join(names).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # it counts blocks there
        check=True,
    )
    packed = subprocess.run(
        [busybox, "gzip", "-c"], input=cpio.stdout, stdout=subprocess.PIPE, check=True
    )
    target.write_bytes(packed.stdout)
