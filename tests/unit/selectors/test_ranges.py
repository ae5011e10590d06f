from __future__ import annotations

import pytest

from agent.selectors.ranges import FunctionRange, parse_range, range_faults, unite


@pytest.mark.parametrize(
    ("raw", "name", "spans"),
    [
        ("pf0", "pf0", None),
        (" pf0 ", "pf0", None),
        ("pf0#3", "pf0", ((3, 3),)),
        ("pf0#0-7", "pf0", ((0, 7),)),
        ("pf0#7-7", "pf0", ((7, 7),)),
        ("pf0#0,2-7,9", "pf0", ((0, 0), (2, 7), (9, 9))),
        ("pf0#5,0-3,4", "pf0", ((0, 5),)),
        ("pf0#2-6,1-9", "pf0", ((1, 9),)),
        ("pf0#007", "pf0", ((7, 7),)),
        ("pf0#00-02", "pf0", ((0, 2),)),
        ("pf0#" + 5000 * "0" + "7", "pf0", ((7, 7),)),
        ("pf0#+1", "pf0", ((1, 1),)),
        ("pf0#0-1,", "pf0", ((0, 1),)),
        ("pf0#,3,,a,5-", "pf0", ((3, 3),)),
        ("pf0#0-1, 3", "pf0", ((0, 1),)),
        ("pf0#0-99999999999", "pf0", ((0, 4294967295),)),
        ("ens1f0-np0#1", "ens1f0-np0", ((1, 1),)),
        ("pf0#4294967295", "pf0", ((4294967295, 4294967295),)),
    ],
)
def test_a_range_is_read_with_both_ends_and_united(
    raw: str, name: str, spans: tuple[tuple[int, int], ...] | None
) -> None:
    assert parse_range(raw) == FunctionRange(name, spans)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("pf0#3-", "an index is missing"),
        ("pf0#-3", "an index is missing"),
        ("pf0#", "an index is missing"),
        ("pf0#7-2", "7-2 ends before it starts"),
        ("pf0#a", "'a' is not an index"),
        ("pf0#1-2-3", "'2-3' is not an index"),
        ("pf0#1#2", "there is more than one #"),
        ("pf0#1#2,3", "there is more than one #"),
        ("pf0# 1", "' 1' is not an index (write 1 without blanks)"),
        ("pf0#,", "an index is missing"),
        ("pf0#1_0", "'1_0' is not an index"),
        ("pf0#++1", "'++1' is not an index"),
        ("pf0#\u0663", "'\u0663' is not an index"),
        ("pf0#99999999999", "99999999999 is above 4294967295, the highest index that can be"),
        ("pf0#0-9999999999999999999", "'9999999999999999999' is not an index"),
        ("#-1", "the PF is missing"),
        ("", "the PF is missing"),
        ("  ", "the PF is missing"),
    ],
)
def test_a_malformed_range_is_named_with_the_allowed_form(raw: str, problem: str) -> None:
    with pytest.raises(ValueError, match="allowed are NAME, NAME#N and NAME#N-M") as caught:
        parse_range(raw)
    assert str(caught.value).startswith(f"{raw!r}: {problem};")


@pytest.mark.parametrize(
    ("raw", "faults"),
    [
        ("pf0", []),
        ("pf0#0,2-7", []),
        ("pf0#0-1,", ["an index is missing, so this part is not read"]),
        ("pf0#0, 3", ["' 3' is not an index (write 3 without blanks), so this part is not read"]),
        (
            "pf0#0,a,7-2",
            [
                "'a' is not an index, so this part is not read",
                "7-2 ends before it starts, so this part is not read",
            ],
        ),
        (
            "pf0#0-99999999999",
            ["99999999999 is read as 4294967295, the highest index that can be"],
        ),
    ],
)
def test_parts_of_a_range_that_are_interpreted_differently_are_named(
    raw: str, faults: list[str]
) -> None:
    assert range_faults(raw) == tuple(f"{raw!r}: {fault}" for fault in faults)


def test_of_many_invalid_parts_the_first_are_named_and_the_others_counted() -> None:
    faults = range_faults("pf0#0" + 100 * ",x")
    assert len(faults) == 4
    assert faults[-1].endswith(": 97 more parts are not read")


def test_all_entries_of_one_pf_are_united() -> None:
    united = unite(parse_range(raw) for raw in ("pf1#4-5", "pf0#0", "pf1#0-3,9"))
    assert str(united) == "pf0#0, pf1#0-5,9"


def test_a_bare_name_takes_its_ranges_in() -> None:
    assert str(unite(parse_range(raw) for raw in ("pf0#0", "pf0", "pf0#3"))) == "pf0"


def test_the_order_of_entries_makes_no_difference() -> None:
    entries = [parse_range(raw) for raw in ("pf1#4", "pf0", "pf1#0-3")]
    assert unite(entries) == unite(reversed(entries))
    assert hash(unite(entries)) == hash(unite(reversed(entries)))


def test_a_pattern_and_a_name_for_one_pf_are_united() -> None:
    ranges = unite([FunctionRange("pf*", ((0, 1),), is_pattern=True), parse_range("pf0#5")])
    assert [i for i in range(8) if ranges.cover("pf0", i)] == [0, 1, 5]
    assert [i for i in range(8) if ranges.cover("pf1", i)] == [0, 1]


def test_a_function_without_an_index_is_selected_only_by_the_bare_name() -> None:
    assert unite([parse_range("pf0")]).cover("pf0", None)
    assert not unite([parse_range("pf0#0-9")]).cover("pf0", None)


def test_a_function_whose_pf_has_no_name_is_never_selected_by_a_name() -> None:
    everything = unite([FunctionRange("*", None, is_pattern=True)])
    assert not everything.cover(None, 0)
    assert not everything.names(None)
