"""Modules that Debian leaves out of its kernel, built from that kernel's own source and headers.

The host's compiler does it; nothing is installed. A build belongs to one version of the kernel.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from .cache import made_once
from .debian import BACKPORTS, KERNEL_SERIES, RELEASE, Unobtainable, unpacked_or_told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .debian import Packages

# Module -> its folder in the source and the option that builds it.
MODULES = {
    "vp_vdpa": ("drivers/vdpa/virtio_pci", "CONFIG_VP_VDPA"),
    "netdevsim": ("drivers/net/netdevsim", "CONFIG_NETDEVSIM"),
    "siw": ("drivers/infiniband/sw/siw", "CONFIG_RDMA_SIW"),
}
# netdevsim shows everything that devlink has, but not the two facts that the agent reads: its
# firmware's version and its switch get the names that real drivers use. And siw, soft iWARP, lies
# below no function (rdma_rxe neither), where a NIC's own driver puts its RDMA device.
EDITS = {
    "netdevsim/dev.c": (
        (r'"fw\.mgmt"', '"fw.app.name"'),
        (
            r'PARAM_DRIVER\(NSIM_DEVLINK_PARAM_ID_TEST1,\s*"test1", DEVLINK_PARAM_TYPE_BOOL,',
            "PARAM_GENERIC(ENABLE_RDMA,",
        ),
        (
            r"(driverinit_value_[gs]et\(devlink,\s*)NSIM_DEVLINK_PARAM_ID_TEST1",
            r"\1DEVLINK_PARAM_GENERIC_ID_ENABLE_RDMA",
        ),
    ),
    "siw/siw_main.c": (
        (
            r"base_dev->phys_port_cnt = 1;",
            "base_dev->phys_port_cnt = 1; base_dev->dev.parent = netdev->dev.parent;",
        ),
    ),
}
_SOURCE = f"linux-source-{KERNEL_SERIES}"


def built(cache: Path, packages: Packages, echo: Callable[[str], None]) -> Path:
    """The folder of the modules, built at the first call. Raises Unobtainable."""
    inputs = repr((packages.release, packages.kernel_version, MODULES, EDITS))
    key = hashlib.sha256(inputs.encode()).hexdigest()[:12]

    def make(folder: Path) -> None:
        for tool in ("gcc", "make", "tar", "xz"):
            if shutil.which(tool) is None:
                raise Unobtainable(f"{tool} is not there to build modules of the kernel")
        echo(f"headers and source (169 MB) of the kernel are being fetched, to build {key}")
        _build(folder, packages)

    return made_once(cache / f"modules-{key}", make)


def _build(folder: Path, packages: Packages) -> None:
    version, release = packages.kernel_version, packages.release
    common = release.removesuffix("-amd64") + "-common"
    kbuild = release.removesuffix("-amd64")
    names = [f"linux-headers-{release}", f"linux-headers-{common}", f"linux-kbuild-{kbuild}"]
    wanted = [f"{name}={version}" for name in (*names, _SOURCE)]
    tree = unpacked_or_told(folder, RELEASE, BACKPORTS, ("download", *wanted)) / "usr/src"
    headers = tree / f"linux-headers-{release}"
    # It names the other headers by the place where they would be installed.
    include = (headers / "Makefile").read_text(encoding="ascii")
    (headers / "Makefile").write_text(include.replace("/usr/src", str(tree)), encoding="ascii")
    modules = _laid_out(tree)
    options = [f"{option}=m" for _, option in MODULES.values()]
    # Not with type information for BPF, which takes yet another tool.
    options += ["CONFIG_DEBUG_INFO_BTF_MODULES=", "CC=gcc"]
    _run("make", f"-j{os.cpu_count()}", "-C", str(headers), f"M={modules}", *options, "modules")
    for name in MODULES:
        shutil.copy(modules / f"{name}/{name}.ko", folder)
    shutil.rmtree(folder / "tree")


def _laid_out(tree: Path) -> Path:
    """The folders of the modules, side by side, with the edits."""
    folders = [f"{_SOURCE}/{folder}" for folder, _ in MODULES.values()]
    _run("tar", "-C", str(tree), "-xJf", str(tree / f"{_SOURCE}.tar.xz"), *folders)
    modules = tree / "modules"
    for name, (folder, _) in MODULES.items():
        shutil.copytree(tree / _SOURCE / folder, modules / name)
    for name in EDITS:
        text = (modules / name).read_text(encoding="utf-8")
        (modules / name).write_text(edited(text, name), encoding="utf-8")
    lines = "".join(f"obj-m += {name}/\n" for name in MODULES)
    (modules / "Kbuild").write_text(lines, encoding="ascii")
    return modules


def edited(text: str, name: str) -> str:
    """A file of the source with all its edits made. Raises Unobtainable if one finds nothing."""
    for pattern, replacement in EDITS[name]:
        text, count = re.subn(pattern, replacement, text)
        if not count:
            raise Unobtainable(f"{name} has changed: there is no {pattern} to edit")
    return text


def _run(*words: str) -> None:
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        tail = " | ".join(done.stdout.splitlines()[-5:])
        raise Unobtainable(f"{words[0]} ended with {done.returncode}: {tail}")
