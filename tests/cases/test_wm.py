"""Field cases WM: predictions, the judge's score and the evolution of prompts, played through the product."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite import jobs
from roleagent_lite.ask import Asker, load_prompts
from roleagent_lite.errors import ReplyError
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.store import Event, Run
from roleagent_lite.types import Progress, Reply, Request
from tests.evolve.kitchen import settings
from tests.fake_server import Answer, FakeServer, Say, Seen
from tests.kill_runner import command
from tests.kitchen_server import SMALL, config_file, module, serve
from tests.scripted_world import provider, rule

# --- WM-01: the judge, asked as any module is ---


async def judged(said: str, *more: str) -> tuple[float | None, int]:
    """The score of a judge that says `said` (and then `more`), and how often it was asked."""
    replies = [said, *more]
    asked: list[Request] = []

    def judge(request: Request) -> str:
        asked.append(request)
        return replies[min(len(asked), len(replies)) - 1]

    prompts = load_prompts("v1")
    inputs = dict.fromkeys(prompts.module("judge").inputs, "something")
    asker = Asker(dict.fromkeys(("agent", "world", "reflector", "judge"), ScriptedModel(judge)), prompts)
    try:
        answer = await asker.ask("judge", inputs, prompt_set=None, sample="s")
    except ReplyError:
        return None, len(asked)
    return answer.values["score"], len(asked)


@pytest.mark.parametrize(
    ("said", "score"),
    [
        ("8/10", 0.8), ("Score: 0.8", 0.8), ("There are 3 issues. Final score: 7 out of 10", 0.7),
        ('{"score":"0.8"}', 0.8), (".8", 0.8), ("85%", 0.85), ('{"score": 0.8}', 0.8),
        ('{"score": "8/10"}', 0.8), ('{"score": "85 %"}', 0.85),
        ("**Score:** 8/10", 0.8), ('```json\n{"score": 1}\n```', 1.0), ("0", 0.0),
        ("I counted 12 objects of 40.\nScore: 0.5", 0.5), ('{"Score": 0.25, "reason": "2 of 8"}', 0.25),
    ],
)  # fmt: skip
async def test_wm_01_the_judge_s_score_is_read_on_its_scale(said: str, score: float) -> None:
    found, asked = await judged(said)
    assert found == pytest.approx(score) and asked == 1


@pytest.mark.parametrize(
    "said", ['{"score": 85}', "-1", "NaN", '{"score": "NaN"}', '{"score": -0.1}', "120%", "11/10", "Infinity",
             '{"score": null}', "9" * 5000, '{"score": 1e999}', "7 or 8 out of 10, or 9/10"],
)  # fmt: skip
async def test_wm_01_what_is_off_the_scale_is_asked_again_then_missing(said: str) -> None:
    assert await judged(said) == (None, 2)
    assert await judged(said, '{"score": 0.5}') == (0.5, 2)


# --- WM-03 ---


def evolved(
    folder: Path, answer: Callable[[Request], Any], **over: Any
) -> tuple[str, dict[str, Any], list[str]]:
    """Report, its data and what the listener heard, of a short evolution in the kitchen."""
    told: list[Progress] = []
    config = settings(folder, SMALL, {"workers": 1}, over)
    jobs.evolve(config, run_dir=folder / "run", models=provider(answer), listener=told.append)
    data = json.loads((folder / "run" / "report.json").read_text(encoding="utf-8"))
    return (folder / "run" / "report.md").read_text(encoding="utf-8"), data, [p.note for p in told if p.note]


def test_wm_03_predictions_that_are_left_out_are_said_with_the_rule(tmp_path: Path) -> None:
    def forgetful(request: Request) -> str:
        said = json.loads(rule(request))
        if request.module == "act" and "on the counter" in request.messages[-1].content:
            said.pop("predictions", None)
        return json.dumps(said)

    report, _, _ = evolved(tmp_path, forgetful)
    with Run.open(tmp_path / "run") as run:
        steps = [s for t in run.trajectories if t.split == "train" for s in t.steps]
        without = sum(not any(s.predictions) for s in steps)
        assert 0 < without < len(steps)
        for credit in run.credits:
            trajectory = run.trajectories.get(credit.trajectory)
            assert trajectory is not None
            for step, row, reward, earned in zip(
                trajectory.steps, credit.alignment, credit.reward, credit.task_return, strict=True
            ):
                if not any(step.predictions):
                    assert all(a is None for a in row) and reward == pytest.approx(earned)
    assert f"{round(100 * without / len(steps))} %" in report


def test_wm_03_no_prediction_at_all_is_told_at_the_end_of_the_first_episode(tmp_path: Path) -> None:
    def mute(request: Request) -> str:
        said = json.loads(rule(request))
        said.pop("predictions", None)
        return json.dumps(said)

    report, _, notes = evolved(tmp_path, mute)
    assert sum("prediction" in note for note in notes) == 1
    assert "prediction" in report


# --- WM-05 ---


def candidates(run: Path) -> list[Event]:
    with Run.open(run) as opened:
        return [e for e in opened.events if e.kind == "candidate"]


@pytest.mark.parametrize(
    ("proposal", "why"),
    [
        (Say('{"text": "```\\nOpen the', "length"), "cut at max tokens"),
        (Say("<think>I would rather", "stop"), None),
        (Say('{"text": "<think>Open the microwave"}'), "thinking tag"),
        (Say('{"text": "Do this:\\n```\\nopen"}'), "never closes"),
        (Say('{"text": ""}'), None),
        (Say('{"text": "Look at {observation}."}'), "{observation}"),
        (Say('{"why": "nothing"}'), None),
    ],
    ids=["cut", "half thought", "thinking in it", "fence", "empty", "placeholder", "no text"],
)
def test_wm_05_an_unfit_proposal_is_rejected_logged_and_the_old_prompt_kept(
    proposal: Say, why: str | None, tmp_path: Path
) -> None:
    config_file(tmp_path, {"aiw": {"retrieve": "none", "embedder": "none"}})

    def script(seen: Seen) -> Answer:
        return proposal if module(seen) == "reflect" else serve(seen)

    with FakeServer(script) as fake:
        words = ["evolve", "--config", "kitchen.toml", "--model", "fake", "--base-url", fake.url]
        code, out, err = command(*words, "--run", "run", "--set", "evolve.components=['act.instructions']",
                                 cwd=tmp_path)  # fmt: skip
    assert code == 0 and "Traceback" not in err, err
    rounds = candidates(tmp_path / "runs" / "run")
    assert rounds and all(e.data["child"] is None and not e.data["accepted"] for e in rounds)
    assert all(e.data["reason"].strip() for e in rounds)
    if why is not None:
        learnt = [e.data["reason"] for e in rounds if "no failures" not in e.data["reason"]]
        assert learnt and all(why in reason for reason in learnt), learnt
    with Run.open(tmp_path / "runs" / "run") as run:
        assert len(run.prompt_sets) == 1
    assert "seed prompt stays" in out


def test_wm_05_nothing_to_learn_from_skips_the_round(tmp_path: Path) -> None:
    def always_right(request: Request) -> str:
        if request.module != "act":
            raise AssertionError(f"{request.module} was asked though nothing failed")
        user = "".join(m.content for m in request.messages)
        seen = user.partition("You see:")[2]
        if "heat the" in user.partition("Goal:")[2][:40] and "You open the microwave" not in seen \
                and "in your hand" in seen and ", hot." not in seen:  # fmt: skip
            return json.dumps({"action": "open microwave", "predictions": ["It opens."]})
        calm = Request(request.role, request.module, request.messages, 0.0, schema=request.schema)
        return rule(calm)

    _, data, _ = evolved(tmp_path, always_right, evolve={"components": ["act.instructions"]})
    assert data["seed"] == data["final"]
    rounds = candidates(tmp_path / "run")
    assert len(rounds) == SMALL["evolve"]["rounds"]
    assert all("no failures to learn from" in e.data["reason"] for e in rounds)


def test_wm_05_a_prompt_that_is_worse_is_not_adopted(tmp_path: Path) -> None:
    def worsened(request: Request) -> Any:
        if request.module == "reflect":
            return '{"text": "Be silent."}'
        if request.module == "act" and "Be silent." in request.messages[0].content:
            return Reply('{"action": "look"}')
        return rule(request)

    report, data, _ = evolved(tmp_path, worsened, evolve={"components": ["act.instructions"]})
    assert data["seed"] == data["final"]
    assert all(not e.data["accepted"] for e in candidates(tmp_path / "run"))
    assert "Be silent." not in report.partition("## The prompt")[0]
