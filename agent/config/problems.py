"""Collects everything that is wrong with a file, each with its place, while the file is read."""

from __future__ import annotations

import json
from typing import Any

import attrs

from agent.attrs_classes import define, frozen
from agent.config.json_errors import Text
from agent.config.json_positions import Member, Node, Object
from agent.config.schema import Problem, Severity

_SHORT = 40
_LONG = 400


@frozen(eq=False)
class Located:
    """A value with its place: what readers take and what problems are told about."""

    node: Node
    parent: Located | None = None
    step: str | int = "$"
    """Its key or index in the parent."""
    key_start: int | None = None
    """Where its key starts, for what is wrong with the key."""

    @property
    def value(self) -> Any:  # noqa: ANN401 - JSON is what it is
        """The JSON value."""
        return self.node.value

    @property
    def path(self) -> str:
        """JSON path in the file's own spelling; made only where there is something to tell."""
        if self.parent is None:
            return str(self.step)
        if isinstance(self.step, int):
            return f"{self.parent.path}[{self.step}]"
        if _is_plain(self.step):
            return f"{self.parent.path}.{self.step}"
        return f"{self.parent.path}[{quoted(self.step)}]"

    def member(self, member: Member) -> Located:
        """The value of one of its keys."""
        return Located(member.node, self, member.key, member.start)

    def items(self) -> tuple[Located, ...]:
        """Its elements, if it is a list."""
        return tuple(Located(node, self, i) for i, node in enumerate(self.node.value))


@define(eq=False)
class Problems:
    """The problems of one pool, or of the file as a whole."""

    text: Text
    """The file, for line and column."""
    strict: bool = False
    """Warnings count as errors."""
    pool: int | None = None
    problems: list[Problem] = attrs.field(factory=list)

    def error(self, at: Located, message: str, *, on_key: bool = False, advice: str = "") -> None:
        """The pool (or, without a pool, the file) is refused."""
        self._add(Severity.ERROR, at, message, on_key=on_key, advice=advice)

    def warning(self, at: Located, message: str, *, on_key: bool = False, advice: str = "") -> None:
        """Applied as far as it goes; an error if strict."""
        severity = Severity.ERROR if self.strict else Severity.WARNING
        self._add(severity, at, message, on_key=on_key, advice=advice)

    def hint(self, at: Located, message: str, *, on_key: bool = False) -> None:
        """Accepted; there is a better spelling."""
        self._add(Severity.HINT, at, message, on_key=on_key, advice="")

    @property
    def has_error(self) -> bool:
        """Whether anything found so far refuses the pool or the file."""
        return any(p.severity is Severity.ERROR for p in self.problems)

    def _add(
        self, severity: Severity, at: Located, message: str, *, on_key: bool, advice: str
    ) -> None:
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
                advice=advice,
            )
        )


def quoted(text: str) -> str:
    """A string as JSON, shortened; unprintable characters escaped, so it is safe to print."""
    short = text if len(text) <= _SHORT else text[:_SHORT] + "..."
    return json.dumps(short, ensure_ascii=not short.isprintable())


def printable(text: str) -> str:
    """The text with everything escaped that could play tricks on a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def found(value: object) -> str:
    """``the number 8086``: type and value of what stands in the file, shortened."""
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


def plain(node: Node) -> Any:  # noqa: ANN401 - JSON is what it is
    """The value as the json module would give it; the last of several equal keys wins."""
    if isinstance(node.value, Object):
        return {member.key: plain(member.node) for member in node.value.members}
    if isinstance(node.value, tuple):
        return [plain(item) for item in node.value]
    return node.value


def _is_plain(key: str) -> bool:
    return key.isascii() and key.isidentifier() and len(key) <= _SHORT
