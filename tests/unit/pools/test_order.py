from __future__ import annotations

import pytest

from agent.pools.order import device_order, natural
from tests.support.devices import pf, sf, vf

PF0 = pf("0000:3b:00.0", "pf0")


def test_a_pf_comes_before_its_functions_which_are_sorted_by_index() -> None:
    first, seventh, eighth = (vf(f"0000:3b:0f.{7 - n}", PF0, n) for n in (0, 6, 7))
    assert sorted([eighth, PF0, seventh, first], key=device_order) == [PF0, first, seventh, eighth]


def test_a_function_whose_pf_is_elsewhere_is_sorted_by_its_own_address() -> None:
    guest = vf("0000:3b:00.1", None, 5)
    later = pf("0000:3b:00.2", "pf2")
    assert sorted([later, guest, PF0], key=device_order) == [PF0, guest, later]


def test_domains_of_more_than_four_digits_stand_by_number() -> None:
    far, near = pf("10000:00:00.0"), pf("ffff:00:00.0")
    assert sorted([far, near], key=device_order) == [near, far]


def test_vfs_and_sfs_of_one_pf_can_be_sorted_together() -> None:
    mixed = [vf("0000:3b:02.0", PF0, 1), sf(PF0, 2, 10), sf(PF0, 2, 9)]
    assert [d.id for d in sorted(mixed, key=device_order)] == [
        "0000:3b:02.0",
        "mlx5_core.sf.9",
        "mlx5_core.sf.10",
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [("sf.2", "sf.10"), ("a2b3", "a2b12"), ("", "a"), ("2", "a"), ("a", "a1"), ("x9", "x10y")],
)
def test_numbers_inside_names_count_as_numbers(first: str, second: str) -> None:
    assert natural(first) < natural(second)


def test_digits_of_other_scripts_are_only_text_or_numbers_but_never_an_error() -> None:
    assert min(["sf.\u00b2", "sf.\u0663", "sf.1"], key=natural) == "sf.1"
