"""JSON texts for hostile configurations: written with known offsets, or damaged byte by byte."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import attrs
from hypothesis import strategies as st

from agent.config.problems import quoted

CASES = tuple(
    path
    for path in sorted((Path(__file__).parents[1] / "cases").iterdir())
    if path.suffix in {".json", ".yaml"}
)
_BLANKS = ("", "", " ", "\n", "\t", "\r\n", "  ")
_SNIPPETS = (
    *(b'"', b"{", b"}", b"[", b"]", b":", b",", b"\\", b"\\u", b"\\ud800", b"\\udc00\\ud83d"),
    *(b"\x00", b"\x7f", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"),
    *(b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", "\u2028".encode(), b"\xc2\xa0"),
    *(b"1e999", b"-0", b"1e-999999999999", b"9" * 5000, b"0x1f", b"007", b"NaN", b"-Infinity"),
    *(b"[" * 120, b'{"a":' * 120, b"[" * 100_000, b"//", b"#", b"/*", b"'", b"true", b"null"),
    *(b'"selectors":', b'"resourceName": "a",', b"\xe2\x80\xae", b"\x1b[31m", b"\n", b"\r"),
)


@attrs.frozen
class Raw:
    """A number as it stands in the file, whatever Python would make of it."""

    token: str


@attrs.frozen
class Members:
    """An object whose keys may come several times."""

    pairs: tuple[tuple[str, Any], ...]


@attrs.define
class Writer:
    """Writes one document with blanks and escapes of chance, and notes where everything starts."""

    random: Random
    parts: list[str] = attrs.Factory(list)
    length: int = 0
    starts: dict[str, set[int]] = attrs.Factory(lambda: defaultdict(set))
    """JSON path -> offsets of its value and of its key, of each if there are several."""

    @property
    def text(self) -> str:
        """What was written."""
        return "".join(self.parts)

    def document(self, value: Any) -> None:  # noqa: ANN401 - JSON is what it is
        """The whole document, with blanks around it."""
        self._blank()
        self._value(value, "$")
        self._blank()

    def _put(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def _blank(self) -> None:
        self._put(self.random.choice(_BLANKS))

    def _value(self, value: Any, path: str) -> None:  # noqa: ANN401 - JSON is what it is
        self.starts[path].add(self.length)
        if isinstance(value, dict):
            value = Members(tuple(value.items()))
        if isinstance(value, Members):
            self._items("{", "}", [(k, v, f"{path}{_step(k)}") for k, v in value.pairs])
        elif isinstance(value, list):
            self._items("[", "]", [(None, v, f"{path}[{i}]") for i, v in enumerate(value)])
        elif isinstance(value, Raw):
            self._put(value.token)
        else:
            self._put(json.dumps(value, ensure_ascii=self._escapes(value)))

    def _items(self, opener: str, closer: str, items: list[tuple[str | None, Any, str]]) -> None:
        self._put(opener)
        self._blank()
        for number, (key, value, path) in enumerate(items):
            if number:
                self._put(",")
                self._blank()
            if key is not None:
                self.starts[path].add(self.length)
                self._put(json.dumps(key, ensure_ascii=self._escapes(key)))
                self._blank()
                self._put(":")
                self._blank()
            self._value(value, path)
            self._blank()
        self._put(closer)

    def _escapes(self, value: object) -> bool:
        """Half surrogate pairs cannot be written but as escapes."""
        is_whole = not isinstance(value, str) or not any("\ud800" <= c <= "\udfff" for c in value)
        return not is_whole or self.random.random() < 0.5


def _step(key: str) -> str:
    known = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in key)
    if known.isascii() and known.isidentifier() and len(known) <= 40:
        return f".{known}"
    return f"[{quoted(known)}]"


def write(value: Any, seed: int) -> Writer:  # noqa: ANN401 - JSON is what it is
    """``value`` as a text that depends on ``seed``, with its offsets."""
    writer = Writer(Random(seed))  # noqa: S311 - no secret is made of it
    writer.document(value)
    return writer


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real file with some bytes cut, doubled, swapped or put in."""
    data = bytearray(draw(st.sampled_from(CASES)).read_bytes())
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + draw(st.sampled_from((1, 8, 400))))))
        change = draw(st.sampled_from(("cut", "double", "snippet", "snippet", "bytes", "truncate")))
        if change == "cut":
            del data[start:end]
        elif change == "double":
            data[start:start] = data[start:end]
        elif change == "truncate":
            del data[start:]
        else:
            snippets = st.sampled_from(_SNIPPETS) if change == "snippet" else st.binary(max_size=9)
            data[start:end] = draw(snippets)
    return bytes(data)
