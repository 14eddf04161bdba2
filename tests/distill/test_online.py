"""online: the loop learns what can be learned, stops where it must, and a kill changes nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch
from safetensors.torch import load_file

from roleagent_lite.cli.runs import job_of
from roleagent_lite.distill import checkpoint, curve, lora, online, online_loss
from roleagent_lite.distill.choices import key_of
from roleagent_lite.distill.online import Loop, train_online
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.prepare import prepare
from roleagent_lite.distill.recipe import Recipe, Warm, load_recipe
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError, EnvironmentFault, RoleAgentError
from roleagent_lite.report.write import write_report
from roleagent_lite.store import Run
from roleagent_lite.types import Progress, Task
from tests.distill import local, online_world
from tests.distill.test_tree import states

ROOT = Path(__file__).parents[2]


def trained(folder: Path, recipe: Recipe, **how: Any) -> dict[str, Any]:
    tasks = folder / "tasks.jsonl"
    if not tasks.exists():
        online_world.write_tasks(tasks)
    return train_online(recipe, str(tasks), folder / "run", **how)


def weights(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = load_file(folder / "run" / "adapter" / "adapter_model.safetensors")
    return found


def equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def lines(folder: Path) -> list[dict[str, Any]]:
    """The curve without what a clock and the machine say."""
    rows = curve.read(folder / "run")
    return [{k: v for k, v in r.items() if k not in ("seconds", "peak_mib")} for r in rows]


def solved(folder: Path) -> list[float]:
    return [r["solved"] for r in lines(folder) if "solved" in r]


LEARNS: dict[str, Any] = {"online": {"updates": 14}}


def test_it_learns_from_chance_to_nearly_always(tmp_path: Path) -> None:
    told = trained(tmp_path, online_world.recipe(tmp_path, **LEARNS))
    share = solved(tmp_path)
    assert sum(share[:3]) / 3 < 0.15 and sum(share[-3:]) / 3 > 0.85, share
    assert [look["solved"] for look in told["dev"]] == [0.0, 1.0]
    assert (told["updates"], told["stopped"], told["method"]) == (14, "", "online GRPO")


@pytest.mark.parametrize("how", ["zeroed", "shuffled"])
def test_without_its_advantages_it_learns_nothing(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same loop, the same steps: only what says which action was good is taken away."""
    real = Loop._rows

    def changed(self: Loop, update: int, row: dict[str, Any]) -> list[Tokens]:
        rows = real(self, update, row)
        values = [t.sample.advantage for t in rows]
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(update)).tolist()
        new = {"zeroed": [0.0] * len(rows), "shuffled": [values[k] for k in order]}[how]
        return [replace(t, sample=replace(t.sample, advantage=a)) for t, a in zip(rows, new, strict=True)]

    monkeypatch.setattr(Loop, "_rows", changed)
    trained(tmp_path, online_world.recipe(tmp_path, **LEARNS))
    share = solved(tmp_path)
    assert sum(share[-3:]) / 3 < 0.4, share


def test_an_update_that_teaches_nothing_says_so(tmp_path: Path) -> None:
    said: list[Progress] = []
    online_world.write_tasks(tmp_path / "tasks.jsonl", flat=True)
    recipe = online_world.recipe(tmp_path, online={"updates": 1, "tasks": 2, "group": 2})
    trained(tmp_path, recipe, listener=said.append)
    (note,) = [p.note for p in said if p.stage == "update"]
    assert note == "solved 0.00 of 4; nothing to learn from: no group had a signal"
    assert [p.note for p in said if p.stage == "estimate"] == [
        "plan: 1 updates of 4 episodes each, 4 dev episodes; no call costs money"
    ]


def test_a_run_in_which_no_episode_begins_is_no_training(tmp_path: Path) -> None:
    recipe = online_world.recipe(tmp_path, data={"max_tokens": 16})
    with pytest.raises(RoleAgentError, match=r"none of 2 episodes got to its first move.*data\.max_tokens"):
        trained(tmp_path, recipe)
    assert not (tmp_path / "run" / "adapter").exists()


def test_other_prompt_files_are_another_run(tmp_path: Path) -> None:
    recipe = online_world.recipe(tmp_path, online={"updates": 1, "tasks": 2, "group": 2})
    trained(tmp_path, recipe)
    file = tmp_path / "prompts" / "choose.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("shown = 1", "shown = 2"), encoding="utf-8")
    with pytest.raises(ConfigError, match="another set of prompt files"):
        trained(tmp_path, recipe)


def test_a_run_of_it_is_a_run_like_any_other(tmp_path: Path) -> None:
    """Two updates, as CI plays them: what stands in the run, and what other rooms read there."""
    online_world.PLAYED.clear()
    recipe = online_world.recipe(tmp_path, online={"dev_every": 1})
    trained(tmp_path, recipe, report=write_report)
    assert set(online_world.PLAYED) == {"train", "dev"}  # the sealed tasks stay sealed
    with Run.open(tmp_path / "run") as run:
        assert run.status == "finished" and {t.split for t in run.tasks} == {"train", "dev"}
        assert job_of(run) == "online"
        one = run.events.get("session/1")
        assert one is not None and one.data["calls"] == len(run.calls) > 0
        train = [t for t in run.trajectories if t.split == "train"]
        assert len(train) == 96 == len(list(run.credits)) and {t.round for t in train} == {1, 2}
        assert {t.model.rpartition("+")[2] for t in train} == {"0", "1"}
        assert all(step.call_ids for t in train for step in t.steps)
        found = prepare(run, recipe, local.tokenizer())  # the dry run's view of it
        assert found.report.trajectories == 96 and found.report.used > 0
    rows = lines(tmp_path)
    assert [r["update"] for r in rows] == [0, 1, 2] and all("dev" in r for r in rows)
    for row in rows[:2]:
        assert row["n"] == 48 and row["low"] <= row["solved"] <= row["high"] and row["entropy"] > 0
        assert (
            row["drift"] < 1e-5 and row["drift_after"] < 1e-5 and row["ratio"] == pytest.approx(1, abs=1e-4)
        )
    assert rows[1]["kl"] > 0 == rows[0]["kl"]
    assert "report" in (tmp_path / "run" / "report.md").read_text(encoding="utf-8").lower()
    assert json.loads((tmp_path / "run" / "train.json").read_text(encoding="utf-8"))["updates"] == 2


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.mark.parametrize("where", ["play", "measure", "curve", "checkpoint", "after"])
def test_a_kill_at_any_moment_gives_the_same_next_step(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"online": {"updates": 3, "dev_every": 2}}
    whole = tmp_path / "whole"
    whole.mkdir()
    trained(whole, online_world.recipe(whole, **settings))
    parts = tmp_path / "parts"
    parts.mkdir()
    recipe = online_world.recipe(parts, **settings)
    recipe = recipe.model_copy(update={"online": recipe.online.model_copy(update={
        "prompts": online_world.recipe(whole).online.prompts})})  # fmt: skip
    count = [0]

    def dying(real: Any, at: int, after: bool = False) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            count[0] += 1
            result = real(*arguments, **named) if count[0] != at or after else None
            if count[0] == at:
                raise Killed
            return result

        return call

    with monkeypatch.context() as patch:
        target, name, at, after = {
            "play": (online_world.Lock, "step", 130, False),  # inside the second update's episodes
            "measure": (Loop, "_measure", 2, False),
            "curve": (curve, "add", 2, True),
            "checkpoint": (checkpoint, "save", 2, False),
            "after": (checkpoint, "save", 2, True),
        }[where]
        patch.setattr(target, name, dying(getattr(target, name), at, after))
        tasks = whole / "tasks.jsonl"
        with pytest.raises(Killed):
            train_online(recipe, str(tasks), parts / "run")
    train_online(recipe, str(tasks), parts / "run")
    assert equal(weights(whole), weights(parts)) and lines(whole) == lines(parts)


DIES = """
import sys
from tests.kill_runner import die_after
die_after(int(sys.argv[1]))
from pathlib import Path
from roleagent_lite.distill.online import train_online
from roleagent_lite.distill.recipe import load_recipe
train_online(load_recipe(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
"""


@pytest.mark.slow
def test_rl_03_a_process_that_is_killed_inside_a_record_goes_on(tmp_path: Path) -> None:
    """SIGKILL with half a record on the disk, three times on the way; a table's torn line is no loss."""
    whole = tmp_path / "whole"
    whole.mkdir()
    recipe = online_world.recipe(whole, online={"updates": 2})
    trained(whole, recipe)
    size = sum(f.stat().st_size for f in (whole / "run").glob("*.jsonl"))
    (tmp_path / "mine.toml").write_text(dump(recipe), encoding="utf-8")
    tasks, out = str(whole / "tasks.jsonl"), tmp_path / "run"
    command = [sys.executable, "-c", DIES, str(size // 4), str(tmp_path / "mine.toml"), tasks, str(out)]
    codes = [subprocess.run(command, cwd=ROOT, timeout=300, check=False).returncode for _ in range(3)]
    assert codes[0] == codes[1] == -signal.SIGKILL
    train_online(recipe, tasks, out)
    assert equal(weights(whole), weights(tmp_path)) and lines(whole) == lines(tmp_path)


def dump(recipe: Recipe) -> str:
    """The recipe as TOML."""
    plain = recipe.model_dump(mode="json", exclude_none=True)
    tops = {k: v for k, v in plain.items() if not isinstance(v, dict)}
    parts = [("", tops), *((f"[{k}]\n", v) for k, v in plain.items() if isinstance(v, dict))]
    return "\n".join(head + "\n".join(f"{k} = {json.dumps(v)}" for k, v in t.items()) for head, t in parts)


def test_a_resume_with_more_updates_goes_on_and_with_other_settings_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, online_world.recipe(tmp_path, online={"updates": 1}))
    told = trained(tmp_path, online_world.recipe(tmp_path, online={"updates": 2}))
    assert told["updates"] == 2 and [r["update"] for r in lines(tmp_path)] == [0, 1, 2]
    with pytest.raises(ConfigError, match=r"train.lr: 0.003 then, 0.5 now"):
        trained(tmp_path, online_world.recipe(tmp_path, train={"lr": 0.5}))
    with pytest.raises(ConfigError, match="other settings"):
        trained(tmp_path, online_world.recipe(tmp_path, online={"group": 4}))


def test_its_own_learning_rate(tmp_path: Path) -> None:
    found = []
    both: dict[str, dict[str, Any]] = {
        "own": {"online": {"updates": 1, "lr": 0.003}, "train": {"lr": 0.1}},
        "shared": {"online": {"updates": 1}, "train": {"lr": 0.003}},
    }
    for name, settings in both.items():
        (tmp_path / name).mkdir()
        trained(tmp_path / name, online_world.recipe(tmp_path / name, **settings))
        found.append(weights(tmp_path / name))
    assert equal(*found) and any(bool(v.any()) for k, v in found[0].items() if "lora_B" in k)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_drift_stops_it_and_keeps_the_last_good_adapter(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: the sampler said other than the trainer. After: it plays on with what it kept of old ones."""
    recipe = online_world.recipe(tmp_path, online={"updates": 3})
    one = tmp_path / "one"
    one.mkdir()
    trained(one, online_world.recipe(one, online={"updates": 1}))
    real = online_loss.OnlineChoices.recorded
    if moment == "before":

        def off(tokens: Tokens) -> Any:
            return real(tokens) + (0.1 if tokens.sample.round == 2 else 0.0)

        monkeypatch.setattr(online_loss.OnlineChoices, "recorded", staticmethod(off))
        words = "before the update"
    else:
        calls = [0]

        def stale(model: Any, rows: Sequence[Tokens]) -> dict[str, Any]:
            calls[0] += 1
            found = real_scored(model, rows)
            return found if calls[0] == 1 else {k: v - 0.1 for k, v in found.items()}

        real_scored = online_loss.scored
        monkeypatch.setattr(online, "scored", stale)
        words = "after update 2"
    told = trained(tmp_path, recipe)
    assert words in told["stopped"] and "online.max_drift" in told["stopped"]
    kept = checkpoint.latest(tmp_path / "run")
    assert kept is not None and kept.step == 1
    assert set(weights(tmp_path)) == set(weights(one))
    again = trained(tmp_path, recipe)  # it stops there again, with the same adapter
    assert again["stopped"] == told["stopped"]


def test_a_gradient_that_is_not_finite_stops_it(tmp_path: Path) -> None:
    told = trained(
        tmp_path, online_world.recipe(tmp_path, train={"lr": 1e30, "clip_norm": 1e30}, online={"updates": 3})
    )
    assert "not" in told["stopped"] and "finite" in told["stopped"]
    assert all(bool(torch.isfinite(t).all()) for t in weights(tmp_path).values())


def test_rl_01_groups_without_a_signal_change_nothing_and_are_counted(tmp_path: Path) -> None:
    online_world.write_tasks(tmp_path / "tasks.jsonl", flat=True)
    told = trained(tmp_path, online_world.recipe(tmp_path))
    assert told["updates"] == 2 and not told["stopped"]
    assert [(r["groups"], r["without_signal"], r["rows"]) for r in lines(tmp_path)[:2]] == [(6, 6, 0)] * 2
    assert not any(bool(v.any()) for k, v in weights(tmp_path).items() if "lora_B" in k)


def test_no_update_is_begun_when_its_time_is_over(tmp_path: Path) -> None:
    told = trained(tmp_path, online_world.recipe(tmp_path, online={"updates": 9, "minutes": 1e-9}))
    assert (told["updates"], told["of"], told["stopped"]) == (1, 9, "")


def test_states_are_drawn_where_there_are_too_many(tmp_path: Path) -> None:
    trained(tmp_path, online_world.recipe(tmp_path, online={"updates": 5, "states": 1}))
    many = [r for r in lines(tmp_path) if r.get("states_met") == 2]
    assert many and all(r["states"] == 1 and r["tokens"] < r["rows"] for r in many)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"method": "sft"}, "has method sft"),
        ({"adapter": {"dropout": 0.1}}, "adapter.dropout must be 0"),
        ({"loss": {"prediction": 0.1}}, "loss.prediction trains on a recorded run"),
    ],
)
def test_settings_that_mean_nothing_online_are_refused(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        trained(tmp_path, online_world.recipe(tmp_path, **more))
    assert not (tmp_path / "run").exists()


def test_a_world_that_cannot_begin_here_is_told_before_a_model_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def missing(some: Iterable[Task]) -> None:
        asked.extend(sorted({task.env for task in some}))
        raise EnvironmentFault("the world wants Java")

    monkeypatch.setattr(registry, "ready", missing)
    monkeypatch.setattr(online, "open_policy", lambda *_, **__: pytest.fail("a model was opened"))
    with pytest.raises(EnvironmentFault, match="Java"):
        trained(tmp_path, online_world.recipe(tmp_path))
    assert asked == ["tests.distill.online_world:Lock"] and not (tmp_path / "run").exists()


def test_it_goes_on_from_an_adapter(tmp_path: Path) -> None:
    """The reference is then a frozen copy of that adapter, not the base."""
    policy: Policy = local.policy(local.recipe())
    local.disturb(policy)
    lora.save(policy.model, tmp_path / "warm", "float32")
    recipe = online_world.recipe(tmp_path, adapter={"start": str(tmp_path / "warm")})
    told = trained(tmp_path, recipe)
    rows = lines(tmp_path)
    assert "as it was at the start" in told["reference"] and rows[0]["kl"] == pytest.approx(0.0, abs=1e-8)


def test_predictions_are_played_where_the_recipe_says_so(tmp_path: Path) -> None:
    folder = online_world.write_prompts(tmp_path / "prompts")
    text = (folder / "choose.toml").read_text(encoding="utf-8")
    foretell = text.replace('name = "choose"', 'name = "foretell"').replace("{log}\n>", "{log}\n> {action}")
    foretell = foretell.replace("[texts]", 'action = "the action"\n\n[texts]').replace(
        "temperature = 0.0", "temperature = 0.0\nmax_tokens = 6"
    )
    (folder / "foretell.toml").write_text(foretell, encoding="utf-8")
    trained(tmp_path, online_world.recipe(tmp_path, online={"updates": 1, "predictions": True, "tasks": 2}))
    with Run.open(tmp_path / "run") as run:
        steps = [s for t in run.trajectories if t.split == "train" for s in t.steps]
        assert any(s.predictions and s.predictions[0] for s in steps)
        assert any(any(a is not None for row in c.alignment for a in row) for c in run.credits)


def test_the_stand_credits_by_group(tmp_path: Path) -> None:
    trained(tmp_path, online_world.recipe(tmp_path, online={"updates": 1}))
    with Run.open(tmp_path / "run") as run:
        groups = {t.group for t in run.trajectories if t.split == "train"}
        assert len(groups) == 6
        by_group: dict[str, list[float]] = {}
        for t in run.trajectories:
            credit = run.credits.get(t.id)
            if credit is not None:
                by_group.setdefault(t.group, []).append(credit.episode_advantage)
        assert all(abs(sum(v)) < 1e-6 for v in by_group.values())


@pytest.mark.embedded
@pytest.mark.slow
def test_two_updates_of_the_embedded_model_in_the_house(tmp_path: Path) -> None:
    """The shipped recipe on household-easy, cut down to what a few minutes can do."""
    recipe = load_recipe("smollm2-cpu")
    small = {"updates": 2, "tasks": 1, "group": 3, "states": 3, "dev": 1, "dev_every": 0, "minutes": 0.0}
    update = {"online": recipe.online.model_copy(update=small), "warm": Warm()}
    recipe = recipe.model_copy(update=update)
    told = train_online(recipe, "household-easy", tmp_path / "run")
    assert (told["updates"], told["stopped"]) == (2, "")
    rows = lines(tmp_path)
    assert [r["n"] for r in rows[:2]] == [3, 3] and all(r["steps"] > 3 for r in rows[:2])
    learned = [r for r in rows[:2] if r["rows"]]
    assert all(r["drift"] < recipe.online.max_drift and r["entropy"] > 0 for r in learned)


def test_the_parts_of_an_update_are_whole_states_and_make_up_all_of_it() -> None:
    rows = [replace(t, ids=(number, *t.ids[1:])) for number, name in enumerate("abc") for t in states(name)]
    rows += [replace(rows[0], sample=replace(rows[0].sample, id="a/again"))]
    recipe = local.recipe(online={"batches": 4, "passes": 2})
    parts = Loop._batches(SimpleNamespace(recipe=recipe), rows)  # type: ignore[arg-type]
    assert parts[:4] == parts[4:] and [len(p) for p in parts[:4]] == [3, 2, 3, 2]
    assert sorted(t.sample.id for p in parts[:4] for t in p) == sorted(t.sample.id for t in rows)
    keys = [{key_of(t) for t in p} for p in parts[:4]]
    assert sum(map(len, keys)) == len(set().union(*keys)) == 9
    few = local.recipe(online={"batches": 99})
    assert len(Loop._batches(SimpleNamespace(recipe=few), rows)) == 9  # type: ignore[arg-type]


def test_the_second_step_of_an_update_is_clipped_against_the_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios: list[float] = []
    real = Loop._measure

    def looked(self: Loop, batch: Sequence[Tokens], step: int, learn: bool) -> tuple[dict[str, float], str]:
        report, stopped = real(self, batch, step, learn)
        ratios.append(report["ratio"])
        return report, stopped

    monkeypatch.setattr(Loop, "_measure", looked)
    trained(tmp_path, online_world.recipe(tmp_path, online={"updates": 1, "passes": 2}))
    assert ratios[0] == pytest.approx(1, abs=1e-4) and abs(ratios[1] - 1) > 1e-3
