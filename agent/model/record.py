"""How records are declared that are made by the thousand, one for each device of a host.

They are frozen for the type checker, which sees all code. To refuse assignment at run time as well,
attrs would set each field of a new record by a call: one of 26 fields then takes five times as long
to make as by plain assignment, which is more than reading two files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrs import frozen as record
else:
    from functools import partial

    from attrs import define

    record = partial(define, unsafe_hash=True, weakref_slot=False)

__all__ = ["record"]
