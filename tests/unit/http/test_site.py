from __future__ import annotations

import asyncio
import json
from typing import Any

import attrs
import pytest

from agent.config.watcher import ConfigStatus
from agent.event_history import EventHistory
from agent.http.messages import Answer, Request, Stream, plain
from agent.http.site import Site
from agent.model.link import LinkFact, Links
from agent.status.state import AgentState
from tests.support.devices import host, pf, vf
from tests.support.moment import moment
from tests.support.pools import pool

PF0 = pf("0000:3b:00.0", "pf0", num_vfs=1)
VF0 = vf("0000:3b:02.0", PF0)
STATE = moment(
    host(PF0, VF0), pool("net", {"pfNames": ["pf0"]}, additionalInfo={"*": {"k": "s3cret"}})
)


class Shown:
    """A site of a state that the test replaces."""

    def __init__(self, state: AgentState = STATE) -> None:
        self.state = state
        self.site = Site(lambda: self.state, EventHistory(), self._metrics, lambda v, d: f"{v}/{d}")

    async def _metrics(self, state: AgentState) -> Answer:
        return plain(f"metrics of {state.version}")

    async def get(self, path: str, headers: dict[str, str] | None = None, **query: str) -> Answer:
        answer = await self.site.serve(Request(path, query, headers or {}))
        assert isinstance(answer, Answer)
        return answer

    async def json(self, path: str, **query: str) -> Any:  # noqa: ANN401
        return json.loads((await self.get(path, None, **query)).body)


async def test_a_loop_that_answers_is_alive() -> None:
    assert await Shown().get("/healthz") == plain("ok\n")


async def test_ready_is_200_with_details_and_not_ready_is_503_with_what_is_missing() -> None:
    shown = Shown()
    assert await shown.get("/readyz") == plain("ready\n")
    rejected = ConfigStatus("f", in_force=True, rejected="f:1:2: trailing comma")
    shown.state = attrs.evolve(STATE, config=rejected)
    told = await shown.get("/readyz")
    assert told.status == 200
    assert b"detail: the configuration file is invalid" in told.body
    shown.state = attrs.evolve(STATE, servers=())
    assert await shown.get("/readyz") == plain(
        "not ready\nmissing: intel.com/net (1 device): is not served yet\n", 503
    )


async def test_the_metrics_are_those_of_the_present_state() -> None:
    assert (await Shown().get("/metrics")).body == b"metrics of 1.2.3"


async def test_the_status_is_complete_with_or_without_devices() -> None:
    shown = Shown()
    told = await shown.json("/status")
    assert told["ready"] is True
    assert [d["id"] for d in told["devices"]] == [PF0.id, VF0.id]
    assert told["pfs"][0]["title"] == "8086/1572"
    assert "devices" not in await shown.json("/status", devices="0")


async def test_an_unchanged_status_is_not_sent_again() -> None:
    shown = Shown()
    first = await shown.get("/status")
    seen = {"if-none-match": dict(first.headers)["etag"]}
    shown.state = attrs.evolve(STATE, now=STATE.now + 5)
    assert (await shown.get("/status", seen)).status == 304
    assert (await shown.get("/status", seen, devices="0")).status == 200
    shown.state = attrs.evolve(STATE, servers=())
    again = await shown.get("/status", seen)
    assert again.status == 200
    assert dict(again.headers)["etag"] != seen["if-none-match"]


async def test_an_explanation_is_given_or_the_nearest_names() -> None:
    shown = Shown()
    assert (await shown.json("/explain", subject=VF0.id))["device"]["summary"] == (
        "selected by intel.com/net"
    )
    for subject in (VF0.id, "intel.com/net"):
        assert (await shown.get("/explain", subject=subject)).status == 200
    unknown = await shown.get("/explain", subject="nett")
    assert unknown.status == 404
    assert json.loads(unknown.body)["near"] == ["intel.com/net"]
    assert (await shown.get("/explain")).status == 400


@pytest.mark.parametrize("path", ["/status", "/explain", "/metrics", "/readyz"])
async def test_values_of_additional_info_are_in_no_output(path: str) -> None:
    for subject in (VF0.id, "net"):
        assert b"s3cret" not in (await Shown().get(path, subject=subject)).body


async def test_events_are_a_stream() -> None:
    answer = await Shown().site.serve(Request("/events"))
    assert isinstance(answer, Stream)
    await answer.chunks.aclose()


async def test_the_page_and_its_parts_exist() -> None:
    page = await Shown().get("/")
    assert page.content_type.startswith("text/html")
    assert b"<!doctype html>" in page.body.lower()
    assert (await Shown().get("/page/page.js")).content_type.startswith("text/javascript")
    assert (await Shown().get("/page/page.css")).content_type.startswith("text/css")


async def test_the_page_makes_requests_to_the_agent_only() -> None:
    shown = Shown()
    for path in ("/", *shown.site._parts):
        text = (await shown.get(path)).body.decode()
        assert "http:" not in text, path
        assert "https:" not in text, path
        assert "innerHTML" not in text, path


@pytest.mark.parametrize("path", ["/nothing", "/../etc/passwd", "/page/../site.py", "//"])
async def test_anything_else_is_missing_and_the_paths_are_named(path: str) -> None:
    answer = await Shown().get(path)
    assert answer.status == 404
    assert b"/readyz" in answer.body


@pytest.mark.parametrize(
    "changed",
    [
        {"links": Links({7: LinkFact(7, "pf0", carrier=False)})},
        {"servers": ()},
        {"netlink": "closed"},
        {"config": ConfigStatus("f", in_force=True, rejected="f:1:2: trailing comma")},
    ],
    ids=["links", "servers", "netlink", "config"],
)
async def test_a_status_in_which_anything_changed_is_sent_again(changed: dict[str, Any]) -> None:
    shown = Shown()
    first = await shown.get("/status")
    tag = dict(first.headers)["etag"]
    assert (await shown.get("/status", {"if-none-match": tag})).status == 304
    shown.state = attrs.evolve(STATE, **changed)
    assert (await shown.get("/status", {"if-none-match": tag})).status == 200


async def test_the_state_is_read_on_the_loop_and_rendered_elsewhere() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    def state() -> AgentState:
        loops.append(asyncio.get_running_loop())
        return STATE

    site = Site(state, EventHistory(), Shown()._metrics, lambda v, d: f"{v}/{d}")
    for path in ("/readyz", "/status", "/metrics"):
        assert isinstance(await site.serve(Request(path)), Answer)
    await site.serve(Request("/explain", {"subject": "net"}))
    assert len(loops) == 4
