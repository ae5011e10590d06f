"""The live page in a real browser: what people see, by mouse and by keyboard, light and dark.

SRIOV_AGENT_SHOTS=FOLDER keeps a picture of each state, to be looked at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
from playwright.sync_api import APIResponse, Browser, Page, Route, expect

from tests.support.agent import AgentProcess
from tests.support.hardware import E810, X710
from tests.support.host_builder import HostBuilder
from tests.support.kubelet import Kubelet
from tests.support.podresources import PodResources

UPLINK, NIC, DPDK = "0000:18:00.0", "0000:3b:00.0", "0000:3b:00.1"
NET = "example.com/net"
SHOTS = os.environ.get("SRIOV_AGENT_SHOTS")


def pool(name: str, **selectors: object) -> dict[str, Any]:
    return {"resourceName": name, "resourcePrefix": "example.com", "selectors": selectors}


@contextmanager
def agent_of(host: HostBuilder, config: Path, *pools: dict[str, Any]) -> Iterator[AgentProcess]:
    """A ready agent with HTTP on a free port."""
    config.write_text(json.dumps({"resourceList": list(pools)}))
    arguments = ("--http-address", "127.0.0.1:0")
    with AgentProcess(host.root, config, *arguments, env={"NODE_NAME": "worker-7"}) as agent:
        agent.wait_for("agent.ready", lambda line: line["ready"])
        agent.wait_for("host.watching")
        yield agent


def url_of(agent: AgentProcess) -> str:
    return f"http://{agent.wait_for('http.listening')['address']}"


@contextmanager
def page_of(
    browser: Browser, url: str, scheme: Literal["light", "dark"] = "light", width: int = 1400
) -> Iterator[Page]:
    """The page, drawn; fails on any error in it and on any request that leaves the agent."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    context.set_default_timeout(20_000)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text))
    page.on("request", lambda r: None if r.url.startswith((url, "data:")) else faults.append(r.url))
    page.goto(url)
    page.wait_for_selector(".cell[data-id]")
    yield page
    context.close()
    assert faults == []


def shot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def cell(page: Page, device_id: str) -> Any:  # noqa: ANN401 - a locator
    return page.locator(f'.cell[data-id="{device_id}"]')


@pytest.fixture
def node(host: HostBuilder) -> HostBuilder:
    """An uplink, eight kernel VFs, four of DPDK."""
    host.pf(UPLINK, "eno1", X710)
    host.default_route("eno1")
    host.pf(NIC, "ens1f0", vfs=8)
    host.pf(DPDK, "ens1f1", attrs.evolve(E810, vf=E810.vf.vfio), vfs=4)
    return host


@pytest.fixture
def agent(node: HostBuilder, kubelet: Kubelet, tmp_path: Path) -> Iterator[AgentProcess]:
    """Two pools with devices and an empty one; a pod holds VF 1."""
    with PodResources(node.roots.kubelet) as pods:
        pods.holds("web", "main", NET, node.vfs(NIC)[1])
        with agent_of(
            node,
            tmp_path / "config.json",
            pool("net", pfNames=["ens1f0#0-5"]),
            pool("dpdk", pfNames=["ens1f1"], drivers=["vfio-pci"]),
            pool("empty", pfNames=["ens9"]),
        ) as running:
            yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_shows_a_node_at_a_glance(
    browser: Browser, agent: AgentProcess, node: HostBuilder, scheme: Literal["light", "dark"]
) -> None:
    with page_of(browser, url_of(agent), scheme) as page:
        expect(page.locator("#ready")).to_have_text("ready")
        expect(page.locator("h1")).to_have_text("SR-IOV worker-7")
        expect(page.locator("#live")).to_have_text("live")
        assert page.locator(".cell[data-id]").count() == 12
        cards = page.locator("#pools .card")
        expect(cards).to_have_count(3)
        expect(cards.nth(0)).to_contain_text("6/6")
        expect(cards.nth(2)).to_contain_text("did you mean ens1f1?")
        uplink = page.locator(".pf").filter(has_text=UPLINK)
        expect(uplink).to_contain_text("in use by the host: eno1 carries the default route")
        expect(uplink).to_contain_text("link up 25 Gbit/s")
        shot(page, f"glance-{scheme}")


def test_cells_show_pool_use_and_health_by_more_than_colour(
    browser: Browser, agent: AgentProcess, node: HostBuilder
) -> None:
    vfs = node.vfs(NIC)
    with page_of(browser, url_of(agent)) as page:
        free, held, none = (cell(page, vfs[i]) for i in (0, 1, 7))
        expect(free).to_have_class("cell pool")
        expect(held).to_have_class("cell pool held")
        expect(none).to_have_class("cell none")
        expect(held).to_have_attribute(
            "aria-label",
            f"{vfs[1]} #1, VF, iavf, {NET}, Healthy, test/web (main)",
        )
        looks = {c: c.evaluate("e => getComputedStyle(e).backgroundColor") for c in (free, held)}
        assert looks[free] != looks[held]
        other = cell(page, node.vfs(DPDK)[0])
        colours = [c.evaluate("e => getComputedStyle(e).borderColor") for c in (free, other)]
        assert colours[0] != colours[1]


def test_a_link_that_fails_and_recovers_is_seen_without_a_reload(
    browser: Browser, agent: AgentProcess, node: HostBuilder
) -> None:
    first = node.vfs(NIC)[0]
    with page_of(browser, url_of(agent)) as page:
        page.evaluate("window.same = true")
        node.set_carrier("ens1f0", up=False)
        expect(cell(page, first)).to_have_class("cell pool bad")
        expect(page.locator(".pf").filter(has_text=NIC)).to_contain_text("link down")
        expect(page.locator("#pools .card").first).to_contain_text(
            "6 devices unhealthy: no carrier"
        )
        expect(page.locator("#events li.warning").first).to_contain_text("device.unhealthy")
        shot(page, "link-down")
        node.set_carrier("ens1f0", up=True)
        expect(cell(page, first)).to_have_class("cell pool")
        assert page.evaluate("window.same") is True


def test_a_change_during_an_older_answer_is_requested_again(
    browser: Browser, agent: AgentProcess, node: HostBuilder
) -> None:
    answers: list[tuple[Route, APIResponse]] = []
    with page_of(browser, url_of(agent)) as page:
        page.route("**/status", lambda route: answers.append((route, route.fetch())), times=1)
        node.set_carrier("ens1f1", up=False)
        while not answers:
            page.wait_for_timeout(10)
        node.set_carrier("ens1f0", up=False)
        events = page.locator("#events li.warning")
        expect(events.filter(has_text="device.unhealthy").filter(has_text=NET)).to_have_count(1)
        ((route, response),) = answers
        route.fulfill(response=response)
        expect(cell(page, node.vfs(NIC)[0])).to_have_class("cell pool bad")


def test_vfs_that_appear_and_disappear_are_drawn(
    browser: Browser, agent: AgentProcess, node: HostBuilder
) -> None:
    with page_of(browser, url_of(agent)) as page:
        node.add_vfs(DPDK, 6, E810.vf.vfio)
        expect(page.locator(".cell[data-id]")).to_have_count(14)
        node.remove_vfs(DPDK)
        expect(page.locator(".cell[data-id]")).to_have_count(8)


def test_a_click_explains_a_device_with_the_pod_that_holds_it(
    browser: Browser, agent: AgentProcess, node: HostBuilder
) -> None:
    with page_of(browser, url_of(agent)) as page:
        cell(page, node.vfs(NIC)[1]).click()
        details = page.locator("#details")
        expect(details).to_contain_text(f"selected by {NET}; held by pod test/web")
        expect(details).to_contain_text("test/web (main)")
        verdicts = details.locator("table").first.locator("tbody tr")
        expect(verdicts.first).to_contain_text("ens1f0#0-5")
        expect(verdicts.first).to_contain_text("passed")
        shot(page, "explained")
        page.keyboard.press("Escape")
        expect(details).not_to_be_visible()


def test_a_device_that_is_allocated_last_is_marked_and_explained(
    browser: Browser, agent: AgentProcess, node: HostBuilder
) -> None:
    vf = node.vfs(NIC)[0]
    with page_of(browser, url_of(agent)) as page:
        expect(cell(page, vf)).not_to_have_attribute("title", re.compile("given last"))
        node.remove_netdev(node.netdevs(vf)[0])
        expect(cell(page, vf)).to_have_attribute("title", re.compile("given last"))
        cell(page, vf).click()
        expect(page.locator("#details")).to_contain_text("given last")
        expect(page.locator("#details")).to_contain_text("no pod holds it")
        page.keyboard.press("Escape")
        page.locator(f'[data-resource="{NET}"]').get_by_role("button", name="explain").click()
        expect(page.locator("#details")).to_contain_text("none (given last)")


def test_a_pool_is_explained_and_its_devices_are_highlighted(
    browser: Browser, agent: AgentProcess, node: HostBuilder
) -> None:
    with page_of(browser, url_of(agent)) as page:
        card = page.locator('[data-resource="example.com/dpdk"]')
        card.get_by_role("button", name="example.com/dpdk").click()
        expect(page.locator(".cell.dim[data-id]")).to_have_count(8)
        card.get_by_role("button", name="example.com/dpdk").click()
        expect(page.locator(".cell.dim[data-id]")).to_have_count(0)
        empty = page.locator('[data-resource="example.com/empty"]')
        empty.get_by_role("button", name="explain").click()
        expect(page.locator("#details")).to_contain_text("no devices: it is not registered")


def test_everything_can_be_reached_by_keyboard(
    browser: Browser, agent: AgentProcess, node: HostBuilder
) -> None:
    vfs = node.vfs(NIC)
    focused = "document.activeElement.dataset.id ?? document.activeElement.id"
    with page_of(browser, url_of(agent)) as page:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(focused) == vfs[0]:
                break
        assert page.evaluate(focused) == vfs[0], "one stop of the tab key for each PF's grid"
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate(focused) == vfs[1]
        page.keyboard.press("End")
        assert page.evaluate(focused) == vfs[7]
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        expect(page.locator("#details-title")).to_have_text(vfs[0])
        page.keyboard.press("Escape")
        assert page.evaluate(focused) == vfs[0], "closing gives the focus back"
        page.keyboard.press("/")
        assert page.evaluate(focused) == "find"
        page.keyboard.type("test/web")
        expect(page.locator(".cell.dim[data-id]")).to_have_count(11)
        page.keyboard.press("Escape")
        expect(page.locator(".cell.dim[data-id]")).to_have_count(0)


def test_the_theme_can_be_chosen_and_is_stored(browser: Browser, agent: AgentProcess) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    with page_of(browser, url_of(agent), "light") as page:
        light = page.evaluate(back)
        page.get_by_role("button", name="theme").click()
        page.get_by_role("button", name="theme: light").click()
        assert page.evaluate(back) != light
        page.reload()
        page.wait_for_selector(".cell[data-id]")
        assert page.evaluate(back) != light
        expect(page.locator("#theme")).to_have_text("theme: dark")


def test_a_name_from_the_host_cannot_become_markup(
    browser: Browser, host: HostBuilder, kubelet: Kubelet, tmp_path: Path
) -> None:
    host.pf(NIC, "<img src=x>", vfs=1)
    with (
        agent_of(host, tmp_path / "config.json", pool("net", drivers=["iavf"])) as agent,
        page_of(browser, url_of(agent)) as page,
    ):
        expect(page.locator(".pf h3")).to_contain_text("<img src=x>")
        assert page.locator("img").count() == 0


def test_the_page_recovers_with_the_agent(
    browser: Browser, node: HostBuilder, kubelet: Kubelet, tmp_path: Path
) -> None:
    config, pools = tmp_path / "config.json", (pool("net", drivers=["iavf"]),)
    with agent_of(node, config, *pools) as first:
        url = url_of(first)
        context = browser.new_context()
        page = context.new_page()
        page.goto(url)
        expect(page.locator("#live")).to_have_text("live")
        first.stop()
        expect(page.locator("#live")).to_have_text("reconnecting …")
    address = url.removeprefix("http://")
    with AgentProcess(node.root, config, "--http-address", address):
        expect(page.locator("#live")).to_have_text("live", timeout=30_000)
        expect(page.locator("#ready")).to_have_text("ready")
    context.close()


@pytest.mark.parametrize("width", [360, 1400])
def test_nothing_is_wider_than_the_screen(
    browser: Browser, agent: AgentProcess, width: int
) -> None:
    with page_of(browser, url_of(agent), width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shot(page, f"width-{width}")


def test_4096_functions_are_drawn_and_followed(
    browser: Browser, host: HostBuilder, kubelet: Kubelet, tmp_path: Path
) -> None:
    for number in range(16):
        host.pf(f"0000:{number * 4 + 1:02x}:00.0", f"p{number}", vfs=255)
    pools = [pool(f"net{n}", pfNames=[f"p{n}"]) for n in range(16)]
    with (
        agent_of(host, tmp_path / "config.json", *pools) as agent,
        page_of(browser, url_of(agent)) as page,
    ):
        expect(page.locator(".cell[data-id]")).to_have_count(16 * 255)
        host.set_carrier("p3", up=False)
        expect(page.locator(".cell.bad[data-id]")).to_have_count(255)
        page.locator("#find").fill("#254")
        expect(page.locator(".cell[data-id]:not(.dim)")).to_have_count(16)
        shot(page, "4096")
