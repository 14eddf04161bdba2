"""Plots: valid XML, every number in the table beside them, colours as classes, texts escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from roleagent_lite.report.html import plots
from roleagent_lite.report.html.plots import Bar, Spot
from roleagent_lite.report.svg import Point, Series

EVIL = '</svg><script>"&'


def drawing(figure: str) -> ET.Element:
    """The plot itself; it must be a document of its own."""
    (found,) = re.findall(r'<svg viewBox="0 0 560.*?</svg>', figure, re.DOTALL)
    return ET.fromstring(found)


def all_plots(name: str = "a") -> dict[str, str]:
    series = [
        Series(name, (Point(1, 0.25, 0.1, 0.5), Point(2, None), Point(3, 0.75))),
        Series("b", (Point(1, 1.0),), True),
    ]
    spots = [Spot(name, 0.02, 0.5, 0.3, 0.7), Spot("b", 0.4, 0.9)]
    bars = [Bar(name, (0.5, None), "7"), Bar("z", (1.0, 0.0))]
    return {
        "line": plots.line_plot(name, "round", "solved", series),
        "spot": plots.spot_plot(name, "dollars", "solved", spots),
        "bar": plots.bar_plot(name, "alignment", bars, ["one", name]),
        "stack": plots.stack_plot(name, "round", "failures", [("1", [2, 0]), ("2", [1, 4])], [name, "b"]),
    }


@pytest.mark.parametrize("kind", ["line", "spot", "bar", "stack"])
def test_each_is_valid_and_named_whatever_the_words(kind: str) -> None:
    figure = all_plots(EVIL)[kind]
    root = drawing(figure)
    assert root.get("role") == "img" and str(root.get("aria-label")).startswith(EVIL)
    assert "<script" not in figure and "</svg><" not in figure.replace("</svg></", "")
    assert "fill=" not in figure and "style=" not in figure, "colours follow the theme, by class"


@pytest.mark.parametrize("kind", ["line", "spot", "bar", "stack"])
def test_the_same_numbers_stand_in_a_table(kind: str) -> None:
    figure = all_plots()[kind]
    assert "<summary>Numbers</summary>" in figure and "<table" in figure
    wanted = {
        "line": ["25.0 %", "10–50 %", "75.0 %"],
        "spot": ["0.02", "30–70 %"],
        "bar": ["0.500", "no data"],
        "stack": [">4<", ">2<"],
    }
    assert all(text in figure.split("<summary>")[1] for text in wanted[kind])


def test_what_is_not_known_is_not_drawn() -> None:
    figure = all_plots()["line"]
    marks = [e for e in drawing(figure).iter("path") if e.get("class") == "mark"]
    assert len(marks) == 3, "two of the first series, one of the second"
    assert "no data" in all_plots()["bar"]


def test_heights_are_in_proportion() -> None:
    blocks = [float(str(r.get("height"))) for r in drawing(all_plots()["stack"]).iter("rect")]
    assert blocks == pytest.approx(
        [2 / 5 * plots.HEIGHT, 1 / 5 * plots.HEIGHT, 4 / 5 * plots.HEIGHT], abs=0.1
    )
    long = {float(str(r.get("width"))) for r in drawing(all_plots()["bar"]).iter("rect")}
    assert max(long) == pytest.approx(2 * sorted(long)[1], rel=0.01) and min(long) == 0.0


def test_series_differ_by_mark_not_by_colour_alone() -> None:
    shapes = {re.search(r'd="([^"]+)"', plots.mark(i)).group(1) for i in range(4)}  # type: ignore[union-attr]
    assert len(shapes) == 4


def test_names_leave_a_plot_where_they_would_run_into_one_another() -> None:
    near = plots.spot_plot("t", "x", "y", [Spot("one", 1.0, 0.5), Spot("two", 1.01, 0.5)])
    far = plots.spot_plot("t", "x", "y", [Spot("one", 1.0, 0.1), Spot("two", 1.01, 0.9)])
    assert 'class="name"' not in near and far.count('class="name"') == 2
    assert near.count("<li>") == 2, "the legend has them"


def test_empty_and_single_values_do_not_fail() -> None:
    assert "<svg" in plots.line_plot("t", "x", "y", [Series("a", (Point(1, 0.5),))])
    assert "<svg" in plots.stack_plot("t", "x", "y", [], [])
    assert "<svg" in plots.spot_plot("t", "x", "y", [Spot("free", 0.0, 0.0)])
