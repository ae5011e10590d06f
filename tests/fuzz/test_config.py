from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agent.config.dump import dump_config
from agent.config.json_errors import JsonSyntaxError
from agent.config.json_positions import MAX_DEPTH, parse_json
from agent.config.load import MAX_PROBLEMS, Loaded, load_config
from agent.config.problems import plain
from tests.fuzz.configs import ANYTHING, right_configs, wrong_configs
from tests.fuzz.json_text import damaged, write
from tests.fuzz.profile import fuzz

SEEDS = st.integers(0, 2**32 - 1)
BLANKS = " \t\r\n"


def load(data: bytes, *, strict: bool = False) -> Loaded:
    return load_config(data, source="config.json", default_prefix="intel.com", strict=strict)


def as_file(document: Any, seed: int) -> bytes:  # noqa: ANN401 - JSON is what it is
    return write(document, seed).text.encode()


def check_what_is_told(loaded: Loaded, data: bytes) -> None:
    """Every line can be printed, and points into the file."""
    lines = data.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").split("\n")
    assert len(loaded.problems) <= MAX_PROBLEMS + 1
    for problem in loaded.problems:
        if problem.line:
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
    for line in loaded.lines():
        assert all(part.isprintable() for part in line.splitlines())
        assert line.encode()
    assert (loaded.config is None) <= bool(loaded.errors)
    assert bool(loaded.refused) <= bool(loaded.errors)


def reads_the_same(data: bytes) -> None:
    check_what_is_told(load(data), data)
    strict = load(data, strict=True)
    check_what_is_told(strict, data)


@fuzz(50)
@given(st.one_of(st.binary(max_size=64), damaged()))
@example(b"")
@example(b"\xef\xbb\xbf")
@example(b"[" * 1_000_000)
@example(b'{"resourceList": [' + b'{"a":' * 200_000)
@example(b'{"resourceList": [{"resourceName": "a", "selectors": {"vendors": [' + b"9" * 100_000)
@example(b'"\\ud800"')
def test_any_bytes_are_accepted_or_reported(data: bytes) -> None:
    reads_the_same(data)


@fuzz(50)
@given(st.one_of(wrong_configs(), ANYTHING), SEEDS)
def test_any_document_is_accepted_or_reported(document: Any, seed: int) -> None:  # noqa: ANN401
    reads_the_same(as_file(document, seed))


@fuzz(60)
@given(st.one_of(wrong_configs(), right_configs()), SEEDS)
def test_the_position_of_a_path_is_that_of_its_key_or_its_value(
    document: Any,  # noqa: ANN401 - JSON is what it is
    seed: int,
) -> None:
    written = write(document, seed)
    line_starts = [0, *(i + 1 for i, c in enumerate(written.text) if c == "\n")]
    for problem in load(written.text.encode()).problems:
        if problem.line:
            offset = line_starts[problem.line - 1] + problem.column - 1
            assert offset in written.starts[problem.path], problem


@fuzz(50)
@given(st.one_of(right_configs(), wrong_configs()), SEEDS)
def test_a_configuration_written_out_loads_to_the_same(
    document: Any,  # noqa: ANN401 - JSON is what it is
    seed: int,
) -> None:
    first = load(as_file(document, seed))
    if first.config is None:
        return
    again = load(dump_config(first.config).encode())
    assert again.config == first.config
    assert not again.errors
    assert dump_config(again.config) == dump_config(first.config)


@fuzz(40)
@given(right_configs(), SEEDS)
def test_a_file_without_errors_keeps_all_pools(document: Any, seed: int) -> None:  # noqa: ANN401
    loaded = load(as_file(document, seed))
    assert not loaded.errors, loaded.lines()
    assert loaded.config is not None
    assert len(loaded.config.pools) == len(document["resourceList"])


def standard(text: str) -> tuple[Any, int | None]:
    """What the standard library makes of it, without its additions to JSON; where it gives up."""

    def refuse(word: str) -> None:
        raise json.JSONDecodeError(f"{word}, somewhere", text, len(text))

    try:
        return json.loads(text, parse_constant=refuse, parse_int=float), None
    except json.JSONDecodeError as error:
        return None, error.pos
    except RecursionError:
        return None, len(text)


def fault_of(text: str) -> JsonSyntaxError | None:
    try:
        parse_json(text)
    except JsonSyntaxError as fault:
        return fault
    return None


TEXTS = st.one_of(
    damaged().map(lambda d: d[:3000].decode(errors="replace").replace("\ufeff", "")),
    st.text(st.sampled_from('{}[]:,"\\u0123456789abcdefnul tr-+.eE\n\t'), max_size=12),
)


@fuzz(200)
@given(TEXTS)
def test_json_is_what_the_standard_says_it_is(text: str) -> None:
    fault = fault_of(text)
    if fault is not None and "levels deep" in fault.message:
        assert text.count("[") + text.count("{") > MAX_DEPTH
        return
    known, latest = standard(text)
    if latest is None:
        assert fault is None, fault
        assert plain(parse_json(text)) == plain_text(known)
    else:
        assert fault is not None
        assert fault.start <= latest


def plain_text(value: Any) -> Any:  # noqa: ANN401 - JSON is what it is
    """Half surrogate pairs stand for nothing, as in Go."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [plain_text(v) for v in value]
    if isinstance(value, dict):
        return {plain_text(k): plain_text(v) for k, v in value.items()}
    return value


@fuzz(200)
@given(TEXTS)
def test_everything_before_the_reported_place_is_valid(text: str) -> None:
    fault = fault_of(text)
    if fault is None or "opening brace is missing" in fault.message:
        return
    before = text[: fault.start]
    earlier = fault_of(before)
    if earlier is not None and "does not end" not in earlier.message:
        assert earlier.start >= len(before.rstrip(BLANKS)), (fault, earlier)
