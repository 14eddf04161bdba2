"""Several systems in the page: the same numbers as in report.md, no winner in the noise, published apart."""

from __future__ import annotations

from pathlib import Path

from roleagent_lite.report.html import page, success, systems
from roleagent_lite.report.reference import warning
from roleagent_lite.report.write import build
from roleagent_lite.stats import summarise
from roleagent_lite.types import Result, Usage
from tests.report import make
from tests.report.html.test_success import words
from tests.report.test_systems import evaluated, won


def test_an_evaluation_has_a_section_of_its_own(tmp_path: Path) -> None:
    with evaluated(tmp_path / "r", {"react": won(2), "role-agent": won(10)}) as run:
        report = build(run)
        sections = {s.id: s for s in page.sections(report)}
    assert list(sections) == [
        "overview", "systems", "results", "tasks", "episodes", "candidates", "cost", "settings",
    ]  # fmt: skip
    assert sections["candidates"].title == "Prompt"
    seen = words(sections["systems"].inside)
    assert "react 2 of 12 17 %" in seen and "role-agent 10 of 12 83 %" in seen
    assert "role-agent against react 8 / 0 / 4 83 %" in seen and "more than noise" in seen
    assert "Budget of a task: 30 calls a task." in seen
    assert "Published numbers, for orientation" in seen and report.standings is not None
    assert warning() in seen
    assert report.standings.references[0].title in seen


def test_the_overview_shows_systems_and_the_results_do_not_repeat_them(tmp_path: Path) -> None:
    with evaluated(tmp_path / "r", {"a": won(3), "b": won(4)}) as run:
        report = build(run)
        overview, results = words(success.overview(report)), words(success.results(report))
    assert "Within noise: all pairs." in overview and "a 3 of 12" in overview
    assert "Success against cost" in overview
    assert "Scored systems" not in results and "Success by prompt" in results


def test_what_is_not_finished_is_said(tmp_path: Path) -> None:
    with evaluated(tmp_path / "r", {"a": won(3), "b": []}) as run:
        found = build(run).standings
    assert found is not None and "Not finished: b." in words(systems.systems(found))


def test_repetitions_and_samples_in_words(tmp_path: Path) -> None:
    ends = {"a": [make.SOLVED, make.LOST] * 12}
    with evaluated(tmp_path / "r", ends, repetitions=2, temperature=0.9) as run:
        found = build(run).standings
    assert found is not None
    seen = words(systems.repetitions(found.summaries, ["a"]))
    assert "a standard deviation of repetitions 70.7 points 100 %, 0 %" in seen
    assert "pass@2 / pass^2 1.000 / 0.000" in seen
    assert "needs at least 5 samples" in seen or "pass@5" not in seen


def result(name: str, usage: Usage, calls: int | None = 24) -> Result:
    scores = {f"t{i}": (float(i < 3),) for i in range(12)}
    return Result("s", name, scores, 0.25, 0.1, 0.5, 12, usage, calls=calls)


def test_cost_takes_what_is_known_of_all_systems() -> None:
    known, free, silent = Usage(100, 20, dollars=0.5), Usage(100, 20, dollars=0.0), Usage()
    for usages, unit in (
        ((known, free), "dollars an episode"), ((free, free), "tokens an episode"),
        ((known, silent), "calls an episode"),
    ):  # fmt: skip
        summaries = [summarise(result("x", u), {}) for u in usages]
        assert f">{unit}</th>" in systems.cost_plot(summaries, ["one", "two"]), unit
    assert systems.cost_plot([summarise(result("x", silent, None), {})], ["x"]) == ""


def test_a_system_without_a_scored_episode_says_why() -> None:
    broken = summarise(Result("s", "x", {"t": (None,)}, None, None, None, 0), {"t": "put"})
    text = systems.summary_table("S", [broken], ["<x>"])
    assert broken.rate.how in words(text) and "&lt;x&gt;" in text
    assert words(systems.used_table([broken], ["<x>"])).count("none solved") == 2
    pair = systems.pair_row("a", "b", None, None, None)
    assert len(pair) == len(systems.PAIR_HEAD) and pair[-1].show == "no task in common"
