"""``explain``: why a device is in a pool or in none, or why a pool has its devices.

It asks the running agent; with ``--config-file``, or if no agent runs, it scans the host once.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator

from rich.text import Text

from agent.admin.client import ask_explanation
from agent.cli.console import BAD, DIM, GOOD, STRONG, WARN, Screen, clock, health, styled
from agent.cli.inputs import roots_of
from agent.cli.offline_state import moment_of
from agent.cli.status import holder_text
from agent.errors import NoAgentError, UsageError
from agent.rpc.agent import v1
from agent.status.explain import explain
from agent.status.json_mapping import text

_MEMBERS_SHOWN = 32


def command(arguments: Namespace) -> int:
    """Explain one subject. Raises UsageError for an unknown subject, and ConfigError."""
    explanation = _ask(arguments)
    if explanation.device is None and explanation.pool is None:
        raise UsageError(_unknown(explanation))
    if arguments.output == "json":
        sys.stdout.write(text(explanation))
    else:
        show(explanation, Screen())
    return 0


def _ask(arguments: Namespace) -> v1.Explanation:
    if arguments.config_file is None:
        try:
            return asyncio.run(ask_explanation(roots_of(arguments).run, arguments.subject))
        except NoAgentError as error:
            print(f"{error}; the answer is from a scan of this host", file=sys.stderr)
    return explain(arguments.subject, moment_of(arguments))


def _unknown(explanation: v1.Explanation) -> str:
    if explanation.note:
        return explanation.note
    near = (
        f"; do you mean {', '.join(explanation.near)}?"
        if explanation.near
        else "; no pools are configured"
    )
    return f"there is no device or pool {explanation.subject}{near}"


def show(explanation: v1.Explanation, screen: Screen) -> None:
    """Print the explanation as text."""
    if explanation.device is not None:
        _show_device(explanation.device, screen)
    elif explanation.pool is not None:
        _show_pool(explanation.pool, screen)


def _show_device(explanation: v1.DeviceExplanation, screen: Screen) -> None:
    device = explanation.device or v1.Device()
    screen.line(f"{device.id}: {explanation.summary}", STRONG)
    for fact in explanation.facts:
        screen.line(f"  {fact.name + ':':15}{fact.value}")
    if explanation.in_use:
        screen.line(f"  in use by the host: {explanation.in_use}", WARN)
    if device.health:
        screen.line(
            f"  {'health:':15}{_health(device, explanation)}", str(health(device.health).style)
        )
    if pod := holder_text(device.holder):
        screen.line(f"  {'pod:':15}{pod}")
    for pool in explanation.pools:
        screen.line()
        screen.line(f"{pool.resource}: {pool.outcome}", GOOD if pool.chosen else "")
        screen.table(_VERDICT_HEADERS, _verdicts(pool))


def _health(device: v1.Device, explanation: v1.DeviceExplanation) -> str:
    cause = f", {device.cause}" if device.cause else ""
    detail = f": {explanation.health_detail}" if explanation.health_detail else ""
    since = f" since {clock(device.since)}" if device.since else ""
    return f"{device.health}{since}{cause}{detail}"


_VERDICT_HEADERS = ("  SELECTOR", "WANTED", "FOUND", "VERDICT")


def _verdicts(pool: v1.PoolVerdict) -> Iterator[list[str | Text]]:
    several = len(pool.objects) > 1
    for one in pool.objects:
        place = f"[{one.selector_object}] " if several else ""
        for verdict in one.verdicts:
            passed = styled("passed", GOOD) if verdict.passed else styled("refused", BAD)
            yield [f"  {place}{verdict.key}", verdict.wanted, verdict.actual, passed]
        yield [f"  {place}=>", "", "", one.outcome]


def _show_pool(explanation: v1.PoolExplanation, screen: Screen) -> None:
    pool = explanation.pool or v1.Pool()
    screen.line(f"{pool.resource} ({pool.device_type}): {explanation.summary}", STRONG)
    for why in pool.why_empty:
        screen.line(f"  why: {why}", WARN)
    for note in pool.notes:
        screen.line(f"  note: {note}", WARN)
    for overlap in explanation.overlaps:
        screen.line(f"  {_overlap(overlap, pool)}", WARN)
    screen.line()
    screen.table(("  FUNCTIONS LEFT", "AFTER", "WANTED"), _funnel(pool))
    if explanation.members:
        screen.line()
        screen.table(("  DEVICE", "PF", "HEALTH", "POD"), _members(explanation))
    if (more := len(explanation.members) - _MEMBERS_SHOWN) > 0:
        screen.line(f"  ... {more} more; `status --devices` lists all", DIM)


def _overlap(overlap: v1.Overlap, pool: v1.Pool) -> str:
    if overlap.loser == pool.resource:
        return f"matching devices in the earlier pool {overlap.winner}: {overlap.devices}"
    return f"devices that the later pool {overlap.loser} matches too: {overlap.devices}"


def _funnel(pool: v1.Pool) -> Iterator[list[str | Text]]:
    several = max((s.selector_object for s in pool.funnel), default=0) > 1
    before: dict[int, int] = {}
    for step in pool.funnel:
        place = f"[{step.selector_object}] " if several and step.selector_object else ""
        emptied = not step.remaining and before.get(step.selector_object, 1) > 0
        before[step.selector_object] = step.remaining
        count = styled(f"  {step.remaining:>6}", BAD if emptied else "")
        yield [count, f"{place}{step.step}", step.wanted]


def _members(explanation: v1.PoolExplanation) -> Iterator[list[str | Text]]:
    for device in explanation.members[:_MEMBERS_SHOWN]:
        words = f"{device.health} ({device.cause})" if device.cause else device.health
        style = health(device.health).style
        pod = holder_text(device.holder) or "-"
        yield [f"  {device.id}", device.pf or "-", Text(words, style=style), pod]
