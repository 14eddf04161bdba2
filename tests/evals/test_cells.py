"""cells: who plays which cell, what a resume asks again, where the teacher's rows come from, what is refused.

The source is a run of `evolve` in the scripted kitchen, whose prompt learns one lesson. The stand-ins: a base
that heeds the lesson where its prompt holds it, and an adapter that knows it by heart.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.ask import load_prompts, make_prompt_set
from roleagent_lite.config import Budget, from_mapping
from roleagent_lite.errors import BudgetStop, ConfigError
from roleagent_lite.evals.cells import CELLS, ROLE_OF, ROLES_WORDS, FourCells, _settings, four_cells
from roleagent_lite.jobs import evaluate
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.report import cells as report
from roleagent_lite.store import Run
from roleagent_lite.types import Message, Model, Progress, Reply, Request, Role
from tests.evals.make import toy_file, toy_suite
from tests.evolve.kitchen import run_kitchen
from tests.kill_runner import die_after, finish, start
from tests.scripted_world import rows, rule, write_tasks

SOURCE: dict[str, Any] = {"evolve": {"rounds": 2, "tasks_per_round": 5, "group": 2, "dev": 20, "test": 20}}


def by_heart(request: Request) -> str:
    """The kitchen's agent with the lesson always before it."""
    system = Message("system", "Open the microwave before you heat something.")
    return rule(Request(request.role, request.module, (system, *request.messages), schema=request.schema))


def stand_ins() -> dict[Role, ScriptedModel]:
    return {
        ROLE_OF["base"]: ScriptedModel(rule, "small"),
        ROLE_OF["adapter"]: ScriptedModel(by_heart, "small+lora"),
        ROLE_OF["teacher"]: ScriptedModel(rule, "scripted-kitchen"),
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cells")
    assert run_kitchen(folder, SOURCE, name="source").evolution.accepted
    return folder / "source"


def played(source: Path, out: Path, models: dict[Role, Any] | None = None, **how: Any) -> FourCells:
    given: dict[Role, Model] = models or stand_ins()  # type: ignore[assignment]
    return four_cells(source, "small+lora", base="small", run_dir=out, models=given, **how)


def means(found: FourCells) -> dict[str, float | None]:
    return {result.system: result.mean for result in found.results}


def test_four_cells_on_the_runs_own_sealed_set(source: Path, tmp_path: Path) -> None:
    found = played(source, tmp_path / "r")
    assert [r.system for r in found.results][:4] == list(CELLS)
    assert means(found) == {
        "base+seed": 0.8, "base+evolved": 1.0, "adapter+seed": 1.0, "adapter+evolved": 1.0,
        "teacher+seed": 0.8, "teacher+evolved": 1.0,
    }  # fmt: skip
    test = [row["id"] for row in rows() if row["split"] == "test"]
    assert all(list(result.scores) == test for result in found.results)
    with Run.open(tmp_path / "r") as run, Run.open(source) as first:
        assert run.status == "finished" and len(run.trajectories) == 80
        assert [e.data["text"] for e in run.events if e.kind == "note"] == [ROLES_WORDS]
        models = {t.model for t in run.trajectories}
        assert models == {"small", "small+lora"}
        names = {str(e.data["prompt_set"]): str(e.data["system"]) for e in run.events if e.kind == "system"}
        for call in run.calls:  # no cell asks under another's prompt or with another's model
            cell = run.trajectories.get("/".join(call.request.sample.split("/")[:3]))
            assert cell is not None and cell.model == call.model
            evolved = names[cell.prompt_set].endswith("evolved")
            assert ("open the microwave" in call.request.messages[0].content.lower()) == evolved
            assert "predictions" not in call.request.schema["properties"]  # type: ignore[index]
        started, ended = first.events.get("start"), first.events.get("final")
        told = run.events.get("cells")
        assert told is not None and started is not None and ended is not None
        assert told.data["seed_prompt"] == started.data["seed_set"]
        assert told.data["evolved_prompt"] == ended.data["final"]


def test_the_estimate_is_told_before_the_first_call(source: Path, tmp_path: Path) -> None:
    models, heard = stand_ins(), []

    def listen(progress: Progress) -> None:
        heard.append((progress.stage, progress.note, sum(m.requests for m in models.values())))

    played(source, tmp_path / "r", models, limit=5, listener=listen)
    stage, note, asked = heard[0]
    assert (stage, asked) == ("estimate", 0) and "planned at most 240 calls" in note  # 4 x 5 x 6 steps, twice
    assert all(name in note for name in CELLS)


def test_the_teachers_rows_come_from_the_run_where_it_played_these_tasks(
    source: Path, tmp_path: Path
) -> None:
    models = stand_ins()
    found = played(source, tmp_path / "a", models, limit=10)
    teacher = {r.system: r for r in found.results[4:]}
    assert set(teacher) == {"teacher+seed", "teacher+evolved"} and models[ROLE_OF["teacher"]].requests == 0
    assert found.teacher == "from the sealed test of run source, under the same conditions"
    row = teacher["teacher+evolved"]
    assert row.n == 10 and row.model == "scripted-kitchen" and row.trajectories == {}
    with Run.open(source) as run:  # counted over these ten tasks alone
        mine = [t for t in run.trajectories if t.split == "test" and t.task in row.scores]
        calls = {
            c
            for t in mine
            if t.prompt_set == found_prompt(tmp_path / "a")
            for s in t.steps
            for c in s.call_ids
        }
    assert row.calls == len(calls) > 10


def found_prompt(run_dir: Path) -> str:
    with Run.open(run_dir) as run:
        event = run.events.get("cells")
        assert event is not None
        return str(event.data["evolved_prompt"])


def test_the_teacher_is_played_where_asked_and_else_said_to_be_absent(source: Path, tmp_path: Path) -> None:
    """Other tasks than the run's: it knows nothing of them."""
    other = tmp_path / "other.jsonl"
    lines = write_tasks(tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines()
    mine = [json.loads(line) for line in lines if '"test"' in line and "heat" in line]
    mine[0]["params"]["object"] = "wok"
    mine[0]["goal"] = "heat the wok and put it on the table"
    other.write_text("".join(json.dumps(row) + "\n" for row in mine), encoding="utf-8")
    found = played(source, tmp_path / "a", tasks=other)
    assert [r.system for r in found.results] == list(CELLS)
    assert found.teacher == (
        "not played: run source scored 3 of these 4 tasks under these prompts; --teacher plays it"
    )
    models = stand_ins()
    found = played(source, tmp_path / "b", models, tasks=other, teacher=True)
    assert found.results[-1].system == "teacher+evolved" and found.results[-1].mean == 1.0
    assert models[ROLE_OF["teacher"]].requests > 0 and found.teacher == "played here"


def test_a_run_made_by_the_base_itself_has_no_other_teacher(source: Path, tmp_path: Path) -> None:
    models = {**stand_ins(), ROLE_OF["base"]: ScriptedModel(rule, "scripted-kitchen")}
    found = played(source, tmp_path / "r", models, limit=5)
    assert len(found.results) == 4
    assert found.teacher == "the base itself made the run: its cells are the teacher's"


def test_a_cap_stops_and_the_same_call_goes_on_without_asking_again(source: Path, tmp_path: Path) -> None:
    whole = stand_ins()
    played(source, tmp_path / "whole", whole, limit=5)
    models = stand_ins()
    with pytest.raises(BudgetStop, match="--max-calls 30 reached"):
        played(source, tmp_path / "r", models, limit=5, budget=Budget(max_calls=30))
    found = played(source, tmp_path / "r", models, limit=5)
    assert sum(m.requests for m in models.values()) == sum(m.requests for m in whole.values())
    assert means(found)["base+seed"] == 0.8
    again = stand_ins()
    played(source, tmp_path / "r", again, limit=5)
    assert sum(m.requests for m in again.values()) == 0


def one_session(source: Path, out: Path, log: Path, die_at: int | None) -> None:
    """Plays the cells; a line in `log` for each request that reaches a model."""
    if die_at is not None:
        die_after(die_at)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def logged(answer: Any) -> Any:
        def told(request: Request) -> Any:
            os.write(
                file,
                request.sample.encode() + b"\n" + json.dumps(request.messages[-1].content).encode() + b"\n",
            )
            return answer(request)

        return told

    models: dict[Role, Any] = {
        ROLE_OF["base"]: ScriptedModel(logged(rule), "small"),
        ROLE_OF["adapter"]: ScriptedModel(logged(by_heart), "small+lora"),
        ROLE_OF["teacher"]: ScriptedModel(logged(rule), "scripted-kitchen"),
    }
    played(source, out, models, limit=5, report=report.write)


def test_res_03_kill_9_in_the_middle_buys_nothing_twice_and_changes_nothing(
    source: Path, tmp_path: Path
) -> None:
    assert finish(start(one_session, source, tmp_path / "whole", tmp_path / "whole.log", None)) == 0
    out, log = tmp_path / "r", tmp_path / "log"
    assert finish(start(one_session, source, out, log, 90_000)) == -9
    with Run.open(out) as run:
        stored = {call.request.sample + call.request.messages[-1].content for call in run.calls}
    before = log.read_text(encoding="utf-8")
    assert stored and finish(start(one_session, source, out, log, None)) == 0
    later = log.read_text(encoding="utf-8").removeprefix(before).splitlines()
    asked = {a + json.loads(b) for a, b in zip(later[::2], later[1::2], strict=True)}
    assert asked and not asked & stored
    cells = [json.loads((tmp_path / name / "cells.json").read_text()) for name in ("whole", "r")]
    for one in cells:
        one.pop("run")
        for cell in one["cells"].values():
            cell.pop("seconds")
    assert cells[0] == cells[1]


def test_what_must_be_the_same_at_a_resume(source: Path, tmp_path: Path) -> None:
    played(source, tmp_path / "r", limit=5)
    with pytest.raises(ConfigError, match="suite"):
        played(source, tmp_path / "r", limit=6)
    with pytest.raises(ConfigError, match=r"models\.judge"):
        played(source, tmp_path / "r", limit=5, teacher=True)
    other = {**stand_ins(), ROLE_OF["adapter"]: ScriptedModel(by_heart, "small+other")}
    with pytest.raises(ConfigError, match=r"asked 'small\+lora' then, 'small\+other' now"):
        played(source, tmp_path / "r", other, limit=5)
    prompt = tmp_path / "p.json"
    prompt.write_text(json.dumps({"act.playbook": "- Be quick."}), encoding="utf-8")
    with pytest.raises(ConfigError, match="another seed prompt"):
        played(source, tmp_path / "r", limit=5, seed_prompt=prompt)


def test_prompts_of_ones_own_take_the_runs_place(source: Path, tmp_path: Path) -> None:
    """What was trained under another short prompt is compared under that one; the teacher never played it."""
    prompt = tmp_path / "none.json"
    prompt.write_text(json.dumps(dict.fromkeys(("act.instructions", "act.playbook"), "")), encoding="utf-8")
    found = played(source, tmp_path / "r", limit=5, seed_prompt=prompt)
    assert [r.system for r in found.results] == [*CELLS, "teacher+evolved"]
    sent = {r.system: (r.usage.input or 0) / (r.calls or 1) for r in found.results}
    assert sent["adapter+seed"] < sent["adapter+evolved"] - 50


def test_what_is_wrong_is_said_before_anything_is_played(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="base and adapter are both 'small'"):
        four_cells(source, "small", base="small", run_dir=tmp_path / "r")
    file = tmp_path / "a.gguf"
    with pytest.raises(ConfigError, match="played beside the embedded model, and the base is 'small'"):
        four_cells(source, file, base="small", run_dir=tmp_path / "r")
    with pytest.raises(ConfigError, match=r"a\.gguf"):
        four_cells(source, file, run_dir=tmp_path / "r")
    assert not (tmp_path / "r").exists()
    same = tmp_path / "same.json"
    with Run.open(source) as run:
        seed = run.prompt_sets.get(str(run.events.get("start").data["seed_set"]))  # type: ignore[union-attr]
        assert seed is not None
        same.write_text(json.dumps(dict(seed.texts)), encoding="utf-8")
    with pytest.raises(ConfigError, match="kept its seed prompt"):
        played(source, tmp_path / "r", evolved_prompt=same)
    with pytest.raises(ConfigError, match=r"has no evolved prompt .*--evolved-prompt FILE"):
        played(tmp_path / "whole", tmp_path / "r") if played(source, tmp_path / "whole", limit=5) else None


def chooser(name: str, likes: str, can_score: bool = True) -> ScriptedModel:
    """Scores the actions of the toy world; `likes` alone decides at the first step."""

    def score(request: Request) -> Reply:
        assert request.choices is not None
        held = "You take the key." in request.messages[-1].content.rpartition("Goal:")[2]
        wanted = "open door" if held else likes
        return Reply("", scores=tuple((-1.0 if c.strip() == wanted else -99.0,) for c in request.choices))

    return ScriptedModel(score, name, can_score=can_score)


def bare(folder: Path) -> Path:
    """A run that ended with another prompt than it began with, written row by row."""
    config = from_mapping({"prompts": "embedded", "tasks": toy_file(folder / "toys.jsonl", 4)})
    seed = load_prompts("embedded").seed_set()
    evolved = make_prompt_set({**seed.texts, "act.playbook": "- Take the key first."})
    with Run.create(folder / "bare", config) as run:
        run.prompt_sets.put(seed)
        run.prompt_sets.put(evolved)
        run.record("start", "start", {"seed_set": seed.id})
        run.record("final", "final", {"final": evolved.id})
    return folder / "bare"


def test_actions_are_chosen_where_both_can_score_them(tmp_path: Path) -> None:
    models = {
        ROLE_OF["base"]: chooser("small", "look around"),
        ROLE_OF["adapter"]: chooser("big", "take key"),
    }
    found = played(bare(tmp_path), tmp_path / "r", models)
    assert means(found) == {
        "base+seed": 0.0, "base+evolved": 0.0, "adapter+seed": 1.0, "adapter+evolved": 1.0
    }  # fmt: skip
    assert "scored 0 of these 4 tasks" in found.teacher
    with Run.open(tmp_path / "r") as run:
        assert {call.request.module for call in run.calls} == {"choose"}
        asked = {t.prompt_set for t in run.trajectories}
        assert len(asked) == 4  # each cell's episodes are its own


def test_base_and_adapter_must_play_alike(tmp_path: Path) -> None:
    models = {
        ROLE_OF["base"]: chooser("small", "look around", can_score=False),
        ROLE_OF["adapter"]: chooser("big", "take key"),
    }
    with pytest.raises(ConfigError, match="one of them can score actions, one cannot"):
        played(bare(tmp_path), tmp_path / "r", models)
    assert sum(model.requests for model in models.values()) == 0


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"base": "embedded", "adapter": "embedded:b.gguf"}, (None, None, 4)),
        ({"base": "small@http://127.0.0.1:1/v1", "adapter": "big"}, ("http://127.0.0.1:2/v1", "K", 8)),
        ({"base": "embedded", "adapter": "big", "teacher": True}, ("http://127.0.0.1:2/v1", "K", 4)),
    ],
)
def test_settings_are_the_runs_with_other_models(changes: dict[str, Any], kept: tuple[Any, ...]) -> None:
    """A server of the run is kept where somebody still asks it; its caps and its replay never are."""
    server = {"base_url": "http://127.0.0.1:2/v1", "api_key_env": "K", "replay": True, "max_tokens": 77}
    config = from_mapping(
        {"model": "teacher", "limits": server, "budget": {"max_calls": 3}, "agent": "generate", "seed": 5}
    )
    given = {"teacher": False, **changes}
    made = _settings(config, toy_suite("x.jsonl"), budget=Budget(max_usd=2.0), **given)
    assert (made.limits.base_url, made.limits.api_key_env, made.workers) == kept
    assert (made.limits.replay, made.limits.max_tokens, made.seed, made.agent) == (False, 77, 5, "generate")
    assert made.budget == Budget(max_usd=2.0) and made.tasks == "x.jsonl"
    assert [made.model_for(ROLE_OF[who]) for who in ("base", "adapter")] == [given["base"], given["adapter"]]
    assert made.model_for(ROLE_OF["teacher"]) == ("teacher" if given["teacher"] else given["base"])


def test_a_baked_adapter_keeps_in_llama_cpp_what_the_long_prompt_did(tmp_path: Path) -> None:
    """All of it for real, on a tiny random model: played under the long prompt, trained under the short one,
    written as a GGUF file and played in the four cells by llama.cpp."""
    pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)
    from roleagent_lite.distill.job import distill
    from roleagent_lite.distill.prepare import prepare
    from roleagent_lite.distill.to_gguf import write_adapter, write_model
    from roleagent_lite.distill.tokenizer import open_tokenizer
    from tests import tiny_bpe
    from tests.distill import local
    from tests.distill.online_world import write_prompts

    folder = tiny_bpe.model("llama")
    write_model(folder, tmp_path / "base.gguf")
    long, short = tmp_path / "long.json", tmp_path / "short.json"
    long.write_text(json.dumps({"act.instructions": "Look at the hall and think of the key. " * 4}))
    short.write_text(json.dumps({"act.instructions": "Act"}))
    base = f"embedded:{tmp_path / 'base.gguf'}"
    tasks = tmp_path / "toys.jsonl"  # all look alike, so that what was learned is all that is needed
    row = '{"id": "%s%d", "env": "tests.toy:Toy", "goal": "Get out of the hall.", "split": "%s"}\n'
    tasks.write_text("".join(row % (split, i, split) for split in ("train", "test") for i in (1, 2)))
    config = {
        "model": base,
        "agent": "choose",
        "prompts": str(write_prompts(tmp_path / "prompts")),
        "workers": 1,
    }
    evaluate(config, run_dir=tmp_path / "run", tasks=tasks, split="train", prompt_file=long)
    (tmp_path / "run" / "prompt.json").write_text(long.read_text())
    recipe = local.recipe(
        model=str(folder), method="sft", sft={"bake": str(short), "per_task": 9},
        train={"epochs": 40, "lr": 0.02, "batch": 4, "micro_batch": 4},
    )  # fmt: skip
    tokenizer = open_tokenizer(str(folder))
    with Run.open(tmp_path / "run") as run:
        assert all(t.solved for t in run.trajectories)
        ready = prepare(run, recipe, tokenizer)
    told = distill(ready, tokenizer, tmp_path / "out")
    write_adapter(Path(told["adapter"]), folder, tmp_path / "a.gguf")
    found = four_cells(
        tmp_path / "run", tmp_path / "a.gguf", base=base, seed_prompt=tmp_path / "out" / "prompt.json",
        evolved_prompt=long, run_dir=tmp_path / "cells", report=report.write,
    )  # fmt: skip
    data = json.loads((tmp_path / "cells" / "cells.json").read_text(encoding="utf-8"))
    cells = data["cells"]
    assert cells["base+evolved"]["rate"]["mean"] == cells["adapter+seed"]["rate"]["mean"] == 1.0
    saved = cells["base+evolved"]["tokens_in_a_call"] - cells["adapter+seed"]["tokens_in_a_call"]
    assert saved == pytest.approx(told["bake"]["saved_a_step"], rel=0.2) and saved > 20
    names = {name: one["model"] for name, one in cells.items()}
    assert names["base+seed"] == "embedded:base" and names["adapter+seed"].startswith("embedded:base+a-")
    with Run.open(tmp_path / "cells") as run:
        scores: dict[str, set[Any]] = {}
        for call in run.calls:
            scores.setdefault(call.model, set()).add(call.reply.scores)
        played_by = {e.data["prompt_set"]: e.data["system"] for e in run.events if e.kind == "system"}
        moves: dict[Any, set[tuple[str, ...]]] = {}
        for t in run.trajectories:
            moves.setdefault(played_by[t.prompt_set], set()).add(tuple(step.action for step in t.steps))
        assert moves["adapter+seed"] == moves["base+evolved"] != moves["base+seed"]
        first, second = scores.values()
        assert not first & second  # the adapter is really there
    assert [r.system for r in found.results] == list(CELLS)


@pytest.mark.slow
@pytest.mark.embedded
def test_four_cells_of_the_embedded_model_itself(tmp_path: Path) -> None:
    """One household task with the real weights and a random adapter: that they play, not how well."""
    pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)
    from benchmarks.export_parity import random_adapter
    from roleagent_lite.distill.recipe import load_recipe
    from roleagent_lite.distill.to_gguf import write_adapter
    from roleagent_lite.distill.weights import model_folder

    recipe = load_recipe("smollm2-cpu")
    random_adapter(recipe, tmp_path / "adapter")
    write_adapter(tmp_path / "adapter", model_folder(recipe.model), tmp_path / "a.gguf")
    none = tmp_path / "none.json"
    none.write_text(json.dumps(dict.fromkeys(("act.instructions", "act.demonstrations"), "")))
    found = four_cells(
        bare(tmp_path), tmp_path / "a.gguf", seed_prompt=none, tasks="household-easy", limit=1,
        run_dir=tmp_path / "cells", report=report.write,
    )  # fmt: skip
    assert [r.system for r in found.results] == list(CELLS) and all(r.n == 1 for r in found.results)
    cells = json.loads((tmp_path / "cells" / "cells.json").read_text(encoding="utf-8"))["cells"]
    for who in ("base", "adapter"):  # the demonstration and the instructions are gone
        assert cells[f"{who}+evolved"]["tokens_in_a_call"] > cells[f"{who}+seed"]["tokens_in_a_call"] + 80
        assert cells[f"{who}+seed"]["usage"]["dollars"] == 0.0
    assert cells["base+seed"]["model"] == "embedded:SmolLM2-135M-Instruct.Q4_1"
    assert cells["adapter+seed"]["model"].startswith("embedded:SmolLM2-135M-Instruct.Q4_1+a-")
