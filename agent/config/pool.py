"""Reads one pool of the resource list: its record, or everything that is wrong with it."""

from __future__ import annotations

import re
from typing import Any

import attrs

from agent.attrs_classes import define, frozen
from agent.config.dump import pretty
from agent.config.fields import (
    KnownKeys,
    nearest,
    read_bool,
    read_choice,
    read_list,
    read_number,
    read_object,
    read_string,
)
from agent.config.json_errors import Text
from agent.config.json_positions import Object, parse_json
from agent.config.legacy import dead_device_type, misplaced, read_v2_pool
from agent.config.limits import MAX_SELECTOR_OBJECTS
from agent.config.names import cdi_vendor_fault, name_fault, prefix_fault
from agent.config.pool_keys import HARMLESS_KEY, MAX_RECOVERY_HOLD_S, POOL_KEYS
from agent.config.problems import Located, Problems, quoted
from agent.config.schema import (
    AllocationPolicy,
    HealthPolicy,
    PoolConfig,
    Problem,
    SelectorObject,
    Severity,
)
from agent.config.selector_objects import everything, read_selector_object, tell_dead
from agent.kinds import KINDS, NET_DEVICE, Kind
from agent.model.address import parse_bdf
from agent.selectors.rdma import IS_RDMA
from agent.selectors.vdpa import VDPA_TYPE

_KNOWN = KnownKeys(*POOL_KEYS, HARMLESS_KEY, IS_RDMA.key)
_KIND_NAMES = {name.lower(): kind for name, kind in KINDS.items()}
_AUX_NAME = re.compile(r"[\w-]+\.[\w-]+\.[0-9]+", re.ASCII)
_HEALTH = KnownKeys("link", "recoveryHoldSeconds")


@frozen(eq=False)
class PoolReading:
    """What came of one pool."""

    at: Located
    index: int
    problems: tuple[Problem, ...]
    resource: str | None = None
    """Its full name, if it could be read, also of a refused pool."""
    config: PoolConfig | None = None
    """None = refused."""
    only_cdi: bool = False
    """Refused for nothing but its CDI name, which it would not need without --use-cdi."""
    translated: dict[str, Any] | None = None
    """A pool of the v2 layout in today's form."""


def read_pool(
    at: Located, index: int, text: Text, *, default_prefix: str, strict: bool, cdi: bool = False
) -> PoolReading:
    """One pool; every problem is found, not only the first.

    ``cdi`` = device nodes go through CDI, so the prefix must be a CDI vendor too.
    """
    findings = Problems(text, strict, index)
    if v2_pool := read_v2_pool(at):
        resource = _plain_resource(at, default_prefix)
        translated = v2_pool.translated
        if translated and (fault := _fault_of(translated, default_prefix, cdi=cdi)):
            reason = f"today's form of it would be refused too: {fault}"
            v2_pool = attrs.evolve(v2_pool, translated=None, omitted=(reason,))
        findings.error(at, v2_pool.message)
        problems = tuple(attrs.evolve(p, resource=resource) for p in findings.problems)
        return PoolReading(at, index, problems, resource, translated=v2_pool.translated)
    entries = read_object(at, _KNOWN, findings, elsewhere=misplaced)
    if entries is None:
        return PoolReading(at, index, tuple(findings.problems))
    pool = _Pool(at, entries, findings, default_prefix, cdi)
    config = pool.read()
    problems = tuple(attrs.evolve(p, resource=pool.resource) for p in findings.problems)
    only_cdi = pool.has_no_cdi_name and sum(p.severity is Severity.ERROR for p in problems) == 1
    config = None if findings.has_error else config
    return PoolReading(at, index, problems, pool.resource, config, only_cdi)


def _fault_of(pool: dict[str, Any], default_prefix: str, *, cdi: bool) -> str:
    """The first error of a pool that is to be printed; nobody is told to write what is refused."""
    text = Text(pretty(pool))
    at = Located(parse_json(text.text))
    read = read_pool(at, 0, text, default_prefix=default_prefix, strict=False, cdi=cdi)
    errors = (p for p in read.problems if p.severity is Severity.ERROR)
    first = next(errors, None)
    return f"{first.path.removeprefix('$.')}: {first.message}" if first else ""


def _plain_resource(at: Located, default_prefix: str) -> str | None:
    """A pool's full name without a word about faults."""
    members = {m.key.lower(): m.node.value for m in at.value.members}
    name, prefix = members.get("resourcename"), members.get("resourceprefix") or default_prefix
    return f"{prefix}/{name}" if isinstance(name, str) and isinstance(prefix, str) else None


@define(eq=False)
class _Pool:
    at: Located
    entries: dict[str, Located]
    findings: Problems
    default_prefix: str
    cdi: bool
    has_no_cdi_name: bool = False
    resource: str | None = None

    def read(self) -> PoolConfig | None:
        name, prefix = self.name(), self.prefix()
        if name is not None and prefix is not None:
            self.resource = f"{prefix}/{name}"
        kind = self.kind()
        policy = self.entries.get("allocationPolicy")
        config = PoolConfig(
            prefix=prefix or "",
            name=name or "",
            kind=kind or NET_DEVICE,
            selectors=self.selectors(kind),
            exclude_topology=self.flag("excludeTopology"),
            additional_info=self.additional_info(),
            health=self.health(),
            advertise_empty=self.flag("advertiseEmpty"),
            allow_in_use=self.flag("allowInUse"),
            share_iommu_group=self.flag("shareIommuGroup"),
            allocation_policy=self.policy(policy) if policy else None,
        )
        return None if self.findings.has_error else config

    def name(self) -> str | None:
        at = self.entries.get("resourceName")
        name = read_string(at, self.findings) if at else ""
        if at is None or name == "":
            self.findings.error(at or self.at, "resourceName is missing")
            return None
        if name is not None and (fault := name_fault(name)):
            self.findings.error(at, f"resource name {quoted(name)} {fault}")
        return name

    def prefix(self) -> str | None:
        at = self.entries.get("resourcePrefix")
        prefix = read_string(at, self.findings) if at else self.default_prefix
        if prefix is None:
            return None
        prefix = prefix or self.default_prefix
        if fault := prefix_fault(prefix):
            where = "resourcePrefix" if at and at.value else "the default (--resource-prefix)"
            self.findings.error(at or self.at, f"{where} {quoted(prefix)} {fault}")
        elif fault := cdi_vendor_fault(prefix):
            text = f"the prefix {quoted(prefix)} {fault}"
            if self.cdi:
                self.has_no_cdi_name = True
                fix = "give the pool another resourcePrefix, or run without --use-cdi"
                self.findings.error(at or self.at, f"{text}: {fix}")
            else:
                self.findings.hint(at or self.at, f"{text}: with --use-cdi the pool is refused")
        return prefix

    def kind(self) -> Kind | None:
        at = self.entries.get("deviceType")
        if at is None or at.value == "":
            return NET_DEVICE
        word = read_string(at, self.findings)
        if word is None:
            return None
        kind = _KIND_NAMES.get(word.lower())
        if kind is None:
            allowed = ", ".join(KINDS)
            message = dead_device_type(word) or (
                f"unknown device type {quoted(word)}, allowed: {allowed}{nearest(word, KINDS)}"
            )
            self.findings.error(at, message)
        elif word != kind.name:
            self.findings.hint(at, f"{quoted(word)} is read as {kind}")
        return kind

    def selectors(self, kind: Kind | None) -> tuple[SelectorObject, ...]:
        at = self.entries.get("selectors")
        if at is None:
            self.findings.error(
                self.at, f'needs "selectors"; "selectors": [{{}}] would mean {everything(kind)}'
            )
            return ()
        objects: tuple[Located, ...] = (at,)
        if not isinstance(at.value, Object):
            listed = read_list(
                at,
                self.findings,
                "an object or a list of objects",
                noun="selector objects",
                limit=MAX_SELECTOR_OBJECTS,
            )
            objects = tuple(o for o in listed if o.value is not None)
            is_list = isinstance(at.value, tuple) and len(at.value) <= MAX_SELECTOR_OBJECTS
            if is_list and not objects:
                what = "a list of nothing but null" if at.value else "an empty list"
                self.findings.error(
                    at, f"found {what}; one empty object in it would mean {everything(kind)}"
                )
        rdma = self.pool_is_rdma(kind, objects)
        read = (read_selector_object(o, kind, self.findings, pool_is_rdma=rdma) for o in objects)
        known = tuple(o for o in read if o is not None)
        tell_dead(known, self.findings)
        return tuple(o.selectors for o in known)

    def pool_is_rdma(self, kind: Kind | None, objects: tuple[Located, ...]) -> bool:
        """An isRdma beside the selectors: a common slip that cost pods their RDMA nodes."""
        at = self.entries.get(IS_RDMA.key)
        if at is None:
            return False
        wanted = read_bool(at, self.findings) is True
        if kind is not None and kind not in IS_RDMA.kinds:
            self.findings.warning(at, f"isRdma does not belong to deviceType {kind}", on_key=True)
            return False
        effect = "without effect, move"
        if wanted:
            but_some = " without isRdma or vdpaType" if any(map(_says_rdma, objects)) else ""
            effect = f"applied to every selector object{but_some}, but move"
        self.findings.warning(
            at, f"isRdma beside selectors is {effect} it inside selectors", on_key=True
        )
        return wanted

    def flag(self, key: str) -> bool:
        at = self.entries.get(key)
        return bool(at and read_bool(at, self.findings))

    def policy(self, at: Located) -> AllocationPolicy | None:
        choices = tuple(str(p) for p in AllocationPolicy if p)
        if at.value == "":
            return AllocationPolicy.DEFAULT
        word = read_choice(at, self.findings, choices)
        return None if word is None else AllocationPolicy(word)

    def health(self) -> HealthPolicy:
        at = self.entries.get("health")
        entries = read_object(at, _HEALTH, self.findings) if at else None
        policy = HealthPolicy()
        if entries is None:
            return policy
        if (link := entries.get("link")) and read_bool(link, self.findings) is False:
            policy = attrs.evolve(policy, link=False)
        if hold := entries.get("recoveryHoldSeconds"):
            seconds = read_number(hold, self.findings, 0, MAX_RECOVERY_HOLD_S)
            if seconds is not None:
                policy = attrs.evolve(policy, recovery_hold_s=seconds)
        return policy

    def additional_info(self) -> dict[str, dict[str, str]] | None:
        at = self.entries.get("additionalInfo")
        if at is None:
            return None
        if not isinstance(at.value, Object):
            self.findings.error(at, "wanted an object of objects")
            return None
        info: dict[str, dict[str, str]] = {}
        for member in at.value.members:
            device, values = self.info_device(at.member(member), member.key), at.member(member)
            if device is None or values.value is None:
                continue
            if device in info:
                self.findings.warning(
                    values, f"{device} is given twice, both are joined", on_key=True
                )
            info.setdefault(device, {}).update(self.info_values(values))
        return info

    def info_device(self, at: Located, key: str) -> str | None:
        """Whose values these are, in normal form; no value of additionalInfo is ever shown."""
        if key == "*" or _AUX_NAME.fullmatch(key):
            return key
        try:
            return parse_bdf(key)
        except ValueError:
            self.findings.warning(
                at,
                f"{quoted(key)} is neither * nor a PCI address nor an auxiliary device's name "
                "(mlx5_core.sf.4): no device has it, its values are not used",
                on_key=True,
            )
            return None

    def info_values(self, at: Located) -> dict[str, str]:
        if not isinstance(at.value, Object):
            self.findings.error(at, "wanted an object of strings")
            return {}
        values: dict[str, str] = {}
        for member in at.value.members:
            value = member.node.value
            if isinstance(value, str):
                values[member.key] = value
            elif value is None:
                values[member.key] = ""
            else:
                self.findings.error(at.member(member), "wanted a string")
        return values


def _says_rdma(selectors: Located) -> bool:
    """Whether a selector object has words of its own that an isRdma beside it gives way to."""
    value = selectors.value
    return isinstance(value, Object) and any(
        m.key.lower() in {IS_RDMA.key.lower(), VDPA_TYPE.key.lower()} for m in value.members
    )
