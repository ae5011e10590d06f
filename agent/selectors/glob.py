"""Patterns of names with ``*``, ``?`` and ``[...]``, with the meaning of fnmatch at lower cost.

The standard library compiles each pattern to a regular expression: this is quadratic in the number
of ``[``, and only a few hundred are cached. Here compiling is linear in the pattern, and matching
takes at most the product of the lengths of pattern and name.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.attrs_classes import frozen

MARKS = "*?["
"""A name with one of these characters is a pattern."""


@frozen
class _Characters:
    """``[abc]``, ``[a-z]`` or, ``negated``, ``[!abc]``: one character."""

    single: frozenset[str]
    ranges: tuple[tuple[str, str], ...]
    negated: bool

    def hold(self, char: str) -> bool:
        inside = char in self.single or any(low <= char <= high for low, high in self.ranges)
        return inside is not self.negated


_Token = str | _Characters | None
"""A character, ``""`` for any one character, a set of characters, None for any number of them."""


class Glob:
    """A compiled pattern; case-sensitive."""

    __slots__ = ("_shortest", "_tokens")

    def __init__(self, pattern: str) -> None:
        self._tokens = tuple(_tokens(pattern))
        self._shortest = sum(token is not None for token in self._tokens)

    def fits(self, name: str) -> bool:
        """Whether the pattern matches the whole name."""
        if len(name) < self._shortest:
            return False
        tokens, end = self._tokens, len(self._tokens)
        at = place = 0
        star, resume = -1, 0  # the last *, and the last place where the rest was tried
        while at < len(name):
            if place < end and tokens[place] is None:
                star, resume = place, at
                place += 1
            elif place < end and _takes(tokens[place], name[at]):
                place += 1
                at += 1
            elif star >= 0:
                resume += 1
                place, at = star + 1, resume
            else:
                return False
        return all(token is None for token in tokens[place:])


def _takes(token: _Token, char: str) -> bool:
    if isinstance(token, _Characters):
        return token.hold(char)
    return token in {"", char}


def _tokens(pattern: str) -> Iterator[_Token]:
    last_closer = pattern.rfind("]")
    at = 0
    after_star = False
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            if not after_star:
                yield None
        elif char == "?":
            yield ""
        elif char == "[" and (closer := _closer(pattern, at, last_closer)) >= 0:
            yield _characters(pattern[at:closer])
            at = closer + 1
        else:
            yield char
        after_star = char == "*"


def _closer(pattern: str, at: int, last: int) -> int:
    """Index of the ``]`` that ends the set that begins at ``at``; negative = ``[`` is a character.

    A ``]`` at the beginning, also after ``!``, belongs to the set.
    """
    if pattern.startswith("!", at):
        at += 1
    return pattern.find("]", at + 1) if at < last else -1


def _characters(text: str) -> _Characters:
    negated = text.startswith("!")
    body = text.removeprefix("!")
    single: set[str] = set()
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(body):
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            ranges.append((body[at], body[at + 2]))
            at += 3
        else:
            single.add(body[at])
            at += 1
    return _Characters(frozenset(single), tuple(ranges), negated)
