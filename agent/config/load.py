"""Bytes of a configuration file -> the configuration in force and every problem: pure.

All problems come at once, in file order. A pool with an error is refused and the others are
served; an error without a pool refuses the whole file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from agent.attrs_classes import frozen
from agent.config.dump import pretty
from agent.config.fields import KnownKeys, nearest, read_object
from agent.config.json_errors import JsonSyntaxError, Text
from agent.config.json_positions import Node, Object, parse_json
from agent.config.limits import MAX_OBJECTS_OF_FILE, MAX_POOLS, MAX_VALUES_OF_FILE, too_many
from agent.config.names import env_names, info_name
from agent.config.other_formats import recognise, recognise_text
from agent.config.pool import PoolReading, read_pool
from agent.config.pool_keys import RESOURCE_LIST, SCHEMA_KEY
from agent.config.problems import Located, Problems, found
from agent.config.schema import Config, Problem, Severity
from agent.config.text_decoding import decode, readable

MAX_PROBLEMS = 1000
"""How many problems are kept: a file with more is told of by its first ones."""


@frozen
class RefusedPool:
    """A pool that is not served because of its errors."""

    index: int
    """Its place in the resource list."""
    resource: str | None
    """Its full name, if it could be read."""
    only_cdi: bool = False
    """Refused for nothing but its CDI name."""


@frozen(eq=False)
class Loaded:
    """What came of a file."""

    source: str
    """The file's name, for messages."""
    config: Config | None = None
    """The pools without errors; None = the file as a whole cannot be used."""
    problems: tuple[Problem, ...] = ()
    """Everything found, in file order."""
    refused: tuple[RefusedPool, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that refuse a pool or the file."""
        return tuple(p for p in self.problems if p.severity is Severity.ERROR)

    @property
    def is_broken(self) -> bool:
        """Whether the file as a whole cannot be used."""
        return self.config is None

    @property
    def usable(self) -> bool:
        """Whether there is something to serve, or the file says on purpose that there is not.

        Pools that are in order but for their CDI name are no reason to end, as in the Go plugin.
        """
        if self.config is None:
            return False
        return bool(self.config.pools) or all(r.only_cdi for r in self.refused)

    @property
    def exit_code(self) -> int:
        """2 if there is any error, else 0."""
        return 2 if self.errors else 0

    def lines(self) -> tuple[str, ...]:
        """Every problem as compilers write it."""
        return tuple(p.render(self.source) for p in self.problems)


def load_config(
    data: bytes, *, source: str, default_prefix: str, strict: bool = False, cdi: bool = False
) -> Loaded:
    """Read a configuration. Never raises for any input.

    ``strict`` makes errors of warnings; ``cdi`` refuses pools that can have no CDI name.
    """
    try:
        text = Text(decode(data))
    except JsonSyntaxError as fault:
        return _broken(source, Text(readable(data)), fault.start, fault.message)
    if not text.text.strip():
        message = f'the file is empty; a configuration without pools is {{"{RESOURCE_LIST}": []}}'
        return _broken(source, text, 0, message)
    try:
        root = parse_json(text.text)
    except JsonSyntaxError as fault:
        if foreign := recognise_text(text.text):
            return _broken(source, text, 0, foreign)
        return _broken(source, text, fault.start, fault.message)
    file = Problems(text, strict)
    pools = _pools_of(Located(root), file)
    if pools is None:
        return Loaded(source, None, tuple(file.problems))
    return _load(source, file, pools, default_prefix, cdi=cdi)


def _broken(source: str, text: Text, start: int, message: str) -> Loaded:
    findings = Problems(text)
    findings.error(Located(Node(None, start)), message)
    return Loaded(source, None, tuple(findings.problems))


def _pools_of(root: Located, file: Problems) -> tuple[Located, ...] | None:
    """The pools of the resource list; None where there is no such list."""
    has_list = isinstance(root.value, Object) and any(
        m.key.lower() == RESOURCE_LIST.lower() for m in root.value.members
    )
    if not has_list:
        what = recognise(root.node)
        if what is None and isinstance(root.value, Object):
            keys = (nearest(m.key, (RESOURCE_LIST,)) and m.key for m in root.value.members[:20])
            typo = next((f', did you mean it by "{key[:40]}"?' for key in keys if key), "")
            what = f'"{RESOURCE_LIST}" is missing{typo}'
        wanted = f'found {found(root.value)}, wanted an object with "{RESOURCE_LIST}"'
        file.error(root, what or wanted)
        return None
    entries = read_object(root, KnownKeys(RESOURCE_LIST, SCHEMA_KEY), file) or {}
    at = entries.get(RESOURCE_LIST)
    if at is None or not isinstance(at.value, tuple):
        file.error(at or root, f"{RESOURCE_LIST}: found {found(at and at.value)}, wanted a list")
        return None
    if len(at.value) > MAX_POOLS:
        file.error(at, too_many(len(at.value), "pools", MAX_POOLS))
        return None
    return at.items()


def _load(
    source: str, file: Problems, pools: tuple[Located, ...], default_prefix: str, *, cdi: bool
) -> Loaded:
    readings = tuple(
        read_pool(at, i, file.text, default_prefix=default_prefix, strict=file.strict, cdi=cdi)
        for i, at in enumerate(pools)
    )
    readings = _with_v2_advice(_without_shared_env(_without_duplicates(readings, file), file))
    config = Config(tuple(r.config for r in readings if r.config is not None))
    for count, what, limit in (
        (sum(len(p.selectors) for p in config.pools), "selector objects", MAX_OBJECTS_OF_FILE),
        (config.values, "values of selectors", MAX_VALUES_OF_FILE),
    ):
        if count > limit:
            file.error(pools[0].parent or pools[0], too_many(count, f"{what} in all pools", limit))
    problems = _tidy((*file.problems, *(p for r in readings for p in r.problems)))
    refused = tuple(
        RefusedPool(r.index, r.resource, r.only_cdi) for r in readings if r.config is None
    )
    return Loaded(source, None if file.has_error else config, problems, refused)


def _without_duplicates(
    readings: tuple[PoolReading, ...], file: Problems
) -> tuple[PoolReading, ...]:
    """Refuse every pool whose resource another pool has too: nobody knows which was meant."""
    counts = Counter(r.resource or "" for r in readings)
    first = {r.resource: r for r in reversed(readings)}
    return tuple(
        _told(
            reading,
            file,
            Severity.ERROR,
            f"resource {reading.resource} is defined {counts[reading.resource or '']} times, "
            f"first at {first[reading.resource].at.path}: all of them are refused",
        )
        if reading.resource and counts[reading.resource] > 1
        else reading
        for reading in readings
    )


def _without_shared_env(
    readings: tuple[PoolReading, ...], file: Problems
) -> tuple[PoolReading, ...]:
    """Warn of resources whose environment variables are the same in a container of both."""
    owners: dict[str, PoolReading] = {}
    told = []
    for reading in readings:
        main = env_names(reading.resource) if reading.config and reading.resource else ()
        names = {*main, *map(info_name, main)}
        clash = next((name for name in sorted(names) if name in owners), None)
        if clash:
            message = (
                f"a container with {owners[clash].resource} too sees only one of them, "
                f"since both set {clash}"
            )
            told.append(_told(reading, file, Severity.WARNING, message))
        else:
            told.append(reading)
        for name in names:
            owners.setdefault(name, reading)
    return tuple(told)


def _told(reading: PoolReading, file: Problems, severity: Severity, message: str) -> PoolReading:
    findings = Problems(file.text, file.strict, reading.index)
    tell = findings.error if severity is Severity.ERROR else findings.warning
    tell(reading.at, message)
    more = tuple(attrs.evolve(p, resource=reading.resource) for p in findings.problems)
    config = None if findings.has_error else reading.config
    return attrs.evolve(reading, problems=(*reading.problems, *more), config=config)


def _with_v2_advice(readings: tuple[PoolReading, ...]) -> tuple[PoolReading, ...]:
    """Print all pools of the v2 layout in today's form, once, after the last of them."""
    translated = {r.resource: r.translated for r in readings if r.translated}
    if not translated:
        return readings
    advice = "in today's form:\n" + pretty({RESOURCE_LIST: list(translated.values())})
    last = max(r.index for r in readings if r.translated)
    return tuple(
        attrs.evolve(r, problems=(attrs.evolve(r.problems[0], advice=advice), *r.problems[1:]))
        if r.index == last
        else r
        for r in readings
    )


def _tidy(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """In file order; a hint that comes again is counted; at most MAX_PROBLEMS, errors first."""
    ordered = sorted(problems, key=lambda p: (p.line, p.column))
    hints = Counter(p.message for p in ordered if p.severity is Severity.HINT)
    kept: list[Problem] = []
    for problem in ordered:
        if problem.severity is Severity.HINT:
            times = hints.pop(problem.message, 0)
            if not times:
                continue
            if times > 1:
                problem = attrs.evolve(problem, message=f"{problem.message} ({times} times)")  # noqa: PLW2901
        kept.append(problem)
    if len(kept) > MAX_PROBLEMS:
        kept.sort(key=lambda p: p.severity is not Severity.ERROR)
        more = len(kept) - MAX_PROBLEMS
        kept[MAX_PROBLEMS:] = [Problem(kept[0].severity, f"{more} more problems are not listed")]
    return tuple(kept)
