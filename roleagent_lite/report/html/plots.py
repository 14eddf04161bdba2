"""Plots of the HTML report: inline SVG whose colours follow the page's light or dark theme.

Owns geometry, marks and the table beside each plot, which says the same in numbers. A series is told apart by
its mark as well as its colour. Leaves out where numbers come from and the plots of report.md (report.svg).
Every colour is a class; the page's style sheet gives it a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roleagent_lite.report.html.piece import Cell, Markup, esc, folded, join, number_cell, table, tag
from roleagent_lite.report.markdown import cut
from roleagent_lite.report.svg import Point, Series, nice_ticks

WIDTH, LEFT, RIGHT, TOP, HEIGHT = 560, 46, 16, 26, 210
SERIES = 8  # colours and marks that the style sheet knows


@dataclass(frozen=True, slots=True)
class Spot:
    """One system in a plane: `low`, `high` is the interval around `y`."""

    name: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a bar plot: a value (0..1) a name, None = no data, and a word on how much it stands on."""

    label: str
    values: tuple[float | None, ...]
    n: str = ""


def _text(x: float, y: float, words: object, anchor: str = "start", class_: str = "tick") -> Markup:
    return Markup(
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{class_}">{esc(words)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return Markup(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{class_}"/>')


_SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.6 4.4 3.6h-8.8z",
    "M0-5 5 0 0 5-5 0z",
)


def mark(i: int, x: float = 0.0, y: float = 0.0, words: str = "") -> Markup:
    """The mark of series `i` (circle, square, triangle, diamond), with a tooltip."""
    title = f"<title>{esc(words)}</title>" if words else ""
    return Markup(
        f'<path d="{_SHAPES[i % len(_SHAPES)]}" transform="translate({x:.1f} {y:.1f})" class="mark">'
        f"{title}</path>"
    )


def _block(i: int, x: float, y: float, wide: float, tall: float, words: str) -> Markup:
    """A rectangle of series `i` with a tooltip."""
    drawn = Markup(
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}" class="piece">'
        f"<title>{esc(words)}</title></rect>"
    )
    return tag("g", drawn, class_=f"s{i % SERIES}")


def _whisker(x: float, a: float, b: float) -> Markup:
    return Markup(
        f'<path d="M{x - 4:.1f} {a:.1f}h8M{x:.1f} {a:.1f}V{b:.1f}M{x - 4:.1f} {b:.1f}h8" class="whisker"/>'
    )


def _legend(names: Sequence[str]) -> Markup:
    def key(i: int, name: str) -> Markup:
        sign = Markup(f'<svg viewBox="-7 -7 14 14" width="14" height="14" aria-hidden="true">{mark(i)}</svg>')
        return tag("li", tag("span", sign, class_=f"s{i % SERIES}"), name)

    return (
        tag("ul", *(key(i, n) for i, n in enumerate(names)), class_="legend")
        if len(names) > 1
        else Markup("")
    )


def _figure(
    title: str, height: float, parts: Sequence[Markup], names: Sequence[str], numbers: Markup
) -> Markup:
    drawn = Markup(
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{esc(title)}; numbers below">'
        f"{join(parts)}</svg>"
    )
    box = tag("div", drawn, class_="draw", tabindex="0", role="region", aria_label=f"Plot: {title}")
    return tag(
        "figure", tag("figcaption", title), _legend(names), box, folded("Numbers", numbers), class_="plot"
    )


def _frame(y_max: float, y_label: str, percent: bool) -> list[Markup]:
    bottom = TOP + HEIGHT
    parts = [_text(0, 12, y_label, class_="label")]
    for tick in nice_ticks(0.0, y_max, 5):
        y = bottom - tick / y_max * HEIGHT
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y, "grid"))
        parts.append(_text(LEFT - 6, y + 4, f"{100 * tick:.0f} %" if percent else f"{tick:g}", "end"))
    return parts


def _span(p: Point | Spot) -> str:
    return "" if p.low is None or p.high is None else f"{100 * p.low:.0f}–{100 * p.high:.0f} %"


def line_plot(
    title: str, x_label: str, y_label: str, series: Sequence[Series], *, y_max: float = 1.0
) -> Markup:
    """Shares (0..1) over a number such as the round, with whiskers where a point has an interval."""
    series = list(series)[:SERIES]
    xs = [p.x for s in series for p in s.points] or [0.0]
    left, right, bottom = min(xs), max(xs), TOP + HEIGHT

    def at(x: float) -> float:
        inner = WIDTH - LEFT - RIGHT - 40
        return LEFT + 20 + ((x - left) / (right - left) * inner if right > left else inner / 2)

    parts = _frame(y_max, y_label, True)
    for tick in nice_ticks(left, right, 10, whole=all(x == round(x) for x in xs)):
        parts.append(_text(at(tick), bottom + 17, f"{tick:g}", "middle"))
    parts.append(_text(WIDTH - RIGHT, bottom + 34, x_label, "end", "label"))
    rows: list[list[Cell]] = []
    for i, one in enumerate(series):
        shift = (i - (len(series) - 1) / 2) * 6 if len(series) <= 4 else 0.0
        way: list[str] = []
        inside: list[Markup] = []
        for p in one.points:
            if p.y is None:
                continue
            x, y = at(p.x) + shift, bottom - min(max(p.y, 0.0), y_max) / y_max * HEIGHT
            way.append(f"{x:.1f},{y:.1f}")
            if p.low is not None and p.high is not None:
                inside.append(
                    _whisker(x, *(bottom - min(max(v, 0.0), y_max) / y_max * HEIGHT for v in (p.low, p.high)))
                )
            inside.append(mark(i, x, y, f"{one.name}, {x_label} {p.x:g}: {100 * p.y:.1f} % {_span(p)}"))
            rows.append(
                [
                    Cell(f"{p.x:g}", p.x),
                    Cell(one.name, one.name, number=False),
                    Cell(f"{100 * p.y:.1f} %", p.y),
                    Cell(_span(p), p.low),
                ]
            )
        if len(way) > 1:
            dash = " dashed" if one.dashed else ""
            inside.insert(0, Markup(f'<polyline points="{" ".join(way)}" class="way{dash}"/>'))
        parts.append(tag("g", *inside, class_=f"s{i}"))
    numbers = table(title, [x_label, "series", y_label, "95 % interval"], rows)
    return _figure(title, bottom + 40, parts, [s.name for s in series], numbers)


def spot_plot(title: str, x_label: str, y_label: str, spots: Sequence[Spot]) -> Markup:
    """Systems by what they cost (x, from 0) and what they reach (y, 0..1), named beside their mark."""
    most = max((s.x for s in spots), default=0.0) * 1.08 or 1.0
    bottom, inner = TOP + HEIGHT, WIDTH - LEFT - RIGHT
    parts = _frame(1.0, y_label, True)
    for tick in nice_ticks(0.0, most, 6):
        parts.append(_text(LEFT + tick / most * inner, bottom + 17, f"{tick:,g}", "middle"))
    parts.append(_text(WIDTH - RIGHT, bottom + 34, x_label, "end", "label"))
    rows: list[list[Cell]] = []
    places = [(LEFT + s.x / most * inner, bottom - s.y * HEIGHT) for s in spots]
    # Names beside the marks where they do not run into one another; the legend has them all.
    crowded = any(
        abs(a[0] - b[0]) < 150 and abs(a[1] - b[1]) < 14 for i, a in enumerate(places) for b in places[:i]
    )
    for i, s in enumerate(spots):
        x, y = places[i]
        inside = []
        if s.low is not None and s.high is not None:
            inside.append(_whisker(x, bottom - s.low * HEIGHT, bottom - s.high * HEIGHT))
        inside.append(mark(i, x, y, f"{s.name}: {s.x:,.4g} {x_label}, {100 * s.y:.1f} % {_span(s)}"))
        if not crowded:
            late = x > LEFT + inner * 0.6
            where = ("end", x - 9) if late else ("start", x + 9)
            inside.append(_text(where[1], y - 6, cut(s.name, 28), where[0], "name"))
        parts.append(tag("g", *inside, class_=f"s{i % SERIES}"))
        rows.append(
            [
                Cell(s.name, s.name, number=False),
                Cell(f"{s.x:,.4g}", s.x),
                Cell(f"{100 * s.y:.1f} %", s.y),
                Cell(_span(s), s.low),
            ]
        )
    numbers = table(title, ["system", x_label, y_label, "95 % interval"], rows)
    return _figure(title, bottom + 40, parts, [s.name for s in spots], numbers)


def bar_plot(title: str, x_label: str, bars: Sequence[Bar], names: Sequence[str]) -> Markup:
    """Rows of horizontal bars from 0 to 1, one a name; a value of None says "no data"."""
    label = 12 + min(205, 7 * max((len(b.label) for b in bars), default=0))
    thick = 15 if len(names) == 1 else 11
    inner, step = WIDTH - label - 60, len(names) * thick + 10
    bottom = TOP + step * len(bars)
    parts = []
    for tick in nice_ticks(0.0, 1.0, 5):
        x = label + tick * inner
        parts += [_line(x, TOP - 4, x, bottom, "grid"), _text(x, bottom + 14, f"{tick:g}", "middle")]
    parts.append(_text(WIDTH - RIGHT, bottom + 32, x_label, "end", "label"))
    rows: list[list[Cell]] = []
    for row, bar in enumerate(bars):
        top = TOP + step * row
        parts.append(_text(label - 8, top + len(names) * thick / 2 + 4, cut(bar.label, 29), "end", "name"))
        for i, value in enumerate(bar.values):
            y = top + i * thick
            if value is None:
                parts.append(_text(label + 4, y + thick - 3, "no data"))
                continue
            long = min(max(value, 0.0), 1.0) * inner
            parts.append(_block(i, label, y, long, thick - 2, f"{bar.label}, {names[i]}: {value:.3f}"))
            parts.append(_text(label + long + 5, y + thick - 3, f"{value:.2f}"))
        rows.append(
            [
                Cell(bar.label, bar.label, number=False),
                *(number_cell(v, 3, "no data") for v in bar.values),
                Cell(bar.n),
            ]
        )
    numbers = table(title, ["", *names, "n"], rows)
    return _figure(title, bottom + 38, parts, names, numbers)


def stack_plot(
    title: str, x_label: str, y_label: str, columns: Sequence[tuple[str, Sequence[int]]], names: Sequence[str]
) -> Markup:
    """Stacked counts, one column a label; `columns` hold one count a name."""
    most = max((sum(counts) for _, counts in columns), default=0) or 1
    bottom, slot = TOP + HEIGHT, (WIDTH - LEFT - RIGHT) / max(1, len(columns))
    parts = _frame(float(most), y_label, False)
    wide = min(54.0, slot * 0.7)
    every = max(1, -(-len(columns) * 26 // (WIDTH - LEFT - RIGHT)))
    for c, (label, counts) in enumerate(columns):
        x, y = LEFT + slot * (c + 0.5) - wide / 2, float(bottom)
        for i, count in enumerate(counts):
            tall = count / most * HEIGHT
            y -= tall
            if count:
                parts.append(_block(i, x, y, wide, tall, f"{names[i]}, {x_label} {label}: {count}"))
        if c % every == 0:
            parts.append(_text(x + wide / 2, bottom + 17, label, "middle"))
    parts.append(_text(WIDTH - RIGHT, bottom + 34, x_label, "end", "label"))
    rows = [
        [Cell(label, float(label) if label.isdigit() else label), *(Cell(str(n), n) for n in counts)]
        for label, counts in columns
    ]
    return _figure(title, bottom + 40, parts, names, table(title, [x_label, *names], rows))
