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
    """The first and second cell of each row of a section's table that has a limit."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    cells = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    return {row[0]: row[1] for row in list(cells)[1:] if row[1] != "none"}


def seconds(value: float) -> str:
    return f"{value:g} s"


def mib(value: int) -> str:
    return f"{value / 2**20:g} MiB"


WAITING = {
    "a call on": seconds(blocking.LIMIT_S),
    "the lock file": seconds(resource_locks.ASK_LIMIT_S),
    "removing a socket": seconds(folders.REMOVE_LIMIT_S),
    "reading the facts": seconds(FRESH_WITHIN_S),
    "checking the device": seconds(CONFIRM_WITHIN_S),
    "events of a": seconds(BLIND_S),
    "the first answer": seconds(node_agent.FIRST_HOLDERS_WITHIN_S),
    "any other answer": seconds(podresources.ANSWER_LIMIT_S),
    "reading kubelet's checkpoint,": seconds(holders.FILE_LIMIT_S),
    "Register": seconds(registration.REGISTER_DEADLINE_S),
    "ListAndWatch after a": seconds(PLUGIN.stream_s),
    "GetInfo by kubelet's": seconds(PLUGIN.undialled_s),
    "the same, if": seconds(PLUGIN.unwatched_s),
    "NotifyRegistrationStatus after GetInfo": seconds(PLUGIN.verdict_s),
    "sending the empty": seconds(resource.EMPTY_LIST_LIMIT_S),
    "the end of": seconds(server.END_LIMIT_S),
    "kubelet to disconnect": seconds(server.HANG_UP_LIMIT_S),
    "the rest of": seconds(grpc.RECEIVE_LIMIT_S),
    "an unfinished answer when its": seconds(server.ANSWER_LIMIT_S),
    "an unfinished answer when the": seconds(server.STOP_ANSWER_LIMIT_S),
    "the head of": seconds(HTTP.head_s),
    "the next HTTP": seconds(HTTP.idle_s),
    "an HTTP client to receive": seconds(HTTP.write_s),
    "an HTTP client to disconnect": seconds(HTTP.linger_s),
    "the running agent": seconds(client.ANSWER_LIMIT_S),
    "writing the last": seconds(log_writer.FLUSH_LIMIT_S),
    "a server to": seconds(server.CLOSE_LIMIT_S),
    "everything after SIGTERM,": seconds(daemon.STOP_WITHIN_S),
}
INTERVALS = {
    "a device must": seconds(HealthPolicy().recovery_hold_s),
    "a changed configuration": seconds(config_watcher.QUIET_S),
    "a failed read": seconds(config_watcher.RETRY_S),
    "a scan starts": seconds(rescan.WINDOW_S),
    "another scan follows": seconds(rescan.QUIET_S),
    "a host whose": seconds(rescan.UNSETTLED_AT_MOST_S),
    "the whole host": seconds(rescan.WHOLE_S),
    "P_Keys and device": seconds(silent_facts.EVERY_S),
    "states of InfiniBand": seconds(rdma_ports.READ_AGAIN_S),
    "pod-resources is called after": seconds(podresources.SETTLE_S),
    "pod-resources is called again": seconds(podresources.PAUSE_S),
    "pod-resources is called while": seconds(podresources.SLOW_S),
    "a device counts": seconds(allocation_tracker.CONFIRM_WITHIN_S),
    "the same for": seconds(allocation_tracker.CHECKPOINT_WITHIN_S),
    "a pod may": seconds(allocation_tracker.SHORT_LIFE_S),
    "other devices are": seconds(allocation_tracker.REST_S),
    "devices whose allocation": seconds(reconcile.HOLDERS_AWAITED_S),
    "a CDI spec": seconds(reconcile.RETRY_FILES_S),
    "a failed registration": seconds(tasks.QUICK_DELAY_S),
    "and then after": ", ".join(map(seconds, tasks.SLOW_DELAYS_S)),
    "the agent logs": seconds(readiness_log.BRIEF_S),
    "the same at": seconds(readiness_log.START_S),
}
SIZES = {
    "one gRPC message": mib(grpc.MAX_MESSAGE_BYTES),
    "an answer of": mib(podresources.MAX_REPLY_BYTES),
    "pods in an": str(pod_list.PODS_AT_MOST),
    "kubelet's checkpoint": mib(checkpoint.LIMIT),
    "connections of one": str(grpc_server.MAX_PEERS),
    "containers of one": str(decoding.MAX_CONTAINERS),
    "fields of one": str(decoding.MAX_FIELDS),
    "HTTP connections": str(HTTP.connections),
    "concurrent HTTP requests,": str(HTTP.requests),
    "concurrent probes": str(HTTP.probes),
    "streams of events": str(HTTP.streams),
    "bytes of the": str(HTTP.head_bytes),
    "HTTP clients that": str(http_server.TURNED_AWAY_AT_MOST),
    "a CDI spec": mib(cdi.SPEC_LIMIT),
    "the record of": mib(given._LIMIT),
    "a table of": mib(sysfs._TABLE_LIMIT),
    "log lines that": mib(log_writer.MAX_BYTES),
    "interfaces that the": str(route_filter.WATCHED_AT_MOST),
    "devices that are": str(reconcile.MANY_DEVICES - 1),
    "values of selectors": str(reconcile.MANY_VALUES - 1),
}


def differences(section: str, expected: dict[str, str]) -> Iterator[str]:
    """Rows with another limit than the code, and rows and limits without a counterpart."""
    unseen = set(expected)
    for what, limit in rows(section).items():
        begins = next((begins for begins in expected if what.startswith(begins)), "")
        unseen.discard(begins)
        if expected.get(begins) != limit:
            yield f"{what}: {limit} on the page, {expected.get(begins)} in the code"
    yield from (f"{begins}: not on the page" for begins in unseen)


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
