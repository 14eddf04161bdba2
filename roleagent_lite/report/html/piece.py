"""HTML pieces that stay HTML whatever a model, a task or a server says.

Owns escaping, cells, tables that the page's script can sort and filter, interval and share bars. Whatever is
not `Markup` is escaped; only this package makes `Markup`. Leaves out what is shown (sections) and plots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roleagent_lite.redact import mend, scrub, visible
from roleagent_lite.report.gather import Share
from roleagent_lite.report.markdown import cut

_ENTITIES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"))


class Markup(str):
    """HTML that may stand in the page as it is."""

    __slots__ = ()


def shown(text: str) -> str:
    """`text` without keys, with lone surrogates, control characters and marks of direction made visible."""
    return visible(scrub(mend(text)))


def esc(text: object) -> Markup:
    """`text` as it may stand in HTML, in a quoted attribute and in SVG; Markup passes as it is."""
    if isinstance(text, Markup):
        return text
    safe = shown(str(text))
    for raw, entity in _ENTITIES:
        safe = safe.replace(raw, entity)
    return Markup(safe)


def tag(name: str, *inside: object, **attributes: object) -> Markup:
    """An element; `class_` and `data_x` become `class` and `data-x`. None leaves an attribute out."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None and value is not False:
            key = key.rstrip("_").replace("_", "-")
            parts.append(key if value is True else f'{key}="{esc(value)}"')
    body = "".join(esc(one) for one in inside)
    return Markup(f"<{' '.join(parts)}>{body}</{name}>")


def join(parts: Iterable[object], between: str = "") -> Markup:
    return Markup(between.join(esc(p) for p in parts))


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell shows (escaped unless Markup) and what it sorts by: None = last, whatever the order."""

    show: object
    sort: float | int | str | None = None
    number: bool = True


def text_cell(value: object, most: int = 0) -> Cell:
    """A cell of words, sorted by them."""
    words = str(value)
    return Cell(cut(words, most) if most else value, words.lower(), number=False)


def code_cell(value: str, most: int = 120) -> Cell:
    return Cell(tag("code", cut(value, most)) if value else "", value, number=False)


def number_cell(value: float | int | None, digits: int = 1, unknown: str = "unknown") -> Cell:
    if value is None:
        return Cell(tag("span", unknown, class_="dim"))
    return Cell(f"{value:,.{digits}f}" if isinstance(value, float) else f"{value:,}", value)


def percent_cell(value: float | None, digits: int = 0, unknown: str = "unknown") -> Cell:
    if value is None:
        return Cell(tag("span", unknown, class_="dim"))
    return Cell(f"{100 * value:.{digits}f} %", value)


def interval_bar(mean: float | None, low: float | None, high: float | None) -> Markup:
    """A small line from 0 to 100 % with the interval and the mean on it; "" where there is none.

    Decoration: the numbers stand beside it in words.
    """
    if mean is None or low is None or high is None:
        return Markup("")
    a, b, m = (4 + 112 * min(max(v, 0.0), 1.0) for v in (low, high, mean))
    return Markup(
        '<svg class="ci" viewBox="0 0 120 16" width="120" height="16" aria-hidden="true">'
        '<line class="axis" x1="4" y1="8" x2="116" y2="8"/>'
        '<path class="axis" d="M4 5v6M60 6v4M116 5v6"/>'
        f'<line class="span" x1="{a:.1f}" y1="8" x2="{b:.1f}" y2="8"/>'
        f'<circle class="dot" cx="{m:.1f}" cy="8" r="4"/></svg>'
    )


def share_cells(share: Share, nothing: str = "no scored episode") -> list[Cell]:
    """Three cells: k of n, the percentage with its interval in words, the interval drawn."""
    if share.mean is None or share.low is None or share.high is None:
        return [Cell(tag("span", nothing, class_="dim")), Cell(""), Cell("")]
    span = f" {100 * share.low:.0f}–{100 * share.high:.0f}"
    words = join([tag("b", f"{100 * share.mean:.0f} %"), tag("span", span, class_="dim")])
    return [
        Cell(f"{share.k} of {share.n}", share.k),
        Cell(words, share.mean),
        Cell(interval_bar(share.mean, share.low, share.high), share.mean, number=False),
    ]


SHORT = 28  # letters of a text cell that is not broken over lines
SHARE_HEAD = ("solved", "95 % interval", "0 – 100 %")


def _head(title: str, number: bool) -> Markup:
    return tag("th", title, scope="col", class_="num" if number else None)


def _cell(cell: Cell, first: bool) -> Markup:
    sort = f"{cell.sort:.10g}" if isinstance(cell.sort, float) else cell.sort
    short = not cell.number and len(str(cell.sort or "")) <= SHORT
    kind = "num" if cell.number else "nw" if short else None
    return tag("th" if first else "td", cell.show, scope="row" if first else None, class_=kind, data_s=sort)


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    filterable: bool = False,
    note: str = "",
) -> Markup:
    """A table in a region that scrolls by itself; "" where there are no rows. The first cell heads its row.

    The page's script makes the head's titles sort; `filterable` adds a field that leaves rows out. Raises
    ValueError for a row that has not as many cells as the head.
    """
    if not rows:
        return Markup("")
    if any(len(row) != len(head) for row in rows):
        raise ValueError(f"table '{caption}': a row has not {len(head)} cells")
    numbers = [row_cell.number for row_cell in rows[0]]
    body = join(
        (tag("tr", *(_cell(c, i == 0) for i, c in enumerate(row))) for row in rows),
        "\n",
    )
    inner = tag(
        "table",
        tag("caption", caption, class_="hidden"),
        tag("thead", tag("tr", *(_head(t, n) for t, n in zip(head, numbers, strict=True)))),
        Markup("\n"),
        tag("tbody", body),
        data_sort=True,
        data_filter=True if filterable else None,
    )
    title = tag("h3", caption, class_="tt")
    scroll = tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return tag("div", title, scroll, tag("p", note, class_="note") if note else "", class_="tablebox")


def paragraphs(texts: Iterable[str], class_: str | None = None) -> Markup:
    return join(tag("p", t, class_=class_) for t in texts if t)


def folded(title: str, *inside: object, open_: bool = False) -> Markup:
    return tag("details", tag("summary", title), *inside, open=open_)


def pre(text: str, class_: str | None = None) -> Markup:
    """Text kept as written; it wraps."""
    return tag("pre", text, class_=class_, dir="auto")
