"""The front door: what is refused before the first call, a run from start to end, replay, export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roleagent_lite.config import from_mapping
from roleagent_lite.errors import BudgetStop, ConfigError
from roleagent_lite.jobs import EvolveResult, evaluate, evolve, export
from roleagent_lite.store import Run
from roleagent_lite.types import Progress, Reply, Request, Usage
from tests.evolve import kitchen
from tests.evolve.kitchen import SMALL, run_kitchen, tables
from tests.scripted_world import LESSON, provider, rule


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> EvolveResult:
    return run_kitchen(tmp_path_factory.mktemp("done"), {"evolve": {"test": 5}})


# --- refused before the first call ---


def test_res_03_a_changed_task_file_is_refused_and_named(tmp_path: Path) -> None:
    config = kitchen.settings(tmp_path, SMALL, {"evolve": {"rounds": 0}})
    evolve(config, run_dir=tmp_path / "run", models=provider())
    before = tables(tmp_path / "run")
    with Path(config.tasks).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "new", "env": "tests.scripted_world:Kitchen", "goal": "fetch"}) + "\n")
    with pytest.raises(ConfigError, match=r"another task file '.*kitchen\.jsonl'"):
        evolve(config, run_dir=tmp_path / "run", models=provider())
    assert tables(tmp_path / "run") == before


def test_another_seed_prompt_is_refused(tmp_path: Path) -> None:
    config = kitchen.settings(tmp_path, SMALL, {"evolve": {"rounds": 0}})
    evolve(config, run_dir=tmp_path / "run", models=provider())
    mine = tmp_path / "mine.txt"
    mine.write_text("Act in your own way.", encoding="utf-8")
    with pytest.raises(ConfigError, match="another seed prompt"):
        evolve(config, run_dir=tmp_path / "run", models=provider(), prompt_file=mine)


async def test_inside_an_event_loop_the_message_says_what_to_await() -> None:
    with pytest.raises(ConfigError, match=r"await evolve_async"):
        evolve()
    with pytest.raises(ConfigError, match=r"await evaluate_async"):
        evaluate()


def test_a_missing_task_file_leaves_no_run_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        evolve(
            from_mapping({"model": "scripted", "tasks": "nowhere"}),
            run_dir=tmp_path / "run",
            models=provider(),
        )
    assert not (tmp_path / "run").exists()


# --- a run from start to end ---


def test_a_users_prompt_is_where_the_evolution_starts(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text('Act {"a": 1} and open the microwave before you heat.\n', encoding="utf-8")
    config = kitchen.settings(tmp_path, SMALL)
    result = evolve(config, run_dir=tmp_path / "run", models=provider(), prompt_file=mine)
    assert result.evolution.seed.texts["act.instructions"] == mine.read_text(encoding="utf-8").strip()
    assert result.results[0].mean == 1.0


def test_the_estimate_comes_before_the_first_call_and_progress_knows_the_dollars(tmp_path: Path) -> None:
    heard: list[Progress] = []
    order: list[str] = []

    def listener(progress: Progress) -> None:
        heard.append(progress)
        order.append(progress.stage)

    def priced(request: Request) -> Reply:
        order.append("call")
        return Reply(rule(request), usage=Usage(input=100, output=10))

    config = kitchen.settings(tmp_path, SMALL, {"evolve": {"rounds": 1}, "budget": {"price": "100/0"}})
    evolve(config, run_dir=tmp_path / "run", models=provider(priced), listener=listener)
    assert order[0] == "estimate" and "planned at most" in heard[0].note and heard[0].dollars == 0
    assert {"train", "dev", "test"} <= set(order)
    spent = [p.dollars for p in heard if p.dollars is not None]
    assert spent == sorted(spent) and spent[-1] == pytest.approx(0.01 * order.count("call"))


def test_what_the_report_reads_is_there(done: EvolveResult) -> None:
    with Run.open(done.run_dir) as run:
        start, final, session = (run.events.get(k) for k in ("start", "final", "session/1"))
        assert start is not None and final is not None and session is not None
        assert start.data["counts"] == {"train": 20, "dev": 20, "test": 5}
        assert start.data["seed_set"] == final.data["seed"] == done.evolution.seed.id
        assert final.data["final"] == done.final.id and final.data["accepted"]
        assert session.data["calls"] == len(run.calls) and session.data["stopped"] == ""
        assert run.status == "finished"
    assert "sealed test tasks" in done.report.read_text(encoding="utf-8")


def test_the_sealed_test_is_played_once_at_the_end(done: EvolveResult) -> None:
    with Run.open(done.run_dir) as run:
        ids = [t.id for t in run.trajectories]
        test = [n for n, id in enumerate(ids) if id.split("/")[2].startswith("test-")]
    assert test == list(range(len(ids) - 10, len(ids)))
    assert [(r.suite, r.system, r.n) for r in done.results] == [("test", "seed", 5), ("test", "best", 5)]


def test_a_seed_that_stays_is_still_compared_with_the_best(tmp_path: Path) -> None:
    result = run_kitchen(tmp_path, {"evolve": {"dev": 10, "test": 5}})
    assert not result.evolution.accepted and "not beyond noise" in result.evolution.reason
    assert result.final == result.evolution.seed != result.evolution.best
    assert [r.system for r in result.results] == ["seed", "best"]
    assert "not adopted" in result.report.read_text(encoding="utf-8")


def test_replay_of_a_finished_run_needs_no_model_and_gives_the_same_report(done: EvolveResult) -> None:
    before, rows = done.report.read_bytes(), tables(done.run_dir)
    done.report.unlink()
    with Run.open(done.run_dir) as run:
        config, sessions = run.config, sum(e.kind == "session" for e in run.events)
    again = evolve(config, run_dir=done.run_dir, replay=True)
    assert again.report.read_bytes() == before
    assert tables(done.run_dir) == rows and again.evolution == done.evolution
    with Run.open(done.run_dir) as run:
        assert sum(e.kind == "session" for e in run.events) == sessions


def test_a_stop_writes_a_partial_report_and_a_session_that_says_why(tmp_path: Path) -> None:
    with pytest.raises(BudgetStop):
        run_kitchen(tmp_path, SMALL, {"budget": {"max_calls": 5}})
    with Run.open(tmp_path / "run") as run:
        session = run.events.get("session/1")
        assert session is not None and session.data["stopped"].startswith("BudgetStop: --max-calls 5")
        assert run.status == "interrupted"
    assert "(partial)" in (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    run_kitchen(tmp_path, SMALL)
    with Run.open(tmp_path / "run") as run:
        assert "session/2" in run.events and run.status == "finished"


# --- evaluate and export ---


def test_evaluate_plays_one_split_and_reports(tmp_path: Path) -> None:
    config = kitchen.settings(tmp_path)
    done = evaluate(config, run_dir=tmp_path / "eval", models=provider(), split="dev", limit=10)
    assert (done.result.suite, done.result.n, done.result.mean) == ("dev", 10, 0.8)
    assert done.report.is_file()
    with Run.open(done.run_dir) as run:
        assert {t.split for t in run.trajectories} == {"dev"} and run.status == "finished"


def test_the_seed_decides_what_a_drawing_agent_does(tmp_path: Path) -> None:
    def moves(seed: int, name: str) -> list[str]:
        config = kitchen.settings(tmp_path, {"seed": seed, "agent": "random"})
        done = evaluate(config, run_dir=tmp_path / name, models=provider(), split="dev", limit=5)
        with Run.open(done.run_dir) as run:
            return [step.action for t in sorted(run.trajectories, key=lambda t: t.id) for step in t.steps]

    assert moves(1, "a") == moves(1, "b") != moves(2, "c")


def test_the_exported_prompt_scores_what_it_scored(done: EvolveResult, tmp_path: Path) -> None:
    file = tmp_path / "best.json"
    file.write_text(export(done.run_dir, "json"), encoding="utf-8")
    assert LESSON.search(file.read_text(encoding="utf-8"))
    config = kitchen.settings(tmp_path)
    again = evaluate(config, run_dir=tmp_path / "eval", models=provider(), prompt_file=file, limit=5)
    assert again.result.mean == done.results[1].mean == 1.0
