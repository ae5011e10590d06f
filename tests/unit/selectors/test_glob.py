from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent.selectors.glob import Glob
from agent.selectors.pf_functions import MAX_PATTERN, parse_pf_name


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("ens*", "ens1f0", True),
        ("ens*", "eth0", False),
        ("*f0", "ens1f0", True),
        ("*f0", "ens1f0np0", False),
        ("e*f*p?", "ens1f0np0", True),
        ("ens?f0", "ens1f0", True),
        ("ens?f0", "ensf0", False),
        ("ens[12]f0", "ens3f0", False),
        ("ens[1-3]f0", "ens2f0", True),
        ("ens[!1-3]f0", "ens2f0", False),
        ("ens[!1-3]f0", "ens4f0", True),
        ("[]-]x", "-x", True),
        ("[a-]x", "-x", True),
        ("a[b", "a[b", True),
        ("a[b", "ab", False),
        ("**", "", True),
        ("", "x", False),
    ],
)
def test_a_pattern_means_what_fnmatch_means(pattern: str, name: str, *, fits: bool) -> None:
    assert Glob(pattern).fits(name) is fits
    assert fnmatchcase(name, pattern) is fits


@given(st.text("ab-*?[]!^", max_size=10), st.text("ab-[]!^", max_size=6))
def test_any_pattern_fits_the_names_that_fnmatch_finds(pattern: str, name: str) -> None:
    # fnmatch lets two ! meet where it drops an empty range, and negates the set by one of them.
    assume(pattern.count("!") < 2 or "-" not in pattern)
    assert Glob(pattern).fits(name) is fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    "pattern", ["[" * 100_000, "?*" * 100_000, "*a" * 100_000, "[!" * 50_000 + "]", "*" * 100_000]
)
def test_a_long_pattern_is_parsed_and_matched_without_backtracking(pattern: str) -> None:
    assert Glob(pattern).fits("ens1f0np0") is (pattern[:2] == "**")


def test_a_pattern_is_parsed_once_for_all_names() -> None:
    entry = parse_pf_name("ENS*")
    assert entry.glob is entry.glob is not None
    assert (entry.names("ens1f0"), entry.names("eth0")) == (True, False)
    assert parse_pf_name("ens1f0").glob is None


def test_a_pattern_longer_than_any_name_is_refused_with_its_length_and_the_limit() -> None:
    assert parse_pf_name("*" * MAX_PATTERN).is_pattern
    with pytest.raises(ValueError, match="is 257 characters long, at most 256 are allowed"):
        parse_pf_name("*" * (MAX_PATTERN + 1))
