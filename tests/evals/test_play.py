"""Evaluations: the same tasks for all, counted whole, whatever the order; resumed, replayed and stopped."""

from __future__ import annotations

import builtins
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.errors import BudgetStop, ConfigError, MissingExtra
from roleagent_lite.evals import Evaluation, evaluate, evaluate_async
from roleagent_lite.evals.suite import from_data
from roleagent_lite.report import write_report
from roleagent_lite.store import Run
from roleagent_lite.tasksets import file_hash
from roleagent_lite.types import Progress, Reply, Request, Result
from tests.evals.make import BROKEN, LOST, SOLVED, Told, rule, scripted, told, toy_file, toy_suite

CONFIG = {"model": "scripted"}


def timeless(results: tuple[Result, ...]) -> list[Result]:
    return [replace(one, seconds=None) for one in results]


def played(path: Path, tasks: str, **how: Any) -> Evaluation:
    config = {**CONFIG, **how.pop("config", {})}
    return evaluate(toy_suite(tasks), config, run_dir=path, models=how.pop("models", scripted()), **how)


def test_every_system_plays_the_same_tasks_and_is_counted_whole(tmp_path: Path) -> None:
    found = played(tmp_path / "r", toy_file(tmp_path / "t.jsonl"))
    chance, prompt = found.results
    assert (chance.system, prompt.system) == ("random", "prompt") and found.report is None
    assert list(chance.scores) == list(prompt.scores) == [f"t{i}" for i in range(6)]
    assert [row[0] for row in prompt.scores.values()] == [1.0, 0.0] * 3
    assert chance.calls == 0 and chance.model == "" and prompt.model == "scripted"
    assert (
        prompt.calls and prompt.usage.input == 10 * prompt.calls and prompt.usage.output == 2 * prompt.calls
    )
    assert (prompt.temperature, prompt.budget, prompt.spread) == (0.0, "unlimited", None)
    with Run.open(tmp_path / "r") as run:
        assert run.status == "finished" and run.results.get("toys/prompt") == prompt
        assert all(id in run.trajectories for row in prompt.trajectories.values() for id in row)
        system = run.events.get("system/prompt")
        assert (
            system is not None
            and str(system.data["prompt_set"])[:8] == prompt.trajectories["t0"][0].split("/")[1]
        )


def test_calls_of_replies_that_could_not_be_used_are_counted(tmp_path: Path) -> None:
    """A reply of the wrong form and its re-ask end an episode without a step; both were paid for."""
    found = played(
        tmp_path / "r",
        toy_file(tmp_path / "t.jsonl", 2),
        systems=["prompt"],
        models=scripted(lambda request: Reply("no", usage=rule(request).usage)),
    )
    (result,) = found.results
    assert result.calls == 4 and result.usage.input == 40 and result.mean == 0.0


def test_evl_01_one_worker_and_eight_find_the_same_in_task_order(tmp_path: Path) -> None:
    tasks = toy_file(tmp_path / "t.jsonl")
    reports = []
    for workers in (1, 8):
        path = tmp_path / str(workers) / "r"
        found = played(path, tasks, config={"workers": workers}, report=write_report, repetitions=2)
        data = json.loads((path / "report.json").read_text())
        del data["sessions"], data["config"]
        for row in [*data["spend"], *data["suite"]["systems"], *data["results"]]:
            del row["seconds"]
        reports.append((data, timeless(found.results)))
    assert reports[0] == reports[1]


def test_what_is_there_is_not_bought_again(tmp_path: Path) -> None:
    tasks = toy_file(tmp_path / "t.jsonl")
    first = played(tmp_path / "r", tasks)
    again = scripted(lambda request: pytest.fail("nothing is to be bought"))
    assert played(tmp_path / "r", tasks, models=again).results == first.results


def test_a_cap_stops_and_a_higher_one_goes_on_to_the_same_end(tmp_path: Path) -> None:
    tasks = toy_file(tmp_path / "t.jsonl")
    whole = played(tmp_path / "whole", tasks)
    with pytest.raises(BudgetStop):
        played(tmp_path / "r", tasks, config={"budget": {"max_calls": 5}}, report=write_report)
    text = (tmp_path / "r" / "report.md").read_text()
    assert "(partial)" in text and "Not finished: prompt." in text
    done = played(tmp_path / "r", tasks, config={"budget": {"max_calls": 500}})
    assert timeless(done.results) == timeless(whole.results)


def test_an_evaluation_replays_without_a_model(tmp_path: Path) -> None:
    tasks = toy_file(tmp_path / "t.jsonl")
    first = played(tmp_path / "r", tasks)
    (tmp_path / "r" / "trajectories.jsonl").unlink()
    (tmp_path / "r" / "results.jsonl").unlink()
    again = played(tmp_path / "r", tasks, models=None, replay=True)
    assert timeless(again.results) == timeless(first.results)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"repetitions": 2}, "another suite (repetitions 1 then, 2 now)"),
        ({"systems": ["random"]}, "another suite (systems"),
        ({"budget": "calls=3"}, "another suite (budget"),
    ],
)
def test_another_suite_is_refused_at_a_resume(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    tasks = toy_file(tmp_path / "t.jsonl")
    played(tmp_path / "r", tasks)
    with pytest.raises(ConfigError) as fault:
        played(tmp_path / "r", tasks, **change)
    assert words in str(fault.value)


def test_res_03_a_changed_task_file_is_refused_at_a_resume_with_both_hashes(tmp_path: Path) -> None:
    tasks = toy_file(tmp_path / "t.jsonl")
    before = file_hash(tasks)
    played(tmp_path / "r", tasks)
    toy_file(tmp_path / "t.jsonl", goal="Leave, {}.")
    with pytest.raises(
        ConfigError, match=rf"another task set \(tasks_hash {before} then, {file_hash(tasks)} now"
    ):
        played(tmp_path / "r", tasks)
    with Run.open(tmp_path / "r") as run:
        begun = from_data(run.events.get("suite").data)  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match=rf"hash {before} then, {file_hash(tasks)} now"):  # as --resume does
        evaluate(begun, CONFIG, run_dir=tmp_path / "r", models=scripted())


def test_a_name_nobody_knows_leaves_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no system 'raect'; did you mean 'react'"):
        played(tmp_path / "r", toy_file(tmp_path / "t.jsonl"), systems=["raect"])
    assert not (tmp_path / "r").exists()


def test_seeds_and_repetitions_are_rollouts_of_their_own(tmp_path: Path) -> None:
    found = played(
        tmp_path / "r", toy_file(tmp_path / "t.jsonl", 3), systems=["random"], seeds=[1, 2], repetitions=2
    )
    (result,) = found.results
    assert [len(row) for row in result.scores.values()] == [4, 4, 4]
    assert result.trajectories["t1"][3].endswith("/t1#3") and result.spread is not None
    with Run.open(tmp_path / "r") as run:
        moves = [tuple(s.action for s in t.steps) for t in run.trajectories if t.task == "t1"]
    assert len(set(moves)) > 1


def test_systems_of_ones_own_with_scores_and_errors(tmp_path: Path) -> None:
    half = Told("half", lambda task, rollout: BROKEN if task.id == "t5" else LOST, score=0.5)
    found = told(tmp_path, "r", half, Told("all", lambda task, rollout: SOLVED))
    first, second = found.summaries
    assert (first.rate.mean, first.score, first.errors, first.as_zero) == (0.0, 0.5, 1, 0.0)
    assert second.rate.mean == 1.0 and second.macro == 1.0
    assert found.results[0].scores["t5"] == (None,) == found.results[0].values["t5"]


def test_two_systems_with_one_prompt_set_are_refused(tmp_path: Path) -> None:
    one, two = (Told(name, lambda task, rollout: SOLVED) for name in ("a", "b"))
    two.prompt_set = one.prompt_set
    with pytest.raises(ConfigError, match="'a' and 'b' have one prompt set"):
        told(tmp_path, "r", one, two)


def test_the_step_limit_of_a_suite_holds(tmp_path: Path) -> None:
    suite = toy_suite(toy_file(tmp_path / "t.jsonl", 2), "prompt")
    suite = replace(suite, sets=(replace(suite.sets[0], max_steps=1),))
    evaluate(suite, CONFIG, run_dir=tmp_path / "r", models=scripted())
    with Run.open(tmp_path / "r") as run:
        assert [(len(t.steps), t.max_steps, t.solved) for t in run.trajectories] == [(1, 1, False)] * 2


def test_progress_names_the_system_and_the_plan_comes_first(tmp_path: Path) -> None:
    heard: list[Progress] = []
    played(tmp_path / "r", toy_file(tmp_path / "t.jsonl"), listener=heard.append)
    assert heard[0].stage == "estimate" and "planned at most" in heard[0].note
    stages = list(dict.fromkeys(p.stage for p in heard[1:]))
    assert stages == ["system random", "system prompt"] and (heard[-1].done, heard[-1].total) == (6, 6)


def test_a_data_frame_has_a_row_an_episode(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = played(tmp_path / "r", toy_file(tmp_path / "t.jsonl"), repetitions=2).to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 2 * 6 * 2
    assert list(frame.columns) == [
        "suite", "system", "task", "type", "repetition", "solved", "score", "trajectory",
    ]  # fmt: skip
    assert frame[frame.system == "prompt"].groupby("task").solved.mean().to_dict()["t2"] == 1.0


def test_without_pandas_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(tmp_path, "r", Told("a", lambda task, rollout: SOLVED))
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match="pip install pandas"):
        found.to_dataframe()


async def test_inside_a_loop_one_awaits(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"await evaluate_async"):
        evaluate("quick")
    found = await evaluate_async(
        toy_suite(toy_file(tmp_path / "t.jsonl"), "random"), CONFIG, run_dir=tmp_path / "r", models=scripted()
    )
    assert [one.system for one in found.results] == ["random"]


def test_a_model_that_is_asked_gets_the_suites_temperature(tmp_path: Path) -> None:
    asked: list[float] = []

    def listening(request: Request) -> Reply:
        asked.append(request.temperature)
        return rule(request)

    played(tmp_path / "r", toy_file(tmp_path / "t.jsonl", 2), models=scripted(listening), temperature=0.9)
    assert set(asked) == {0.9}
