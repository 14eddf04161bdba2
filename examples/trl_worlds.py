"""Whole episodes in TRL 1.14: the model acts in a world by calling a tool, and learns from WIA's credit.

    pip install 'roleagent-lite[distill]' trl==1.14.0
    python examples/trl_worlds.py Qwen/Qwen3-0.6B household-easy trained --updates 100

MODEL is a folder or a name on a model hub; its chat template must know tools. TASKS is a shipped task set or
a JSONL file. Each update plays GROUP episodes of tasks that the curriculum draws.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from roleagent_lite.distill.sampler import CurriculumSampler, Learning, for_trl
from roleagent_lite.distill.worlds import EpisodeReward, per_step, task_rows, worlds
from roleagent_lite.tasksets import load_tasks


def train(model: str, tasks: str, out: Path, updates: int = 100, group: int = 8, **settings: Any) -> Any:
    """Trains `model`, saves it in `out`, and returns the trainer. settings: of TRL's GRPOConfig."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    own = load_tasks(tasks, "train")
    given = {
        "max_completion_length": 2048,  # of the whole episode
        "scale_rewards": "none",  # they are advantages already
        **settings,
    }
    arguments = GRPOConfig(output_dir=str(out), max_steps=updates, num_generations=group, **given)
    sampler = CurriculumSampler(own, rounds=updates, **for_trl(arguments))

    class Trainer(per_step(GRPOTrainer)):  # type: ignore[misc]
        def _get_train_sampler(self, dataset: object = None) -> CurriculumSampler:
            return sampler

    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list(task_rows(own)),
        environment_factory=worlds(own),
        reward_funcs=Learning(EpisodeReward(), sampler),
    )
    trainer.train()
    trainer.save_model()
    return trainer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("tasks")
    parser.add_argument("out", type=Path)
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--group", type=int, default=8)
    said = parser.parse_args()
    train(said.model, said.tasks, said.out, said.updates, said.group, per_device_train_batch_size=said.group)
