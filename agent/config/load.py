"""Bytes of a configuration file -> the configuration and all its problems; reads nothing else.

All problems are reported at once, in file order. A pool with an error is refused and the others are
served; an error outside the pools refuses the whole file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from agent.attrs_classes import frozen
from agent.config.fields import KnownKeys, nearest, read_object
from agent.config.json_errors import JsonSyntaxError, Text
from agent.config.json_layout import pretty
from agent.config.json_positions import Node, Object, parse_json
from agent.config.limits import MAX_OBJECTS_OF_FILE, MAX_POOLS, MAX_VALUES_OF_FILE, too_many
from agent.config.names import env_names, info_name
from agent.config.other_formats import recognise, recognise_text
from agent.config.pool import PoolReading, read_pool
from agent.config.problems import LoadOptions, Located, Problem, Problems, Severity, describe
from agent.config.schema import RESOURCE_LIST, SCHEMA_KEY, Config
from agent.config.text_decoding import decode, readable

MAX_PROBLEMS = 1000
"""How many problems of a file are listed, errors first."""


@frozen
class RefusedPool:
    """A pool that is not served because of its errors."""

    index: int
    """Its index in the resource list."""
    resource: str | None
    """Its full name, if it could be read."""
    only_cdi: bool = False
    """Refused only for its CDI name."""


@frozen(eq=False)
class Loaded:
    """The result of loading a file."""

    source: str
    """Name of the file, for messages."""
    config: Config | None = None
    """The pools without errors; None = the file as a whole cannot be used."""
    problems: tuple[Problem, ...] = ()
    """In file order."""
    refused: tuple[RefusedPool, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that refuse a pool or the file."""
        return tuple(p for p in self.problems if p.severity is Severity.ERROR)

    @property
    def usable(self) -> bool:
        """Whether the file has pools to serve, or has none on purpose.

        Pools that are refused only for their CDI name do not end the agent, as in the Go plugin.
        """
        if self.config is None:
            return False
        return bool(self.config.pools) or all(r.only_cdi for r in self.refused)

    @property
    def exit_code(self) -> int:
        """2 if there is any error, else 0."""
        return 2 if self.errors else 0

    def lines(self) -> tuple[str, ...]:
        """Every problem in the format of compilers."""
        return tuple(p.render(self.source) for p in self.problems)


def load_config(
    data: bytes, *, source: str, default_prefix: str, strict: bool = False, cdi: bool = False
) -> Loaded:
    """Read a configuration. Never raises, for any input.

    ``strict`` makes warnings errors; ``cdi`` refuses pools that can have no CDI name.
    """
    options = LoadOptions(default_prefix, strict, cdi)
    try:
        text = Text(decode(data))
    except JsonSyntaxError as error:
        return _broken(source, Problems(Text(readable(data)), options), error.start, error.message)
    file = Problems(text, options)
    if not text.text.strip():
        message = f'the file is empty; a configuration without pools is {{"{RESOURCE_LIST}": []}}'
        return _broken(source, file, 0, message)
    try:
        root = Located(parse_json(text.text), file)
    except JsonSyntaxError as error:
        if other := recognise_text(text.text):
            return _broken(source, file, 0, other)
        return _broken(source, file, error.start, error.message)
    pools = _pools_of(root)
    if pools is None:
        return Loaded(source, None, tuple(file.problems))
    return _load(source, file, pools)


def _broken(source: str, file: Problems, start: int, message: str) -> Loaded:
    Located(Node(None, start), file).error(message)
    return Loaded(source, None, tuple(file.problems))


def _pools_of(root: Located) -> tuple[Located, ...] | None:
    """The pools of the resource list; None if there is no such list."""
    has_list = isinstance(root.value, Object) and any(
        m.key.lower() == RESOURCE_LIST.lower() for m in root.value.members
    )
    if not has_list:
        what = recognise(root.node)
        if what is None and isinstance(root.value, Object):
            keys = (nearest(m.key, (RESOURCE_LIST,)) and m.key for m in root.value.members[:20])
            typo = next((f', did you mean it by "{key[:40]}"?' for key in keys if key), "")
            what = f'"{RESOURCE_LIST}" is missing{typo}'
        wanted = f'found {describe(root.value)}, wanted an object with "{RESOURCE_LIST}"'
        root.error(what or wanted)
        return None
    at = read_object(root, KnownKeys(RESOURCE_LIST, SCHEMA_KEY)).get(RESOURCE_LIST)
    if at is None or not isinstance(at.value, tuple):
        found = describe(at and at.value)
        (at or root).error(f"{RESOURCE_LIST}: found {found}, wanted a list")
        return None
    if len(at.value) > MAX_POOLS:
        at.error(too_many(len(at.value), "pools", MAX_POOLS))
        return None
    return at.items()


def _load(source: str, file: Problems, pools: tuple[Located, ...]) -> Loaded:
    readings = tuple(read_pool(at, index) for index, at in enumerate(pools))
    _refuse_duplicates(readings)
    _report_shared_env(readings)
    config = Config(tuple(r.config for r in readings if r.config is not None))
    for count, what, limit in (
        (sum(len(p.selectors) for p in config.pools), "selector objects", MAX_OBJECTS_OF_FILE),
        (config.values, "values of selectors", MAX_VALUES_OF_FILE),
    ):
        if count > limit:
            (pools[0].parent or pools[0]).error(too_many(count, f"{what} in all pools", limit))
    _advise_on_v2(readings)
    problems = _tidy((*file.problems, *(p for r in readings for p in r.problems)))
    refused = tuple(
        RefusedPool(r.index, r.resource, r.only_cdi) for r in readings if r.config is None
    )
    return Loaded(source, None if file.has_error else config, problems, refused)


def _refuse_duplicates(readings: tuple[PoolReading, ...]) -> None:
    """Refuse all pools of a resource that has several: which of them is meant is unknown."""
    counts = Counter(r.resource for r in readings)
    first = {r.resource: r.at.path for r in reversed(readings)}
    for reading in readings:
        resource = reading.resource
        if resource and counts[resource] > 1:
            reading.at.error(
                f"resource {resource} is defined {counts[resource]} times, first at "
                f"{first[resource]}: all of them are refused"
            )


def _report_shared_env(readings: tuple[PoolReading, ...]) -> None:
    """Warn of resources that set the same environment variables in a container of both."""
    owners: dict[str, str] = {}
    for reading in readings:
        if reading.config is None:
            continue
        resource = reading.config.resource
        main = env_names(resource)
        names = {*main, *map(info_name, main)}
        clash = next((name for name in sorted(names) if name in owners), None)
        if clash:
            reading.at.warning(
                f"a container with {owners[clash]} too sees only one of them, "
                f"since both set {clash}"
            )
        for name in names:
            owners.setdefault(name, resource)


def _advise_on_v2(readings: tuple[PoolReading, ...]) -> None:
    """Add all pools of the v2 layout in the current form to the problem of the last of them."""
    translated = {r.resource: r for r in readings if r.translated}
    if not translated:
        return
    pools = [r.translated for r in translated.values()]
    advice = "in today's form:\n" + pretty({RESOURCE_LIST: pools})
    problems = max(translated.values(), key=lambda r: r.index).at.problems.problems
    problems[0] = attrs.evolve(problems[0], advice=advice)


def _tidy(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """In file order; equal hints become one with their number; at most MAX_PROBLEMS."""
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
