from __future__ import annotations

import json

import pytest

from agent.config.json_errors import JsonSyntaxError, Text
from agent.config.json_positions import MAX_DEPTH, MAX_VALUES, Object, parse_json
from agent.config.problems import plain


@pytest.mark.parametrize(
    "text",
    [
        "null",
        ' [ true , false,null ,"x" ] ',
        '{"a": {"b": []}, "c": {}}',
        "[0, -1, 12.5, 1e3, -2E-2, 123456789012345678, 0.1]",
        r'["\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00", "é😀", ""]',
        '\r\n\t{"a"\n:\n1\r\n}\n',
        '{"a": 1, "a": 2}',
    ],
)
def test_the_parser_reads_what_the_json_module_reads(text: str) -> None:
    assert plain(parse_json(text)) == json.loads(text)


def test_every_value_and_key_knows_where_it_starts() -> None:
    text = '{\n  "a": [1,\n    "b"]}'
    root = parse_json(text)
    assert isinstance(root.value, Object)
    (member,) = root.value.members
    places = [
        Text(text).place(start)
        for start in (
            root.start,
            member.start,
            member.node.start,
            *(n.start for n in member.node.value),
        )
    ]
    assert places == [(1, 1), (2, 3), (2, 8), (2, 9), (3, 5)]


def test_equal_keys_are_all_kept_in_order() -> None:
    members = parse_json('{"a": 1, "A": 2, "a": 3}').value.members
    assert [(m.key, m.node.value) for m in members] == [("a", 1), ("A", 2), ("a", 3)]


def test_half_surrogate_pairs_become_the_replacement_character() -> None:
    assert plain(parse_json(r'"\ud800x\udc00"')) == "\ufffdx\ufffd"


def test_numbers_too_long_for_an_integer_do_no_harm() -> None:
    assert plain(parse_json("[" + "9" * 10_000 + ", 1e999]")) == [float("inf"), float("inf")]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('{"a": [1, 2,], }', (1, 12), "trailing comma: remove it, ] follows"),
        ('{"a": 1,\n}', (1, 8), "trailing comma: remove it, } follows"),
        ('{"a": 1 # x\n}', (1, 9), "comments are not JSON: remove this one"),
        ('{"a": 1, // x\n}', (1, 10), "comments are not JSON: remove this one"),
        ("/* x */ {}", (1, 1), "comments are not JSON: remove this one"),
        ('"a": [{\n}]}', (1, 1), "expected { before the first key: the opening brace is missing"),
        ('{"a": [1', (1, 9), "the file ends here, expected a comma or ] (for the [ at 1:7)"),
        ('{"a": {"b": 1}', (1, 15), "the file ends here, expected a comma or } (for the { at 1:1)"),
        ('{"a": 1]', (1, 8), "expected a comma or }, found ] (for the { at 1:1)"),
        ("{,}", (1, 2), "expected a key in double quotes or }, found , (for the { at 1:1)"),
        ("{a: 1}", (1, 2), "keys are written in double quotes"),
        ("{'a': 1}", (1, 2), "strings are written in double quotes, not '"),
        ("[\u201ca\u201d]", (1, 2), "strings are written in double quotes, not \u201c"),
        ("[\u00a01]", (1, 2), "invisible character U+00A0: remove it"),
        ("[True]", (1, 2), "True is not JSON, did you mean true?"),
        ("[None]", (1, 2), "None is not JSON, did you mean null?"),
        ("[NaN]", (1, 2), "NaN is not JSON, expected a number or a string"),
        ("[-Infinity]", (1, 2), "-Infinity is not JSON, expected a number or a string"),
        ("[0x8086]", (1, 2), "hexadecimal numbers are not JSON: write ids as strings"),
        ("[007]", (1, 2), "numbers do not start with 0: write ids as strings"),
        ("[154c]", (1, 5), "a number cannot go on with c: write it as a string"),
        ("[1.]", (1, 3), "a number cannot go on with .: write it as a string"),
        ("[.5]", (1, 2), "numbers do not start with ."),
        ("[+5]", (1, 2), "numbers do not start with +"),
        ("[abc]", (1, 2), "expected a value: text is written in double quotes"),
        ('["a\n"]', (1, 2), "this string does not end on its line: is its closing quote missing?"),
        ('["a\tb"]', (1, 4), "control character U+0009 in a string"),
        ('["abc', (1, 2), "this string does not end: its closing quote is missing"),
        ('["abc\\', (1, 2), "this string does not end: its closing quote is missing"),
        (r'["a\x"]', (1, 4), r"wrong escape: allowed are \" \\ \/ \b \f \n \r \t \uXXXX"),
        (r'["a\u12"]', (1, 4), r"wrong escape: allowed are \" \\ \/ \b \f \n \r \t \uXXXX"),
        (r'["a\udc00', (1, 2), "this string does not end: its closing quote is missing"),
        (r'["\udc00\ud83d', (1, 2), "this string does not end: its closing quote is missing"),
        (r'["\u12', (1, 3), r"wrong escape: allowed are \" \\ \/ \b \f \n \r \t \uXXXX"),
        ('{"a" 1}', (1, 6), "expected a colon after the key, found 1"),
        ('{"a"', (1, 5), "the file ends here, expected a colon after the key"),
        ('{"a": 1\n "b": 2}', (1, 8), "a comma is missing between this and the value before it"),
        ('{"a": "b"c"}', (1, 10), "a comma is missing between this and the value before it"),
        ('["a": 1]', (1, 5), "a colon follows something that is no key: is a { missing before it?"),
        ('{"a": 1}}', (1, 9), "one closing } too many"),
        ("{} {", (1, 4), "expected the end of the file, found {"),
        ("{}, {}", (1, 3), "a second value follows the configuration, expected the end"),
        ("[", (1, 2), "the file ends here, expected a value"),
    ],
)
def test_text_that_is_not_json_is_reported_with_its_place(
    text: str, place: tuple[int, int], message: str
) -> None:
    with pytest.raises(JsonSyntaxError) as caught:
        parse_json(text)
    assert (Text(text).place(caught.value.start), caught.value.message) == (place, message)


@pytest.mark.parametrize("opener", ["[", '{"a":', '[{"a":'])
def test_hostile_nesting_is_refused_without_recursion(opener: str) -> None:
    with pytest.raises(JsonSyntaxError, match=f"nested more than {MAX_DEPTH} levels deep"):
        parse_json(opener * 2_000_000)


def test_nesting_up_to_the_limit_is_read() -> None:
    assert plain(parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)) is not None


@pytest.mark.parametrize("value", ['"a"', "0", "[]"])
def test_a_flood_of_values_is_refused(value: str) -> None:
    with pytest.raises(JsonSyntaxError, match=f"more than {MAX_VALUES} values"):
        parse_json("[" + f"{value}," * (MAX_VALUES + 1) + "0]")
