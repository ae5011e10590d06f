"""Commands as an operator types them: their output, exit codes, and never a traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ConfigFile, pool
from tests.support.host_builder import HostBuilder

PCI_DEVICES = Path("/sys/bus/pci/devices")


def agent(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr + done.stdout
    return done


@pytest.mark.skipif(not PCI_DEVICES.is_dir(), reason="this machine has no PCI bus")
def test_discover_accounts_for_every_function_of_this_machine() -> None:
    done = agent("discover", "-o", "json", "--config-file", os.devnull.replace("null", "zero_"))
    assert done.returncode == 2, "a configuration that was named must be there"
    done = agent("discover", "-o", "json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    counted = sum(found["skippedClasses"].values())
    on_the_bus = [d for d in found["devices"] if d["kind"] != "auxNetDevice"]
    assert len(on_the_bus) + counted == len(list(PCI_DEVICES.iterdir()))
    for device in found["devices"]:
        assert device["pool"] is None
        assert device["reason"]


@pytest.mark.parametrize(
    ("to", "code", "said"),
    [
        (">/dev/full", 1, "sriov-agent: the output cannot be written: No space left on device\n"),
        (">&-", 0, ""),
        ("| head -1 >/dev/null", 0, ""),
    ],
)
def test_an_output_that_cannot_be_written_is_not_a_crash(
    host: HostBuilder, to: str, code: int, said: str
) -> None:
    host.pf("0000:3b:00.0", "ens1f0", vfs=2)
    command = f"{sys.executable} -m agent discover --host-root {host.root} {to}"
    shell = ["sh", "-c", command]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, said)


def test_discover_shows_a_table_with_pools_and_reasons(
    host: HostBuilder, config: ConfigFile
) -> None:
    host.pf("0000:18:00.0", "eno1")
    host.default_route("eno1")
    host.pf("0000:3b:00.0", "ens1f0", vfs=2)
    config.write(pool("net", drivers=["iavf"]), pool("dpdk", drivers=["vfio-pci"]))
    done = agent("discover", "--host-root", str(host.root), "--config-file", str(config.path))
    assert done.returncode == 0
    assert re.search(r"0000:18:00.0 .*in use by the host: eno1 carries the default", done.stdout)
    assert re.search(r"0000:3b:01.0 .*ens1f0#0 .*example.com/net", done.stdout)
    assert "example.com/dpdk: 0 devices" in done.stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"  \n", "the file is empty"),
        (b"\x7fELF\x02\x01\x01\x00", "error"),
        (b"[" * 10_000_000, "error"),
        ('{"resourceList": []}'.encode("utf-16"), "UTF-16"),
        (b'{"resourceList": [{"resourceName": "\xe9"}]}', "UTF-8"),
        (b"null", "resourceList"),
        (b'{"resourceList": null}', "resourceList"),
    ],
    ids=["empty", "blank", "binary", "10 MB of [", "utf-16", "latin-1", "null", "null list"],
)
def test_validate_reports_any_bytes(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    done = agent("validate", str(path))
    assert done.returncode == 2
    assert words in done.stdout
    assert len(done.stdout) < 4000


def test_validate_reports_any_path(tmp_path: Path) -> None:
    assert agent("validate", str(tmp_path / "missing")).returncode == 2
    os.mkfifo(tmp_path / "pipe")
    assert agent("validate", str(tmp_path / "pipe")).returncode == 2
    (tmp_path / "loop").symlink_to("loop")
    assert agent("validate", str(tmp_path / "loop")).returncode == 2


def test_a_configuration_with_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b'\xef\xbb\xbf{"resourceList": []}')
    assert agent("validate", str(path)).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("discvoer",), "did you mean discover?"),
        (("run", "--no-such-thing"), "--no-such-thing"),
        (("--log-level", "loud"), "--log-level 'loud'"),
        (("discover", "--host-root", "/no/such/folder"), "there is no such folder"),
    ],
)
def test_an_invalid_command_line_has_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    done = agent(*arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_the_demo_prints_its_steps_and_succeeds() -> None:
    done = agent("demo")
    assert done.returncode == 0
    for words in ("Unhealthy", "device node /dev/vfio/", "registrations since: 0", "left: none"):
        assert words in done.stdout
