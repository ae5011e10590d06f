"""Alternative names of netdevs, from the kernel of a network namespace of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.cli.snapshot import record
from agent.config.load import load_config
from agent.discovery.scan import scan
from agent.host.altnames import ALTNAMES, altnames_of, fault_of_file
from agent.host.recording import Entry
from agent.pools.needs import needs_of
from tests.support.host_builder import HostBuilder
from tests.support.inside import in_own_network, ip, needs_root

PF = "0000:3b:00.0"


@pytest.mark.root
@needs_root
def test_the_kernel_returns_the_alternative_names_of_one_interface() -> None:
    def work() -> list[tuple[str, ...]]:
        ip("link add pf0 type veth peer name peer0")
        before = altnames_of("pf0")
        ip("link property add dev pf0 altname sriov1 altname a_much_longer_name_than_16_letters")
        return [before, altnames_of("pf0"), altnames_of("peer0")]

    both = ("a_much_longer_name_than_16_letters", "sriov1")
    assert in_own_network(work) == [(), both, ()]


@pytest.mark.root
@needs_root
def test_an_interface_that_does_not_exist_has_no_alternative_names() -> None:
    assert in_own_network(lambda: altnames_of("nowhere")) == ()


@pytest.mark.root
@needs_root
def test_a_scan_reads_the_alternative_names_of_pfs_if_netlink_is_on_and_they_are_needed(
    tmp_path: Path,
) -> None:
    host = HostBuilder(tmp_path)
    host.pf(PF, "pf0", vfs=1)

    def work() -> list[tuple[str, ...]]:
        ip("link add pf0 type veth peer name peer0", "link property add dev pf0 altname sriov1")
        wants = frozenset({ALTNAMES})
        scans = (
            scan(host.roots, netlink=True, needs=wants),
            scan(host.roots, netlink=True),
            scan(host.roots, needs=wants),
        )
        return [s.by_id[PF].altnames for s in scans]

    assert in_own_network(work) == [("sriov1",), (), ()]


@pytest.mark.root
@needs_root
def test_a_recording_has_the_alternative_names_that_the_kernel_has(tmp_path: Path) -> None:
    host = HostBuilder(tmp_path / "host")
    host.pf(PF, "pf0", vfs=1)

    def work() -> Mapping[str, Entry]:
        ip("link add pf0 type veth peer name peer0", "link property add dev pf0 altname sriov1")
        return record(host.roots, netlink=True, macs=False)[1]

    tree = in_own_network(work)
    assert json.loads(tree["altnames.json"].content) == {"pf0": ["sriov1"]}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("{", "is not JSON: "),
        ("[]", "is not an object of lists of names"),
        ('{"pf0": "sriov1"}', "is not an object of lists of names"),
        ('{"pf0": [1]}', "is not an object of lists of names"),
        ("[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_damaged_file_of_names_is_ignored_with_its_fault(
    tmp_path: Path, content: str, fault: str
) -> None:
    host = HostBuilder(tmp_path)
    host.pf(PF, "pf0", vfs=1)
    file = tmp_path / "altnames.json"
    assert fault_of_file(tmp_path) is None
    file.write_text(content)
    assert (fault_of_file(tmp_path) or "").startswith(f"{file} {fault}")
    assert scan(host.roots, needs=frozenset({ALTNAMES})).by_id[PF].altnames == ()


def test_only_a_configuration_with_pf_names_needs_alternative_names() -> None:
    for selectors, wanted in (('{"pfNames": ["a"]}', True), ('{"vendors": ["8086"]}', False)):
        text = f'{{"resourceList": [{{"resourceName": "n", "selectors": {selectors}}}]}}'
        config = load_config(text.encode(), source="c", default_prefix="x.io").config
        assert config is not None
        assert (ALTNAMES in needs_of(config)) is wanted
