"""Every configuration that the documentation shows is accepted by `validate` without a word, and
finds its devices; the pages that are made from the code are up to date."""

from __future__ import annotations

import io
import re
from pathlib import Path

import attrs
import pytest

from agent.cli.validate import run_validate
from agent.config.load import load_config
from agent.discovery.scan import scan
from agent.model.snapshot import Snapshot
from agent.pools.assign import assign
from tests.support.hardware import ACC100, CONNECTX6, CONNECTX6_INFINIBAND, E810
from tests.support.host_builder import HostBuilder

DOCS = Path(__file__).resolve().parents[3] / "docs"
README = DOCS.parent / "README.md"
EXAMPLES = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in (README, *sorted(DOCS.rglob("*.md")))
    for number, block in enumerate(re.findall(r"```json\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """One machine that has a bit of everything."""
    host = HostBuilder(tmp_path_factory.mktemp("node"))
    host.pf("0000:3b:00.0", "ens1f0")
    host.add_vfs("0000:3b:00.0", 2, E810.vf)
    host.add_vfs("0000:3b:00.0", 4, E810.vf.vfio)
    host.pf("0000:3b:00.1", "ens1f1", vfs=2)
    host.pf("0000:5e:00.0", "ens2f0", CONNECTX6, vfs=3)
    host.rdma(host.vfs("0000:5e:00.0")[0], "mlx5_2")
    host.vdpa(host.vfs("0000:5e:00.0")[1], "vhost")
    host.vdpa(host.vfs("0000:5e:00.0")[2], "virtio")
    for sfnum in (1, 2):
        sf = host.sf("0000:5e:00.0", sfnum, f"ens2f0s{sfnum}")
        host.rdma(sf, f"mlx5_sf{sfnum}")
    host.pf("0000:af:00.0", None, CONNECTX6_INFINIBAND)
    host.netdev("ib0", "0000:af:00.0", link_type="infiniband")
    host.rdma("0000:af:00.0", "mlx5_9", pkey=0x8001)
    host.accelerator("0000:18:00.0", ACC100, vfs=4)
    snapshot = scan(host.roots)
    profile = "GTPv1-C/U IPv4/IPv6 payload"
    with_profile = (
        attrs.evolve(d, ddp_profile=profile) if d.vendor == "8086" else d for d in snapshot.devices
    )
    return attrs.evolve(snapshot, devices=tuple(with_profile))


def test_the_readme_and_most_features_show_a_configuration() -> None:
    assert len(EXAMPLES) > len(list(DOCS.glob("features/*.md"))) // 2


@pytest.mark.parametrize("example", EXAMPLES)
def test_validate_accepts_an_example_even_if_it_is_strict(example: str, tmp_path: Path) -> None:
    file, out = tmp_path / "config.json", io.StringIO()
    file.write_text(example)
    code = run_validate(file, default_prefix="intel.com", out=out, strict=True)
    assert code == 0, out.getvalue()
    assert "(no problems)" in out.getvalue()


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_loads_without_a_problem_and_its_pools_have_devices(
    example: str, node: Snapshot
) -> None:
    loaded = load_config(example.encode(), source="doc", default_prefix="intel.com", strict=True)
    assert loaded.problems == ()
    assert loaded.config is not None
    pools = assign(node, loaded.config).pools
    assert [p.resource for p in pools if not p.members] == []


def test_the_generated_pages_are_up_to_date() -> None:
    namespace: dict[str, object] = {"__name__": "generate", "__file__": str(DOCS / "generate.py")}
    exec(compile((DOCS / "generate.py").read_text(), "generate.py", "exec"), namespace)  # noqa: S102 - a script beside the pages
    stale = namespace["stale"]
    assert callable(stale)
    assert stale() == []
