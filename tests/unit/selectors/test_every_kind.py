"""Every selector with every device type it belongs to: selects, refuses, is explained."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from agent.config.load import load_config
from agent.discovery.scan import scan
from agent.kinds import ACCELERATOR, AUX_NET_DEVICE, KINDS, NET_DEVICE, Kind
from agent.model.snapshot import Snapshot
from agent.pools.assign import assign
from agent.pools.pool import Pools
from agent.pools.reasons import Refusal, pool_verdict
from agent.selectors import SELECTORS
from tests.support.hardware import ACC100, CONNECTX6, CONNECTX6_INFINIBAND
from tests.support.host_builder import HostBuilder

NIC, FEC = "0000:5e:00.0", "0000:18:00.0"
NET, AUX = NET_DEVICE, AUX_NET_DEVICE
TARGET = {NET: "0000:5e:01.1", ACCELERATOR: "0000:18:01.1", AUX: "mlx5_core.sf.3"}
"""The device of each kind on which the cases look."""
INFINIBAND_VF = "0000:af:01.0"
"""The one on which pKeys looks: an Ethernet port is in no partition."""

CASES: dict[str, dict[Kind, tuple[Any, Any]]] = {
    "vendors": {k: (["0x15B3", "8086"], ["1234"]) for k in KINDS.values()},
    "devices": {
        NET: (["101e"], ["101d"]),
        ACCELERATOR: (["0D5D"], ["0d5c"]),
        AUX: (["101d"], ["101e"]),
    },
    "classes": {ACCELERATOR: (["0x1200", "0b40"], ["0b40", "12ff"])},
    "auxTypes": {AUX: (["sf"], ["eth"])},
    "pciAddresses": {
        NET: (["5e:01.1"], ["0000:5e:01.0"]),
        ACCELERATOR: (["18:01.1"], ["0000:18:01.0"]),
        AUX: ([NIC], ["0000:5e:01.1"]),
    },
    "acpiIndexes": {NET: (["7"], ["8"]), ACCELERATOR: (["7"], ["8"])},
    "rootDevices": {
        NET: ([f"{NIC}#1-2"], [f"{NIC}#0"]),
        ACCELERATOR: ([f"{FEC}#0,1"], [f"{FEC}#0"]),
        AUX: ([f"{NIC}#89"], [f"{NIC}#88"]),
    },
    "pfNames": {NET: (["ens*#1"], ["ens2f0#0,2"]), AUX: (["ens2f0#80-90"], ["ens2f0#88"])},
    "drivers": {
        NET: (["mlx5_core"], ["vfio-pci"]),
        ACCELERATOR: (["vfio-pci"], ["igb_uio"]),
        AUX: (["mlx5_core.sf"], ["mlx5_core.eth"]),
    },
    "linkTypes": {NET: (["ETH"], ["ib"]), AUX: (["ether"], ["infiniband"])},
    "ddpProfiles": {NET: (["COMMS"], ["OS Default"])},
    "pKeys": {NET: (["0X8001"], ["ffff"])},
    "isRdma": {NET: (True, None), AUX: (True, None)},
    "vdpaType": {NET: ("vhost", "virtio")},
    "needVhostNet": {NET: (True, None), AUX: (True, None)},
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """A NIC with VFs and SFs and a FEC accelerator; the targets have a bit of everything."""
    host = HostBuilder(tmp_path_factory.mktemp("node"))
    host.pf(NIC, "ens2f0", CONNECTX6, vfs=3)
    host.accelerator(FEC, ACC100, vfs=3)
    host.pf("0000:af:00.0", "ib0", CONNECTX6_INFINIBAND, vfs=1)
    for sfnum in (88, 89):
        sf = host.sf(NIC, sfnum, f"ens2f0s{sfnum}")
    host.rdma(sf, "mlx5_sf")
    host.rdma(TARGET[NET], "mlx5_vf")
    host.rdma(INFINIBAND_VF, "mlx5_ib", pkey=0x8001)
    host.vdpa(TARGET[NET], "vhost")
    for target in (TARGET[NET], TARGET[ACCELERATOR]):
        host.write(host.folder(target) / "acpi_index", 7)
    snapshot = scan(host.roots)
    devices = (
        attrs.evolve(d, ddp_profile="COMMS") if d.id == TARGET[NET] else d for d in snapshot.devices
    )
    return attrs.evolve(snapshot, devices=tuple(devices))


def test_the_cases_cover_every_selector_and_every_kind_it_belongs_to() -> None:
    assert {k: frozenset(v) for k, v in CASES.items()} == {k: s.kinds for k, s in SELECTORS.items()}


@pytest.mark.parametrize(
    ("key", "kind"), [(key, kind) for key, kinds in CASES.items() for kind in kinds]
)
def test_a_selector_selects_refuses_and_is_explained(key: str, kind: Kind, node: Snapshot) -> None:
    selecting, refusing = CASES[key][kind]
    target = INFINIBAND_VF if key == "pKeys" else TARGET[kind]
    assert target in members(node, kind, {key: selecting})
    if refusing is None:
        if SELECTORS[key].is_filter:
            others = [d.id for d in node.devices if d.kind is kind and not d.is_rdma]
            assert not set(others) & set(members(node, kind, {key: selecting}))
        return
    assert target not in members(node, kind, {key: refusing})
    pools = assigned(node, kind, {key: refusing})
    verdict = pool_verdict(node.by_id[target], pools.config.pools[0], pools)
    assert verdict.refusal is Refusal.SELECTOR
    assert verdict.text.startswith(f"{key}: ")
    assert "wanted" in verdict.text


def members(node: Snapshot, kind: Kind, selectors: dict[str, Any]) -> list[str]:
    """Ids of the devices of a pool with these selectors."""
    return [m.device.id for m in assigned(node, kind, selectors).pools[0].members]


def assigned(node: Snapshot, kind: Kind, selectors: dict[str, Any]) -> Pools:
    """The node assigned to one pool."""
    if kind is AUX:
        selectors = {"auxTypes": ["sf"], **selectors}
    pool = {"resourceName": "p", "deviceType": str(kind), "selectors": selectors}
    data = json.dumps({"resourceList": [pool]}).encode()
    loaded = load_config(data, source="x", default_prefix="example.com")
    assert loaded.config is not None, loaded.lines()
    return assign(node, loaded.config)
