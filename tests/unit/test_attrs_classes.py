from __future__ import annotations

from typing import Any

import attrs
import pytest

from agent.attrs_classes import define, fast_record, frozen


class Plain:
    number: int
    names: tuple[str, ...] = ()
    hidden: int = attrs.field(default=0, repr=False)


def made(decorator: Any) -> Any:  # noqa: ANN401 - attrs' or ours
    """A record of the same fields by whatever declares records."""
    body = {name: vars(Plain)[name] for name in ("names", "hidden")}
    return decorator(type("Plain", (), {**body, "__annotations__": Plain.__annotations__}))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(define, attrs.define), (frozen, attrs.frozen), (fast_record, attrs.frozen)],
)
def test_a_record_is_shown_and_compared_as_attrs_would(
    ours: Any,  # noqa: ANN401 - as above
    theirs: Any,  # noqa: ANN401 - as above
) -> None:
    one, other = (made(decorator)(3, ("a", "b"), hidden=7) for decorator in (ours, theirs))
    assert repr(one) == repr(other) == "Plain(number=3, names=('a', 'b'))"
    assert one == attrs.evolve(one)
    assert one != attrs.evolve(one, hidden=8)


def test_settings_are_those_of_attrs() -> None:
    by_identity = made(frozen(eq=False))
    assert by_identity(1) != by_identity(1)


def test_frozen_records_refuse_assignment() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        made(frozen)(1).number = 2


def test_all_records_share_one_text_form() -> None:
    assert made(frozen).__repr__ is made(fast_record).__repr__
