"""Growth curves as small SVG pictures, drawn on logarithmic axes."""

from __future__ import annotations

import math
from html import escape

from tests.bench.harness import Curve, shown

_FLOOR = ", floor"
"""What a line's name ends in that is drawn dashed, in the colour of the one it belongs to."""
_WIDTH, _HEIGHT = 560, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 44
_NAMESPACE = 'xmlns="http://www.w3.org/2000/svg"'
_COLOURS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#64748b", "#a16207")


def svg(curve: Curve) -> str:
    """One picture; readable on light and on dark pages."""
    xs = sorted({x for points in curve.lines.values() for x, _ in points})
    ys = [y for points in curve.lines.values() for _, y in points]
    low, high = _decade(min(ys), math.floor), _decade(max(ys), math.ceil)
    parts = [
        f'<svg {_NAMESPACE} viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        _text(_WIDTH / 2, 16, f"{curve.title}: {curve.y}", "middle", 13),
    ]
    scale = _Scale(xs[0], xs[-1], low, high)
    for x in xs:
        parts.append(_line(scale.x(x), _TOP, scale.x(x), _HEIGHT - _BOTTOM))
        parts.append(_text(scale.x(x), _HEIGHT - _BOTTOM + 15, f"{x:g}", "middle"))
    parts.append(_text(_WIDTH / 2, _HEIGHT - 10, curve.x, "middle"))
    for y in _ticks(low, high):
        parts.append(_line(_LEFT, scale.y(y), _WIDTH - _RIGHT, scale.y(y)))
        parts.append(_text(_LEFT - 6, scale.y(y) + 4, f"{y:g}", "end"))
    bare = [name.removesuffix(_FLOOR) for name in curve.lines]
    for row, (name, points) in enumerate(curve.lines.items()):
        colour = _COLOURS[list(dict.fromkeys(bare)).index(bare[row]) % len(_COLOURS)]
        parts.extend(_series(name, points, scale, row, colour))
    return "\n".join([*parts, "</svg>", ""])


class _Scale:
    """Values to places on the picture."""

    def __init__(self, first: float, last: float, low: float, high: float) -> None:
        self._x = (math.log(first), math.log(last) if last > first else math.log(first) + 1)
        self._y = (math.log(low), math.log(high))

    def x(self, value: float) -> float:
        """From the left edge."""
        first, last = self._x
        share = (math.log(value) - first) / (last - first)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT - 10)

    def y(self, value: float) -> float:
        """From the top edge."""
        low, high = self._y
        share = (math.log(value) - low) / (high - low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _series(
    name: str, points: list[tuple[float, float]], scale: _Scale, row: int, colour: str
) -> list[str]:
    places = [(scale.x(x), scale.y(y)) for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    top = _TOP + 14 + 15 * row
    stroke = f'fill="none" stroke="{colour}" stroke-width="2"'
    stroke += ' stroke-dasharray="5 4"' if name.endswith(_FLOOR) else ""
    return [
        f'<polyline points="{path}" {stroke}/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places),
        f'<path d="M{_LEFT + 8} {top - 6}h18" {stroke}/>',
        _text(_LEFT + 32, top - 3, f"{name}: {shown(points[-1][1])} at {points[-1][0]:g}"),
    ]


def _decade(value: float, towards: object) -> float:
    """A round bound: 1, 2 or 5 times a power of ten, below or above ``value``."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = [power * step for step in (1, 2, 5, 10)]
    if towards is math.floor:
        return max(s for s in steps if s <= value * 1.0001)
    return min(s for s in steps if s >= value * 0.9999)


def _ticks(low: float, high: float) -> list[float]:
    power = 10.0 ** math.floor(math.log10(low))
    found = []
    while power <= high:
        found += [power * step for step in (1, 2, 5) if low <= power * step <= high * 1.0001]
        power *= 10
    return found


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, words: str, anchor: str = "start", size: int = 11) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {place} fill="#333">{escape(words)}</text>'
