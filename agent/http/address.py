"""The address of ``--http-address``."""

from __future__ import annotations

from ipaddress import IPv6Address

from agent.attrs_classes import frozen
from agent.errors import UsageError

_HIGHEST_PORT = 65535


@frozen
class Address:
    """An address to listen on."""

    host: str | None
    """None = every address of this node."""
    port: int
    """0 = any free port."""

    def __str__(self) -> str:
        host = self.host or "*"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """``HOST:PORT``, ``[IPv6]:PORT``, ``:PORT`` or ``PORT``. Raises UsageError."""
    host, colon, port = text.strip().rpartition(":")
    if colon and host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(
            f"--http-address {text!r}: an IPv6 address is written in brackets, with a port after "
            f"them: [{_meant(text.strip().strip('[]'))}]:PORT"
        )
    if not (port.isascii() and port.isdigit() and int(port) <= _HIGHEST_PORT):
        raise UsageError(
            f"--http-address {text!r} is not HOST:PORT with a port from 0 to {_HIGHEST_PORT}"
        )
    return Address(host or None, int(port))


def _meant(bare: str) -> str:
    """The address part of ``ADDRESS:PORT`` or ``ADDRESS``, for the message."""
    address = bare.rpartition(":")[0]
    try:
        return str(IPv6Address(address))
    except ValueError:
        return bare
