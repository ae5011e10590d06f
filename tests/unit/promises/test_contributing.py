"""What CONTRIBUTING promises: one of each is added by the files that it names, and works."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from tests.support.hardware import E810
from tests.support.host_builder import HostBuilder
from tests.support.package_copy import PackageCopy, promised_files

PF, VF = "0000:3b:00.0", "0000:3b:01.0"


@pytest.fixture
def copy(tmp_path: Path) -> PackageCopy:
    copy = PackageCopy(tmp_path / "copy")
    where = copy.run("-c", "import agent; print(agent.__file__)")
    assert Path(where.strip()).is_relative_to(copy.root)
    return copy


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    """A PF with two VFs on NUMA node 0."""
    host = HostBuilder(tmp_path / "host")
    host.pf(PF, "ens1f0", numa=0)
    host.add_vfs(PF, 2)
    return host


def config_file(host: HostBuilder, **pool: object) -> Path:
    file = host.root / "config.json"
    file.write_text(json.dumps({"resourceList": [{"resourceName": "vf", **pool}]}))
    return file


def at(host: HostBuilder, config: Path) -> tuple[object, ...]:
    return ("--host-root", host.root, "--config-file", config)


SELECTOR = '''"""Selector ``numaNodes``: which NUMA node the device is on."""

from __future__ import annotations

from agent.model.device import Device
from agent.model.snapshot import Snapshot
from agent.selectors.selector import ALL_KINDS, Selector


def matches_numa_node(device: Device, wanted: frozenset[str], _snapshot: Snapshot) -> bool:
    """Its NUMA node is one of the wanted."""
    return str(device.numa_node) in wanted


NUMA_NODES = Selector(
    key="numaNodes",
    kinds=ALL_KINDS,
    meaning="The NUMA node of the device.",
    allowed="numbers as strings",
    example=["0"],
    matches=matches_numa_node,
    index_by=lambda device, _snapshot: (str(device.numa_node),),
    describe=lambda device, _snapshot: f"NUMA node {device.numa_node}",
    fix=lambda step: (f"see /sys/bus/pci/devices/{step.example.id}/numa_node",),
)
'''


def test_a_selector_is_one_file_and_its_lines_in_the_table(
    copy: PackageCopy, host: HostBuilder
) -> None:
    copy.add("agent/selectors/numa_nodes.py", SELECTOR)
    table = "agent/selectors/table.py"
    copy.insert(
        table,
        "from agent.selectors.numa_nodes import NUMA_NODES",
        before="^from agent.selectors.pf_",
    )
    copy.insert(table, "    NUMA_NODES,", before=r"^\)")
    assert copy.changed == promised_files("a selector", "numa_nodes")

    good = config_file(host, selectors={"numaNodes": ["0"]})
    assert "accepted intel.com/vf" in copy.agent("validate", good)
    assert "intel.com/vf: 2 devices" in copy.agent("discover", *at(host, good))
    assert "NUMA node 0" in copy.agent("explain", VF, *at(host, good))
    empty = config_file(host, selectors={"numaNodes": ["1"]})
    explained = copy.agent("explain", "vf", *at(host, empty))
    assert "numaNodes 1 leaves none of 2 functions: NUMA node 0 (2)" in explained
    assert f"see /sys/bus/pci/devices/{VF}/numa_node" in explained
    copy.generate()
    assert "| `numaNodes` | netDevice, accelerator, auxNetDevice |" in copy.read(
        "docs/configuration.md"
    )
    schema = json.loads(copy.read("charts/sriov-node-agent/values.schema.json"))
    assert "numaNodes" in schema["definitions"]["selectors"]["properties"]
    assert '"numaNodes": {' in copy.agent("schema")


KIND = '''"""serialDevice: serial bus controllers."""

from __future__ import annotations

from agent.kinds.kind import Kind

SERIAL_DEVICE = Kind(
    name="serialDevice",
    noun="serial bus controller",
    base_classes=frozenset({0x0C}),
    has_netdev=False,
    device_info=False,
    cdi_class="serial",
)
'''


def test_a_device_type_is_one_file_and_its_lines_in_the_table(
    copy: PackageCopy, host: HostBuilder
) -> None:
    copy.add("agent/kinds/serial_device.py", KIND)
    table = "agent/kinds/__init__.py"
    copy.insert(
        table,
        "from agent.kinds.serial_device import SERIAL_DEVICE",
        before=r"^$(?=\n__all__)",
    )
    copy.insert(table, "    SERIAL_DEVICE,", before=r"^\)")
    assert copy.changed == promised_files("a device type", "serial_device")

    serial = attrs.evolve(E810, device="a36d", driver="xhci_hcd", pci_class=0x0C0330)
    host.function("0000:00:14.0", serial)
    config = config_file(host, deviceType="serialDevice", selectors={"vendors": ["8086"]})
    assert "accepted intel.com/vf (serialDevice)" in copy.agent("validate", config)
    assert "intel.com/vf: 1 devices" in copy.agent("discover", *at(host, config))
    assert "selected by intel.com/vf" in copy.agent("explain", "0000:00:14.0", *at(host, config))
    netdevs = config_file(host, deviceType="serialDevice", selectors={"pfNames": ["ens1f0"]})
    assert "pfNames does not belong to deviceType serialDevice" in copy.agent("validate", netdevs)
    copy.generate()
    assert "| `vendors` | netDevice, accelerator, auxNetDevice, serialDevice |" in copy.read(
        "docs/configuration.md"
    )
    schema = json.loads(copy.read("charts/sriov-node-agent/values.schema.json"))
    assert "serialDevice" in schema["definitions"]["pool"]["properties"]["deviceType"]["enum"]


CHECK = '''"""Health check *NUMA*: the NUMA node of a device must be known."""

from __future__ import annotations

from agent.health.check import Check, CheckInputs, MemberCheck
from agent.health.verdict import HEALTHY, Health
from agent.pools.pool import Member


def _prepare(_inputs: CheckInputs) -> MemberCheck:
    return _check


def _check(member: Member) -> Health:
    if member.device.numa_node is not None:
        return HEALTHY
    return Health("no NUMA node", "the kernel shows no NUMA node")


NUMA = Check(causes=frozenset({"no NUMA node"}), prepare=_prepare)
'''
_SCRAPE = """
from pathlib import Path
from agent.config.load import load_config
from agent.discovery.scan import scan
from agent.health.pool_health import assess_pool
from agent.http.counters import Counters
from agent.http.exposition import exposition
from agent.model.link import Links
from agent.pools.assign import assign
from agent.roots import Roots
from agent.status.state import AgentState
import sys
host, file = map(Path, sys.argv[1:])
config = load_config(file.read_bytes(), source="f", default_prefix="intel.com").config
pools = assign(scan(Roots(host)), config)
health = assess_pool(None, pools.pools[0], pools, Links(), 0.0, {})
state = AgentState(pools=pools, pools_health={"intel.com/vf": health})
print(exposition(state, Counters()).body.decode())
"""


def test_a_health_check_is_one_file_and_its_lines_in_the_table(
    copy: PackageCopy, host: HostBuilder
) -> None:
    copy.add("agent/health/numa.py", CHECK)
    table = "agent/health/assess.py"
    copy.insert(table, "from agent.health.numa import NUMA", before="^from agent.health.present")
    copy.insert(table, "    NUMA,", before="^    LINK,")
    row = "| `no NUMA node` | the kernel shows no NUMA node | update the firmware |"
    copy.insert("docs/troubleshooting.md", row, before=r"^\| `device gone`")
    assert copy.changed == promised_files("a health check", "numa")

    host.pf("0000:d8:00.0", "ens9f0", numa=None)
    config = config_file(host, selectors={"vendors": ["8086"]})
    scraped = copy.run("-c", _SCRAPE, str(host.root), str(config))
    sample = 'sriov_agent_unhealthy_by_cause{cause="no NUMA node",resource="intel.com/vf"} 1.0'
    assert sample in scraped


def test_a_metric_is_its_lines_in_one_file(copy: PackageCopy, host: HostBuilder) -> None:
    path = "agent/http/exposition.py"
    metric = '    yield GaugeMetricFamily(f"{_PREFIX}moons", "Moons of the planet.", value=1)'
    copy.insert(path, metric, before=r"^    yield InfoMetricFamily")
    assert copy.changed == promised_files("a metric", "moons")

    config = config_file(host, selectors={"vendors": ["8086"]})
    assert "sriov_agent_moons 1.0" in copy.run("-c", _SCRAPE, str(host.root), str(config))
    copy.generate()
    assert "| `sriov_agent_moons` | gauge |  | Moons of the planet. |" in copy.read(
        "docs/metrics.md"
    )


EVENT = '''class MoonRose(LogEvent, name="host.moon_rose", level=WARNING):
    """The moon rose. Close the curtains."""

    phase: str
    count: int


'''
_PUBLISH = """
from agent import logs
from agent.bus import Bus
from agent.event_history import EventHistory
from agent.events.host import MoonRose
logs.configure(logs.parse_level("info"), "text")
history, bus, received = EventHistory(), Bus(), []
logs.follow(history.note)
bus.on(MoonRose, received.append)
bus.publish(MoonRose(phase="full", count=1))
print(history.after(0)[0].name, history.after(0)[0].fields, received)
"""


def test_a_log_event_is_one_class(copy: PackageCopy) -> None:
    copy.insert("agent/events/host.py", EVENT, before="^class ScanResumed")
    assert copy.changed == promised_files("a log event", "host")

    published = copy.run("-c", _PUBLISH)
    assert "WARNING host.moon_rose phase=full count=1" in published
    fields = "{'phase': 'full', 'count': 1}"
    assert f"host.moon_rose {fields} [MoonRose(phase='full', count=1)]" in published
    copy.generate()
    assert "| `host.moon_rose` | warning | `phase`, `count` | The moon rose. Close" in copy.read(
        "docs/log-events.md"
    )


POOL_KEY = """    keep_idle: bool = read_from(
        Key("keepIdle", "true = idle devices stay powered.", is_extension=True), default=False
    )"""
_READ_AND_WRITE = """
from pathlib import Path
from agent.config.dump import dump_config
from agent.config.load import load_config
import sys
loaded = load_config(Path(sys.argv[1]).read_bytes(), source="f", default_prefix="intel.com")
print(loaded.problems, loaded.config.pools[0].keep_idle, dump_config(loaded.config))
"""


def test_a_key_of_a_pool_is_one_field_of_its_class(copy: PackageCopy, host: HostBuilder) -> None:
    config = config_file(host, selectors={"vendors": ["8086"]}, keepIdle=True)
    assert 'unknown key "keepIdle", not read' in copy.agent("validate", config)
    copy.insert("agent/config/schema.py", POOL_KEY, before="^    allow_in_use:")
    assert copy.changed == promised_files("a key of a pool", "keep_idle")

    validated = copy.agent("validate", config)
    assert "accepted intel.com/vf" in validated
    assert "keepIdle" not in validated
    loaded = copy.run("-c", _READ_AND_WRITE, str(config))
    assert loaded.startswith("() True ")
    assert '"keepIdle": true' in loaded
    wrong = config_file(host, selectors={"vendors": ["8086"]}, keepidle="true")
    reported = copy.agent("validate", wrong)
    assert '"keepidle" is read as keepIdle' in reported
    assert 'found the string "true", wanted true or false: write true without quotes' in reported
    copy.generate()
    assert "| `keepIdle`* | netDevice, accelerator, auxNetDevice | true = idle devices stay" in (
        copy.read("docs/configuration.md")
    )
    assert '"keepIdle": {' in copy.agent("schema")
    schema = json.loads(copy.read("charts/sriov-node-agent/values.schema.json"))
    assert schema["definitions"]["pool"]["properties"]["keepIdle"]["type"] == "boolean"
