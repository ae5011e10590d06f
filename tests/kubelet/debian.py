"""containerd, runc and the rest from Debian packages, unpacked in the cache and never installed.

apt runs with sources, lists and archives of its own; the host's apt only tells the mirror.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from .cache import cache_folder, made_once

if TYPE_CHECKING:
    from collections.abc import Iterable

# Package -> the suite that it comes from. Kubelet asks for containerd 2.x, which no stable suite
# has yet. runc links the C library: the oldest suite's runs with every newer one. The others need
# a C library no newer than that of bookworm. Mirrors drop superseded versions, so a suite is all
# that can be pinned; the names of the unpacked files stay in the cache (`packages.txt`).
NODE = {
    "busybox-static": "bookworm",
    "containerd": "forky",
    "containernetworking-plugins": "forky",
    "runc": "bookworm",
}
CONTROL_PLANE = {"etcd-server": "forky"}
# For machines whose own Go is older than what go.mod asks for, or that have none.
GO = {"golang-1.26-go": "forky", "golang-1.26-src": "forky"}
GO_PROGRAM = "usr/lib/go-1.26/bin/go"

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def mirror() -> str | None:
    """The Debian mirror that the host's own apt uses, or None if it uses none."""
    if not all(shutil.which(tool) for tool in ("apt-get", "dpkg-deb")):
        return None
    # Unlike `indextargets` this also answers where no list has been fetched yet.
    sources = _output("apt-get", "update", "--print-uris")
    os_release = Path("/etc/os-release").read_text("utf-8")
    release = re.search(r"^VERSION_CODENAME=(\w+)", os_release, re.MULTILINE)
    suite = release[1] if release else "stable"
    found = re.search(rf"^'(\S+/debian)/dists/{suite}/InRelease'", sources, re.MULTILINE)
    return found[1] if found else None


def unpacked(packages: dict[str, str], name: str) -> Path:
    """A folder with the packages' files, fetched at the first call (60 MB for the node)."""
    return made_once(cache_folder() / "debian" / name, lambda folder: _fetch(packages, folder))


def _fetch(packages: dict[str, str], folder: Path) -> None:
    apt = folder / "apt"
    options = _private_apt(apt, sorted(set(packages.values())))
    _output("apt-get", *options, "update")
    wanted = [f"{package}/{suite}" for package, suite in sorted(packages.items())]
    _output("apt-get", *options, "download", *wanted, cwd=apt)
    archives = sorted(apt.glob("*.deb"))
    for archive in archives:
        _output("dpkg-deb", "-x", str(archive), str(folder))
    names = "".join(f"{archive.stem}\n" for archive in archives)
    (folder / "packages.txt").write_text(names, encoding="utf-8")
    shutil.rmtree(apt)


def _private_apt(apt: Path, suites: Iterable[str]) -> list[str]:
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True)
    signed = f" [signed-by={_KEYRING}]" if _KEYRING.exists() else ""
    lines = "".join(f"deb{signed} {mirror()} {suite} main\n" for suite in suites)
    (apt / "sources.list").write_text(lines, encoding="utf-8")
    settings = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",  # apt's own user cannot write below a home folder
    }
    return [f"-o{key}={value}" for key, value in settings.items()]


def _output(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout
