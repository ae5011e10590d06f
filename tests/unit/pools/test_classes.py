"""Functions of other PCI classes: in a pool that names their class, else told with the way to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from agent.config.load import load_config
from agent.config.schema import Config
from agent.discovery.refresh import refresh
from agent.discovery.scan import Scanner, scan
from agent.model.pci_class import class_need, class_text, parse_class
from agent.model.snapshot import Snapshot
from agent.pools.advice import advise
from agent.pools.assign import assign
from agent.pools.needs import needs_of
from agent.pools.pool import Pools
from agent.pools.reasons import Refusal, reason
from tests.support.hardware import ACC100, Hardware, VfHardware
from tests.support.host_builder import HostBuilder
from tests.support.host_calls import host_calls
from tests.support.pools import Json, config, members, pool

QAT_PF, FEC = "0000:6b:00.0", "0000:18:00.0"
QAT = Hardware(
    "8086",
    "4940",
    "4xxx",
    pci_class=0x0B4000,
    total_vfs=16,
    vf=VfHardware("4941", "vfio-pci", netdevs=False),
)
NVME = Hardware("144d", "a808", "nvme", pci_class=0x010802)
BRIDGE = Hardware("8086", "347a", "pcieport", pci_class=0x060400)


@pytest.fixture
def host(tmp_path: Path) -> HostBuilder:
    made = HostBuilder(tmp_path)
    made.function("0000:00:01.0", BRIDGE)
    made.pf(QAT_PF, None, QAT, vfs=2)
    made.function("0000:05:00.0", NVME)
    return made


def seen(host: HostBuilder, made: Config) -> Snapshot:
    return scan(host.roots, needs=needs_of(made))


def assigned(host: HostBuilder, *pools: Json) -> Pools:
    made = config(*pools)
    return assign(seen(host, made), made)


def accelerators(name: str = "acc", **selectors: Any) -> Json:  # noqa: ANN401 - as JSON has it
    return pool(name, selectors, deviceType="accelerator")


@pytest.mark.parametrize("spelled", ["0b", "0b40", "0B4000", "0x0B40"])
def test_a_class_is_named_in_two_four_or_six_digits(host: HostBuilder, spelled: str) -> None:
    pools = assigned(host, accelerators(classes=[spelled]))
    assert members(pools) == {"acc": list(host.vfs(QAT_PF))}


def test_without_classes_a_pool_has_only_class_12_regardless_of_other_pools(
    host: HostBuilder,
) -> None:
    host.accelerator(FEC, ACC100, vfs=2)
    pools = assigned(host, accelerators("fec"), accelerators("qat", classes=["0b40"]))
    assert members(pools) == {"fec": list(host.vfs(FEC)), "qat": list(host.vfs(QAT_PF))}
    assert ("classes", "0x12", 2) in [
        (s.step, s.wanted, s.remaining) for s in pools.pools[0].funnel
    ]


def test_a_list_of_classes_takes_all_of_them(host: HostBuilder) -> None:
    host.accelerator(FEC, ACC100, vfs=1)
    pools = assigned(host, accelerators(classes=["12", "0b40"]))
    assert members(pools) == {"acc": [*host.vfs(FEC), *host.vfs(QAT_PF)]}


def test_for_classes_that_no_pool_selects_one_file_is_read(host: HostBuilder) -> None:
    with host_calls() as without:
        scan(host.roots)
    with host_calls() as with_them:
        scan(host.roots, needs=frozenset({class_need("0b40")}))
    assert scan(host.roots).devices == ()
    assert with_them.counts["open"] > without.counts["open"]


def test_bridges_and_network_functions_are_never_read_as_accelerators(host: HostBuilder) -> None:
    host.function("0000:09:00.0", Hardware("8086", "1572", "i40e"))
    snapshot = scan(host.roots, needs=frozenset({class_need("")}))
    assert {d.id: str(d.kind) for d in snapshot.devices} == {
        "0000:05:00.0": "accelerator",
        "0000:09:00.0": "netDevice",
        QAT_PF: "accelerator",
        **dict.fromkeys(host.vfs(QAT_PF), "accelerator"),
    }


def test_another_configuration_reads_other_classes_with_the_next_scan(host: HostBuilder) -> None:
    scanner = Scanner(host.roots)
    assert scanner.scan().devices == ()
    asked = needs_of(config(accelerators(classes=["0b40"])))
    assert len(scanner.scan(needs=asked, touched=()).devices) == 3
    assert scanner.scan(touched=()).devices == ()


def test_a_device_of_another_class_is_read_again_for_allocate(host: HostBuilder) -> None:
    (device, _) = assigned(host, accelerators(classes=["0b40"])).pools[0].members
    assert refresh(host.roots, (device.device,)) == (device.device,)


def test_a_function_on_a_driver_of_the_host_is_in_use(host: HostBuilder) -> None:
    pools = assigned(host, accelerators(classes=["0108"]))
    assert members(pools) == {"acc": []}
    assert pools.in_use == {"0000:05:00.0": "the host's driver nvme uses it"}
    allowed = assigned(host, {**accelerators(classes=["0108"]), "allowInUse": True})
    assert members(allowed) == {"acc": ["0000:05:00.0"]}
    host.set_driver("0000:05:00.0", "vfio-pci")
    assert members(assigned(host, accelerators(classes=["0108"]))) == {"acc": ["0000:05:00.0"]}


def test_the_explanation_of_an_accelerator_pool_names_the_class_of_a_device_with_another_class(
    host: HostBuilder,
) -> None:
    made = config(accelerators("fec"), accelerators("qat", classes=["0b40"], devices=["1234"]))
    pools = assign(seen(host, made), config(accelerators("fec")))
    vf = host.vfs(QAT_PF)[0]
    told = reason(pools.snapshot.by_id[vf], pools)
    assert (told.refusal, told.text) == (
        Refusal.SELECTOR,
        (
            "not in intel.com/fec: classes: PCI class 0x0b40 (co-processor, such as a crypto "
            "engine), wanted 0x12"
        ),
    )


OTHERS = (
    "skipped because of their PCI class: 0x0108 (NVMe controller): 1, 0x0b40 (co-processor, such "
    "as a crypto engine): 3; functions of other classes than 0x12 are selected only by the "
    'selector classes, for example "classes": ["0108"]'
)
NOTHING = (
    "no network function (PCI class 0x02) on this host, and no accelerator: all functions have "
    "other PCI classes"
)
ABSENT = (
    "classes: no function of PCI class 0x0380 on this host for a pool; present: 0x0b40 "
    "(co-processor, such as a crypto engine) (2)"
)


def test_a_pool_without_accelerators_names_the_classes_that_were_skipped(
    host: HostBuilder,
) -> None:
    pools = assigned(host, accelerators(devices=["4941"]))
    why = advise(pools.pools[0], pools).why_empty
    assert why == (f"no accelerator function (PCI class 0x12) on this host; {OTHERS}",)


def test_a_pool_whose_hardware_is_not_among_the_accelerators_gets_the_same_advice(
    host: HostBuilder,
) -> None:
    host.accelerator(FEC, ACC100, vfs=2)
    pools = assigned(host, accelerators(devices=["4941"]))
    assert OTHERS in advise(pools.pools[0], pools).why_empty[0]


def test_a_host_with_functions_of_other_classes_only_does_not_get_advice_on_sys(
    host: HostBuilder,
) -> None:
    pools = assigned(host, pool("nic"))
    assert advise(pools.pools[0], pools).why_empty == (NOTHING,)


def test_a_class_without_functions_on_this_host_causes_a_note(host: HostBuilder) -> None:
    pools = assigned(host, accelerators(classes=["0380", "0b40"]))
    assert pools.pools[0].notes == (ABSENT,)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("6", "is not a PCI class"),
        ("0b4", "is not a PCI class"),
        ("0b40000", "is not a PCI class"),
        ("qat", "is not a PCI class"),
        ("0604", "PCI class 0x0604: bridges are never devices"),
        ("02", 'PCI class 0x02: network functions are of deviceType "netDevice"'),
    ],
)
def test_a_value_that_is_not_a_class_is_reported(value: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_class(value)


def test_classes_belong_to_accelerators() -> None:
    text = json.dumps({"resourceList": [pool("nic", {"classes": ["0b40"]})]}).encode()
    loaded = load_config(text, source="f", default_prefix="intel.com")
    assert any("classes does not belong to deviceType netDevice" in p for p in loaded.lines())


@pytest.mark.parametrize(
    ("pci_class", "text"),
    [
        (0x010802, "0x0108 (NVMe controller)"),
        (0x018000, "0x0180 (mass storage controller)"),
        (0x770000, "0x7700 (of no known class)"),
    ],
)
def test_a_class_has_a_number_and_words(pci_class: int, text: str) -> None:
    assert class_text(pci_class) == text


def test_for_an_address_or_a_pf_of_another_class_the_suitable_kind_of_pool_is_named(
    host: HostBuilder,
) -> None:
    host.pf("0000:3b:00.0", "ens1f0")
    vf = host.vfs(QAT_PF)[0]
    other = "skipped because of its PCI class 0x0b40 (co-processor, such as a crypto engine)"
    way = 'with "deviceType": "accelerator" and "classes": ["0b40"] in its selectors'
    by_address = assigned(host, pool("n", {"pciAddresses": [vf]}))
    (why,) = advise(by_address.pools[0], by_address).why_empty
    assert f"{vf} is {other}: a pool has it {way}" in why
    assert f"no function at {vf}" not in why
    by_pf = assigned(host, pool("n", {"rootDevices": [f"{QAT_PF}#0"]}))
    (why,) = advise(by_pf.pools[0], by_pf).why_empty
    assert f"{QAT_PF} is {other}: a pool has its functions {way}" in why
    assert "no PF on this host" not in why
    assert "one of these" not in why


def test_a_pool_of_netdevices_that_lacks_an_id_names_crypto_engines_but_no_disks(
    host: HostBuilder,
) -> None:
    host.pf("0000:3b:00.0", "ens1f0")
    pools = assigned(host, pool("n", {"devices": ["4941"]}))
    (why,) = advise(pools.pools[0], pools).why_empty
    assert (
        "skipped because of their PCI class: 0x0b40 (co-processor, such as a crypto engine): 3; "
        'pools of "deviceType": "accelerator" select such functions by "classes": ["0b40"]'
    ) in why
    assert "0x0108" not in why


def test_without_a_named_pf_no_name_is_requested(host: HostBuilder) -> None:
    host.pf("0000:3b:00.0", vfs=1)
    host.set_driver("0000:3b:00.0", "vfio-pci")
    pools = assigned(host, pool("n", {"pfNames": ["ens9"]}))
    (why,) = advise(pools.pools[0], pools).why_empty
    assert "without a netdev here by rootDevices: 0000:3b:00.0" in why
    assert "one of these" not in why


def test_a_vf_of_another_class_on_a_kernel_driver_is_to_be_bound_to_vfio_pci(
    tmp_path: Path,
) -> None:
    made = HostBuilder(tmp_path)
    on_kernel_driver = VfHardware("4941", "4xxxvf", netdevs=False)
    made.pf(QAT_PF, None, attrs.evolve(QAT, vf=on_kernel_driver), vfs=1)
    pools = assigned(made, accelerators("qat", classes=["0b40"]))
    (why,) = advise(pools.pools[0], pools).why_empty
    assert "kernel driver 4xxxvf: bind vfio-pci to give it to pods" in why
