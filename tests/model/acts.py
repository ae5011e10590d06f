"""What can happen to a node in one moment: each act is a function of the node and a number.

The number picks one of several things that the act can be done to, or ways to do it; hypothesis
chooses it. Acts do nothing where there is nothing to do them to.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.model.kubelet import DEEDS, STAGES
from tests.model.node import Node, config_of, file_of, pool

Act = Callable[[Node, int], None]

PFS = ("0000:3b:00.0", "0000:3b:00.1")
NAMES = ("ens1f0", "ens1f1")
NO_POOLS = file_of()
GOOD = (
    file_of(pool("net", "iavf")),
    file_of(pool("net", "iavf"), pool("dpdk", "vfio-pci")),
    file_of(pool("dpdk", "vfio-pci"), pool("net", "iavf", excludeTopology=True)),
    file_of(pool("net", "iavf", "vfio-pci", allocationPolicy="packed")),
    file_of(pool("dpdk", "vfio-pci", advertiseEmpty=True)),
    file_of(
        pool("net", "iavf", health={"recoveryHoldSeconds": 5}),
        pool("dpdk", "vfio-pci", health={"link": False}),
    ),
    NO_POOLS,
)
BAD = (b"", b"{", b"\xff", b'{"resourceList": [{"resourceName": "net"}]}', None)
REFUSALS = (1, 2, 4, 7, 30)
LATE_S = (0.1, 3.0)
UNAWARE_S = (0.5, 12.0)
DRIVERS = ("iavf", "vfio-pci", None)


# Kubelet


def kubelet_dies(node: Node, _: int) -> None:
    node.kubelet_dies()


def kubelet_starts(node: Node, _: int) -> None:
    node.kubelet_starts()


def kubelet_is_replaced(node: Node, number: int) -> None:
    node.kubelet_is_replaced(reads=bool(number % 2))


def kubelet_refuses(node: Node, number: int) -> None:
    node.mood.refusals = REFUSALS[number % len(REFUSALS)]


def the_next_registration_is_cut_off(node: Node, number: int) -> None:
    deed, stage = DEEDS[number % len(DEEDS)], STAGES[number // len(DEEDS) % len(STAGES)]
    node.mood.traps.append((stage, deed))


def kubelet_opens_no_streams(node: Node, _: int) -> None:
    node.mood.opens_streams = False


def kubelet_acts_late(node: Node, number: int) -> None:
    node.mood.late_s = LATE_S[number % len(LATE_S)]


def kubelet_hears_late_of_its_pods(node: Node, number: int) -> None:
    """From its next start on, until the API server is back."""
    node.mood.unaware_s = UNAWARE_S[number % len(UNAWARE_S)]


def kubelet_drops_a_stream(node: Node, number: int) -> None:
    node.kubelet.drop_stream(number)


# Its folders


def a_socket_is_unlinked(node: Node, number: int) -> None:
    sockets = node.sockets()
    if sockets:
        Path(sockets[number % len(sockets)]).unlink()


def a_socket_is_replaced(node: Node, number: int) -> None:
    """Another file takes its name, which nobody listens on."""
    sockets = node.sockets()
    if sockets:
        path = Path(sockets[number % len(sockets)])
        other = path.with_name("other")
        other.touch()
        other.rename(path)


def the_folder_is_emptied(node: Node, _: int) -> None:
    """Kubelet's own socket too, so kubelet is as good as dead until it starts again."""
    node.kubelet_dies()
    for path in node.roots.device_plugins.glob("*"):
        if path.is_socket():
            path.unlink()


def the_folder_is_removed(node: Node, number: int) -> None:
    """Kubelet cannot be reached there any more, so it counts as dead."""
    node.kubelet_dies()
    _remove(node, node.roots.device_plugins, is_moved=bool(number & 1))
    if number & 2:
        node.roots.device_plugins.mkdir(parents=True)


def kubelets_root_is_removed(node: Node, number: int) -> None:
    """Everything of kubelet's, to come back with its next start or before."""
    node.kubelet_dies()
    has_registry = node.roots.plugins_registry.is_dir()
    _remove(node, node.roots.kubelet, is_moved=bool(number & 1))
    if number & 2:
        node.roots.device_plugins.mkdir(parents=True)
        if has_registry:
            node.roots.plugins_registry.mkdir()


def the_watchers_folder_comes_or_goes(node: Node, number: int) -> None:
    folder = node.roots.plugins_registry
    _remove(node, folder, is_moved=bool(number & 1))
    if number & 6:
        folder.mkdir(parents=True)


def _remove(node: Node, folder: Path, *, is_moved: bool) -> None:
    """Of what moves away no file tells anything, and what is open in it goes on."""
    if is_moved and folder.is_dir():
        folder.rename(node.new_path())
    else:
        shutil.rmtree(folder, ignore_errors=True)


# Configuration


def the_config_is_edited(node: Node, number: int) -> None:
    node.write_config(GOOD[number % len(GOOD)])


def the_config_is_broken(node: Node, number: int) -> None:
    node.write_config(BAD[number % len(BAD)])


def the_configs_folder_is_made_anew(node: Node, number: int) -> None:
    node.write_config(GOOD[number % len(GOOD)], in_a_new_folder=True)


# Host


def vfs_come_or_go(node: Node, number: int) -> None:
    pf, vfs = PFS[number % 2], number // 2 % 4
    host = node.host
    if not host.folder(pf).exists():
        host.pf(pf, NAMES[number % 2], vfs=vfs)
        return
    if vfs < len(host.vfs(pf)):
        host.remove_vfs(pf)
    host.add_vfs(pf, vfs)


def a_pf_goes(node: Node, number: int) -> None:
    host, pf = node.host, PFS[number % 2]
    if host.folder(pf).exists():
        host.remove_vfs(pf)
        host.remove(pf)


def a_vf_changes_its_driver(node: Node, number: int) -> None:
    host = node.host
    vfs = [vf for pf in PFS if host.folder(pf).exists() for vf in host.vfs(pf)]
    if vfs:
        host.set_driver(vfs[number // 3 % len(vfs)], DRIVERS[number % 3])


def a_carrier_changes(node: Node, number: int) -> None:
    if _has_netdev(node, number):
        node.host.set_carrier(NAMES[number % 2], up=bool(number & 2))


def a_link_is_set_up_or_down(node: Node, number: int) -> None:
    if _has_netdev(node, number):
        node.host.set_admin(NAMES[number % 2], up=bool(number & 2))


def _has_netdev(node: Node, number: int) -> bool:
    return (node.host.root / "sys/class/net" / NAMES[number % 2]).exists()


# Pods


def a_pod_starts(node: Node, number: int) -> None:
    """With a device that is there, whatever kubelet's list still says."""
    before = set(node.pods.held)
    node.run(node.kubelet.start_pod(number))
    assert all(node.host.folder(device).exists() for device in node.pods.held.keys() - before)


def a_pod_dies_before_it_runs(node: Node, number: int) -> None:
    node.run(node.kubelet.start_pod(number, dies=True))


def a_pod_ends(node: Node, number: int) -> None:
    node.pods.end(number)


# The agent


def the_agent_is_restarted(node: Node, _: int) -> None:
    """Only beside a configuration that it can start with."""
    if config_of(node.written) is not None:
        node.restart_agent()


def by_name(*acts: Act) -> Mapping[str, Act]:
    """The acts by what they are called, which is what a failing example shows."""
    return {act.__name__.replace("_", " "): act for act in acts}


OF_KUBELET = by_name(
    kubelet_starts,
    kubelet_dies,
    kubelet_is_replaced,
    the_next_registration_is_cut_off,
    kubelet_refuses,
    kubelet_drops_a_stream,
    kubelet_opens_no_streams,
    kubelet_acts_late,
    kubelet_hears_late_of_its_pods,
)
OF_FOLDERS = by_name(
    a_socket_is_unlinked,
    a_socket_is_replaced,
    the_folder_is_emptied,
    the_folder_is_removed,
    kubelets_root_is_removed,
    the_watchers_folder_comes_or_goes,
)
MOODS = tuple(
    by_name(
        kubelet_refuses,
        kubelet_opens_no_streams,
        kubelet_acts_late,
        kubelet_hears_late_of_its_pods,
        the_next_registration_is_cut_off,
    )
)
FAULTS = {
    **OF_FOLDERS,
    **by_name(kubelet_starts, kubelet_is_replaced, kubelet_drops_a_stream, the_agent_is_restarted),
}
"""What is put right by itself, each alone."""
REGISTERING = tuple(by_name(kubelet_starts, kubelet_drops_a_stream, a_socket_is_unlinked))
"""What every agent answers with a new registration."""
OF_CONFIG = by_name(the_config_is_edited, the_config_is_broken, the_configs_folder_is_made_anew)
OF_HOST = by_name(
    vfs_come_or_go,
    a_pf_goes,
    a_vf_changes_its_driver,
    a_carrier_changes,
    a_link_is_set_up_or_down,
)
OF_PODS = by_name(a_pod_starts, a_pod_dies_before_it_runs, a_pod_ends)
OF_AGENT = by_name(the_agent_is_restarted)
ACTS: Mapping[str, Act] = {
    **OF_KUBELET,
    **OF_FOLDERS,
    **OF_CONFIG,
    **OF_HOST,
    **OF_PODS,
    **OF_AGENT,
}
