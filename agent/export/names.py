"""Safe file names and keys from resource names and device ids: they cannot leave their folder."""

from __future__ import annotations

import re

_UNSAFE = re.compile(r"[^A-Za-z0-9._:-]")
_NAME_MAX = 255


def safe_file_name(stem: str, suffix: str) -> str:
    """A file name from ``stem``: ``/`` and other odd characters become ``-``, no leading dot.

    A name that is too long for a file system (255 bytes) is cut and gets a hash of the whole.
    """
    plain = _UNSAFE.sub("-", stem)
    if not plain or plain.startswith("."):
        plain = "-" + plain[1:]
    return shortened(plain, _NAME_MAX - len(suffix)) + suffix


def shortened(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` characters; if it is cut, it gets a hash of the whole."""
    if len(text) <= limit:
        return text
    short = digest(text)
    return f"{text[: limit - len(short) - 1].rstrip('-_.')}-{short}"


def digest(text: str) -> str:
    """A hash of a text, ten hexadecimal digits."""
    import hashlib  # noqa: PLC0415 - its libcrypto takes 2 MiB, and few names need it

    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:10]
