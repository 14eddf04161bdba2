"""examples/verl_rows.py: the parquet as verl reads it, and the reward function of its config."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs the distill extra", exc_type=ImportError)

from examples import verl_rows
from roleagent_lite.distill import table
from roleagent_lite.distill.recipe import from_mapping
from roleagent_lite.distill.state_reward import StateReward
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from tests import tiny
from tests.distill import make
from tests.examples import hall


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a run `r`, its samples and a tokenizer."""
    hall.run(tmp_path / "r", tasks=1)
    with Run.open(tmp_path / "r") as run:
        table.write(run, from_mapping({"model": "any"}), tmp_path / "s.parquet", "verl")
    tiny.save_tokenizer(tmp_path / "m")
    return tmp_path


def test_a_row_in_tokens_padded_on_the_left(here: Path) -> None:
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(here / "m")
    rows = verl_rows.Rows(here / "s.parquet", tokenizer, 200)
    batch = next(iter(torch.utils.data.DataLoader(rows, batch_size=2, collate_fn=list)))
    assert len(rows) == 16 and [row["index"] for row in batch] == [0, 1]
    for row in batch:
        n = len(row["raw_prompt_ids"])
        assert row["input_ids"].shape == row["attention_mask"].shape == (200,)
        assert row["input_ids"][-n:].tolist() == row["raw_prompt_ids"]
        assert row["attention_mask"].tolist() == [0] * (200 - n) + [1] * n
        assert row["position_ids"][-n:].tolist() == list(range(n))
    text = tokenizer.decode(batch[0]["raw_prompt_ids"])
    assert make.SYSTEM in text and text.endswith("<|start|>assistant\n")
    assert len(verl_rows.Rows(here / "s.parquet", tokenizer, 20)) == 0, (
        "too long a prompt is left out, as there"
    )


def test_the_recorded_replies_earn_what_their_states_are_worth(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = verl_rows.main(str(here / "m"), here / "r", here / "s.parquet")
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("16 rows of at most 1024 tokens") and said[4].startswith(
        "1/seed0000/t0#0/4: A = +"
    )
    assert found[3][1] == 1.0, "the door opens"
    assert found[15][1] < found[3][1] and found[15][0] < 0 < found[3][0]
    with Run.open(here / "r") as run:
        reward = StateReward.of(run)
    rows = verl_rows.Rows(here / "s.parquet", _Blank())
    rows.rows[0]["extra_info"]["state_key"] = "another"
    with pytest.raises(RoleAgentError, match="another version"):
        verl_rows.scored(rows, reward)


class _Blank:
    """A tokenizer for which every text is empty."""

    def apply_chat_template(self, messages: object, **how: object) -> str:
        return ""

    def __call__(self, text: str, **how: object) -> dict[str, list[int]]:
        return {"input_ids": []}
