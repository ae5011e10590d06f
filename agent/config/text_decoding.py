"""Decodes the bytes of a configuration file, or names the encoding that it seems to have."""

from __future__ import annotations

from agent.config.json_errors import JsonSyntaxError

_UTF8_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_GZIP = b"\x1f\x8b"


def decode(data: bytes) -> str:
    """The text, without a UTF-8 byte order mark.

    Raises JsonSyntaxError; ``start`` is an offset in the text that :func:`readable` returns.
    """
    for bom, name in _OTHER_BOMS.items():
        if data.startswith(bom):
            raise JsonSyntaxError(f"the file is {name}: save it as UTF-8", 0)
    if data.startswith(_GZIP):
        raise JsonSyntaxError("the file is compressed (gzip), expected JSON text", 0)
    body = data.removeprefix(_UTF8_BOM)
    if b"\x00" in body[:4]:
        raise JsonSyntaxError("the file holds NUL bytes: UTF-16 or binary, expected UTF-8 text", 0)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        before = body[: error.start].decode("utf-8")
        byte = body[error.start]
        raise JsonSyntaxError(
            f"byte 0x{byte:02x} is not UTF-8: save the file as UTF-8", len(before)
        ) from None
    if (nul := text.find("\x00")) >= 0:
        raise JsonSyntaxError("the file holds a NUL byte: it is binary or damaged", nul)
    return text


def readable(data: bytes) -> str:
    """The text of any bytes as far as possible, with the offsets that ``decode`` reports."""
    return data.removeprefix(_UTF8_BOM).decode("utf-8", "replace")
