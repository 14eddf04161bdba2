"""whole: a back end without caches of ours reads the same numbers as prefix.Reader."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

from roleagent_lite.distill import lora
from roleagent_lite.distill.local import ACTING, LocalModel
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.prefix import Reader
from roleagent_lite.distill.whole import Whole, reader_of
from tests.distill import local, stand_in_unsloth
from tests.distill.test_local import FREE, SCORED, reply

CHOICES = ((5, 6), (7,), (8, 9, 10))
PROMPT = tuple(range(20, 90))


@pytest.fixture
def policies(monkeypatch: pytest.MonkeyPatch) -> tuple[Policy, Policy]:
    """(with Unsloth's stand-in, plain), the same adapter on both."""
    stand_in_unsloth.put_in(monkeypatch)
    made = local.policy(local.recipe(backend="unsloth")), local.policy(local.recipe(backend="plain"))
    for one in made:
        local.disturb(one, size=0.3)
    return made


def never(ids: Sequence[int]) -> bool:
    return False


def write(reader: Any, **more: Any) -> list[tuple[int, float]]:
    given = {"most": 6, "temperature": 0.0, "seed": "s", "done": never, **more}
    found: list[tuple[int, float]] = reader.write(PROMPT, **given)
    return found


def test_the_back_end_decides_who_reads(policies: tuple[Policy, Policy]) -> None:
    fast, plain = policies
    for policy, kind in ((fast, Whole), (plain, Reader)):
        assert isinstance(reader_of(policy, contextlib.nullcontext, now=True), kind)


@pytest.mark.parametrize("acting", sorted(ACTING))
def test_scores_are_those_of_the_reader_of_blocks(policies: tuple[Policy, Policy], acting: str) -> None:
    fast, plain = policies
    found = Whole(fast, lambda: ACTING[acting](fast)).score(PROMPT, CHOICES)
    wanted = Reader(plain, lambda: ACTING[acting](plain)).score(PROMPT, CHOICES)
    assert [len(s) for s in found] == [2, 1, 3]
    for one, other in zip(found, wanted, strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    now = Whole(fast).score(PROMPT, CHOICES)
    assert (now[0] == pytest.approx(found[0], abs=1e-4)) is (acting == "now")


def test_greedy_replies_are_those_of_the_reader_of_blocks(policies: tuple[Policy, Policy]) -> None:
    found, wanted = write(Whole(policies[0])), write(Reader(policies[1]))
    assert [t for t, _ in found] == [t for t, _ in wanted]
    assert [p for _, p in found] == pytest.approx([p for _, p in wanted], abs=1e-4)


def test_a_reply_ends_where_it_is_done_and_draws_by_its_seed(policies: tuple[Policy, Policy]) -> None:
    import torch

    reader = Whole(policies[0])
    whole = write(reader)
    assert write(reader, done=lambda ids: len(ids) == 2) == whole[:2]
    state = torch.random.get_rng_state()
    hot = {seed: write(reader, temperature=2.0, seed=seed) for seed in "abcd"}
    assert torch.equal(state, torch.random.get_rng_state())  # the trainer's draws are not touched
    assert write(reader, temperature=2.0, seed="a") == hot["a"]
    assert len({tuple(t for t, _ in found) for found in hot.values()}) > 1
    assert reader.read == 7 * len(PROMPT) and reader.reused == 0


def test_the_model_of_the_house_answers_through_it(policies: tuple[Policy, Policy]) -> None:
    fast, plain = (LocalModel(p, local.tokenizer(), "local:tiny+0", most=500) for p in policies)
    assert isinstance(fast.reader, Whole)
    one, other = reply(fast, SCORED), reply(plain, SCORED)
    assert one.text == other.text and one.scores is not None and other.scores is not None
    assert [sum(s) for s in one.scores] == pytest.approx([sum(s) for s in other.scores], abs=1e-4)
    assert reply(fast, FREE).text == reply(plain, FREE).text
    fast.changed("local:tiny+1")
    lora_b = [p for name, p in policies[0].parameters.items() if ".lora_B." in name]
    for parameter in lora_b:
        parameter.data.zero_()
    assert reply(fast, SCORED).scores != one.scores


class Engine(ModuleType):
    """A stand-in for vLLM and for what Unsloth puts on a model that was loaded with it; it writes 7 7 7."""

    def __init__(self) -> None:
        super().__init__("vllm")
        self.settings: list[dict[str, Any]] = []
        self.adapters: list[str] = []
        self.asked: list[tuple[Any, Any]] = []

    def SamplingParams(self, **given: Any) -> dict[str, Any]:
        self.settings.append(given)
        return given

    def load_lora(self, folder: str, load_tensors: bool) -> str:
        assert load_tensors
        self.adapters.append(folder)
        return f"adapter {len(self.adapters)}"

    def fast_generate(
        self, prompts: Any, sampling_params: Any, lora_request: Any, use_tqdm: bool
    ) -> list[Any]:
        self.asked.append((prompts, lora_request))
        each = [{7: SimpleNamespace(logprob=-0.5)}] * 3
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=[7, 7, 7], logprobs=each)])]


def test_vllm_writes_with_the_adapter_as_it_is_now(
    policies: tuple[Policy, Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, fast = Engine(), policies[0]
    monkeypatch.setitem(sys.modules, "vllm", engine)
    fast.model.vllm_engine = object()
    fast.model.fast_generate, fast.model.load_lora = engine.fast_generate, engine.load_lora
    reader = Whole(fast)
    assert write(reader, temperature=0.5) == [(7, -0.5)] * 3
    assert write(reader, done=lambda ids: len(ids) == 2) == [(7, -0.5)] * 2
    assert engine.asked[0] == ([{"prompt_token_ids": list(PROMPT)}], "adapter 1")
    assert engine.asked[1][1] == "adapter 1"  # carried over once, while the weights stay
    first = engine.settings[0]
    assert (first["temperature"], first["max_tokens"], first["logprobs"]) == (0.5, 6, 1)
    assert engine.settings[0]["seed"] == engine.settings[1]["seed"]
    reader.forget()
    write(reader)
    assert engine.asked[2][1] == "adapter 2" and len(set(engine.adapters)) == 2
    earlier = Whole(fast, lambda: ACTING["base"](fast), now=False)
    assert [t for t, _ in write(earlier)] != [7, 7, 7] and len(engine.asked) == 3
    assert lora.TRAINED in fast.model.peft_config
