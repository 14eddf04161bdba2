"""prepare: counts, warnings and the reasons not to begin."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.distill.prepare import Prepared, prepare
from roleagent_lite.distill.recipe import from_mapping
from roleagent_lite.distill.tokenizer import Tokenizer, open_tokenizer
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from tests import tiny
from tests.distill import make
from tests.distill.test_tokens import long_chat


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make.new_run(tmp_path / "r")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return open_tokenizer(str(tiny.save_tokenizer(tmp_path / "m")))


def prepared(run: Run, tokenizer: Tokenizer, **recipe: Any) -> Prepared:
    return prepare(run, from_mapping(recipe), tokenizer)


def test_rl_01_no_group_with_signal_stops_before_any_weights(run: Run, tokenizer: Tokenizer) -> None:
    make.group(run, "a", [True] * 4)
    make.group(run, "b", [False] * 4)
    found = prepared(run, tokenizer)
    assert "2 of 2 groups without signal" in found.report.warnings
    assert [t.sample.advantage for t in found.tokens] == [0.0] * 8 and not found.usable
    with pytest.raises(RoleAgentError, match="nothing to train on: 2 of 2 groups without signal"):
        found.check()


def test_a_group_without_signal_is_left_out_and_counted(run: Run, tokenizer: Tokenizer) -> None:
    make.group(run, "a", [True, True])
    make.group(run, "b", [True, False, False])
    found = prepared(run, tokenizer)
    found.check()
    assert {t.sample.task for t in found.usable} == {"b"}
    assert found.report.reasons == {"group without signal": 2} and found.report.used == 3
    assert all(math.isfinite(t.sample.advantage) for t in found.tokens)
    assert prepared(run, tokenizer, loss={"no_signal": "keep"}).report.used == 5


def test_rl_05_over_half_cut_warns_all_cut_stops(run: Run, tokenizer: Tokenizer) -> None:
    for rollout, turns in enumerate((9, 9, 0)):
        key = make.call(run, f"c{rollout}", "take key", long_chat(turns, 50))
        make.episode(run, "a", rollout, rollout == 0, steps=[make.step("take key", key)])
    found = prepared(run, tokenizer, data={"max_tokens": 300})
    assert (found.report.cut, found.report.too_long, found.report.used) == (2, 0, 3)
    assert "2 of 3 samples are over the limit (2 cut, 0 dropped)" in found.report.warnings[0]
    found.check()
    dropping = prepared(run, tokenizer, data={"max_tokens": 300, "too_long": "drop"})
    assert (dropping.report.cut, dropping.report.too_long, dropping.report.used) == (0, 2, 1)
    assert dropping.report.reasons == {"too long": 2}
    nothing = prepared(run, tokenizer, data={"max_tokens": 16})
    with pytest.raises(
        RoleAgentError, match=r"all 3 samples are over the limit of 16 tokens.*the shortest has"
    ):
        nothing.check()


def test_a_run_without_samples_says_why(run: Run, tokenizer: Tokenizer) -> None:
    with pytest.raises(RoleAgentError, match=r"training episodes give no sample$"):
        prepared(run, tokenizer).check()
    make.episode(run, "a", 0, True, steps=[make.step("look")])
    with pytest.raises(RoleAgentError, match=r"give no sample \(1 x no call: the action was not a model's\)"):
        prepared(run, tokenizer).check()


def test_imitation_needs_no_signal(run: Run, tokenizer: Tokenizer) -> None:
    make.group(run, "a", [True] * 3)
    found = prepared(run, tokenizer, method="sft", sft={"per_task": 2})
    found.check()
    assert found.report.used == 2 and found.report.reasons == {"2 better episodes of its task": 1}


def test_true_predictions_teach_in_a_group_without_signal(run: Run, tokenizer: Tokenizer) -> None:
    reply = '{"action": "take key", "predictions": ["Nothing happens."]}'
    for rollout in range(2):
        key = make.call(run, f"c{rollout}", reply)
        steps = [make.step(reply, key, predictions=("Nothing happens.",))]
        make.episode(run, "a", rollout, False, steps=steps)
    assert prepared(run, tokenizer).report.used == 0
    found = prepared(run, tokenizer, loss={"prediction": 0.1})
    found.check()
    assert found.report.used == 2


def test_what_templates_and_recorded_ids_did_is_counted(run: Run, tmp_path: Path) -> None:
    tokenizer = open_tokenizer(str(tiny.save_tokenizer(tmp_path / "n", tiny.NO_SYSTEM)))
    spelt = tuple(i for c in "take key" for i in tokenizer.encode(c))
    for rollout, ids in enumerate((spelt, (5, 6), None)):
        key = make.call(run, f"c{rollout}", "take key", token_ids=ids)
        make.episode(run, "a", rollout, rollout == 0, steps=[make.step("take key", key)])
    report = prepared(run, tokenizer).report
    assert (report.recorded_ids, report.ids_differ) == (1, 1)
    assert report.warnings == (
        "1 of 3 samples: recorded token ids differ from this tokenizer's; they are used as recorded",
        "1 of 3 samples: recorded token ids are another tokenizer's; the text is tokenised again",
        "3 of 3 samples: system text moved into the first user message",
    )
