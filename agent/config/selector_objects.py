"""Reads one selector object into criteria, in the order of the selector table."""

from __future__ import annotations

from typing import Any

from agent.config.fields import (
    KnownKeys,
    read_bool,
    read_choice,
    read_list,
    read_object,
    read_string,
)
from agent.config.findings import At, Findings, found, quoted
from agent.config.json_positions import Member
from agent.config.pool_keys import POOL_KEYS
from agent.config.schema import Criterion, SelectorSet
from agent.kinds import KINDS
from agent.model.device import Kind
from agent.selectors import SELECTORS, Selector, Shape

_KNOWN = KnownKeys(*SELECTORS)
_BESIDE = KnownKeys(*POOL_KEYS)
_FILTERS = tuple(key for key, selector in SELECTORS.items() if selector.is_filter)


def read_selector_object(
    at: At, kind: Kind | None, findings: Findings, *, pool_is_rdma: bool = False
) -> SelectorSet | None:
    """One selector object; None where it is no object.

    ``kind`` None = the device type is not known, so nothing can be said about what belongs to it.
    ``pool_is_rdma`` is an isRdma beside the selectors: it holds where the object has none.
    """
    entries = read_object(at, _KNOWN, findings, elsewhere=_elsewhere)
    if entries is None:
        return None
    errors_before = len(findings.problems)
    wanted = {
        key: value
        for key, selector in SELECTORS.items()
        if key in entries and _belongs(selector, kind, entries[key], findings)
        if (value := _read_wanted(selector, entries[key], findings)) is not None
    }
    if pool_is_rdma and "isRdma" not in entries and "vdpaType" not in wanted:
        wanted["isRdma"] = True
    clean = not any(p.severity == "error" for p in findings.problems[errors_before:])
    _check_whole(at, kind, wanted, entries, findings, clean=clean)
    return SelectorSet(
        criteria=tuple(Criterion(k, wanted[k]) for k in _FILTERS if k in wanted),
        is_rdma=wanted.get("isRdma", False),
        need_vhost_net=wanted.get("needVhostNet", False),
        vdpa_type=wanted.get("vdpaType"),
    )


def everything(kind: Kind | None) -> str:
    """What a selector object without filters selects, for messages."""
    noun = KINDS[kind].noun if kind else "device"
    return f"every {noun} that the host does not use itself"


def _elsewhere(member: Member) -> str | None:
    key = _BESIDE.any_case(member.key)
    return f"{key} is not read here: it belongs beside selectors, not inside" if key else None


def _belongs(selector: Selector, kind: Kind | None, at: At, findings: Findings) -> bool:
    if kind is None or kind in selector.kinds:
        return True
    allowed = ", ".join(key for key, s in SELECTORS.items() if kind in s.kinds)
    findings.warning(
        at,
        f"{selector.key} does not belong to deviceType {kind}, not read; allowed: {allowed}",
        on_key=True,
    )
    return False


def _read_wanted(selector: Selector, at: At, findings: Findings) -> Any:  # noqa: ANN401
    """What the selector wants; None where it filters nothing or the value is wrong."""
    if selector.shape is Shape.BOOL:
        return read_bool(at, findings) or None
    if selector.shape is Shape.CHOICE:
        if at.value == "":
            return None
        return read_choice(at, findings, selector.choices)
    parsed = [
        value
        for item in read_list(at, findings)
        if (value := _parsed(selector, item, findings)) is not None
    ]
    return selector.combine(parsed) if parsed else None


def _parsed(selector: Selector, at: At, findings: Findings) -> Any:  # noqa: ANN401
    raw = read_string(at, findings)
    if raw is None:
        return None
    try:
        return selector.parse(raw)
    except ValueError as error:
        findings.error(at, str(error))
        return None


def _check_whole(
    at: At,
    kind: Kind | None,
    wanted: dict[str, Any],
    entries: dict[str, At],
    findings: Findings,
    *,
    clean: bool,
) -> None:
    if "isRdma" in wanted and "vdpaType" in wanted:
        findings.error(
            entries["vdpaType"], "isRdma and vdpaType exclude each other: choose one", on_key=True
        )
    if kind is Kind.AUX_NET_DEVICE:
        _check_aux_types(at, wanted, entries, findings, clean=clean)
    if clean and not any(key in wanted for key in _FILTERS):
        findings.warning(
            at, f"{found(at.value)} without a filter selects {everything(kind)}".removeprefix("an ")
        )


def _check_aux_types(
    at: At, wanted: dict[str, Any], entries: dict[str, At], findings: Findings, *, clean: bool
) -> None:
    known = KINDS[Kind.AUX_NET_DEVICE].aux_types
    if "auxTypes" not in wanted:
        if clean or "auxTypes" not in entries:
            findings.error(at, 'auxNetDevice needs auxTypes, for example "auxTypes": ["sf"]')
        return
    for other in sorted(wanted["auxTypes"] - known):
        findings.warning(
            entries["auxTypes"],
            f"auxiliary type {quoted(other)} is passed on untested; known: {', '.join(known)}",
        )
