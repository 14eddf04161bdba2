"""Success in the page: the headline, systems with intervals, what each used, types, endings."""

from __future__ import annotations

import html
import re
from pathlib import Path

from roleagent_lite.report.html import success
from roleagent_lite.report.write import build
from roleagent_lite.types import Result, Usage
from tests.report import make


def words(text: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


def test_the_headline_and_its_numbers(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        report = build(run)
        text = words(success.overview(report))
    assert report.sealed is not None and report.sealed.words in text
    assert "seed prompt 25 % 3 of 12 (95 %: 9–53)" in text
    assert "final prompt 75 % 9 of 12" in text and "difference, points +50" in text
    assert "won – lost – same 6 – 0 – 6" in text and "episodes 40 4 model calls" in text


def test_partial_runs_show_what_there_is(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r", finished=False) as run:
        text = words(success.overview(build(run)))
    assert "Partial: this run is not finished." in text and "sealed test" not in text
    assert "seed, training 50 % 4 of 8" in text


def scored(system: str, mean: float | None, usage: Usage, calls: int | None = 12) -> Result:
    n = 0 if mean is None else 4
    scores = {f"t{i}": (1.0,) for i in range(4)}
    low, high = (None, None) if mean is None else (mean - 0.1, mean + 0.1)
    return Result("test", system, scores, mean, low, high, n, usage, calls=calls, seconds=8.0)


def test_scored_systems_show_what_they_used(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        run.results.put(scored("react", 0.5, Usage(1000, 200, dollars=0.02)))
        run.results.put(scored("broken", None, Usage(), None))
        text = success.results_table(build(run))
    seen = words(text)
    assert "react test 2 of 4 50 % 40–60" in seen and "0 3.0 300 $0.0050 2.0" in seen
    assert "broken test no scored episode 4 unknown unknown unknown" in seen


def test_success_against_cost_takes_dollars_then_tokens_then_calls(tmp_path: Path) -> None:
    cases = [
        ("dollars an episode", Usage(10, 2, dollars=0.4)), ("tokens an episode", Usage(10, 2, dollars=0.0)),
        ("calls an episode", Usage()),
    ]  # fmt: skip
    for i, (unit, usage) in enumerate(cases):
        with make.new_run(tmp_path / str(i)) as run:
            run.results.put(scored("a", 0.5, usage))
            run.results.put(scored("b", 0.25, usage))
            assert f'<th scope="col" class="num">{unit}</th>' in success.cost_plot(build(run)), unit
    with make.new_run(tmp_path / "none") as run:
        assert success.cost_plot(build(run)) == ""


def test_learning_curves_need_two_points(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        assert "training: the parent" in success.learning_plot(build(run))
    with make.new_run(tmp_path / "one") as run:
        assert success.learning_plot(build(run)) == ""


def test_nothing_played_is_said(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        assert "No episode has been played yet." in success.results(build(run))
