"""Makes messages printable whose names contain bytes that are no Unicode."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from betterproto2 import Message

ValueT = TypeVar("ValueT")


def encoded(message: Message) -> bytes:
    """A message as bytes; people read escapes where a name is no Unicode.

    The kernel takes any bytes for an interface's name, protobuf does not.
    """
    try:
        return bytes(message)
    except UnicodeEncodeError:
        return bytes(legible(message))


def legible(value: ValueT) -> ValueT:
    """The same message; bytes that are no character are escaped."""
    outcome: Any = value
    if isinstance(value, str):
        outcome = value.encode(errors="backslashreplace").decode()
    elif isinstance(value, list):
        outcome = [legible(item) for item in value]
    elif isinstance(value, Message):
        names = [field.name for field in dataclasses.fields(value)]  # type: ignore[arg-type] # it is one
        outcome = type(value)(**{name: legible(getattr(value, name)) for name in names})
    return outcome  # type: ignore[no-any-return] # of the type that came in
