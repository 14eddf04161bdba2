"""dump: the DUMP's fields, that masks decode to replies, and files that are whole or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.agents.choose import REPEAT
from roleagent_lite.distill import dump
from roleagent_lite.distill.prepare import prepare
from roleagent_lite.distill.recipe import from_mapping
from roleagent_lite.distill.tokenizer import Tokenizer, open_tokenizer
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from tests import tiny
from tests.distill import make
from tests.evolve.kitchen import SMALL, run_kitchen


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = make.new_run(tmp_path / "r")
    make.group(run, "a", [True, False])
    make.group(run, "b", [False, False])
    make.episode(run, "c", 0, True, steps=[make.step("look")])
    return run


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return open_tokenizer(str(tiny.save_tokenizer(tmp_path / "m")))


def written(run: Run, tokenizer: Tokenizer, out: Path, **recipe: Any) -> list[dict[str, Any]]:
    dump.write(prepare(run, from_mapping(recipe), tokenizer), tokenizer, out)
    return [json.loads(line) for line in (out / "samples.jsonl").read_text(encoding="utf-8").splitlines()]


def test_every_sample_is_there_with_its_tokens_mask_and_verdict(
    run: Run, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = written(run, tokenizer, tmp_path / "out")
    assert [(r["task"], r["used"], r["why"]) for r in rows] == [
        ("a", True, ""),
        ("a", True, ""),
        ("b", False, "group without signal"),
        ("b", False, "group without signal"),
    ]
    for row in rows:
        ids, mask = row["token_ids"], row["loss_mask"]
        assert len(ids) == len(mask) and set(mask) == {0, 1}
        assert tokenizer.decode([i for i, m in zip(ids, mask, strict=True) if m]) == row["trained_text"]
        assert row["trained_text"] == row["reply"] + "<|end|>" == "take key<|end|>"
        assert tokenizer.decode(ids) == row["text"]
        assert [m["role"] for m in row["messages"]] == ["system", "user"]
    assert rows[0]["advantage"] == -rows[1]["advantage"] > 0 == rows[2]["advantage"]
    assert (rows[0]["reward"], rows[1]["reward"]) == (1.0, 0.0)
    assert rows[0]["group"] == rows[1]["group"] != rows[2]["group"]
    assert all(r["choices"] == [] for r in rows)


def test_what_an_action_was_chosen_among(tokenizer: Tokenizer, tmp_path: Path) -> None:
    for agent, second in (("choose", REPEAT), ("choose-pmi", None)):
        run = make.new_run(tmp_path / agent, agent=agent)
        choices = (" look", " take key")
        keys = [make.call(run, f"c{n}", " look", module="choose", choices=choices) for n in range(2)]
        make.episode(run, "a", 0, True, steps=[make.step("look", k) for k in keys])
        _, row = written(run, tokenizer, tmp_path / f"{agent}.out")
        first = None if second is None else 0.0
        assert row["choices"] == [
            {"text": " look", "penalty": second},
            {"text": " take key", "penalty": first},
        ]


def test_what_was_dropped_and_the_counts_are_beside_it(
    run: Run, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    written(run, tokenizer, tmp_path / "out", name="mine")
    (dropped,) = (tmp_path / "out" / "dropped.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(dropped)["reason"] == "no call: the action was not a model's"
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary["recipe"]["name"] == "mine" and summary["end_of_turn"]["text"] == "<|end|>"
    assert (summary["samples"], summary["used"], summary["groups"]) == (4, 2, 3)
    assert summary["warnings"] == ["2 of 3 groups without signal"]
    assert summary["reasons"] == {"group without signal": 2, "no call: the action was not a model's": 1}


def test_a_cut_says_what_it_cut(run: Run, tokenizer: Tokenizer, tmp_path: Path) -> None:
    whole = written(run, tokenizer, tmp_path / "a")[0]
    rows = written(run, tokenizer, tmp_path / "b", data={"max_tokens": 16})
    assert not any(r["used"] for r in rows)
    assert rows[0]["cut"] == {"messages": 0, "tokens_before": len(whole["token_ids"])}
    assert "16 allowed" in rows[0]["why"]


def test_a_folder_that_cannot_be_written(run: Run, tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RoleAgentError, match="cannot write the dry run to"):
        written(run, tokenizer, tmp_path / "file" / "out")


def test_a_second_dry_run_replaces_the_first(run: Run, tokenizer: Tokenizer, tmp_path: Path) -> None:
    written(run, tokenizer, tmp_path / "out")
    assert len(written(run, tokenizer, tmp_path / "out", method="sft")) == 1
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "dropped.jsonl",
        "samples.jsonl",
        "summary.json",
    ]


def test_the_masks_of_an_evolution_are_exactly_what_its_agent_said(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """A run recorded by `evolve` itself: every training step is there, nothing of the world is trained."""
    run_kitchen(tmp_path, SMALL)
    with Run.open(tmp_path / "run") as run:
        rows = written(run, tokenizer, tmp_path / "out", loss={"no_signal": "keep"})
        steps = [s for t in run.trajectories if t.split == "train" and t.outcome.teaches for s in t.steps]
        calls = {c.id: c for c in run.calls}
        advantages = {c.trajectory: c.advantage for c in run.credits}
    assert len(rows) == len(steps) > 20 and all(r["used"] for r in rows)
    said = {calls[s.call_ids[-1]].reply.text for s in steps}
    sent = {tuple((m.role, m.content) for m in calls[s.call_ids[-1]].request.messages) for s in steps}
    assert {r["reply"] for r in rows} == said
    assert {tuple((m["role"], m["content"]) for m in r["messages"]) for r in rows} == sent
    for row in rows:
        assert row["trained_text"] == row["reply"] + "<|end|>"
        assert row["text"].endswith("<|start|>assistant\n" + row["trained_text"])
        assert row["advantage"] == advantages[row["trajectory"]][row["step"] - 1]
    assert len({r["advantage"] for r in rows}) > 2
