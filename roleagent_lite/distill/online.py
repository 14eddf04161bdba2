"""Online GRPO: the model in training plays groups of rollouts, and each update learns from what it just
played.

Owns the order of an update (draw, play, credit, measure, step, compare, keep) and its resume. Leaves out
playing (stand.py), the curriculum (draws.py), the objective (online_loss.py) and one optimiser step
(train.py).

Kill and resume. All that an update is made of is a function of the checkpoint before it: draws are seeded by
the number of the update, calls and episodes that the run holds are taken from there, and the others come out
bit for bit the same (prefix.py). An adapter is kept once sampler and trainer agree about it.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roleagent_lite.distill import checkpoint, curve
from roleagent_lite.distill.choices import alike, is_choice
from roleagent_lite.distill.draws import Draws
from roleagent_lite.distill.job import identity
from roleagent_lite.distill.local import LocalModel
from roleagent_lite.distill.online_loss import OnlineChoices, apart, computed, drifted, scored
from roleagent_lite.distill.policy import Policy, open_policy
from roleagent_lite.distill.prepare import prepare
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.sealed import play_sealed
from roleagent_lite.distill.stack import device_for, load
from roleagent_lite.distill.stand import Stand, config_of, name_of, planned, training_tasks
from roleagent_lite.distill.tokenizer import Tokenizer, open_tokenizer
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.distill.train import Trainer
from roleagent_lite.distill.warm import HINDSIGHT, warm_up
from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.session import Beginning, Reporter, opened, run_now, starting_prompts
from roleagent_lite.tasksets import file_hash
from roleagent_lite.types import ROLES, Listener, Progress, Task

CHECKED = 4  # states on which sampler and trainer are compared after an update
# May change at a resume: how far to go, how often to look, and limits.
_FREE = {"updates", "minutes", "dev_every", "max_drift"}


def train_online(
    recipe: Recipe,
    tasks: str,
    out: Path,
    listener: Listener | None = None,
    *,
    sealed: bool = False,
    report: Reporter | None = None,
) -> dict[str, Any]:
    """Trains in the run directory `out`, or goes on there; what `train.json` then says.

    sealed: at the end, play the sealed tasks with base and adapter (once a run; see `sealed.play_sealed`).
    Raises ConfigError, MissingExtra and EnvironmentFault before anything loads where the recipe, the tasks or
    their worlds do not fit, RoleAgentError for a full disk.
    """
    return run_now(_job(recipe, tasks, out, listener, sealed, report), "distill")


async def _job(
    recipe: Recipe, tasks: str, out: Path, listener: Listener | None, sealed: bool, report: Reporter | None
) -> dict[str, Any]:
    check(recipe)
    train, dev = training_tasks(tasks, recipe.online.dev)
    registry.ready((*train, *dev))
    if listener is not None:
        listener(Progress("estimate", note=planned(recipe, len(train), len(dev))))
    config = config_of(recipe, tasks)
    prompts = starting_prompts(config)
    tokenizer = open_tokenizer(recipe.model, listener)
    policy = open_policy(recipe, tokenizer.pad_id, listener, plays=recipe.online.predictions)
    model = LocalModel(policy, tokenizer, name_of(recipe, 0), most=recipe.data.max_tokens)
    beginning = Beginning(
        (*train, *dev), file_hash(tasks), f"task file '{tasks}'", prompts.seed_set(),
        {"online": {}}, prompts=prompts.fingerprint,
    )  # fmt: skip
    models = dict.fromkeys(ROLES, model)
    async with opened(config, out, beginning, models=models, listener=listener, report=report) as session:
        stand = Stand(session, config, prompts, beginning.seed, model)
        warm = None
        if recipe.warm.group:
            warm = await warm_up(stand, policy, tokenizer, recipe, train, dev, listener)
        loop = Loop(stand, policy, tokenizer, recipe, train, dev, warm)
        told = await loop.updates(listener)
        if sealed and not told["stopped"]:
            told["sealed"] = await play_sealed(stand, policy, recipe, told["updates"])
        _write(out / "train.json", told)
    return told


def check(recipe: Recipe) -> None:
    """Raises ConfigError for settings that mean nothing online, MissingExtra without the libraries."""
    device_for(recipe)
    if recipe.method != "grpo":
        raise ConfigError(f"--online is for method grpo; recipe '{recipe.name}' has method {recipe.method}")
    if recipe.adapter.dropout > 0:
        raise ConfigError(
            "adapter.dropout must be 0 online: with it the trainer's policy is not the one that played"
        )
    if recipe.loss.prediction > 0:
        raise ConfigError("loss.prediction trains on a recorded run; online it must be 0")


class Loop(Trainer):
    """The updates of one run in its directory. `train`, `dev`: the only tasks that are ever played here."""

    def __init__(
        self, stand: Stand, policy: Policy, tokenizer: Tokenizer, recipe: Recipe,
        train: Sequence[Task], dev: Sequence[Task], warm: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        if recipe.online.lr is not None:
            learning = recipe.train.model_copy(update={"lr": recipe.online.lr})
            recipe = recipe.model_copy(update={"train": learning})
        flat = {k: v for k, v in identity(recipe, []).items() if k.removeprefix("online.") not in _FREE}
        known = {"tasks": stand.config.tasks, "prompt_set": stand.prompt_set.id}
        super().__init__(policy, OnlineChoices(recipe, {}, {}), recipe, stand.session.run.dir, flat | known)
        self._stand, self._tokenizer, self._dev = stand, tokenizer, dev
        self._draws = Draws(stand.session.run, train, recipe.online)
        self._reference = LocalModel(
            policy, tokenizer, name_of(recipe, "start"), acting="start", most=recipe.data.max_tokens
        )
        self._warm = warm
        self._first = 0 if warm is None else HINDSIGHT + 1  # the round before the first update's
        self._spent = 0.0

    async def updates(self, listener: Listener | None = None) -> dict[str, Any]:
        """Plays and learns to the last update; what was done, as plain data."""
        online = self.recipe.online
        begun = self._again()
        update, stopped, row = begun, "", dict[str, Any]()
        while update < online.updates and not self._late():
            row = await self._play(update)
            stopped = self._learn(update, row)
            self._spent += sum(row["seconds"].values())
            curve.add(self.out, row)
            if stopped:
                break
            update += 1
            self._checkpoint(update)
            if listener is not None:
                solved = f"{row['solved']:.2f}" if row["solved"] is not None else "unknown"
                taught = "" if row["rows"] else "; nothing to learn from: no group had a signal"
                note = f"solved {solved} of {row['n']}{taught}"
                listener(Progress("update", update, online.updates, note=note))
        self._stand.model.changed(name_of(self.recipe, update))
        if not stopped:
            row = {"update": update, "dev": await self._look(update), "peak_mib": curve.peak_mib()}
            curve.add(self.out, row)
        return self._told(update, stopped)

    def _late(self) -> bool:
        limit = self.recipe.online.minutes * 60
        return bool(limit) and self._spent >= limit

    async def _play(self, update: int) -> dict[str, Any]:
        """Dev where it is due, then the groups of this update, credited; the first half of its line."""
        online = self.recipe.online
        row: dict[str, Any] = {"update": update, "seconds": {}}
        clock = time.monotonic()
        if update == 0 or (online.dev_every and update % online.dev_every == 0):
            row["dev"] = await self._look(update)
            clock = _lap(row, "dev", clock)
        round = self._first + update + 1
        tasks = self._draws.draw(round)
        groups = await self._stand.play(
            tasks, round, group=online.group, temperature=online.temperature, predict=online.predictions
        )
        self._stand.credit(groups)
        played = [t for group in groups for t in group]
        self._draws.learn(round, played)
        _lap(row, "play", clock)
        row |= curve.told(played)
        row["steps"] = sum(len(t.steps) for t in played)
        return row

    async def _look(self, update: int) -> dict[str, Any]:
        """The dev tasks once each at temperature 0, by the policy as it is after `update` updates."""
        round = self._first + update
        groups = await self._stand.play(self._dev, round, group=1, temperature=0.0, predict=False)
        return curve.told([t for group in groups for t in group])

    def _learn(self, update: int, row: dict[str, Any]) -> str:
        """One update; why training must stop, or "". Fills the line."""
        clock = time.monotonic()
        rows = self._rows(update, row)
        stopped, state = "", name_of(self.recipe, update + 1)
        if rows:
            self.objective = objective = OnlineChoices.of(rows, self._reference, self.recipe)
            for number, batch in enumerate(self._batches(rows)):
                report, stopped = self._measure(batch, update, learn=True)
                if number == 0:
                    row |= {k: v for k, v in report.items() if k != "step"}
                if stopped:
                    break
                if number == 0:
                    self._good = [p.detach().clone() for p in self.policy.parameters.values()]
                self._update(update)
                objective.fresh = False
            clock = _lap(row, "learn", clock)
            self._stand.model.changed(state)
            stopped = stopped or self._compared(rows, row)
            _lap(row, "compare", clock)
        else:
            self._stand.model.changed(state)
        if stopped:
            self._put_back()
        row["peak_mib"] = curve.peak_mib()
        return stopped

    def _batches(self, rows: Sequence[Tokens]) -> list[list[Tokens]]:
        """The rows of each optimiser step of an update: `online.passes` times all of them, in
        `online.batches` parts of about as many rows. Rows of one state stay together, and states of one
        task where they can."""
        online, states = self.recipe.online, alike(rows)
        parts: list[list[Tokens]] = [[] for _ in range(min(online.batches, len(states)))]
        done = 0
        for same in states:
            parts[done * len(parts) // len(rows)] += same
            done += len(same)
        return [part for _ in range(online.passes) for part in parts if part]

    def _rows(self, update: int, row: dict[str, Any]) -> list[Tokens]:
        """What this update learns from: choices with an advantage in groups with a signal, of at most
        `online.states` states."""
        online = self.recipe.online
        data = self.recipe.data.model_copy(update={"rounds": (self._first + update + 1,)})
        found = prepare(
            self._stand.session.run, self.recipe.model_copy(update={"data": data}), self._tokenizer
        )
        rows = [t for t in found.usable if is_choice(t) and t.sample.advantage]
        states = alike(rows)
        row |= {"groups": found.report.groups, "without_signal": found.report.without_signal}
        row |= {"rows": len(rows), "states_met": len(states)}
        if online.states and len(states) > online.states:
            taken = random.Random(f"{online.seed}/{update}").sample(range(len(states)), online.states)
            rows = [t for k in sorted(taken) for t in states[k]]
        return rows

    def _compared(self, rows: Sequence[Tokens], row: dict[str, Any]) -> str:
        """Sampler against trainer after the step, on a few states; why training must stop, or ""."""
        few = [t for same in alike(rows)[:CHECKED] for t in same]
        sampled = scored(self._stand.model, few)
        drift = apart(sampled, computed(self.policy, few, self.recipe.online.room))
        row["drift_after"] = drift
        if not math.isfinite(drift):
            return f"after update {row['update'] + 1} log-probabilities are not finite numbers"
        return drifted(drift, self.recipe.online.max_drift, f"after update {row['update'] + 1}")

    def _again(self) -> int:
        """Updates that the newest checkpoint has behind it; adapter, optimiser, curriculum and curve as they
        were then."""
        found = checkpoint.latest(self.out)
        done = 0
        if found is not None:
            checkpoint.restore(found, self.policy, self.optimizer, self.identity)
            done = found.step
            self._good = self._before(found)
        rows = curve.keep(self.out, done)
        timed = rows if self._warm is None else [self._warm, *rows]
        self._spent = sum(sum(r.get("seconds", {}).values()) for r in timed)
        for update in range(done):
            self._draws.again(self._first + update + 1)
        self._stand.model.changed(name_of(self.recipe, done))
        return done

    def _before(self, found: checkpoint.Found) -> list[Any]:
        """The adapter of the checkpoint before `found`, which is a good one; `found`'s own where it is the
        first."""
        folder = found.path.with_name(f"step-{found.step - 1:06d}")
        file = (folder if folder.is_dir() else found.path) / "state.safetensors"
        tensors = load("safetensors.torch").load_file(str(file))
        return [tensors[f"adapter/{name}"].to(self.policy.device) for name in self.policy.parameters]

    def _told(self, update: int, stopped: str) -> dict[str, Any]:
        done = max(update - 1, 0) if stopped else update
        made = self._finish(done, self.recipe.online.updates, stopped, {})
        rows = curve.read(self.out)
        looks = [{"update": r["update"], **r["dev"]} for r in rows if "dev" in r]
        return {
            "method": "online GRPO", "backend": self.policy.backend.words, "backend_why": self.policy.why,
            "device": self.policy.device,
            "reference": self.policy.reference, "updates": made.steps, "of": made.total, "stopped": stopped,
            "adapter": str(made.adapter), "dev": looks, "minutes": round(self._spent / 60, 1),
            "warm": self._warm, "predictions": self.recipe.online.predictions,
            "warnings": self.policy.warnings, "recipe": self.recipe.model_dump(mode="json"),
        }  # fmt: skip


def _lap(row: dict[str, Any], what: str, since: float) -> float:
    now = time.monotonic()
    row["seconds"][what] = round(now - since, 2)
    return now


def _write(path: Path, told: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(told, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RoleAgentError(f"cannot write {path}: {error.strerror}") from None
