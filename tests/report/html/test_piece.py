"""Whatever a text holds, it stays text: in elements, attributes, tables; numbers keep n and interval."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite import redact
from roleagent_lite.report.gather import share
from roleagent_lite.report.html import piece
from roleagent_lite.report.html.piece import Cell, Markup, esc, join, table, tag, text_cell

HOSTILE = "</script><!-- <img src=x onerror=alert(1)> \" ' & \u2028 \u202e evil \x00 \x1b[31m \ud83d"


class Reader(HTMLParser):
    """Elements, attributes and text as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.values: list[str | None] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += [v for _, v in attrs]

    def handle_data(self, data: str) -> None:
        self.words += data


def test_markup_in_a_text_is_shown_not_made() -> None:
    seen = Reader(tag("p", HOSTILE, title=HOSTILE, data_x=HOSTILE))
    assert seen.tags == ["p"] and seen.values == [piece.shown(HOSTILE)] * 2
    assert seen.words == piece.shown(HOSTILE)
    assert "<img src=x" in seen.words


def test_marks_that_would_turn_or_hide_text_are_made_visible() -> None:
    assert piece.shown("a\u202eb\u2028c\x1b[0m\x00") == "a\\u202eb\\u2028c\\x1b[0m\\x00"
    assert (
        piece.shown("\ud83d") == "\ufffd"
        and piece.shown("\u0645\u0631 \U0001f511\n\t") == "\u0645\u0631 \U0001f511\n\t"
    )


@given(st.text(max_size=80))
def test_any_text_comes_back_as_it_is_shown(text: str) -> None:
    seen = Reader(tag("b", text, id=text))
    assert seen.tags == ["b"] and seen.words == piece.shown(text) and seen.values == [piece.shown(text)]


def test_a_key_is_removed_before_escaping() -> None:
    redact.register("s&cret<value>")
    try:
        assert "cret" not in esc("x s&cret<value> y")
    finally:
        redact._secrets.difference_update({s for s in redact._secrets if "cret" in s})


def test_markup_passes_once_and_what_is_added_to_it_is_escaped() -> None:
    assert esc(Markup("<b>")) == "<b>" and esc("<b>") == "&lt;b&gt;"
    assert join([Markup("<i>"), "<u>"]) == "<i>&lt;u&gt;"
    assert tag("a", "x", class_="c", hidden=True, open_=False, href=None) == '<a class="c" hidden>x</a>'


def test_a_table_says_what_it_sorts_by() -> None:
    rows = [[text_cell("Beta"), Cell("2 of 12", 2)], [text_cell("alpha"), Cell("unknown")]]
    text = table("T <1>", ["name", "solved"], rows, filterable=True)
    assert '<th scope="row" class="nw" data-s="beta">Beta</th><td class="num" data-s="2">2 of 12</td>' in text
    assert '<td class="num">unknown</td>' in text, "what is not known has no value to sort by"
    assert 'scope="col"' in text and "data-sort data-filter" in text
    assert 'role="region"' in text and 'tabindex="0"' in text and "T &lt;1&gt;" in text
    assert table("T", ["name"], []) == ""


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="has not 2 cells"):
        table("T", ["a", "b"], [[Cell("1")]])


def test_a_share_has_its_n_and_interval_or_says_that_there_is_none() -> None:
    k, interval, drawn = piece.share_cells(share(7, 10))
    assert k.show == "7 of 10" and k.sort == 7
    assert "70 %" in str(interval.show) and "40–89" in str(interval.show)
    assert 'cx="82.4"' in str(drawn.show), "4 + 112 * 0.7"
    none = piece.share_cells(share(0, 0))
    assert "no scored episode" in str(none[0].show) and none[0].sort is None
    assert len(none) == len(piece.SHARE_HEAD)


def test_unknown_is_a_word_never_a_zero() -> None:
    for cell in (piece.number_cell(None), piece.percent_cell(None)):
        assert "unknown" in str(cell.show) and cell.sort is None
    assert piece.number_cell(12345).show == "12,345" and piece.number_cell(1.25, 1).show == "1.2"
    assert piece.percent_cell(0.125, 1).show == "12.5 %"
    assert piece.interval_bar(0.5, None, None) == ""
