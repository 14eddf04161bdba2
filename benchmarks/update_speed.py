"""How fast is an update beside TRL's GRPOTrainer, and what share of a step is the computation of credit?

    OMP_NUM_THREADS=1 python benchmarks/update_speed.py [REPEATS] [MODEL]

Needs `pip install trl==1.14.0` beside the project, in an environment of its own. Both sides update the same
LoRA adapter's worth of a model on the same batch: MODEL, a folder in Hugging Face's layout, else a random
Llama built here. Loss of the same kind (clip 0.2 / 0.28, k3 divergence), old and reference log-probabilities
given to both; gradient checkpointing off on both. An update is forward, back, clipping and the optimiser's
step; generation is no part of it. Each side does it a sample a pass (TRL by accumulation) and in one pass.
The sides take turns REPEATS times (default 5); time is the process's CPU time, and the median of the ratios
is printed with their range, for a machine is seldom alone.

Credit: what `wia.credit_all` takes for the episodes that such a batch of steps comes from, beside the update
on these steps.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from benchmarks.gpu_check import PAD, build_model
from roleagent_lite.config import Wia
from roleagent_lite.distill.grpo import Offline
from roleagent_lite.distill.plan import Size
from roleagent_lite.distill.policy import Policy, open_policy
from roleagent_lite.distill.recipe import Recipe, from_mapping
from roleagent_lite.distill.samples import Sample
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.distill.train import Trainer
from roleagent_lite.types import Outcome, Step, Trajectory
from roleagent_lite.wia.credit import credit_all

SIZE = Size(layers=6, hidden=192, feed_forward=512, heads=6, kv_heads=3, head_size=32, vocabulary=16384,
            tied=True)  # fmt: skip
ROWS, PROMPT, REPLY = 8, (120, 360), (8, 40)
RANK, ALPHA, KL, LR = 8, 16.0, 0.001, 1e-5


def batch(vocabulary: int, seed: int = 0) -> list[Tokens]:
    """Samples with prompts and replies of different lengths, as steps of episodes have them."""
    draw, out = random.Random(seed), []
    for number in range(ROWS):
        start = draw.randint(*PROMPT)
        ids = tuple(draw.randrange(3, vocabulary) for _ in range(start + draw.randint(*REPLY)))
        advantage = 1.0 if number % 2 else -1.0
        sample = Sample(
            id=f"s{number}", kind="act", trajectory="t", step=number, group="g", task="t", round=1, model="m",
            messages=(), text="", reasoning=None, ended=False, reward=1.0, step_reward=1.0,
            advantage=advantage, solved=True,
        )  # fmt: skip
        out.append(Tokens(sample, (), ids, start, (0,) * len(ids)))
    return out


def recipe_of(folder: Path, micro_batch: int) -> Recipe:
    return from_mapping(
        {
            "model": str(folder), "backend": "plain", "device": "cpu",
            "adapter": {"rank": RANK, "alpha": ALPHA},
            "train": {"batch": ROWS, "micro_batch": micro_batch, "lr": LR},
            "loss": {"kl": KL, "max_kl": 1e9, "normalise": "mean"},
        }
    )  # fmt: skip


def ours(
    folder: Path, rows: Sequence[Tokens], micro_batch: int, place: Path
) -> tuple[Policy, dict[str, Any], Callable[[], float]]:
    """(the policy, what its log-probabilities are now, one update that returns its loss)."""
    recipe = recipe_of(folder, micro_batch)
    policy = open_policy(recipe, PAD)
    with policy.frozen():
        known = Offline.read(policy, rows)
    objective = Offline(recipe.loss, known, known, "x")
    trainer = Trainer(policy, objective, recipe, place / "ours", {})

    def update() -> float:
        report, stopped = trainer._measure(rows, 0, learn=True)
        assert not stopped, stopped
        trainer._update(0)
        return report["loss"]

    return policy, known, update


def trl(
    folder: Path, rows: Sequence[Tokens], known: dict[str, Any], micro_batch: int, place: Path
) -> Callable[[], float]:
    """One update of TRL's trainer, by its own training step, with what it would have generated given."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    arguments = GRPOConfig(
        output_dir=str(place / "trl"), per_device_train_batch_size=micro_batch, num_generations=2,
        gradient_accumulation_steps=len(rows) // micro_batch,
        loss_type="bnpo", epsilon=0.2, epsilon_high=0.28, beta=KL, temperature=1.0,
        max_completion_length=REPLY[1], use_cpu=True, report_to=[], bf16=False, disable_tqdm=True,
        gradient_checkpointing=False, learning_rate=LR, use_bias_correction_kl=False, max_steps=10**6,
    )  # fmt: skip
    made = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        reward_funcs=lambda **_: [0.0], args=arguments,
        train_dataset=Dataset.from_list([{"prompt": "a"}] * 4),
        processing_class=AutoTokenizer.from_pretrained(folder),
        peft_config=LoraConfig(
            r=RANK, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM", lora_dropout=0.0
        ),
    )  # fmt: skip
    made.create_optimizer()
    parts = [given_of(rows[k : k + micro_batch], known) for k in range(0, len(rows), micro_batch)]
    made._prepare_inputs = lambda given: given
    made.current_gradient_accumulation_steps = len(parts)  # which its own loop sets
    params = [p for p in made.model.parameters() if p.requires_grad]

    def update() -> float:
        loss = sum(float(made.training_step(made.model, given, None)) for given in parts)
        made.accelerator.clip_grad_norm_(params, 1.0)
        made.optimizer.step()
        made.optimizer.zero_grad()
        return loss

    return update


def given_of(rows: Sequence[Tokens], known: dict[str, Any]) -> dict[str, Any]:
    """Prompts padded on the left, replies on the right, as TRL has them."""
    import torch

    left = max(t.start for t in rows)
    right = max(len(t.ids) - t.start for t in rows)

    def after(values: Sequence[Any], blank: Any) -> list[Any]:
        return [*values, *[blank] * (right - len(values))]

    old = torch.tensor([after(known[t.sample.id].tolist(), 0.0) for t in rows])
    return {
        "prompt_ids": torch.tensor([[PAD] * (left - t.start) + list(t.ids[: t.start]) for t in rows]),
        "prompt_mask": torch.tensor([[0] * (left - t.start) + [1] * t.start for t in rows]),
        "completion_ids": torch.tensor([after(t.ids[t.start :], PAD) for t in rows]),
        "completion_mask": torch.tensor([after([1] * (len(t.ids) - t.start), 0) for t in rows]),
        "advantages": torch.tensor([t.sample.advantage for t in rows]),
        "old_per_token_logps": old, "ref_per_token_logps": old,
        "num_items_in_batch": torch.tensor(sum(len(t.ids) - t.start for t in rows)),
    }  # fmt: skip


# --- credit -------------------------------------------------------------------------------------------


def episodes(steps: int, seed: int = 0) -> list[Trajectory]:
    """Rollouts in groups of 8 with `steps` steps in all, 16 an episode, texts as long as the household's, one
    prediction a step of a step ahead."""
    draw, out, count = random.Random(seed), [], 16
    words = ("you", "see", "a", "closed", "drawer", "on", "the", "left", "of", "it", "there", "is", "apple")

    def text(length: int) -> str:
        return " ".join(draw.choice(words) for _ in range(length))

    for number in range(-(-steps // count)):
        seen = [text(30) for _ in range(count + 1)]
        moves = tuple(
            Step(
                seen[k], f"go to {k}", seen[k + 1], reward=float(k == count - 1),
                state_key=str(draw.randrange(40)), predictions=(text(12),),
            )
            for k in range(count)
        )  # fmt: skip
        solved = bool(number % 2)
        out.append(
            Trajectory(
                id=f"1/x/task{number // 8}#{number % 8}", task=f"task{number // 8}", prompt_set="x",
                model="m", split="train", round=1, rollout=number % 8, steps=moves, score=float(solved),
                max_steps=20, outcome=Outcome("solved" if solved else "failed", "" if solved else "lost"),
            )
        )  # fmt: skip
    return out


def credit_seconds(count: int) -> float:
    """Of one step of an episode, in a batch of `count`."""
    played = episodes(count)
    start = time.process_time()
    made = credit_all(played, Wia())
    spent = time.process_time() - start
    assert len(made) == len(played)
    return spent / sum(len(t.steps) for t in played)


# --- side by side -------------------------------------------------------------------------------------


def timed(update: Callable[[], float]) -> float:
    start = time.process_time()
    update()
    return time.process_time() - start


def middle(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main(repeats: int = 5, model: str = "") -> int:
    torch = load("torch")
    with tempfile.TemporaryDirectory() as place:
        here = Path(place)
        folder = Path(model) if model else build_model(here / "model", SIZE)
        if not model:  # compared in float32
            from transformers import AutoModelForCausalLM

            AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).save_pretrained(folder)
        rows = batch(SIZE.vocabulary)
        tokens = sum(len(t.ids) for t in rows)
        passes = {"a sample a pass": 1, "all in one pass": ROWS}
        sides: dict[str, Callable[[], float]] = {}
        for words, size in passes.items():
            policy, known, sides[f"ours, {words}"] = ours(folder, rows, size, here)
            sides[f"TRL, {words}"] = trl(folder, rows, known, size, here)
        losses = {name: update() for name, update in sides.items()}  # warm, from the same weights
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(repeats):
            names = list(sides)
            for name in names[turn % 4 :] + names[: turn % 4]:
                seconds[name].append(timed(sides[name]))
        weights = sum(p.numel() for p in policy.model.parameters()) / 1e6
        threads = torch.get_num_threads()
        print(f"torch {torch.__version__}, threads: {threads}, {weights:.1f} M weights, float32")
        print(f"{ROWS} samples, {tokens} tokens, {sum(sum(t.mask) for t in rows)} of them trained")
        for name, spent in seconds.items():
            speed = tokens / statistics.median(spent)
            print(f"{name}: {speed:,.0f} tokens a CPU second, loss {losses[name]:+.6f}")
        for words in passes:
            pairs = zip(seconds[f"ours, {words}"], seconds[f"TRL, {words}"], strict=True)
            print(f"{words}: ours is {middle([b / a for a, b in pairs])} times as fast as TRL")
        shares = [credit_seconds(640) * ROWS / spent for spent in seconds["ours, a sample a pass"]]
        print(f"credit of {ROWS} steps beside the update on them: {100 * statistics.median(shares):.3f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, *sys.argv[2:3]))
