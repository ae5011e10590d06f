"""Parses JSON with the position of each value: the first step from the file to records.

No maintained parser gives positions and duplicate keys and limits nesting, so here is one.
It does not recurse; the standard library's scanner reads strings.
"""

from __future__ import annotations

import re
from json import JSONDecodeError, JSONDecoder
from typing import Any

from agent.attrs_classes import fast_record
from agent.config.json_errors import (
    JsonSyntaxError,
    bad_end,
    bad_key,
    bad_number,
    bad_separator,
    bad_string,
    bad_value,
    unexpected,
)

MAX_DEPTH = 100
"""A configuration needs six levels."""
MAX_VALUES = 200_000
"""Enough for thousands of pools."""

_BLANKS = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_PLAIN_STRING = re.compile(r'"([^"\\\x00-\x1f]*)"[ \t\n\r]*')
_PLAIN_KEY = re.compile(r'"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*')
_COMMA = re.compile(r",[ \t\n\r]*")
_LITERALS = (("true", True), ("false", False), ("null", None))
_EXACT_DIGITS = 18
_STRINGS = JSONDecoder()


@fast_record(eq=False, unsafe_hash=False)
class Node:
    """A value and where it starts."""

    value: Any
    """None, bool, int, float, str, a tuple of nodes (list) or an :class:`Object`."""
    start: int
    """Offset in characters."""


@fast_record(eq=False, unsafe_hash=False)
class Member:
    """A key of an object, where it starts, and its value."""

    key: str
    start: int
    node: Node


@fast_record(eq=False, unsafe_hash=False)
class Object:
    """An object with its members in file order, duplicate keys included."""

    members: tuple[Member, ...] = ()


class _Open:
    """A list or object whose end has not been read."""

    __slots__ = ("closer", "items", "key", "key_start", "start")

    def __init__(self, opener: str, start: int) -> None:
        self.closer = "}" if opener == "{" else "]"
        self.start = start
        self.items: list[Any] = []
        self.key = ""
        self.key_start = 0

    def add(self, node: Node) -> None:
        if self.closer == "}":
            self.items.append(Member(self.key, self.key_start, node))
        else:
            self.items.append(node)

    def closed(self) -> Node:
        items = tuple(self.items)
        return Node(Object(items) if self.closer == "}" else items, self.start)


def parse_json(text: str) -> Node:
    """Parse a text that is one value; raises JsonSyntaxError if it is no JSON."""
    return _Parser(text).run()


class _Parser:
    """Each step takes the offset of a character that is no blank, and returns the next one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.open: list[_Open] = []
        self.values = 0

    def run(self) -> Node:
        at = self.blanks(0)
        while True:
            node, at = self.value(at)
            while node is not None:
                if not self.open:
                    if at < len(self.text):
                        raise bad_end(self.text, at)
                    return node
                node, at = self.after(node, at)

    def blanks(self, at: int) -> int:
        found = _BLANKS.match(self.text, at)
        return found.end() if found else at

    def value(self, at: int) -> tuple[Node | None, int]:
        """A scalar or an empty list or object; None after the start of another one."""
        self.values += 1
        if self.values > MAX_VALUES:
            raise JsonSyntaxError(f"more than {MAX_VALUES} values: this is no configuration", at)
        if plain := _PLAIN_STRING.match(self.text, at):
            return Node(plain[1], at), plain.end()
        char = self.text[at : at + 1]
        if char not in {"{", "["}:
            return self.scalar(char, at)
        if len(self.open) >= MAX_DEPTH:
            raise JsonSyntaxError(f"nested more than {MAX_DEPTH} levels deep", at)
        opened = _Open(char, at)
        at = self.blanks(at + 1)
        if self.text.startswith(opened.closer, at):
            return opened.closed(), self.blanks(at + 1)
        self.open.append(opened)
        return None, self.key(opened, at) if opened.closer == "}" else at

    def after(self, node: Node, at: int) -> tuple[Node | None, int]:
        """Read what follows a value in a list or object: a comma or the end."""
        opened = self.open[-1]
        opened.add(node)
        if comma := _COMMA.match(self.text, at):
            if self.text.startswith(("}", "]"), comma.end()):
                closer = self.text[comma.end()]
                raise JsonSyntaxError(f"trailing comma: remove it, {closer} follows", at)
            if opened.closer == "}":
                return None, self.key(opened, comma.end())
            return None, comma.end()
        if self.text.startswith(opened.closer, at):
            self.open.pop()
            return opened.closed(), self.blanks(at + 1)
        end = len(self.text[:at].rstrip())
        raise bad_separator(self.text, at, opened.closer, opened.start, end)

    def key(self, opened: _Open, at: int) -> int:
        """Read a key and its colon into ``opened``; returns the offset of the value."""
        opened.key_start = at
        if plain := _PLAIN_KEY.match(self.text, at):
            opened.key = plain[1]
            return plain.end()
        if not self.text.startswith('"', at):
            raise bad_key(self.text, at, opened.start)
        opened.key, at = self.string(at)
        if not self.text.startswith(":", at):
            raise unexpected(self.text, at, "a colon after the key")
        return self.blanks(at + 1)

    def scalar(self, char: str, at: int) -> tuple[Node, int]:
        if char == '"':
            value, end = self.string(at)
            return Node(value, at), end
        for word, literal in _LITERALS:
            if self.text.startswith(word, at):
                return Node(literal, at), self.blanks(at + len(word))
        found = _NUMBER.match(self.text, at)
        if found is None:
            raise bad_value(self.text, at)
        if fault := bad_number(self.text, at, found.end()):
            raise fault
        whole = found[1] is None and found[2] is None and len(found[0]) <= _EXACT_DIGITS
        number = int(found[0]) if whole else float(found[0])
        return Node(number, at), self.blanks(found.end())

    def string(self, at: int) -> tuple[str, int]:
        """A string and the offset after it; half surrogate pairs become U+FFFD, as in Go."""
        try:
            value, end = _STRINGS.raw_decode(self.text, at)
        except JSONDecodeError as error:
            raise bad_string(self.text, at, error.pos) from None
        if self.text.find("\\u", at, end) >= 0:
            value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value, self.blanks(end)
