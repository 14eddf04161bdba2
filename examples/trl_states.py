"""Single steps in TRL 1.14: GRPO over the states of a run, judged by WIA's credit of one step.

    roleagent-lite distill RUN --samples states.jsonl
    python examples/trl_states.py Qwen/Qwen3-0.6B runs/RUN states.jsonl trained --updates 100

Needs no tools and no chat template that knows them: each row of the file is a prompt, and the reward function
takes the step that a completion says in the row's own state. --imitate N first trains N steps on the replies
of solved episodes in the same file, with TRL's SFTTrainer.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from roleagent_lite.distill.sampler import CurriculumSampler, Learning, for_trl
from roleagent_lite.distill.state_reward import StateReward
from roleagent_lite.store import Run


def imitate(model: str, rows: Any, out: Path, steps: int, **settings: Any) -> str:
    """Trains `model` on the replies of solved episodes; the folder of what came of it."""
    from trl import SFTConfig, SFTTrainer

    good = rows.filter(lambda row: row["solved"]).select_columns(["prompt", "completion"])
    arguments = SFTConfig(output_dir=str(out), max_steps=steps, **settings)
    trainer = SFTTrainer(model=model, args=arguments, train_dataset=good)
    trainer.train()
    trainer.save_model()
    return str(out)


def train(model: str, run: Path, samples: Path, out: Path, updates: int = 100, **settings: Any) -> Any:
    """Trains `model`, saves it in `out`, and returns the trainer. settings: of TRL's GRPOConfig."""
    from trl import GRPOConfig, GRPOTrainer

    rows = load(samples, out)
    arguments = GRPOConfig(output_dir=str(out), max_steps=updates, **settings)
    with Run.open(run) as opened:
        reward = StateReward.of(opened)
        own = [task for task in opened.tasks if task.id in set(rows["task"])]
        sampler = CurriculumSampler.of(opened, own, rows["task"], rounds=updates, **for_trl(arguments))

    class Trainer(GRPOTrainer):  # type: ignore[misc]
        def _get_train_sampler(self, dataset: object = None) -> CurriculumSampler:
            return sampler

    trainer = Trainer(model=model, args=arguments, train_dataset=rows, reward_funcs=Learning(reward, sampler))
    trainer.train()
    trainer.save_model()
    return trainer


def load(samples: Path, out: Path) -> Any:
    """The rows of a file that `--samples` has written, JSONL or parquet."""
    from datasets import load_dataset

    kind = "json" if samples.suffix == ".jsonl" else "parquet"
    return load_dataset(kind, data_files=str(samples), split="train", cache_dir=str(out / "cache"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("run", type=Path)
    parser.add_argument("samples", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--imitate", type=int, default=0)
    said = parser.parse_args()
    start = said.model
    if said.imitate:
        start = imitate(start, load(said.samples, said.out), said.out / "imitated", said.imitate)
    train(start, said.run, said.samples, said.out, said.updates)
