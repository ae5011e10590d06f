"""The limits, intervals and sizes that docs/reliability.md names are those of the code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import blocking, daemon, holders, log_writer, node_agent, reconcile, silent_facts, tasks
from agent.admin import client
from agent.allocator import CONFIRM_WITHIN_S, FRESH_WITHIN_S
from agent.config import watcher as config_watcher
from agent.config.schema import HealthPolicy
from agent.export import cdi, given
from agent.host import route_filter, sysfs
from agent.http import server as http_server
from agent.http.places import Limits as HttpLimits
from agent.inotify import BLIND_S
from agent.kubelet import checkpoint, pod_list, podresources, resource_locks
from agent.plugin import decoding, folders, registration, resource, server
from agent.plugin.generation import Limits as PluginLimits
from agent.pools import allocation_tracker
from agent.status import readiness_log
from agent.transport import grpc, grpc_server
from agent.watch import rdma_ports, rescan

PAGE = Path(__file__).parents[3] / "docs/reliability.md"
STOP_PROMISED_S = 2.0
"""SIGTERM ends the agent within this time, whatever hangs."""
HTTP, PLUGIN = HttpLimits(), PluginLimits()


def rows(section: str) -> dict[str, str]:
    """The first words of each row of a section's table, and its second cell."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    cells = (line.split(" | ") for line in text.splitlines() if line.startswith("| "))
    found = {row[0].removeprefix("| "): row[1].removesuffix(" |") for row in cells}
    del found["what"]
    return found


def seconds(*values: float) -> str:
    return "; ".join(f"{value:g} s" for value in values)


def mib(*values: int) -> str:
    return "; ".join(f"{value / 2**20:g} MiB" for value in values)


def numbers(*values: int) -> str:
    return "; ".join(map(str, values))


WAITING = {
    "a call on the configuration": seconds(blocking.LIMIT_S),
    "the folder of the resource locks": seconds(resource_locks.ASK_LIMIT_S),
    "the removal of a socket": seconds(folders.REMOVE_LIMIT_S),
    "the facts of a device that Allocate": seconds(FRESH_WITHIN_S),
    "a directory that is there but": seconds(BLIND_S),
    "the first answer of pod-resources": seconds(node_agent.FIRST_HOLDERS_WITHIN_S),
    "any other answer of pod-resources": seconds(
        podresources.ANSWER_LIMIT_S, holders.FILE_LIMIT_S, holders.FILE_LIMIT_S
    ),
    "Register": seconds(registration.REGISTER_DEADLINE_S),
    "ListAndWatch after a registration": seconds(
        PLUGIN.stream_s, PLUGIN.undialled_s, PLUGIN.verdict_s
    ),
    "GetInfo where `auto`": seconds(PLUGIN.unwatched_s),
    "the empty list of a resource": seconds(
        resource.EMPTY_LIST_LIMIT_S, server.END_LIMIT_S, server.HANG_UP_LIMIT_S
    ),
    "a message under way": seconds(grpc.RECEIVE_LIMIT_S),
    "an answer under way": seconds(server.ANSWER_LIMIT_S, server.STOP_ANSWER_LIMIT_S),
    "HTTP: a request's head": seconds(HTTP.head_s, HTTP.idle_s, HTTP.write_s, HTTP.linger_s),
    "a command that asks": seconds(client.ANSWER_LIMIT_S),
    "the last lines of the log": seconds(log_writer.FLUSH_LIMIT_S),
    "the end of a server, when": seconds(server.CLOSE_LIMIT_S),
    "everything at SIGTERM": f"{seconds(daemon.STOP_WITHIN_S)}, or until a second signal",
}
INTERVALS = {
    "a device must look healthy": seconds(HealthPolicy().recovery_hold_s),
    "a changed configuration": seconds(config_watcher.QUIET_S, config_watcher.RETRY_S),
    "a scan after a first event": seconds(
        rescan.WINDOW_S, rescan.QUIET_S, rescan.UNSETTLED_AT_MOST_S
    ),
    "a whole scan though": seconds(rescan.WHOLE_S),
    "P_Keys and device nodes": seconds(silent_facts.EVERY_S, rdma_ports.READ_AGAIN_S),
    "pod-resources is asked": seconds(
        podresources.SETTLE_S, podresources.PAUSE_S, podresources.SLOW_S
    ),
    "a device counts as free": seconds(
        allocation_tracker.CONFIRM_WITHIN_S, allocation_tracker.CHECKPOINT_WITHIN_S
    ),
    "a device that comes back": seconds(allocation_tracker.SHORT_LIFE_S, allocation_tracker.REST_S),
    "devices of which no witness": seconds(reconcile.HOLDERS_AWAITED_S),
    "a CDI spec that could not": seconds(reconcile.RETRY_FILES_S),
    "a failed attempt to register": (
        f"{seconds(tasks.QUICK_DELAY_S)}; {', '.join(map(seconds, tasks.SLOW_DELAYS_S))}"
    ),
    "a missing readiness": seconds(readiness_log.BRIEF_S, readiness_log.START_S),
}
SIZES = {
    "one gRPC message": mib(grpc.MAX_MESSAGE_BYTES, podresources.MAX_REPLY_BYTES, checkpoint.LIMIT),
    "pods in an answer": numbers(pod_list.PODS_AT_MOST),
    "connections of one gRPC server": numbers(grpc_server.MAX_PEERS),
    "containers of one Allocate": numbers(decoding.MAX_CONTAINERS, decoding.MAX_FIELDS),
    "HTTP: connections": numbers(
        *(HTTP.connections, HTTP.requests, HTTP.probes, HTTP.streams, HTTP.head_bytes),
        http_server.TURNED_AWAY_AT_MOST,
    ),
    "a CDI spec that is read": mib(cdi.SPEC_LIMIT, given._LIMIT),
    "a table of procfs": mib(sysfs._TABLE_LIMIT),
    "log lines that wait": mib(log_writer.MAX_BYTES),
    "interfaces that the kernel's": numbers(route_filter.WATCHED_AT_MOST),
    "devices and values": numbers(reconcile.MANY_DEVICES - 1, reconcile.MANY_VALUES - 1),
}
UNNUMBERED = ("the configuration at the start", "a scan of the host", "standard error that")


def differences(section: str, expected: dict[str, str]) -> Iterator[str]:
    """Rows that say something else than the code, and rows without a counterpart."""
    for what, limit in rows(section).items():
        named = [value for begins, value in expected.items() if what.startswith(begins)]
        if not named and not what.startswith(UNNUMBERED):
            yield f"{what}: no constant is compared with this row"
        elif named and named != [limit]:
            yield f"{what}: {limit} on the page, {named} in the code"
    for begins in expected:
        if not any(what.startswith(begins) for what in rows(section)):
            yield f"{begins}: not on the page"


@pytest.mark.parametrize(
    ("section", "expected"),
    [("Limits of waiting", WAITING), ("Intervals", INTERVALS), ("Sizes", SIZES)],
)
def test_the_page_names_the_values_of_the_code(section: str, expected: dict[str, str]) -> None:
    assert list(differences(section, expected)) == []


def test_the_steps_of_a_stop_add_up_to_less_than_the_limit_of_all() -> None:
    steps = (resource.EMPTY_LIST_LIMIT_S, server.CLOSE_LIMIT_S, resource_locks.ASK_LIMIT_S)
    assert sum(steps) < daemon.STOP_WITHIN_S
    assert daemon.STOP_WITHIN_S + log_writer.FLUSH_LIMIT_S < STOP_PROMISED_S
    assert server.STOP_ANSWER_LIMIT_S < server.CLOSE_LIMIT_S


def test_an_allocation_that_began_before_a_stop_has_time_to_end() -> None:
    assert FRESH_WITHIN_S + CONFIRM_WITHIN_S < server.STOP_ANSWER_LIMIT_S
