"""Recipe: what a training run is to do, from a TOML file of the room `distill/` or of the user's.

Owns names, defaults, ranges and the wording of a refusal. Leaves out what the settings do and what a machine
can carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from roleagent_lite import content
from roleagent_lite.config import parse_toml, read_bounded, table_of
from roleagent_lite.errors import ConfigError, nearest


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Data(_Table):
    """What of a run becomes samples.

    max_tokens: prompt and reply of one sample. too_long: `cut` drops whole old exchanges from a conversation,
    oldest first, and the sample where that is not enough; `drop` always drops it. experience: `strip` takes
    retrieved experience out of the prompts, `keep` trains with it. rounds: empty = all.
    """

    max_tokens: int = Field(default=2048, ge=16)
    too_long: Literal["cut", "drop"] = "cut"
    experience: Literal["strip", "keep"] = "strip"
    rounds: tuple[int, ...] = ()


class Adapter(_Table):
    """LoRA. `targets`: names of linear layers, or ("all-linear",). `start`: an adapter to go on from."""

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[str, ...] = Field(default=("all-linear",), min_length=1)
    missing_targets: Literal["refuse", "warn"] = "refuse"
    dtype: Literal["float32", "bfloat16"] = "float32"
    start: str | None = None


class Train(_Table):
    """The update. batch: samples an optimiser step; micro_batch: samples a forward pass.

    epochs: passes over the samples; steps: optimiser steps at most, 0 = as many as the epochs give.
    dtype: of the base model's weights. four_bit: they are kept in 4 bits (NF4) and computed with in dtype;
    Unsloth's alone. recompute: each block's activations are computed again on the way
    back instead of kept (gradient checkpointing): a third more time, far less memory. checkpoint_every:
    optimiser steps.
    """

    epochs: int = Field(default=1, ge=1)
    steps: int = Field(default=0, ge=0)
    batch: int = Field(default=16, ge=1)
    micro_batch: int = Field(default=1, ge=1)
    lr: float = Field(default=1e-5, gt=0)
    warmup: int = Field(default=0, ge=0)
    weight_decay: float = Field(default=0.0, ge=0)
    clip_norm: float = Field(default=1.0, gt=0)
    seed: int = 0
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    four_bit: bool = False
    recompute: bool = False
    checkpoint_every: int = Field(default=10, ge=1)


class Loss(_Table):
    """The objective (paper Eq. 9, Table 5). normalise: see `loss.NORMALISERS`.

    kl: weight of the k3 divergence from the policy that training started from. max_kl: mean divergence a
    token (nats) above which training stops; half of it is warned of. old: the policy of the importance ratio:
    `recorded` log-probabilities, the `start` of this training, or `auto`: recorded ones where every sample
    has them from this very model. policy: what an action is: the `tokens` of a reply, or one of the `choices`
    that the agent scored; `auto`: choices where every sample has them. prediction: weight of the
    cross-entropy on prediction tokens whose alignment was at least `matched`.
    """

    clip_low: float = Field(default=0.2, gt=0, lt=1)
    clip_high: float = Field(default=0.28, gt=0)
    kl: float = Field(default=1e-3, ge=0)
    max_kl: float = Field(default=1.0, gt=0)
    old: Literal["auto", "recorded", "start"] = "auto"
    policy: Literal["auto", "tokens", "choices"] = "auto"
    normalise: Literal["grpo", "dr_grpo", "mean"] = "grpo"
    length: int = Field(default=256, ge=1)  # what dr_grpo divides by, in tokens a sample
    no_signal: Literal["drop", "keep"] = "drop"
    prediction: float = Field(default=0.0, ge=0)
    matched: float = Field(default=0.9, ge=0, le=1)


class Online(_Table):
    """Online GRPO: the model in training plays, and each update learns from what it has just played.

    tasks: drawn an update by the curriculum; group: rollouts of each; temperature: of their draws, in
    training alone. updates: how many; minutes: none is begun after so many minutes of play and training
    (an update that a kill cut short counts from its resume on), 0 = no limit. lr: None = `train.lr`.
    passes: how often an update goes through its episodes; batches: optimiser steps of each pass, each on
    a part of them, clipped from the second on. states: at most so many distinct states an update, drawn
    evenly, 0 = all; room: tokens of the states that share a forward pass. alpha: weight of A^E; rho,
    decay: of the curriculum. predictions: the agent also foretells, for WIA's reward: slow without a
    card. vllm: where Unsloth trains and vLLM is installed, that writes the predictions, in memory of its
    own. dev: tasks of the dev split; dev_every: updates between two looks at them, 0 = only before and
    after. max_drift: mean difference between sampler and trainer (nats) that stops the run. prompts: the
    prompt version that is played. seed: of draws (the adapter's first weights are `train.seed`'s).
    """

    tasks: int = Field(default=4, ge=1)
    group: int = Field(default=8, ge=2)
    temperature: float = Field(default=0.9, gt=0, le=2)
    updates: int = Field(default=16, ge=1)
    minutes: float = Field(default=0.0, ge=0)
    lr: float | None = Field(default=None, gt=0)
    passes: int = Field(default=1, ge=1)
    batches: int = Field(default=1, ge=1)
    states: int = Field(default=0, ge=0)
    room: int = Field(default=1536, ge=1)
    alpha: float = Field(default=1.0, ge=0)
    gamma: float = Field(default=0.95, gt=0, le=1)
    rho: float = Field(default=0.3, ge=0, lt=1)
    decay: float = Field(default=0.9, ge=0, le=1)
    predictions: bool = False
    vllm: bool = False
    dev: int = Field(default=36, ge=1)
    dev_every: int = Field(default=4, ge=0)
    max_drift: float = Field(default=0.02, gt=0)
    prompts: str = "embedded"
    seed: int = 0


class Warm(_Table):
    """Before the first update of `--online`: play every training task `group` times (0: no warm start) and
    imitate the solved episodes, at most `per_task` of a task.

    hindsight: of each training task at most so many other tasks that its failed episodes turn out to have
    solved are imitated as well, where the world can say so (household). temperature: of the draws. sure:
    moves that the model made with at least this probability are left out: they teach it next to nothing.
    epochs, lr, batch: of the imitation; batch in moves.
    """

    group: int = Field(default=0, ge=0)
    temperature: float = Field(default=0.5, gt=0, le=2)
    per_task: int = Field(default=4, ge=1)
    hindsight: int = Field(default=0, ge=0)
    sure: float = Field(default=1.0, gt=0, le=1)
    epochs: int = Field(default=4, ge=1)
    lr: float = Field(default=5e-4, gt=0)
    batch: int = Field(default=64, ge=1)


class Sft(_Table):
    """Which episodes may be imitated: solved, with a mean alignment of at least `min_alignment` (0 = any).

    bake: the prompt to train under in place of the one that a reply was given to: `seed`, the run's seed
    prompt; `none`, its texts that evolve left out; a prompt file, version or folder; "" = as sent.
    """

    min_alignment: float = Field(default=0.0, ge=0, le=1)
    per_task: int = Field(default=4, ge=1)  # episodes a task at most, the best foretold first
    bake: str = ""


class Recipe(_Table):
    """All that decides a training run but its data.

    model: what is trained: a folder in Hugging Face's layout, OWNER/NAME on a model hub, or `embedded` and
    `embedded:FILE.gguf`. method: sft or grpo. device: `cuda` needs a CUDA card and says so before anything
    loads. backend: `auto` takes Unsloth on a CUDA card where it is installed, else transformers and peft.
    """

    name: str = "recipe"
    about: str = ""
    model: str = "embedded"
    method: Literal["sft", "grpo"] = "grpo"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    backend: Literal["auto", "plain", "unsloth"] = "auto"
    data: Data = Data()
    adapter: Adapter = Adapter()
    train: Train = Train()
    loss: Loss = Loss()
    sft: Sft = Sft()
    online: Online = Online()
    warm: Warm = Warm()

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        if self.train.micro_batch > self.train.batch:
            raise ValueError(
                f"train.micro_batch is {self.train.micro_batch}, more than train.batch {self.train.batch}"
            )
        if self.backend == "unsloth" and self.device == "cpu":
            raise ValueError("backend 'unsloth' needs a CUDA card, device is 'cpu'; use backend 'plain'")
        if self.train.four_bit and (self.backend == "plain" or self.device == "cpu"):
            raise ValueError("train.four_bit needs backend 'unsloth' or 'auto', and a CUDA card")
        if self.sft.bake and self.method != "sft":
            raise ValueError(
                "sft.bake is for imitation: advantages hold for the prompt they were earned with; "
                'use method = "sft"'
            )
        return self


def _explain(error: ValidationError, source: str) -> str:
    first = error.errors()[0]
    path = ".".join(str(p) for p in first["loc"])
    if first["type"] == "extra_forbidden":
        model = table_of(Recipe, first["loc"])
        name = str(first["loc"][-1])
        elsewhere = _elsewhere(name)
        hint = f"; did you mean '{elsewhere[0]}'?" if elsewhere else nearest(name, model.model_fields)
        return f"{source}: unknown setting '{path}'{hint}"
    if not path:
        return f"{source}: {first['msg'].removeprefix('Value error, ')}"
    return f"{source}: setting '{path}' is {first['input']!r}: {first['msg']}"


def _elsewhere(name: str) -> list[str]:
    """Settings of exactly this name in other tables, as `table.name`."""
    return [
        f"{table}.{name}"
        for table, field in Recipe.model_fields.items()
        if isinstance(field.annotation, type)
        and issubclass(field.annotation, BaseModel)
        and name in field.annotation.model_fields
    ]


def from_mapping(values: Mapping[str, Any], source: str = "recipe") -> Recipe:
    """A validated recipe. Raises ConfigError that names the setting, what was found and the nearest name."""
    try:
        return Recipe.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(_explain(error, source)) from None


def seeded(recipe: Recipe, seed: int) -> Recipe:
    """`recipe` with another seed of its draws and of the adapter's first weights."""
    return recipe.model_copy(
        update={
            "train": recipe.train.model_copy(update={"seed": seed}),
            "online": recipe.online.model_copy(update={"seed": seed}),
        }
    )


def load_recipe(item: str) -> Recipe:
    """The recipe at a path, or of that name among the shipped ones. Raises ConfigError.

    A recipe without a `name` takes its file's.
    """
    path = content.find("distill", item, ".toml")
    try:
        values = parse_toml(read_bounded(path).replace("\r\n", "\n"))
    except OSError as error:
        raise ConfigError(f"cannot read recipe {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    return from_mapping({"name": Path(path).stem, **values}, str(path))
