"""Names that a host shows reach kubelet, runtimes and CNI plugins as plain names, or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.discovery.scan import scan
from agent.export.cdi import cdi_document
from agent.export.device_info import write_device_info
from agent.model.answers import ListedDevice
from agent.model.nodes import HostNodes
from agent.plugin.encoding import encode_list
from agent.pools.allocation import allocation, missing_node
from agent.pools.pool import Member, Pool, Pools
from agent.rpc.v1beta1 import ListAndWatchResponse
from tests.support.cdi import faults
from tests.support.hardware import CONNECTX6
from tests.support.host_builder import HostBuilder
from tests.support.hostile import NAMES
from tests.support.pools import assigned, pool

PF = "0000:3b:00.0"
POOLS = (
    pool("uio", {"drivers": ["igb_uio"]}),
    pool("vfio", {"drivers": ["vfio-pci"]}),
    pool("vdpa", {"vdpaType": "vhost"}),
    pool("rdma", {"isRdma": True, "pfNames": ["ens1f0"]}),
    pool("sf", {"auxTypes": ["sf"]}, deviceType="auxNetDevice"),
    pool("rdma-sf", {"auxTypes": ["eth"], "isRdma": True}, deviceType="auxNetDevice"),
)
NODE = re.compile(
    r"/dev/(vfio/(vfio|\d+|noiommu-\d+)|uio\d+|vhost-vdpa-\d+|infiniband/(rdma_cm|[a-z]+\d+))"
)
ID = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]|[\w-]+\.[\w.-]+\.\d+", re.ASCII)


@contextmanager
def host_with(name: str, target: str) -> Iterator[HostBuilder]:
    """A host that has a hostile name wherever a kernel has one of its own making."""
    with TemporaryDirectory(prefix="h") as folder:
        host = HostBuilder(Path(folder))
        host.pf(PF, "ens1f0", CONNECTX6, vfs=4)
        uio, vfio, vdpa, rdma = host.vfs(PF)
        host.set_driver(uio, "igb_uio")
        for entry in ("uio0", name):
            (host.folder(uio) / "uio" / entry).mkdir(parents=True, exist_ok=True)
        host.set_driver(vfio, "vfio-pci")
        host.iommu_group(vfio)
        replaced(host.folder(vfio) / "iommu_group", target)
        replaced(host.folder(rdma) / "driver", target)
        host.vdpa(vdpa, "vhost")
        (host.folder(vdpa) / "vdpa0" / name).mkdir(exist_ok=True)
        host.rdma(rdma, "mlx5_2")
        for kind in ("verbs", "mad"):
            odd = host.root / f"sys/class/infiniband_{kind}" / f"uverbs{name}"[:80]
            odd.mkdir(parents=True, exist_ok=True)
            (odd / "ibdev").write_text("mlx5_2")
        for auxiliary in (f"{name}.sf.3", "mlx5_core.sf.4"):
            host.auxiliary(PF, auxiliary, driver="mlx5_core.sf")
        (host.folder(PF) / "net" / name).mkdir(parents=True, exist_ok=True)
        yield host


def replaced(link: Path, target: str) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def pools_of(host: HostBuilder) -> Pools:
    return assigned(scan(host.roots, netlink=False), *POOLS)


@given(name=NAMES, target=st.sampled_from(["..", ".", "/", "../../21/..", "x/21\n"]) | NAMES)
@settings(max_examples=15)
def test_kubelet_gets_plain_ids_and_plain_nodes(name: str, target: str) -> None:
    with host_with(name, target) as host:
        pools = pools_of(host)
    assert "mlx5_core.sf.4" in {m.device.id for p in pools.pools for m in p.members}
    for chosen in pools.pools:
        for member in chosen.members:
            check_member(chosen, member)


def check_member(chosen: Pool, member: Member) -> None:
    device_id = member.device.id
    assert ID.fullmatch(device_id), device_id
    told = ListAndWatchResponse.parse(encode_list((ListedDevice(device_id, healthy=True),)))
    assert [d.id for d in told.devices] == [device_id]
    if missing_node(member, HostNodes()):
        return
    answer = allocation(chosen.config, (member,), HostNodes(rdma_cm=True))
    for node in answer.nodes:
        assert NODE.fullmatch(node.host_path), node
        assert NODE.fullmatch(node.container_path), node
    for _, value in answer.envs:
        value.encode("utf-8")


@given(name=NAMES)
@settings(max_examples=15)
async def test_files_for_runtimes_and_cni_plugins_are_valid(name: str) -> None:
    with host_with(name, "..") as host:
        for chosen in pools_of(host).pools:
            spec = cdi_document(chosen, frozenset(), {}, HostNodes(rdma_cm=True))
            assert spec is None or faults(spec) == []
            folder = host.roots.device_info
            await write_device_info(folder, chosen.config, chosen.members)
        for path in folder.iterdir():
            json.loads(path.read_bytes())
            assert re.fullmatch(r"intel\.com-[\w:.-]+-device\.json", path.name, re.ASCII)
