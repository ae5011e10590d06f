from __future__ import annotations

import pytest

from agent.errors import UsageError
from agent.http.address import Address, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9811", "127.0.0.1", 9811),
        ("localhost:0", "localhost", 0),
        ("[::1]:9811", "::1", 9811),
        ("[::]:9811", "::", 9811),
        (":9811", None, 9811),
        ("9811", None, 9811),
        (" 127.0.0.1:9811 ", "127.0.0.1", 9811),
    ],
)
def test_host_and_port_are_read(text: str, host: str | None, port: int) -> None:
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize(
    "text", ["", "localhost", "127.0.0.1:", "127.0.0.1:http", "x:65536", "x:-1"]
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="is not HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize("text", ["::1:9811", "::1", "[::1]", "[::1:80"])
def test_the_error_on_an_ipv6_address_without_brackets_or_port_shows_the_right_form(
    text: str,
) -> None:
    with pytest.raises(UsageError, match=r"after them: \[::1\]:PORT"):
        parse_address(text)


@pytest.mark.parametrize("text", ["127.0.0.1:9811", "[::1]:9811", "*:9811"])
def test_an_address_reads_as_it_is_written(text: str) -> None:
    assert str(parse_address(text.lstrip("*"))) == text
