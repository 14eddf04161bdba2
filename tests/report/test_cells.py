"""report/cells: the planned pairs and their correction, what is kept and saved, odd runs, escaping."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.config import from_mapping
from roleagent_lite.errors import ConfigError
from roleagent_lite.report import cells
from roleagent_lite.stats import holm, mcnemar, success_rate
from roleagent_lite.store import Run
from roleagent_lite.types import Result, Task, Usage

NAMES = ("base+seed", "base+evolved", "adapter+seed", "adapter+evolved")
N = 20


def row(system: str, solved: Sequence[int], tokens: int | None = 1000, dollars: float | None = 0.0) -> Result:
    """A system that solved the first so many tasks of each block: `solved` holds numbers of tasks."""
    scores = {f"t{i}": (float(i in solved),) for i in range(N)}
    rate = success_rate(scores)
    usage = Usage(None if tokens is None else tokens * N, 10 * N, dollars=dollars)
    return Result(
        "cells-r", system, scores, rate.mean, rate.low, rate.high, rate.n, usage, calls=N, temperature=0.0,
        model=f"{system.partition('+')[0]} model",
    )  # fmt: skip


def run_of(folder: Path, *results: Result, teacher: str = "not played", **about: Any) -> Path:
    """A run of four cells as its tables hold it."""
    with Run.create(folder / "r", from_mapping({"model": "scripted"})) as run:
        for i in range(N):
            run.tasks.put(Task(f"t{i}", "tests.toy:Toy", f"Get out, {i}.", split="test"))
        run.record("start", "start", {"tasks_hash": "h", "counts": {"test": N}})
        suite = {"name": "cells-r", "systems": list(NAMES), "sets": [], "temperature": 0.0}
        run.record("suite", "suite", suite)
        told = {
            "run": "r",
            "base": "b",
            "adapter": "a",
            "teacher": "t",
            "seed_prompt": "s1",
            "evolved_prompt": "e1",
        }
        run.record("cells", "cells", {**told, **about})
        run.record("teacher", "teacher", {"words": teacher})
        for result in results:
            data = {"system": result.system, "prompt_set": f"p-{result.system}", "model": result.model}
            run.record(f"system/{result.system}", "system", data)
            run.results.put(result)
    return folder / "r"


def found(folder: Path, *results: Result, **how: Any) -> cells.Cells:
    with Run.open(run_of(folder, *results, **how)) as run:
        return cells.read(run)


FOUR = (
    row("base+seed", range(2), tokens=1000),
    row("base+evolved", range(10), tokens=3000),
    row("adapter+seed", range(12), tokens=1000),
    row("adapter+evolved", range(14), tokens=3000),
)


def test_each_planned_pair_is_the_exact_test_corrected_over_the_planned_ones(tmp_path: Path) -> None:
    read = found(tmp_path, *FOUR)
    assert [(p.first, p.second) for p in read.pairs] == [pair[:2] for pair in cells.PAIRS[:5]]
    won = [10, 4, 8, 2, 2]
    assert [p.success.wins for p in read.pairs] == won and all(p.success.losses == 0 for p in read.pairs)
    assert [p.p for p in read.pairs] == pytest.approx(holm([mcnemar(k, 0) for k in won]))
    data = read.as_data()
    assert [p["within_noise"] for p in data["pairs"]] == [False, True, False, True, True]
    assert "within noise" in read.pairs[4].words and "more than noise" in read.pairs[0].words


def test_the_teacher_is_one_pair_more_where_it_is_there(tmp_path: Path) -> None:
    read = found(tmp_path, *FOUR, row("teacher+evolved", range(18), dollars=1.8), teacher="from the run")
    assert read.pairs[-1].first == "teacher+evolved" and read.pairs[-1].success.losses == 6
    assert cells.grid(read)[-1] == ["teacher", "not played", "18 of 20: 90 % (70-97)"]
    assert read.summaries["teacher+evolved"].dollars_a_solved == pytest.approx(0.1)
    text = cells.render(read)
    assert "Teacher (t): from the run." in text and "$0.10" in text


def test_what_training_gives_more_under_one_prompt_than_under_the_other(tmp_path: Path) -> None:
    """10 tasks gained under the seed prompt, 4 under the evolved one: 30 points fewer."""
    both = found(tmp_path, *FOUR).both
    assert both is not None and both.difference == pytest.approx(-0.3) and both.n == N
    words = cells.words_of(found(tmp_path / "again", *FOUR))[1]
    assert words.startswith("What training gives under the evolved prompt, less what it gives under the seed")
    assert ": -30 (-56 to +1) points" in words and words.endswith("= 0.11), within noise.")


def test_what_is_kept_and_saved_stands_first(tmp_path: Path) -> None:
    words = cells.kept(found(tmp_path, *FOUR))
    assert words.startswith(
        "The adapter under the seed prompt solved 12 of 20 tasks, the base under the evolved"
    )
    assert "10 of 20: +10 (" in words and "1,000 tokens in place of 3,000 (67% saved)" in words
    unknown = [row(r.system, range(3), tokens=None) for r in FOUR]
    words = cells.kept(found(tmp_path / "u", *unknown))
    assert "tokens" not in words and words


def test_the_grid_and_the_costs(tmp_path: Path) -> None:
    read = found(tmp_path, row("base+seed", ()), *FOUR[1:])
    assert cells.grid(read)[0] == ["base", "0 of 20: 0 % (0-16)", "10 of 20: 50 % (30-70)"]
    assert len(cells.grid(read)) == 2
    by_name = {line[0]: line[1:] for line in cells.costs(read)}
    assert by_name["base+seed"] == ["1,000", "1.0", "none solved", "none solved", "0"]
    assert by_name["base+evolved"] == ["3,000", "1.0", "6,020", "$0.00", "0"]


def test_files_are_written_beside_the_runs_own_report(tmp_path: Path) -> None:
    folder = run_of(tmp_path, *FOUR)
    path = cells.write(folder)
    assert path == folder / "cells.md" and (folder / "report.md").is_file()
    data = json.loads((folder / "cells.json").read_text(encoding="utf-8"))
    assert data["status"] == "finished" and list(data["cells"]) == list(NAMES)
    assert data["cells"]["base+evolved"]["tokens_in_a_call"] == 3000
    text = path.read_text(encoding="utf-8")
    assert (
        "| training in place of the evolved prompt | adapter+seed against base+evolved | 2 / 0 / 18 |" in text
    )
    assert "What 20 tasks can see, uncorrected:" in text and "Teacher (t): not played." in text
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [one["system"] for one in report["suite"]["systems"]] == list(NAMES)


def test_cells_that_are_not_there_yet_are_named_and_nothing_is_compared(tmp_path: Path) -> None:
    folder = run_of(tmp_path, *FOUR[:2])
    text = cells.write(folder).read_text(encoding="utf-8")
    assert "(partial)" in text and "Not finished: adapter+seed, adapter+evolved" in text
    assert "not played" in text and "within noise" not in text
    data = json.loads((folder / "cells.json").read_text(encoding="utf-8"))
    assert data["status"] == "partial" and data["pairs"] == [] and data["both"] is None


def test_no_winner_and_no_number_from_nothing(tmp_path: Path) -> None:
    broken = [
        Result("cells-r", name, {f"t{i}": (None,) for i in range(N)}, None, None, None, 0) for name in NAMES
    ]
    read = found(tmp_path, *broken)
    assert read.pairs == () and read.both is None and cells.kept(read) == ""
    assert "nan" not in cells.render(read).lower()
    assert cells.costs(read)[0][1:] == ["unknown", "unknown", "none solved", "none solved", "20"]


def test_another_run_is_refused(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", from_mapping({"model": "m"})) as run:
        run.record("start", "start", {})
        with pytest.raises(ConfigError, match="has no four cells"):
            cells.read(run)


def test_names_from_outside_stay_text(tmp_path: Path) -> None:
    text = cells.render(found(tmp_path, *FOUR, adapter="<b>x</b>|y", teacher="sk-abcdefghijklmnopqrstuvwx"))
    assert "<b>" not in text and "&lt;b&gt;" in text and "sk-abcdefgh" not in text
