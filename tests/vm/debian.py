"""QEMU, busybox and the guest's kernel from Debian packages, unpacked and never installed.

Also, where a mirror still has them, a newer QEMU and the headers and source of that kernel.

The packages come through an apt configuration of their own, with its own lists and an empty list
of installed packages: so the host's apt is only read (for its mirror and proxy), and QEMU comes
with every library it needs, down to the C library, whatever the host's release is.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from .cache import made_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The pins, all of them. Debian's mirrors drop superseded versions, so a patch level cannot be one:
# what was taken is written to `packages.txt` in the cache. QEMU 7.2 of bookworm has no igb NIC.
RELEASE = "bookworm"
BACKPORTS = "bookworm-backports"
QEMU_PACKAGES = ("qemu-system-x86=1:10.0*", "busybox-static")
KERNEL_SERIES = "6.12"
# The first QEMU whose virtio NICs have VFs of which each has a link of its own.
NEWER_RELEASE, NEWER_BACKPORTS = "trixie", "trixie-backports"
NEWER_QEMU_PACKAGES = ("qemu-system-x86=1:11.*",)

_TOOLS = ("apt-get", "apt-cache", "apt-config", "dpkg-deb")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# The host's settings that decide whether its mirror can be reached.
_KEPT_SETTINGS = re.compile(r"^Acquire::(http|https|Check|Retries)")


class Unobtainable(RuntimeError):  # noqa: N818 - it says what happened
    """A tool or a package could not be had; its text is a line that says why."""


@attrs.frozen
class Packages:
    """The unpacked packages: `tree` holds QEMU and busybox, `kernel` the kernel."""

    tree: Path
    kernel: Path

    @property
    def image(self) -> Path:
        """The kernel image that QEMU starts."""
        return next((self.kernel / "boot").glob("vmlinuz-*"))

    @property
    def modules(self) -> Path:
        """The folder of the kernel's modules."""
        return next((self.kernel / "lib/modules").iterdir())

    @property
    def release(self) -> str:
        """What `uname -r` says in the guest."""
        return self.modules.name

    @property
    def kernel_version(self) -> str:
        """Debian's version of the kernel package, which its headers and source share."""
        names = (self.tree.parent / "packages.txt").read_text(encoding="utf-8").split()
        return next(n.split("_")[1] for n in names if n.startswith("linux-image-"))


def obstacle(cache: Path) -> str | None:
    """Why packages cannot be had on this machine, or None if they can."""
    if present(cache):
        return None
    for tool in _TOOLS:
        if shutil.which(tool) is None:
            return f"{tool} is not there: QEMU and the guest's kernel are Debian packages"
    return None if _mirror() else "apt has no Debian mirror among its sources"


def present(cache: Path) -> bool:
    """Whether an earlier run has left the packages."""
    return _folder(cache).exists()


def unpacked(cache: Path) -> Packages:
    """The packages, downloaded (145 MB) at the first call."""
    folder = made_once(_folder(cache), _download)
    return Packages(tree=folder / "tree", kernel=folder / "kernel")


def _folder(cache: Path) -> Path:
    pins = repr((RELEASE, BACKPORTS, QEMU_PACKAGES, KERNEL_SERIES))
    return cache / f"packages-{hashlib.sha256(pins.encode()).hexdigest()[:12]}"


def _mirror() -> str | None:
    """The host's own Debian mirror: the one that its release comes from."""
    release = dict(
        line.rstrip().replace('"', "").split("=", 1)
        for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
        if "=" in line
    )
    if release.get("ID") != "debian":
        return None
    # Unlike `indextargets`, this also answers before the first update of a new machine.
    uris = _output(["apt-get", "update", "--print-uris"])
    suite = re.escape(release.get("VERSION_CODENAME", RELEASE))
    found = re.search(rf"^'(\S+)/dists/{suite}/InRelease'", uris, re.MULTILINE)
    return found[1] if found else None


def _output(
    command: list[str], environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environ, "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def unpacked_or_told(folder: Path, release: str, backports: str, *steps: Sequence[str]) -> Path:
    """The folder, with what these steps of apt download unpacked in it.

    Raises Unobtainable with the step and apt's last words.
    """
    for tool in _TOOLS:
        if shutil.which(tool) is None:
            raise Unobtainable(f"{tool} is not there")
    try:
        apt = _Apt.laid_out(folder / "apt", release, backports)
        apt.run("apt-get", "update")
        for step in steps:
            apt.run("apt-get", *step)
        apt.unpack(folder / "tree")
    except RuntimeError as error:
        lines = str(error).splitlines()
        raise Unobtainable(f"{lines[0]} {lines[-1]}") from error
    shutil.rmtree(apt.root)
    return folder / "tree"


def newer_qemu(cache: Path) -> Path:
    """The tree of the newer QEMU, downloaded (38 MB) at the first call. Raises Unobtainable."""
    pins = repr((NEWER_RELEASE, NEWER_BACKPORTS, NEWER_QEMU_PACKAGES))
    target = cache / f"newer-qemu-{hashlib.sha256(pins.encode()).hexdigest()[:12]}"
    step = ("install", "--download-only", "--yes", *NEWER_QEMU_PACKAGES)

    def make(folder: Path) -> None:
        unpacked_or_told(folder, NEWER_RELEASE, NEWER_BACKPORTS, step)

    return made_once(target, make) / "tree"


@attrs.frozen
class _Apt:
    """An apt that keeps all its state below one folder."""

    root: Path

    @property
    def archives(self) -> Path:
        return self.root / "cache/archives"

    @classmethod
    def laid_out(cls, root: Path, release: str, backports: str) -> _Apt:
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (root / folder).mkdir(parents=True)
        (root / "status").touch()
        option = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
        sources = (f"deb {option}{_mirror()} {suite} main\n" for suite in (release, backports))
        (root / "sources.list").write_text("".join(sources), encoding="utf-8")
        settings = [
            'Dir::Etc::parts "/dev/null";',
            'Dir::Etc::main "/dev/null";',
            'Dir::Etc::sourceparts "/dev/null";',
            'Dir::Etc::preferencesparts "/dev/null";',
            f'Dir::Etc::sourcelist "{root}/sources.list";',
            f'Dir::State "{root}/state";',
            f'Dir::State::status "{root}/status";',
            f'Dir::Cache "{root}/cache";',
            f'APT::Default-Release "{backports}";',
            'APT::Architecture "amd64";',
            'APT::Install-Recommends "false";',
            'APT::Sandbox::User "root";',  # apt's own user cannot write below a home folder
            'Acquire::Languages "none";',
            *filter(_KEPT_SETTINGS.match, _output(["apt-config", "dump"]).splitlines()),
        ]
        (root / "apt.conf").write_text("\n".join(settings) + "\n", encoding="utf-8")
        return cls(root)

    def run(self, tool: str, *arguments: str) -> str:
        """What an apt tool says; it runs where `apt-get download` is to put its file."""
        environ = {**os.environ, "APT_CONFIG": str(self.root / "apt.conf")}
        return _output([tool, *arguments], environ, self.archives)

    def unpack(self, target: Path) -> list[str]:
        """Unpack what was downloaded and drop it; the names of what it was."""
        target.mkdir()
        archives = sorted(self.archives.glob("*.deb"))
        for archive in archives:
            _output(["dpkg-deb", "-x", str(archive), str(target)])
            archive.unlink()
        return [archive.stem for archive in archives]


def _download(folder: Path) -> None:
    apt = _Apt.laid_out(folder / "apt", RELEASE, BACKPORTS)
    apt.run("apt-get", "update")
    apt.run("apt-get", "install", "--download-only", "--yes", *QEMU_PACKAGES)
    taken = apt.unpack(folder / "tree")
    # Not by `install`: the kernel's dependencies are for booting an installed system.
    apt.run("apt-get", "download", _newest_kernel(apt))
    taken += apt.unpack(folder / "kernel")
    (folder / "packages.txt").write_text("\n".join(taken) + "\n", encoding="utf-8")
    shutil.rmtree(apt.root)


def _newest_kernel(apt: _Apt) -> str:
    """The newest standard kernel of the series, not a cloud (no igb) or real-time one."""
    standard = re.compile(rf"linux-image-({re.escape(KERNEL_SERIES)}\.[^-]+)-amd64")
    versions = {
        found[1]: found[0]
        for found in map(standard.fullmatch, apt.run("apt-cache", "pkgnames").split())
        if found
    }
    if not versions:
        raise RuntimeError(f"no kernel {KERNEL_SERIES} is left in {BACKPORTS}")
    return versions[max(versions, key=lambda text: [int(n) for n in re.findall(r"\d+", text)])]
