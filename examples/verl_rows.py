"""A run's samples as verl and verl-agent read them, and the reward function that their config names.

    roleagent-lite distill RUN --samples train.parquet --layout verl
    python examples/verl_rows.py Qwen/Qwen3-0.6B runs/RUN train.parquet

In verl: `data.train_files=train.parquet`, and a file of your own with the two lines

    reward = StateReward.of(Run.open(Path("runs/RUN")))
    compute_score = reward.score

named by `custom_reward_function.path`. verl-agent hands the column `env_kwargs` to its worlds' reset().
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from roleagent_lite.distill.state_reward import StateReward
from roleagent_lite.store import Run

MAX_PROMPT = 1024  # tokens, verl's `data.max_prompt_length`


class Rows:
    """The rows of a parquet file in tokens, padded on the left, as verl's RLHFDataset gave them to verl-agent
    (it leaves tokens to the rollout since); a torch Dataset by its form."""

    def __init__(self, file: Path, tokenizer: Any, max_prompt: int = MAX_PROMPT) -> None:
        import pyarrow.parquet

        self.tokenizer, self.width = tokenizer, max_prompt
        every = pyarrow.parquet.read_table(file).to_pylist()
        self.rows = [row for row in every if len(self.ids(row)) <= max_prompt]

    def ids(self, row: dict[str, Any]) -> list[int]:
        text = self.tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, tokenize=False)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, item: int) -> dict[str, Any]:
        import torch

        row = self.rows[item]
        ids = self.ids(row)
        blank = self.width - len(ids)
        mask = torch.tensor([0] * blank + [1] * len(ids))
        return {
            **row,
            "input_ids": torch.tensor([self.tokenizer.pad_token_id] * blank + ids),
            "attention_mask": mask,
            "position_ids": (mask.cumsum(0) - 1).clamp(min=0),
            "raw_prompt_ids": ids,
            "index": row["extra_info"]["index"],
        }


def scored(rows: Rows, reward: StateReward) -> list[tuple[float, float]]:
    """(the advantage that the run gave, R of the recorded reply in its state) of each row."""
    return [
        (
            row["extra_info"]["advantage"],
            reward.score(
                row["data_source"],
                row["extra_info"]["completion"],
                row["reward_model"]["ground_truth"],
                row["extra_info"],
            ),
        )
        for row in rows.rows
    ]


def main(model: str, run: Path, file: Path) -> list[tuple[float, float]]:
    from transformers import AutoTokenizer

    rows = Rows(file, AutoTokenizer.from_pretrained(model))
    with Run.open(run) as opened:
        reward = StateReward.of(opened)
    found = scored(rows, reward)
    print(f"{len(rows)} rows of at most {rows.width} tokens; the first: {rows[0]['prompt'][-1]['content']!r}")
    for row, (advantage, earned) in zip(rows.rows, found, strict=True):
        print(f"{row['extra_info']['id']}: A = {advantage:+.3f}, R = {earned:.3f}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    said = parser.parse_args()
    main(said.model, said.run, said.file)
