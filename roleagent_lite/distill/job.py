"""The job `distill`: prepared samples in, an adapter out, with what was done written beside it.

Owns the order of a training (check, load, read log-probabilities, train, write) and `train.json`. Leaves out
each of these steps, and the command line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from roleagent_lite.distill.bake import OWN_PROMPT, texts_file
from roleagent_lite.distill.choices import OfflineChoices, is_choice
from roleagent_lite.distill.grpo import Offline
from roleagent_lite.distill.policy import Policy, open_policy
from roleagent_lite.distill.prepare import Prepared
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.rehearsal import rehearse
from roleagent_lite.distill.sft import Imitation
from roleagent_lite.distill.stack import device_for
from roleagent_lite.distill.tokenizer import Tokenizer
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.distill.train import Objective, Trained, Trainer
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.types import Listener, Progress

# May change between a kill and a resume: none of it changes what a step does.
_FREE = {"name", "about", "train.epochs", "train.steps", "train.checkpoint_every", "loss.max_kl"}


def _imitation(policy: Policy, rows: Sequence[Tokens], recipe: Recipe, played_by: str) -> Objective:
    return Imitation()


def _offline(policy: Policy, rows: Sequence[Tokens], recipe: Recipe, played_by: str) -> Objective:
    kind = OfflineChoices if by_choice(rows, recipe) else Offline
    return kind.prepare(policy, rows, recipe, played_by)


def by_choice(rows: Sequence[Tokens], recipe: Recipe) -> bool:
    """Whether the policy is over choices. Raises ConfigError where it must be and samples have none."""
    acts = [t for t in rows if t.sample.kind == "act"]
    without = [t.sample.id for t in acts if not is_choice(t)]
    if recipe.loss.policy == "choices" and without:
        raise ConfigError(
            f'loss.policy is "choices", but {len(without)} of {len(acts)} samples were not drawn among '
            f'choices by their mean log-probability (first: {without[0]}); take loss.policy = "tokens"'
        )
    return recipe.loss.policy != "tokens" and not without


METHODS: dict[str, Callable[[Policy, Sequence[Tokens], Recipe, str], Objective]] = {
    "sft": _imitation,
    "grpo": _offline,
}


def distill(
    prepared: Prepared, tokenizer: Tokenizer, out: Path, listener: Listener | None = None
) -> dict[str, Any]:
    """Trains the recipe's adapter on `prepared` in the folder `out`; what `train.json` then says.

    Called again after a kill, it goes on from the newest checkpoint. Raises RoleAgentError where there is
    nothing to train on, before any weights are loaded; ConfigError and MissingExtra as `open_policy`;
    DoesNotFit where the longest pass, made once before all else, takes too much.
    """
    prepared.check()
    recipe = prepared.recipe
    device_for(recipe)
    rows = prepared.usable
    policy = open_policy(recipe, tokenizer.pad_id, listener)
    rehearsed = rehearse(policy, rows, recipe, recipe.method == "grpo" and by_choice(rows, recipe))
    if listener is not None:
        listener(Progress("rehearse", note=rehearsed.words))
    objective = METHODS[recipe.method](policy, rows, recipe, tokenizer.name)
    trained = Trainer(policy, objective, recipe, out, identity(recipe, rows)).run(rows, listener)
    told = _told(prepared, policy, objective, trained) | {"rehearsal": asdict(rehearsed)}
    if recipe.sft.bake:
        file = OWN_PROMPT if prepared.texts else ""
        told["bake"] = {"prompt": recipe.sft.bake, "file": file, **prepared.report.bake}
    try:
        if prepared.texts:
            (out / OWN_PROMPT).write_text(texts_file(prepared.texts), encoding="utf-8")
        (out / "train.json").write_text(
            json.dumps(told, ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
        )
    except OSError as error:
        raise RoleAgentError(f"cannot write {out / 'train.json'}: {error.strerror}") from None
    return told


def identity(recipe: Recipe, rows: Sequence[Tokens]) -> dict[str, Any]:
    """What two sessions of one training must share: the settings that matter, and the samples' digest."""
    plain = json.loads(recipe.model_dump_json())
    flat: dict[str, Any] = {}
    for key, value in plain.items():
        flat |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    digest = hashlib.sha256()
    for row in rows:
        body = [row.sample.id, row.ids, row.start, row.predicted, row.sample.advantage]
        digest.update(json.dumps(body).encode())
    return {k: v for k, v in flat.items() if k not in _FREE} | {"samples": digest.hexdigest()[:16]}


def _told(prepared: Prepared, policy: Policy, objective: Objective, trained: Trained) -> dict[str, Any]:
    told: dict[str, Any] = {
        "method": objective.name, "backend": policy.backend.words, "backend_why": policy.why,
        "device": policy.device,
        "reference": policy.reference, "steps": trained.steps, "of": trained.total,
        "stopped": trained.stopped, "adapter": str(trained.adapter), "last": dict(trained.last),
        "samples": prepared.report.used, "recipe": prepared.recipe.model_dump(mode="json"),
    }  # fmt: skip
    warnings = [*prepared.report.warnings, *policy.warnings]
    if isinstance(objective, Offline):
        warnings += objective.warnings
        told["policy"] = "choices" if isinstance(objective, OfflineChoices) else "tokens"
        told["kl_at_start"] = objective.kl_at_start
        told["staleness"] = asdict(objective.staleness) if objective.staleness else None
    return told | {"warnings": warnings}
