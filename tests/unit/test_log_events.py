"""Every event that the source emits is declared with its fields, and every declared one emitted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import attrs
import pytest

import agent
from agent.log_events import EVENTS, LogEvent

SOURCE = Path(agent.__file__).parent
EMITTERS = {"emit": 1, "emit_once": 2, "emit_crash": 2, "forget": 2, "record_of": 1}
"""Function of agent.logs -> how many positional arguments it takes, the event's name first."""


@attrs.frozen
class Call:
    """One place that emits an event."""

    place: str
    function: str
    names: tuple[str, ...]
    """The names it may have; patterns where only a part is written out."""
    fields: tuple[str, ...]
    has_more: bool
    """Whether fields come from a mapping too."""
    positional: int


def calls() -> Iterator[Call]:
    for path in sorted(SOURCE.rglob("*.py")):
        module = ast.parse(path.read_text())
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and (function := emitter(node.func)):
                yield Call(
                    f"{path.relative_to(SOURCE.parent)}:{node.lineno}",
                    function,
                    tuple(names_of(node.args[0], module)),
                    tuple(k.arg for k in node.keywords if k.arg),
                    any(k.arg is None for k in node.keywords),
                    len(node.args),
                )


def emitter(function: ast.expr) -> str | None:
    match function:
        case ast.Attribute(value=ast.Name(id="logs"), attr=name) if name in EMITTERS:
            return name
    return None


def names_of(argument: ast.expr, module: ast.Module) -> Iterator[str]:
    match argument:
        case ast.Constant(value=str(name)):
            yield name
        case ast.JoinedStr(values=parts):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "*" for p in parts)
        case ast.IfExp(body=one, orelse=other):
            yield from names_of(one, module)
            yield from names_of(other, module)
        case ast.Name(id=variable):
            for node in ast.walk(module):
                match node:
                    case ast.Assign(targets=[ast.Name(id=target)], value=value):
                        if target == variable:
                            yield from names_of(value, module)


CALLS = tuple(calls())


def emitted_by(call: Call) -> list[str]:
    """Of a name that is written out in part, the events that have the fields given."""
    return [
        name
        for name, event in EVENTS.items()
        for wanted in call.names
        if name == wanted or (fnmatchcase(name, wanted) and set(call.fields) <= set(event.fields))
    ]


def test_the_agent_emits_events_at_all() -> None:
    assert len(CALLS) > 30


@pytest.mark.parametrize("call", CALLS, ids=lambda c: f"{c.place} {c.names}")
def test_each_call_names_a_declared_event_and_declared_fields(call: Call) -> None:
    declared = [EVENTS[name] for name in emitted_by(call)]
    assert len(declared) >= len(call.names) > 0, "not declared in agent/log_events.py"
    assert call.positional == EMITTERS[call.function]
    for event in declared:
        assert set(call.fields) <= set(event.fields)
        if call.function == "emit_once":
            assert "times" in event.fields


def test_each_declared_event_is_emitted_somewhere() -> None:
    emitted = {name for call in CALLS for name in emitted_by(call)}
    assert EVENTS.keys() - emitted == set()


def test_each_declared_field_is_given_somewhere() -> None:
    unused = []
    for event in EVENTS.values():
        places = [c for c in CALLS if event.name in emitted_by(c)]
        given = {field for call in places for field in call.fields}
        if any(call.function == "emit_once" for call in places):
            given.add("times")
        if not any(call.has_more for call in places):
            unused += [f"{event.name}: {field}" for field in set(event.fields) - given]
    assert unused == []


@pytest.mark.parametrize("event", EVENTS.values(), ids=list(EVENTS))
def test_each_declaration_can_be_documented(event: LogEvent) -> None:
    assert event.name.count(".") == 1
    assert event.name.replace(".", "").replace("_", "").isalpha()
    assert event.name.islower()
    assert event.meaning[0].isupper() or event.meaning.startswith("--log")
    assert event.meaning.endswith(".")
    assert len(set(event.fields)) == len(event.fields)
    assert not {"time", "level", "event", "traceback"} & set(event.fields)
