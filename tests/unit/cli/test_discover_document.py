from __future__ import annotations

import json

from agent.cli.discover_document import document
from agent.model.device import Netdev, RdmaDevice
from agent.model.snapshot import Snapshot
from tests.support.devices import pf, vf
from tests.support.pools import assigned, held, pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=2)
VF0 = vf(
    "0000:3b:02.0",
    PF0,
    0,
    numa_node=0,
    iommu_group=7,
    pkey=0x8001,
    rdma=(RdmaDevice("mlx5_0", uverbs=("/dev/infiniband/uverbs0",)),),
    netdevs=(Netdev("pf0v0", ifindex=9, link_type="ether", admin_up=False),),
)
VF1 = vf("0000:3b:02.1", PF0, 1, driver="vfio-pci", iommu_group=8)
NODE = Snapshot(
    devices=(PF0, VF0, VF1),
    default_route_netdevs=("eno1",),
    skipped_classes=(("0x0604", 3),),
    missing_rdma_modules=("ib_umad",),
)


def test_a_device_has_its_facts_its_pool_and_the_reason_and_omits_unknown_facts() -> None:
    views = document(assigned(NODE, pool("vf", {"drivers": ["iavf"]})))["devices"]
    assert views[1] == {
        "pool": "intel.com/vf",
        "id": "0000:3b:02.0",
        "kind": "netDevice",
        "role": "VF",
        "pciAddress": "0000:3b:02.0",
        "vendor": "8086",
        "device": "154c",
        "class": "0x020000",
        "driver": "iavf",
        "numaNode": 0,
        "pfAddress": "0000:3b:00.0",
        "pfName": "pf0",
        "index": 0,
        "netdevs": [{"name": "pf0v0", "ifindex": 9, "linkType": "ether", "adminUp": False}],
        "netdev": "pf0v0",
        "linkType": "ether",
        "iommuGroup": 7,
        "rdma": [{"name": "mlx5_0", "nodes": ["/dev/infiniband/uverbs0"]}],
        "pKey": "0x8001",
        "reason": "selected by intel.com/vf",
    }
    assert "netdev" not in views[2]
    assert (views[2]["pool"], views[2]["refusal"]) == (None, "selector")
    assert (views[0]["totalVfs"], views[0]["numVfs"], views[0]["refusal"]) == (64, 2, "has-vfs")


def test_a_pool_shows_its_members_in_order_and_its_funnel() -> None:
    pools = assigned(NODE, pool("vf", {"drivers": ["iavf"]}), held=held("vf", "0000:3b:02.7"))
    assert document(pools)["pools"] == [
        {
            "resource": "intel.com/vf",
            "deviceType": "netDevice",
            "devices": [
                {"id": "0000:3b:02.0", "selectorObject": 0, "present": True},
                {"id": "0000:3b:02.7", "selectorObject": 0, "present": False},
            ],
            "funnel": [
                {"step": "kind", "wanted": "netDevice", "remaining": 3},
                {"step": "without VFs", "remaining": 2},
                {"selectorObject": 0, "step": "drivers", "wanted": "iavf", "remaining": 1},
                {"selectorObject": 0, "step": "not in use", "remaining": 1},
                {"selectorObject": 0, "step": "not taken", "remaining": 1},
            ],
            "notes": [],
        }
    ]


def test_the_document_has_the_facts_of_the_whole_host_and_is_plain_json() -> None:
    made = document(assigned(NODE, pool("a"), pool("b")))
    assert made["overlaps"] == [
        {"winner": "intel.com/a", "loser": "intel.com/b", "devices": [VF0.id, VF1.id]}
    ]
    assert made["skippedClasses"] == {"0x0604": 3}
    assert made["defaultRouteNetdevs"] == ["eno1"]
    assert made["missingRdmaModules"] == ["ib_umad"]
    assert json.loads(json.dumps(made)) == made
