"""Small plots as SVG text, written by hand: lines with intervals, and grouped bars.

Owns geometry, colours and escaping. Leaves out where the numbers come from and where the file goes.
Every function is pure and returns one valid XML document; a value of None is left out, never drawn as 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

# Okabe and Ito's palette: told apart with all common kinds of colour blindness.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#555555")
_WIDTH, _LEFT, _RIGHT, _TOP, _PLOT = 720, 58, 20, 44, 230
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CHAR = 6.3  # average width in pixels of a letter at 12 px


@dataclass(frozen=True, slots=True)
class Point:
    """`low`, `high`: an interval around `y`; None = none known."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    points: tuple[Point, ...]
    dashed: bool = False


def escape(text: str) -> str:
    """`text` as it may stand in XML: markup escaped, characters that XML 1.0 forbids replaced by U+FFFD."""
    clean = _NOT_XML.sub("\ufffd", text)
    for raw, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        clean = clean.replace(raw, safe)
    return clean


def _short(text: str, width: float) -> str:
    room = max(3, int(width / _CHAR))
    return text if len(text) <= room else text[: room - 1] + "…"


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12, extra: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
    return f"<text {place}{extra}>{escape(words)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="{width}"/>'
    )


def nice_ticks(low: float, high: float, most: int = 6, whole: bool = False) -> list[float]:
    """Round numbers from `low` to `high`, at most `most` + 1; steps are 1, 2 or 5 times a power of 10.

    `whole`: no step under 1."""
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(step * k for k in (1, 2, 5, 10) if (high - low) / (step * k) <= most + 1e-9)
    step = max(step, 1.0) if whole else step
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 10) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _legend(names: Sequence[str], top: float) -> tuple[list[str], float]:
    """The legend's parts, rows as needed, and where it ends."""
    parts: list[str] = []
    x, y = float(_LEFT), top
    for i, name in enumerate(names):
        words = _short(name, 300)
        need = 22 + len(words) * _CHAR + 14
        if x + need > _WIDTH - _RIGHT and x > _LEFT:
            x, y = float(_LEFT), y + 18
        colour = COLOURS[i % len(COLOURS)]
        parts.append(f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="14" height="10" fill="{colour}"/>')
        parts.append(_text(x + 19, y, words))
        x += need
    return parts, y + 14


def _document(title: str, parts: Sequence[str], height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" '
        f'height="{height:.0f}" role="img" font-family="sans-serif" fill="#222222">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{_WIDTH}" height="{height:.0f}" fill="#ffffff"/>\n'
        + _text(_LEFT, 22, _short(title, (_WIDTH - _LEFT) * 0.85), size=14, extra=' font-weight="bold"')
        + "\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _frame(y_max: float, y_label: str) -> list[str]:
    bottom = _TOP + _PLOT
    parts = [_text(_LEFT, _TOP - 6, y_label, size=11)]
    for tick in nice_ticks(0.0, y_max):
        y = bottom - tick / y_max * _PLOT
        parts.append(_line(_LEFT, y, _WIDTH - _RIGHT, y, "#dddddd"))
        parts.append(_text(_LEFT - 6, y + 4, f"{tick:g}", anchor="end", size=11))
    return parts


def _whisker(x: float, low: float | None, high: float | None, y_max: float, colour: str) -> list[str]:
    if low is None or high is None:
        return []
    bottom = _TOP + _PLOT
    a, b = (bottom - min(max(v, 0.0), y_max) / y_max * _PLOT for v in (low, high))
    return [
        _line(x, a, x, b, colour, 1.5),
        _line(x - 4, a, x + 4, a, colour),
        _line(x - 4, b, x + 4, b, colour),
    ]


def lines(title: str, x_label: str, y_label: str, series: Sequence[Series], y_max: float = 1.0) -> str:
    """Lines over a number (rounds, say), whiskers where a point has an interval; y from 0 to `y_max`."""
    xs = [p.x for s in series for p in s.points] or [0.0]
    left, right = min(xs), max(xs)
    span = (right - left) or 1.0
    inner = _WIDTH - _LEFT - _RIGHT - 40

    def at(x: float) -> float:
        return _LEFT + 20 + (x - left) / span * inner

    bottom = _TOP + _PLOT
    parts = _frame(y_max, y_label)
    for tick in nice_ticks(left, right, 12, whole=all(x == round(x) for x in xs)):
        parts.append(_text(at(tick), bottom + 16, f"{tick:g}", anchor="middle", size=11))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, bottom + 32, x_label, anchor="middle"))
    for i, one in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        # Points of several series at one x would hide each other's whiskers.
        shift = (i - (len(series) - 1) / 2) * 5 if len(series) <= 4 else 0.0
        run: list[str] = []
        for p in one.points:
            if p.y is None:
                continue
            x, y = at(p.x) + shift, bottom - min(max(p.y, 0.0), y_max) / y_max * _PLOT
            run.append(f"{x:.1f},{y:.1f}")
            parts += _whisker(x, p.low, p.high, y_max, colour)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')
        if len(run) > 1:
            dash = ' stroke-dasharray="6 4"' if one.dashed else ""
            parts.append(
                f'<polyline points="{" ".join(run)}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
            )
    legend, end = _legend([s.name for s in series], bottom + 54)
    return _document(title, parts + legend, end)


def _two_lines(label: str, width: float) -> list[str]:
    """`label` broken at a space where it is too wide, at most two lines; the rest is cut."""
    room = max(3, int(width / _CHAR))
    cut = label.rfind(" ", 0, room + 1) if len(label) > room else -1
    return [label[:cut], _short(label[cut + 1 :], width)] if cut > 0 else [_short(label, width)]


def bars(
    title: str,
    y_label: str,
    groups: Sequence[tuple[str, Sequence[Point]]],
    names: Sequence[str],
    y_max: float = 1.0,
) -> str:
    """Grouped bars: each group is a label and one Point a name (its x is not used), whiskers where known."""
    bottom = _TOP + _PLOT
    parts = _frame(y_max, y_label)
    slot = (_WIDTH - _LEFT - _RIGHT) / max(1, len(groups))
    width = min(46.0, slot * 0.8 / max(1, len(names)))
    for g, (label, points) in enumerate(groups):
        middle = _LEFT + slot * (g + 0.5)
        for row, words in enumerate(_two_lines(label, slot)):
            parts.append(_text(middle, bottom + 16 + 14 * row, words, anchor="middle", size=11))
        for i, p in enumerate(points):
            if p.y is None:
                continue
            x = middle + (i - len(points) / 2) * width
            high = min(max(p.y, 0.0), y_max) / y_max * _PLOT
            parts.append(
                f'<rect x="{x + 1:.1f}" y="{bottom - high:.1f}" width="{width - 2:.1f}" height="{high:.1f}" '
                f'fill="{COLOURS[i % len(COLOURS)]}"/>'
            )
            parts += _whisker(x + width / 2, p.low, p.high, y_max, "#222222")
    legend, end = _legend(names, bottom + 56)
    return _document(title, parts + legend, end)
