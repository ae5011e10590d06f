"""Messages for text that is not JSON, with the usual causes."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from agent.attrs_classes import frozen

_NUMBER = "expected a number or a string"
_FOREIGN_WORDS = {
    "True": "did you mean true?",
    "False": "did you mean false?",
    "TRUE": "did you mean true?",
    "FALSE": "did you mean false?",
    "yes": "did you mean true?",
    "no": "did you mean false?",
    "None": "did you mean null?",
    "NULL": "did you mean null?",
    "undefined": "did you mean null?",
    "NaN": _NUMBER,
    "Infinity": _NUMBER,
    "-Infinity": _NUMBER,
}
"""Words of other languages, and what to write instead."""
_ESCAPED_UNIT = re.compile(r"\\u[0-9A-Fa-f]{4}")
_QUOTES = "'`\u2018\u2019\u201c\u201d\u00ab\u00bb"


class JsonSyntaxError(ValueError):
    """Text that is not JSON: ``message`` for people, ``start`` is the offset in characters."""

    def __init__(self, message: str, start: int) -> None:
        super().__init__(message)
        self.message = message
        self.start = start


@frozen(slots=False, eq=False)
class Text:
    """The text of a file, with its lines. Without slots, for the cached line starts."""

    text: str

    @cached_property
    def _line_starts(self) -> tuple[int, ...]:
        return (0, *(m.end() for m in re.finditer("\n", self.text)))

    def place(self, start: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1, columns in characters."""
        line = bisect_right(self._line_starts, start)
        return line, start - self._line_starts[line - 1] + 1


def unexpected(text: str, start: int, wanted: str) -> JsonSyntaxError:
    """The error for text at ``start`` that is not ``wanted``."""
    if start >= len(text):
        return JsonSyntaxError(f"the file ends here, expected {wanted}", len(text))
    char = text[start]
    if char == "#" or text.startswith(("//", "/*"), start):
        return JsonSyntaxError("comments are not JSON: remove this one", start)
    if char in _QUOTES:
        return JsonSyntaxError(f"strings are written in double quotes, not {char}", start)
    if char in "\ufeff\u00a0\u200b\u2028\u2029":
        return JsonSyntaxError(f"invisible character U+{ord(char):04X}: remove it", start)
    message = f"expected {wanted}, found {_shown(char)}"
    for word, instead in _FOREIGN_WORDS.items():
        if text.startswith(word, start):
            message = f"{word} is not JSON, {instead}"
    return JsonSyntaxError(message, start)


def bad_number(text: str, start: int, end: int) -> JsonSyntaxError | None:
    """The error for a number that continues in a way that JSON does not allow, or None."""
    following = text[end : end + 1]
    if following in {"x", "X"}:
        return JsonSyntaxError("hexadecimal numbers are not JSON: write ids as strings", start)
    if following.isdigit():
        return JsonSyntaxError("numbers do not start with 0: write ids as strings", start)
    if following == "." or (following.isalpha() and following.isascii()):
        return JsonSyntaxError(
            f"a number cannot go on with {_shown(following)}: write it as a string", end
        )
    return None


def bad_value(text: str, start: int) -> JsonSyntaxError:
    """The error for text where a value should start."""
    char = text[start : start + 1]
    if char in {"+", "."}:
        return JsonSyntaxError(f"numbers do not start with {char}", start)
    if char.isascii() and char.isalnum() and not text.startswith(tuple(_FOREIGN_WORDS), start):
        return JsonSyntaxError("expected a value: text is written in double quotes", start)
    return unexpected(text, start, "a value")


def bad_key(text: str, start: int, opened: int) -> JsonSyntaxError:
    """The error for text where a key should start, in the object that starts at ``opened``."""
    char = text[start : start + 1]
    if char.isalpha() or char in {"_", "$"}:
        return JsonSyntaxError("keys are written in double quotes", start)
    return _unclosed(text, start, "a key in double quotes or }", "{", opened)


def bad_separator(text: str, start: int, closer: str, opened: int, after: int) -> JsonSyntaxError:
    """The error if neither ``,`` nor ``closer`` follows a value that ends at ``after``."""
    char = text[start : start + 1]
    if char in {'"', "{", "["} or char.isalnum():
        return JsonSyntaxError("a comma is missing between this and the value before it", after)
    if char == ":":
        return JsonSyntaxError(
            "a colon follows something that is no key: is a { missing before it?", start
        )
    opener = "{" if closer == "}" else "["
    return _unclosed(text, start, f"a comma or {closer}", opener, opened)


def bad_string(text: str, start: int, at: int) -> JsonSyntaxError:
    """The error for a string that starts at ``start`` and is wrong at ``at``."""
    char = text[at : at + 1]
    if char in {"\n", "\r"}:
        return JsonSyntaxError(
            "this string does not end on its line: is its closing quote missing?", start
        )
    if char and char < " ":
        return JsonSyntaxError(f"control character U+{ord(char):04X} in a string", at)
    escape = text.rfind("\\", start, at + 1)
    is_whole = _ESCAPED_UNIT.match(text, escape)  # right before the end, which cuts the string off
    if start < at < len(text) and escape >= at - 2 and not is_whole:
        return JsonSyntaxError(
            'wrong escape: allowed are \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX', escape
        )
    return JsonSyntaxError("this string does not end: its closing quote is missing", start)


def bad_end(text: str, start: int) -> JsonSyntaxError:
    """The error for text after the value that is the whole document."""
    char = text[start]
    if char in "}]":
        return JsonSyntaxError(f"one closing {char} too many", start)
    if char == ":":
        opening = len(text) - len(text.lstrip())
        return JsonSyntaxError(
            "expected { before the first key: the opening brace is missing", opening
        )
    if char == ",":
        return JsonSyntaxError("a second value follows the configuration, expected the end", start)
    return unexpected(text, start, "the end of the file")


def _unclosed(text: str, start: int, wanted: str, opener: str, opened: int) -> JsonSyntaxError:
    line, column = Text(text).place(opened)
    fault = unexpected(text, start, wanted)
    if fault.message.startswith(("expected", "the file ends")):
        fault = JsonSyntaxError(
            f"{fault.message} (for the {opener} at {line}:{column})", fault.start
        )
    return fault


def _shown(char: str) -> str:
    return char if char.isprintable() and char != " " else f"U+{ord(char):04X}"
