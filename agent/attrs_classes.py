"""How records are declared: by attrs, but for what an agent that starts fast cannot afford.

``frozen`` and ``define`` are those of attrs with one text form for all. attrs compiles the methods
of a class when it is imported, and there are over a hundred classes; the text form is the longest
of the methods and hardly ever asked for (docs/adr/0009-lean-imports.md).

``fast_record`` is for what is made by the thousand, one for each device of a host: frozen for the
type checker, which sees all code. To refuse assignment at run time as well, attrs would set each
field of a new record by a call: one of 26 fields then takes five times as long to make as by plain
assignment, which is more than reading two files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from attrs import define, frozen
    from attrs import frozen as fast_record
else:
    from functools import partial

    def define(cls: type | None = None, **settings: object) -> type:
        """As attrs has it."""
        if cls is None:
            return partial(define, **settings)
        if "__repr__" not in vars(cls):
            cls.__repr__ = _text
        return attrs.define(cls, **settings)

    frozen = partial(define, frozen=True)
    fast_record = partial(define, unsafe_hash=True, weakref_slot=False)

__all__ = ["define", "fast_record", "frozen"]


def _text(self: attrs.AttrsInstance) -> str:
    """A record as attrs would show it."""
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in attrs.fields(type(self)) if f.repr)
    return f"{type(self).__name__}({', '.join(shown)})"
