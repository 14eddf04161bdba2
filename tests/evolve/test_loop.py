"""The main job in the scripted kitchen: it finds the lesson, the ablations don't, and it repeats itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.errors import BudgetStop, ConfigError, FatalModelError, Interrupted
from roleagent_lite.evolve import propose
from roleagent_lite.jobs import EvolveResult, evolve, evolve_async
from roleagent_lite.store import Run
from roleagent_lite.types import Request
from roleagent_lite.wia import credit_all
from tests.evolve.kitchen import SMALL, run_kitchen, settings, tables
from tests.scripted_world import LESSON, provider, rule

ABLATED = {"wia": {"feedback": "none"}, "aiw": {"diagnose": "none", "retrieve": "none"}}


class Power:
    """Fails at the n-th request, as a machine that loses power does: whatever was in flight is lost."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> str:
        if self.at is not None and len(self.asked) >= self.at:
            raise Interrupted("power cut")
        self.asked.append(request)
        return rule(request)


def events(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    with Run.open(run_dir) as run:
        return [dict(event.data) for event in run.events if event.kind == kind]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> EvolveResult:
    return run_kitchen(tmp_path_factory.mktemp("full"))


def test_the_lesson_is_found_within_the_budget(full: EvolveResult) -> None:
    assert full.evolution.accepted, full.evolution.reason
    assert any(LESSON.search(text) for text in full.final.texts.values())
    seed, best = full.results
    assert (seed.system, best.system) == ("seed", "best")
    assert seed.mean is not None and best.mean is not None and best.mean > seed.mean


def test_with_wia_and_aiw_feedback_ablated_it_is_not_found_within_the_same_budget(tmp_path: Path) -> None:
    result = run_kitchen(tmp_path, ABLATED)
    assert not result.evolution.accepted
    assert not any(LESSON.search(t) for c in result.evolution.candidates for t in c.texts.values())
    tried = [e for e in events(result.run_dir, "candidate") if e["component"]]
    assert tried, "the ablated reflector was never asked: the comparison would say nothing"


@pytest.mark.parametrize(
    "over",
    [
        {"wia": {"feedback": "none"}},
        {"aiw": {"diagnose": "none"}},
        {"aiw": {"retrieve": "none"}},
        {"aiw": {"retrieve": "random"}},
        {"aiw": {"retrieve": "task_text"}},
        {"aiw": {"retrieve": "llm"}},
        {"wia": {"predict": "off"}},
        {"wia": {"predict": "separate"}},
        {"evolve": {"accept": "score"}},
    ],
    ids=str,
)
def test_every_ablation_is_a_name_and_runs(tmp_path: Path, over: dict[str, Any]) -> None:
    models = provider(lambda r: '{"predictions": ["You go."]}' if r.module == "predict" else rule(r))
    result = run_kitchen(tmp_path, SMALL, over, models=models)
    assert (result.run_dir / "report.md").is_file()
    assert len(events(result.run_dir, "round")) == 2
    with Run.open(result.run_dir) as run:
        assert run.status == "finished"
        if over.get("aiw", {}).get("diagnose") == "none":
            assert len(run.diagnoses) == 0
        foretold = any(s.predictions for t in run.trajectories if t.split == "train" for s in t.steps)
        assert foretold == (over.get("wia", {}).get("predict") != "off")


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"aiw": {"diagnose": "lm"}}, "aiw.diagnose"),
        ({"aiw": {"retrieve": "radnom"}}, "did you mean 'random'"),
        ({"wia": {"feedback": "all"}}, "wia.feedback"),
        ({"wia": {"scorer": "token"}}, "did you mean 'tokens'"),
        ({"evolve": {"accept": "pair"}}, "did you mean 'paired'"),
        ({"evolve": {"components": ["act.instruction"]}}, "did you mean 'act.instructions'"),
        ({"evolve": {"components": []}}, "names no text"),
    ],
    ids=str,
)
def test_an_unknown_name_is_refused_before_any_call(tmp_path: Path, over: dict[str, Any], words: str) -> None:
    power = Power(None)
    with pytest.raises(ConfigError, match=words):
        run_kitchen(tmp_path, SMALL, over, models=provider(power))
    assert power.asked == []


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> EvolveResult:
    """40 rounds of 5: 200 draws. Only demonstrations evolve, so the family goes on failing."""
    over = {
        "evolve": {
            "rounds": 40, "tasks_per_round": 5, "group": 1, "dev": 1, "test": 1,
            "components": ["act.demonstrations"],
        }
    }  # fmt: skip
    return run_kitchen(tmp_path_factory.mktemp("long"), over)


def test_the_failing_family_is_played_more_and_no_task_is_starved(long: EvolveResult) -> None:
    rounds = events(long.run_dir, "round")
    played: Counter[str] = Counter()
    with Run.open(long.run_dir) as run:
        types = {task.id: task.params["family"] for task in run.tasks}
        first = {(t.round, t.task): t for t in run.trajectories if t.split == "train"}
    assert len(first) == sum(len(r["drawn"]) for r in rounds) == 200
    for _, task in first:
        played[types[task]] += 1
    share = played["heat"] / sum(played.values())
    assert share > 0.25, f"uniform would be 0.20, played {share:.3f}"
    floor = (1 - 0.3) / 20
    assert min(p for r in rounds for p in r["p"].values()) >= floor - 1e-12
    assert all(abs(sum(r["p"].values()) - 1) < 1e-9 for r in rounds)


def test_the_game_played_is_the_one_drawn(long: EvolveResult) -> None:
    drawn = {r["round"]: list(r["drawn"]) for r in events(long.run_dir, "round")}
    with Run.open(long.run_dir) as run:
        things = {task.id: task.params["object"] for task in run.tasks}
        seen: dict[int, list[str]] = {}
        for t in run.trajectories:
            if t.split != "train":
                continue
            assert t.task in drawn[t.round]
            assert f"The {things[t.task]} is on the counter" in t.steps[0].observation
            seen.setdefault(t.round, []).append(t.task)
    assert {k: set(v) for k, v in seen.items()} == {k: set(v) for k, v in drawn.items()}


def test_dev_and_test_never_reach_diagnosis_or_atlas(full: EvolveResult) -> None:
    with Run.open(full.run_dir) as run:
        splits = {run.trajectories.get(d.trajectory).split for d in run.diagnoses}  # type: ignore[union-attr]
        assert splits == {"train"}
        assert {t.split for t in run.trajectories} == {"train", "dev", "test"}
        credited = {run.trajectories.get(c.trajectory).split for c in run.credits}  # type: ignore[union-attr]
        assert credited == {"train"}
        asked = [c.request for c in run.calls if c.request.module in ("diagnose", "retrieve", "reflect")]
        sent = "\n".join(m.content for r in asked for m in r.messages)
        for thing in ("egg", "plate", "bowl", "tomato", "pan", "bread", "kettle", "spoon"):
            assert f"the {thing}" not in sent
    for event in events(full.run_dir, "curriculum"):
        assert all(c["task_id"].startswith("train-") for c in event["chosen"])


def test_an_accepted_child_that_got_over_a_mode_is_named_for_it(full: EvolveResult) -> None:
    fixed = events(full.run_dir, "fixed")
    assert {e["mode"] for e in fixed} == {"missing_precondition"}
    assert {e["prompt_set"] for e in fixed} <= {c.id for c in full.evolution.candidates[1:]}


def test_every_credit_is_recomputed_from_the_facts_alone(full: EvolveResult) -> None:
    with Run.open(full.run_dir) as run:
        train = [t for t in run.trajectories if t.split == "train"]
        again = {c.trajectory: c for c in credit_all(train, run.config.wia)}
        assert again == {c.trajectory: c for c in run.credits}
    assert again and any(any(c.predictive) for c in again.values())


def test_dev_is_played_once_at_temperature_0_without_predictions(full: EvolveResult) -> None:
    with Run.open(full.run_dir) as run:
        dev = [t for t in run.trajectories if t.split == "dev"]
        calls = {c for t in dev for s in t.steps for c in s.call_ids}
        requests = [run.calls.get(c).request for c in calls]  # type: ignore[union-attr]
        ids = [t.id for t in dev]
    assert {r.temperature for r in requests} == {0.0}
    assert len(ids) == len(set(ids)) == 20 * len(full.evolution.candidates)
    assert not any(p for t in dev for s in t.steps for p in s.predictions)


def test_parent_and_child_play_the_same_tasks_and_seeds(full: EvolveResult) -> None:
    pairs = [e for e in events(full.run_dir, "candidate") if e["child"]]
    assert pairs
    with Run.open(full.run_dir) as run:
        for event in pairs:
            who = {
                key: sorted(
                    (t.task, t.rollout)
                    for t in run.trajectories
                    if t.split == "train" and t.round == event["round"] and t.prompt_set == event[key]
                )
                for key in ("parent", "child")
            }
            assert who["parent"] == who["child"] != []


def test_the_same_seed_and_replies_give_the_same_run(full: EvolveResult, tmp_path: Path) -> None:
    again = run_kitchen(tmp_path)
    assert tables(again.run_dir)["trajectories"] == tables(full.run_dir)["trajectories"]
    assert tables(again.run_dir)["calls"].keys() == tables(full.run_dir)["calls"].keys()
    assert again.evolution == full.evolution


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    one = run_kitchen(tmp_path, SMALL, {"workers": 1}, name="one")
    many = run_kitchen(tmp_path, SMALL, {"workers": 16}, name="many")
    assert tables(one.run_dir) == tables(many.run_dir)


async def test_res_03_a_run_stopped_anywhere_resumes_to_the_same_tables(tmp_path: Path) -> None:
    whole = Power(None)
    config = settings(tmp_path, SMALL)
    await evolve_async(config, run_dir=tmp_path / "whole", models=provider(whole))
    expected, total = tables(tmp_path / "whole"), len(whole.asked)
    for at in (0, 1, 7, total // 3, total // 2, total - 1):
        folder = tmp_path / f"cut{at}"
        cut, rest = Power(at), Power(None)
        with pytest.raises(Interrupted, match="power cut"):
            await evolve_async(config, run_dir=folder, models=provider(cut))
        with Run.open(folder) as run:
            assert run.status != "finished"
            stored = len(run.calls)
        await evolve_async(config, run_dir=folder, models=provider(rest))
        assert tables(folder) == expected
        assert len(rest.asked) == total - stored
        assert at - stored <= config.workers


async def test_a_reflector_that_ends_the_run_is_asked_once_and_its_error_comes_out(tmp_path: Path) -> None:
    asked: list[str] = []

    def dying(request: Request) -> str:
        asked.append(request.module)
        if request.module == "reflect":
            raise FatalModelError("wrong key …abcd", status=401)
        return rule(request)

    with pytest.raises(FatalModelError, match="wrong key"):
        await evolve_async(settings(tmp_path), run_dir=tmp_path / "run", models=provider(dying))
    assert asked.count("reflect") == 1 and asked[-1] == "reflect"
    assert (tmp_path / "run" / "report.md").is_file()


async def test_a_fault_of_our_own_in_the_proposer_is_not_swallowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> str:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(propose, "render", broken)
    with pytest.raises(ZeroDivisionError, match="ours"):
        await evolve_async(settings(tmp_path), run_dir=tmp_path / "run", models=provider())


def test_acc_03_a_cap_stops_all_roles_keeps_what_is_done_and_resumes(tmp_path: Path) -> None:
    with pytest.raises(BudgetStop, match="--max-calls 60 reached"):
        run_kitchen(tmp_path, {"budget": {"max_calls": 60}})
    with Run.open(tmp_path / "run") as run:
        assert run.status == "interrupted"
        assert len(run.calls) == 60
        kept = set(run.trajectories.keys())
        assert kept and not any(t.outcome.kind == "infrastructure_error" for t in run.trajectories)
    assert "(partial)" in (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    power = Power(None)
    result = run_kitchen(tmp_path, models=provider(power))
    with Run.open(result.run_dir) as run:
        assert len(run.calls) == 60 + len(power.asked)
        assert kept < set(run.trajectories.keys())


async def test_an_interrupt_ends_the_thread_and_keeps_what_is_done(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def slow(request: Request) -> str:
        if request.module == "diagnose":
            started.set()
            await asyncio.Event().wait()
        return rule(request)

    config = settings(tmp_path, {"evolve": {"dev": 5}})
    job = asyncio.ensure_future(evolve_async(config, run_dir=tmp_path / "run", models=provider(slow)))
    await asyncio.wait_for(started.wait(), 60)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    with Run.open(tmp_path / "run") as run:
        assert run.status == "interrupted" and len(run.trajectories) > 0
        stopped = next(e.data["stopped"] for e in run.events if e.kind == "session")
        assert stopped.startswith("CancelledError")
    await evolve_async(config, run_dir=tmp_path / "run", models=provider())


def test_no_round_at_all_still_tests_the_seed(tmp_path: Path) -> None:
    result = evolve(
        settings(tmp_path, SMALL, {"evolve": {"rounds": 0}}), run_dir=tmp_path / "run", models=provider()
    )
    assert [r.system for r in result.results] == ["seed"]
    assert result.evolution.reason == "no candidate entered"


def test_rounds_without_a_failure_are_skipped_and_say_so(tmp_path: Path) -> None:
    over = {"evolve": {"components": ["act.playbook"]}}
    models = provider(lambda r: rule(r) if r.module != "act" else told(r))
    result = run_kitchen(tmp_path, SMALL, over, models=models)
    assert {e["reason"] for e in events(result.run_dir, "candidate")} == {
        "no failures to learn from: every attempt was solved"
    }


def told(request: Request) -> str:
    """The agent of someone who was told the lesson already."""
    from dataclasses import replace

    system = request.messages[0]
    better = replace(system, content=f"{system.content}\nOpen the microwave before you heat something.")
    return rule(replace(request, messages=(better, *request.messages[1:]), temperature=0.0))
