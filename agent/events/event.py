"""The base class of log events: one frozen class declares an event and each of its fields.

The name and the level are arguments of the class, the docstring is the meaning for operators
(docs/log-events.md is generated from it), and the annotations are the fields. An event is used as
a value: ``logs.emit`` writes it, and ``Bus.publish`` writes it and hands it to its subscribers.

The type checker sees a keyword-only frozen dataclass, so a wrong or missing field is an error
there. At run time no method is generated for a class: an agent starts with ninety of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NoReturn, Self, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class LogEvent:
    """One event of the log stream. A field that was not given is omitted from the line."""

    name: ClassVar[str]
    level: ClassVar[int]
    unlogged: ClassVar[frozenset[str]] = frozenset()
    """Fields for subscribers alone."""

    def __init_subclass__(cls, *, name: str = "", level: int = 0, unlogged: str = "") -> None:
        cls.name = name
        cls.level = level
        cls.unlogged = cls.unlogged | frozenset(unlogged.split())

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)

    @property
    def fields(self) -> Mapping[str, object]:
        """The fields of the line, in the order in which they were given."""
        if not self.unlogged:
            return self.__dict__
        return {k: v for k, v in self.__dict__.items() if k not in self.unlogged}

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """All fields that a line can have, in the order of their declaration."""
        declared = {n: None for c in reversed(cls.__mro__[:-1]) for n in _fields_of(c)}
        repeated = {"times"} & declared.keys()
        return (*(n for n in declared if n not in cls.unlogged | repeated), *repeated)

    @classmethod
    def meaning(cls) -> str:
        """What happened, what follows, and what an operator can do about it."""
        return " ".join((cls.__doc__ or "").split())

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be set: events are frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.name, *self.__dict__))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({given})"


class RepeatedEvent(LogEvent):
    """An event that may repeat: ``logs.emit_once`` writes its 1st, 10th, 100th ... occurrence."""

    times: int | None = None
    """How often it occurred; omitted the first time."""

    def repeated(self, times: int) -> Self:
        """The same event with the number of its occurrences."""
        return type(self)(**self.__dict__, times=times)


def _fields_of(event: type) -> tuple[str, ...]:
    if event is LogEvent:
        return ()
    return tuple(vars(event).get("__annotations__", {}))
