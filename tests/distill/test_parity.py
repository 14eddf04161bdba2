"""parity: what is compared, what is excused, and that a file without the adapter is found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill import parity
from roleagent_lite.distill.parity import Probe, Said, Served, Torch, check, compare, probes_of
from roleagent_lite.distill.to_gguf import write_adapter, write_model
from roleagent_lite.distill.tokenizer import open_tokenizer
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.lm.embedded import start
from tests import tiny_bpe
from tests.distill import local, make

PROBES = (
    Probe("a", make.chat(), (" take key", " open door 2", " look around")),
    Probe("b", make.chat("There is a hook 1."), (" look around", " take key from hook 1")),
    Probe("c", make.chat("You see 365 doors.")),
)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Torch, Torch, Path]:
    """Base + adapter, the base, and a folder with the files of both."""
    from roleagent_lite.distill import lora

    folder, out = tiny_bpe.model(), tmp_path_factory.mktemp("parity")
    made = local.policy(local.recipe(model=str(folder)))
    local.disturb(made, 0.1)
    lora.save(made.model, out / "a", "float32")
    write_model(folder, out / "base.gguf")
    write_adapter(out / "a", folder, out / "a.gguf")
    tokenizer = open_tokenizer(str(folder))
    return Torch("adapter", made.model, tokenizer), Torch("base", made.model, tokenizer, off=True), out


def served(file: Path, adapter: Path | None = None) -> Served:
    return Served("file", start(file, 512, adapter), 1)


def test_a_served_adapter_plays_as_in_torch(sides: tuple[Torch, Torch, Path]) -> None:
    reference, base, out = sides
    report = compare(served(out / "base.gguf", out / "a.gguf"), reference, base, PROBES)
    assert report.faults == () and report.probes == 3
    assert (report.of_actions, report.of_tokens) == (2, 3 * parity.TOKENS)
    assert report.actions + report.tokens + len(report.excused) == 2 + 3 * parity.TOKENS
    assert report.to_reference < 0.01 < report.to_base
    assert "2 of 2 first actions" in report.words
    check([report])


def test_a_file_without_the_adapter_is_found_out(sides: tuple[Torch, Torch, Path]) -> None:
    reference, base, out = sides
    report = compare(served(out / "base.gguf"), reference, base, PROBES)
    assert report.to_base < 0.01 < report.to_reference
    assert "cannot be told from the base" in report.faults[-1]
    with pytest.raises(RoleAgentError, match=r"does not play as base \+ adapter: file: .*Nothing was kept"):
        check([report])
    check([replace(report, required=False)])


def test_an_adapter_that_does_nothing_is_found_out(sides: tuple[Torch, Torch, Path]) -> None:
    _, base, _ = sides
    report = compare(base, base, base, PROBES)
    assert (report.to_reference, report.to_base) == pytest.approx((0.0, 0.0), abs=1e-5)
    assert len(report.faults) == 1 and "the adapter is missing, or too weak" in report.faults[0]


def test_torch_says_what_a_plain_forward_pass_says(sides: tuple[Torch, Torch, Path]) -> None:
    import torch

    reference, base, _ = sides
    said = reference.say(PROBES[0])
    assert said.gaps == (0.0,) * len(said.greedy) and len(said.greedy) <= parity.TOKENS
    model = reference._model
    for k, choice in enumerate(said.choice_ids):
        with torch.no_grad():
            rows = model(torch.tensor([[*said.ids, *choice]])).logits[0].log_softmax(-1)
        mean = sum(float(rows[len(said.ids) - 1 + i, t]) for i, t in enumerate(choice)) / len(choice)
        assert said.means[k] == pytest.approx(mean, abs=1e-4)
    with torch.no_grad():
        out = model.generate(
            torch.tensor([said.ids]), attention_mask=torch.ones(1, len(said.ids), dtype=torch.long),
            max_new_tokens=parity.TOKENS, do_sample=False, eos_token_id=1, pad_token_id=2,
        )  # fmt: skip
    assert tuple(out[0, len(said.ids) :].tolist()) == said.greedy
    with model.disable_adapter():
        assert base.say(PROBES[0]) == Torch("x", model, base._tokenizer).say(PROBES[0])
    assert base.say(PROBES[0]).means != said.means


class Fixed:
    """A side that says what the reference says, but for `change`."""

    name = "fixed"

    def __init__(self, of: Torch, **change: Any) -> None:
        self._of, self._change = of, change

    def say(self, probe: Probe, follow: Sequence[int] | None = None) -> Said:
        return replace(self._of.say(probe), **self._change)


def test_each_kind_of_difference_is_named(sides: tuple[Torch, Torch, Path]) -> None:
    reference, base, _ = sides
    own = reference.say(PROBES[0])
    worst = min(range(3), key=lambda k: own.means[k])
    means = tuple(0.0 if k == worst else m for k, m in enumerate(own.means))
    for change, told, measured in (
        ({"text": own.text.replace("hall", "HALL")}, "another prompt from character", False),
        ({"ids": own.ids[1:]}, "read as other tokens", False),
        ({"choice_ids": own.choice_ids[::-1]}, "read as other tokens", False),
        ({"means": means}, f"'{PROBES[0].choices[worst].strip()}' instead of '", True),
        ({"greedy": (0, *own.greedy[1:])}, f"a, token 1: 0 instead of {own.greedy[0]} (", True),
    ):
        report = compare(Fixed(reference, **change), reference, base, PROBES[:1])
        assert told in report.faults[0]
        assert ("nats apart" in report.faults[0]) == measured


def test_near_ties_are_excused_and_listed(
    sides: tuple[Torch, Torch, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, base, _ = sides
    own = reference.say(PROBES[0])
    second = sorted(range(3), key=lambda k: -own.means[k])[1]
    means = tuple(m + (9.0 if k == second else 0.0) for k, m in enumerate(own.means))
    monkeypatch.setattr(parity, "NEAR", 100.0)
    report = compare(Fixed(reference, means=means), reference, base, PROBES[:1])
    assert report.actions == 0 and "instead of" in report.excused[0] and "nats apart" in report.excused[0]
    assert all("instead of" not in fault for fault in report.faults)


def test_probes_are_first_prompts_of_tasks_that_are_not_sealed(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r")
    for task, split in (("c", "dev"), ("a", "train"), ("b", "test")):
        first = make.call(
            run, f"1-{task}", "take key", make.chat(f"hall {task}"), choices=(" take key", " go")
        )
        later = make.call(run, f"2-{task}", "go", make.chat("later"))
        steps = [make.step("take key", first), make.step("go", later)]
        make.episode(run, task, 0, True, steps=steps, split=split)  # type: ignore[arg-type]
        make.episode(run, task, 1, True, steps=steps, split=split)  # type: ignore[arg-type]
    found = probes_of(run)
    assert [p.task for p in found] == ["a", "c"]
    assert found[0].messages == make.chat("hall a") and found[0].choices == (" take key", " go")
    assert [p.task for p in probes_of(run, 1)] == ["a"]


def test_a_run_without_prompts_can_check_nothing(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r")
    make.episode(run, "a", 0, True, steps=[make.step("take key")])
    with pytest.raises(RoleAgentError, match="holds no first prompt of a training or dev task"):
        probes_of(run)
