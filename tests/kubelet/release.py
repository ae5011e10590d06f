"""The Kubernetes release under test: named by go.mod, built by the Go toolchain, cached.

    python -m tests.kubelet.release build           kubelet (or name the groups to build)
    python -m tests.kubelet.release pin v1.NN.P     another release: rewrites go.mod and go.sum

`go.mod` is the only place that spells the version. The staging modules, which Kubernetes replaces
by folders of its own repository, are replaced by the same code as published under v0.NN.P.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from . import debian
from .cache import cache_folder, made_once

HERE = Path(__file__).parent
GROUPS = {
    "node": ("kubelet",),
    "control-plane": ("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
}
# Kubelet's own definitions of what it serves and calls, for clients made at test time.
PROTOS = {
    "cri": ("k8s.io/cri-api", "pkg/apis/runtime/v1/api.proto"),
    "deviceplugin": ("k8s.io/kubelet", "pkg/apis/deviceplugin/v1beta1/api.proto"),
    "pluginregistration": ("k8s.io/kubelet", "pkg/apis/pluginregistration/v1/api.proto"),
    "podresources": ("k8s.io/kubelet", "pkg/apis/podresources/v1/api.proto"),
}
_VERSION = re.compile(r"^\s*k8s\.io/kubernetes (v1\.\d+\.\d+)(?: //.*)?$", re.MULTILINE)
# Static binaries: they run in any root file system and need no C compiler here.
_GO_THAT_FETCHES = 21  # https://go.dev/doc/toolchain
_GO_ENVIRON = {"CGO_ENABLED": "0", "GOOS": "linux", "GOARCH": "amd64"}


def version() -> str:
    """The pinned release, such as v1.34.2."""
    found = _VERSION.search((HERE / "go.mod").read_text(encoding="utf-8"))
    if found is None:
        raise LookupError("go.mod requires no release of k8s.io/kubernetes")
    return found[1]


def binaries(group: str) -> Path:
    """The folder that holds the programs of a group; the first call builds them (minutes)."""
    return made_once(_folder() / group, lambda folder: _build(group, folder))


def protos() -> Path:
    """The folder that holds the release's protocol files, named as in PROTOS."""
    return made_once(_folder() / "protos", _take_protos)


def _folder() -> Path:
    return cache_folder() / version()


def _build(group: str, folder: Path) -> None:
    release = version()
    _, minor, _ = release.split(".")
    facts = {"gitVersion": release, "gitMajor": "1", "gitMinor": minor}
    flags = " ".join(
        f"-X {package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in facts.items()
    )
    packages = [f"k8s.io/kubernetes/cmd/{name}" for name in GROUPS[group]]
    started = time.monotonic()
    options = ("-trimpath", "-buildvcs=false", f"-ldflags=-s -w {flags}", "-o", f"{folder}/")
    _go("build", *options, *packages)
    took = f"{release} {group}: built in {time.monotonic() - started:.0f} s\n"
    (folder / "build.txt").write_text(took, encoding="utf-8")


def _take_protos(folder: Path) -> None:
    for name, (module, path) in PROTOS.items():
        _go("mod", "download", module)
        root = Path(_go("list", "-m", "-f", "{{.Dir}}", module).strip())
        shutil.copyfile(root / path, folder / f"{name}.proto")


def _toolchain() -> Path:
    """The machine's Go if it fetches the release that go.mod asks for (1.21 on), else Debian's."""
    if found := shutil.which("go"):
        told = subprocess.run([found, "version"], check=True, stdout=subprocess.PIPE, text=True)
        release = re.search(r" go1\.(\d+)", told.stdout)
        if release and int(release[1]) >= _GO_THAT_FETCHES:
            return Path(found)
    return debian.unpacked(debian.GO, "go") / debian.GO_PROGRAM


def _go(*arguments: str) -> str:
    done = subprocess.run(
        ["nice", _toolchain(), *arguments],
        cwd=HERE,
        env={**os.environ, **_GO_ENVIRON},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def _pin(release: str) -> None:
    """Rewrite go.mod for another release, and let Go find the versions that it needs."""
    module = "k8s.io/kubernetes"
    wanted = _go("mod", "download", "-json", f"{module}@{release}")
    theirs = Path(json.loads(wanted)["GoMod"]).read_text(encoding="utf-8")
    published = release.replace("v1.", "v0.", 1)
    staging = sorted(set(re.findall(r"(k8s\.io/\S+) => \./staging", theirs)))
    replaced = "".join(f"\t{path} => {path} {published}\n" for path in staging)
    kept, _, _ = (HERE / "go.mod").read_text(encoding="utf-8").partition("\nrequire")
    ours = f"{kept}\nrequire {module} {release}\n\nreplace (\n{replaced})\n"
    (HERE / "go.mod").write_text(ours, encoding="utf-8")
    (HERE / "go.sum").unlink(missing_ok=True)
    _go("mod", "tidy")


def main(arguments: list[str]) -> None:
    """Build groups, or pin a release."""
    match arguments:
        case ["build", *groups]:
            for group in groups or ["node"]:
                folder = binaries(group)
                sys.stdout.write((folder / "build.txt").read_text(encoding="utf-8"))
        case ["pin", release]:
            _pin(release)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
