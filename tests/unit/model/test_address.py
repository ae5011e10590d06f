from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.address import bdf_order, bus_order, parse_bdf, parse_hex_id


@pytest.mark.parametrize(
    ("text", "bdf"),
    [
        ("0000:3b:00.1", "0000:3b:00.1"),
        ("3b:00.1", "0000:3b:00.1"),
        ("00:06.0", "0000:00:06.0"),
        ("0000:AF:1F.7", "0000:af:1f.7"),
        (" 0000:3b:00.1\n", "0000:3b:00.1"),
        ("0000:3:0.1", "0000:03:00.1"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("0001ABCD:00:02.0", "1abcd:00:02.0"),
        ("00000000:3b:00.1", "0000:3b:00.1"),
    ],
)
def test_pci_addresses_come_into_one_normal_form(text: str, bdf: str) -> None:
    assert parse_bdf(text) == bdf


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3b",
        "0000:3b:00",
        "0000:3b:00.8",
        "0000:3b:20.0",
        "0000:3b:00.1.2",
        "000:3b:00.1",
        "123456789:3b:00.1",
        "0000:3bb:00.1",
        "0000:3g:00.1",
        "0000:3b:00.1#0",
        "0000-3b-00.1",
        "0000:3b:00.\u0661",
        "0000:3b:0 0.1",
        "mlx5_core.sf.2",
    ],
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a PCI address") as refused:
        parse_bdf(text)
    assert repr(text) in str(refused.value)


BDF = st.builds(
    "{:04x}:{:02x}:{:02x}.{}".format,
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 0xFF),
    st.integers(0, 0x1F),
    st.integers(0, 7),
)


@given(BDF)
def test_the_normal_form_of_a_normal_form_is_itself_in_any_case(bdf: str) -> None:
    assert parse_bdf(bdf) == bdf == parse_bdf(bdf.upper())


@given(st.lists(st.tuples(*[st.integers(0, most) for most in (0x1FFFF, 0xFF, 0x1F, 7)])))
def test_the_order_of_addresses_is_that_of_their_numbers(numbers: list[tuple[int, ...]]) -> None:
    named = ["{:04x}:{:02x}:{:02x}.{}".format(*n) for n in numbers]
    assert [bdf_order(b) for b in sorted(named, key=bus_order)] == sorted(numbers)


@pytest.mark.parametrize(
    ("text", "hex_id"),
    [
        ("8086", "8086"),
        ("0x8086", "8086"),
        ("0X154C", "154c"),
        ("154C", "154c"),
        (" 15b3 ", "15b3"),
        ("1", "0001"),
        ("0", "0000"),
        ("00008086", "8086"),
    ],
)
def test_hex_ids_come_into_four_lower_case_digits(text: str, hex_id: str) -> None:
    assert parse_hex_id(text) == hex_id


@pytest.mark.parametrize(
    "text", ["", "0x", "x8086", "80867", "0x10000", "808g", "-1", "8 086", "\u0663"]
)
def test_a_text_that_is_not_a_16_bit_hex_number_is_named_in_the_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a 16-bit hexadecimal id") as refused:
        parse_hex_id(text)
    assert repr(text) in str(refused.value)
