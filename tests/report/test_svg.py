"""Plots: valid XML whatever the words, values where they belong, nothing drawn for what is not known."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.report.svg import Point, Series, bars, escape, lines, nice_ticks

NS = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> ET.Element:
    root = ET.fromstring(svg)
    assert root.tag == f"{NS}svg"
    return root


@given(st.text(alphabet=st.characters(blacklist_categories=[])))
def test_any_text_gives_valid_xml(words: str) -> None:
    root = parsed(lines(words, words, words, [Series(words, (Point(0, 0.5),))]))
    assert root.find(f"{NS}title") is not None
    parsed(bars(words, words, [(words, [Point(0, 0.5)])], [words]))


def test_markup_is_shown_not_executed() -> None:
    assert escape('<script>&"') == "&lt;script&gt;&amp;&quot;"
    root = parsed(lines("a", "b", "c", [Series("<script>alert(1)</script>", (Point(0, 1),))]))
    assert root.findall(f".//{NS}script") == []
    assert "<script>alert(1)</script>" in [t.text for t in root.iter(f"{NS}text")]


def test_characters_that_xml_forbids_are_replaced() -> None:
    assert escape("a\x00b\ud800c\tü🔑") == "a\ufffdb\ufffdc\tü🔑"


def test_lines_put_values_on_the_scale() -> None:
    root = parsed(
        lines("t", "round", "success", [Series("dev", (Point(0, 0.0), Point(1, 1.0), Point(2, 0.5)))])
    )
    ys = [float(c.attrib["cy"]) for c in root.iter(f"{NS}circle")]
    assert ys[0] - ys[1] == pytest.approx(230)
    assert (ys[0] + ys[1]) / 2 == pytest.approx(ys[2])
    xs = [float(c.attrib["cx"]) for c in root.iter(f"{NS}circle")]
    assert xs == sorted(xs)
    assert len(list(root.iter(f"{NS}polyline"))) == 1


def test_an_unknown_value_is_left_out() -> None:
    root = parsed(lines("t", "x", "y", [Series("s", (Point(0, None), Point(1, 0.5)))]))
    assert len(list(root.iter(f"{NS}circle"))) == 1
    assert len(list(root.iter(f"{NS}polyline"))) == 0
    assert len(list(parsed(bars("t", "y", [("g", [Point(0, None)])], [])).iter(f"{NS}rect"))) == 1


def test_whiskers_only_where_an_interval_is_known() -> None:
    def strokes(svg: str) -> int:
        return len(list(parsed(svg).iter(f"{NS}line")))

    bare = strokes(bars("t", "y", [("g", [Point(0, 0.4)])], ["a"]))
    assert strokes(bars("t", "y", [("g", [Point(0, 0.4, 0.2, 0.6)])], ["a"])) == bare + 3


def test_bars_heights_are_proportional_and_clipped() -> None:
    root = parsed(bars("t", "y", [("g", [Point(0, 0.25), Point(0, 0.5), Point(0, 7.0)])], ["a", "b", "c"]))
    fills = [r for r in root.iter(f"{NS}rect") if r.attrib.get("width") == "44.0"]
    heights = [float(r.attrib["height"]) for r in fills]
    assert heights == pytest.approx([57.5, 115.0, 230.0])


def test_a_dashed_series_is_dashed_and_empty_plots_are_valid() -> None:
    svg = lines("t", "x", "y", [Series("s", (Point(0, 0.1), Point(1, 0.2)), dashed=True)])
    assert "stroke-dasharray" in svg
    parsed(lines("t", "x", "y", []))
    parsed(bars("t", "y", [], []))


def test_legend_of_many_names_stays_inside_the_picture() -> None:
    root = parsed(
        lines(
            "t", "x", "y", [Series(f"a rather long name of family {i}", (Point(0, 0.1),)) for i in range(9)]
        )
    )
    height = float(root.attrib["height"])
    assert all(float(t.attrib["y"]) <= height for t in root.iter(f"{NS}text"))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (0, 3, [0, 0.5, 1, 1.5, 2, 2.5, 3]), (2, 2, [2])],
)
def test_ticks_are_round_numbers(low: float, high: float, ticks: list[float]) -> None:
    assert nice_ticks(low, high) == pytest.approx(ticks)


def test_rounds_are_whole_numbers() -> None:
    assert nice_ticks(1, 2, 12, whole=True) == [1, 2]
    root = parsed(lines("t", "round", "y", [Series("s", (Point(1, 0.1), Point(3, 0.2)))]))
    words = [t.text for t in root.iter(f"{NS}text")]
    assert "2" in words and "1.5" not in words


def test_a_long_label_takes_two_lines_and_then_is_cut() -> None:
    root = parsed(bars("t", "y", [("what followed " * 20, [Point(0, 0.5)]), ("b", [Point(0, 0.5)])], ["a"]))
    rows = [t.text or "" for t in root.iter(f"{NS}text") if "what" in (t.text or "")]
    assert len(rows) == 2 and rows[1].endswith("…") and not rows[0].endswith("…")


@given(st.floats(0, 100), st.floats(0.01, 1000))
def test_ticks_are_few_and_inside(low: float, width: float) -> None:
    ticks = nice_ticks(low, low + width)
    assert len(ticks) <= 7
    assert all(low - 1e-6 <= t <= low + width + 1e-6 for t in ticks)
