"""Collects the problems of a configuration file, each with its position, while the file is read."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

import attrs

from agent.attrs_classes import define, fast_record, frozen
from agent.config.json_errors import Text
from agent.config.json_positions import Member, Node, Object

_SHORT = 40
_LONG = 400


class Severity(StrEnum):
    """What a problem leads to."""

    ERROR = "error"
    """The pool (or, without a pool, the file) is refused."""
    WARNING = "warning"
    """The rest of the value is used; an error with ``--strict``."""
    HINT = "hint"
    """Accepted; there is a better spelling."""


@frozen
class Problem:
    """One problem of a configuration file: where it is, what was found and what is allowed."""

    severity: Severity
    message: str
    """One sentence: what was found, what is allowed, the nearest known name."""
    path: str = "$"
    """JSON path, for example ``$.resourceList[0].selectors.vendors[1]``."""
    line: int = 0
    """1-based; 0 = no position."""
    column: int = 0
    """1-based, in characters."""
    pool: int | None = None
    """Index of its pool in resourceList; None = the file as a whole."""
    resource: str | None = None
    """The resource name of that pool, if it could be read."""
    advice: str = ""
    """Further lines for the user, for example an old layout rewritten in the current form."""

    def render(self, source: str) -> str:
        """``source:line:column: severity: path: message``, the format of compilers."""
        place = f"{source}:{self.line}:{self.column}" if self.line else source
        where = f" {self.path}:" if self.path != "$" else ""
        advice = "".join(f"\n    {line}" for line in self.advice.splitlines())
        return f"{place}: {self.severity}:{where} {self.message}{advice}"


@frozen
class LoadOptions:
    """The options of loading that decide whether a value is accepted."""

    default_prefix: str
    """Resource prefix of pools that have none."""
    strict: bool = False
    """Warnings are errors."""
    cdi: bool = False
    """Device nodes go through CDI, so a prefix must be a CDI vendor too."""


@define(eq=False)
class Problems:
    """The problems of one pool, or of the file as a whole."""

    text: Text
    """The file, for line and column."""
    options: LoadOptions
    pool: int | None = None
    resource: str | None = None
    problems: list[Problem] = attrs.field(factory=list)

    @property
    def has_error(self) -> bool:
        """Whether a problem so far refuses the pool or the file."""
        return any(p.severity is Severity.ERROR for p in self.problems)

    def add(self, severity: Severity, at: Located, message: str, *, on_key: bool) -> None:
        """Add a problem of a value, or of its key."""
        start = at.key_start if on_key and at.key_start is not None else at.node.start
        line, column = self.text.place(start)
        self.problems.append(
            Problem(
                severity=severity,
                message=printable(message if len(message) <= _LONG else message[:_LONG] + "..."),
                path=at.path,
                line=line,
                column=column,
                pool=self.pool,
                resource=self.resource,
            )
        )


@fast_record(eq=False, unsafe_hash=False)
class Located:
    """A value of the file with its position and path."""

    node: Node
    problems: Problems = attrs.field(repr=False)
    """Takes the problems of this value."""
    parent: Located | None = attrs.field(default=None, repr=False)
    step: str | int = "$"
    """Its key or index in the parent."""
    key_start: int | None = None
    """Offset of its key, for problems of the key itself."""

    @property
    def value(self) -> Any:  # noqa: ANN401 - any JSON value
        """The JSON value."""
        return self.node.value

    @property
    def path(self) -> str:
        """JSON path in the spelling of the file; computed only for a problem."""
        if self.parent is None:
            return str(self.step)
        if isinstance(self.step, int):
            return f"{self.parent.path}[{self.step}]"
        if _is_plain(self.step):
            return f"{self.parent.path}.{self.step}"
        return f"{self.parent.path}[{quoted(self.step)}]"

    def member(self, member: Member) -> Located:
        """The value of one of its keys."""
        return Located(member.node, self.problems, self, member.key, member.start)

    def items(self) -> tuple[Located, ...]:
        """Its elements, if it is a list."""
        return tuple(Located(n, self.problems, self, i) for i, n in enumerate(self.node.value))

    def get(self, key: str) -> Located | None:
        """The value of a key in any letter case; the last of several; None if absent or null."""
        lower = key.lower()
        members = self.value.members if isinstance(self.value, Object) else ()
        last = next((m for m in reversed(members) if m.key.lower() == lower), None)
        return None if last is None or last.node.value is None else self.member(last)

    def value_of(self, key: str) -> Any:  # noqa: ANN401 - any JSON value
        """The JSON value of a key in any letter case; None if absent."""
        at = self.get(key)
        return at and at.value

    def error(self, message: str, *, on_key: bool = False) -> None:
        """The pool (or, without a pool, the file) is refused."""
        self.problems.add(Severity.ERROR, self, message, on_key=on_key)

    def warning(self, message: str, *, on_key: bool = False) -> None:
        """The rest of the value is used; an error if strict."""
        severity = Severity.ERROR if self.problems.options.strict else Severity.WARNING
        self.problems.add(severity, self, message, on_key=on_key)

    def hint(self, message: str, *, on_key: bool = False) -> None:
        """Accepted; there is a better spelling."""
        self.problems.add(Severity.HINT, self, message, on_key=on_key)


class ConfigValueError(ValueError):
    """A value that cannot be used: ``at`` is where, ``message`` says why and what is allowed."""

    def __init__(self, at: Located, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.message = message

    def report(self) -> None:
        """Add it to the problems of its pool."""
        self.at.error(self.message)


def quoted(text: str) -> str:
    """A string as JSON, shortened; unprintable characters are escaped, so it is safe to print."""
    short = text if len(text) <= _SHORT else text[:_SHORT] + "..."
    return json.dumps(short, ensure_ascii=not short.isprintable())


def printable(text: str) -> str:
    """The text with every character escaped that could control a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def describe(value: object) -> str:
    """Type and value in the file, shortened, for example ``the number 8086``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"the string {quoted(value)}"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, Object):
        return "an object" if value.members else "an empty object"
    return "a list" if value else "an empty list"


def plain(node: Node) -> Any:  # noqa: ANN401 - any JSON value
    """The value as the json module would return it; the last of several equal keys wins."""
    if isinstance(node.value, Object):
        return {member.key: plain(member.node) for member in node.value.members}
    if isinstance(node.value, tuple):
        return [plain(item) for item in node.value]
    return node.value


def _is_plain(key: str) -> bool:
    return key.isascii() and key.isidentifier() and len(key) <= _SHORT
