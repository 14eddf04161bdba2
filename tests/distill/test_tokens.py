"""tokens: the mask covers what the agent said and nothing else, whatever template, padding and length."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from roleagent_lite.distill.samples import Sample
from roleagent_lite.distill.tokenizer import Tokenizer, open_tokenizer
from roleagent_lite.distill.tokens import Tokens, collate, shorter, tokenise
from roleagent_lite.types import Message
from tests import tiny
from tests.distill.make import chat

SAMPLE = Sample(
    id="e/1", kind="act", trajectory="e", step=1, group="g", task="t", round=1, model="tiny", messages=chat(),
    text="take key", reasoning=None, ended=True, reward=1.0, step_reward=1.0, advantage=0.5, solved=True,
)  # fmt: skip


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return open_tokenizer(str(tiny.save_tokenizer(tmp_path / "m")))


def open_with(folder: Path, template: str) -> Tokenizer:
    return open_tokenizer(str(tiny.save_tokenizer(folder / "m", template)))


def masked(tokens: Tokens, tokenizer: Tokenizer, value: int = 1) -> str:
    return tokenizer.decode([i for i, m in zip(tokens.ids, tokens.mask, strict=True) if m == value])


def test_rl_07_the_mask_is_the_reply_and_its_end_of_turn(tokenizer: Tokenizer) -> None:
    messages = (
        *chat(),
        Message("assistant", "take key"),
        Message("user", "You take key from hook. take key"),  # the world repeats the action's text
    )
    tokens = tokenise(replace(SAMPLE, messages=messages, text="open door"), tokenizer, 500)
    assert masked(tokens, tokenizer) == "open door<|end|>"
    rest = masked(tokens, tokenizer, 0)
    assert rest == tokenizer.render(messages) and rest.count("take key") == 3
    assert len(tokens.mask) == len(tokens.ids) and not any(tokens.predicted)


def test_rl_09_padding_with_the_end_token_hides_no_end(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(str(tiny.save_tokenizer(tmp_path, pad="<|end|>", padding_side="left")))
    assert tokenizer.pad_id == tokenizer.end_id
    short = tokenise(SAMPLE, tokenizer, 500)
    long = tokenise(replace(SAMPLE, text="take key and then open door", advantage=-1.0), tokenizer, 500)
    batch = collate([short, long], tokenizer.pad_id)
    assert {len(row) for rows in (batch.ids, batch.mask, batch.attention) for row in rows} == {len(long.ids)}
    end = len(short.ids) - 1
    assert batch.ids[0][end] == tokenizer.end_id and batch.mask[0][end] == 1
    assert batch.mask[0][end + 1 :] == batch.attention[0][end + 1 :] == [0] * (len(long.ids) - len(short.ids))
    assert batch.ids[0][: end + 1] == list(short.ids)  # right padding, whatever side the tokenizer prefers
    assert batch.mask[1][-1] == 1 and batch.advantages == [0.5, -1.0]
    assert collate([], 0).ids == []


def test_a_reply_that_did_not_end_gets_no_end(tokenizer: Tokenizer) -> None:
    tokens = tokenise(replace(SAMPLE, ended=False), tokenizer, 500)
    assert masked(tokens, tokenizer) == "take key"
    begun = (*chat(), Message("assistant", "Goal: out\n>"))
    tokens = tokenise(replace(SAMPLE, messages=begun, text=" take key", ended=False), tokenizer, 500)
    assert masked(tokens, tokenizer) == " take key"
    assert masked(tokens, tokenizer, 0).endswith("Goal: out\n>")


def test_rl_13_a_template_that_drops_old_thinking(tmp_path: Path) -> None:
    """Three turns, each a sample of its own: its prompt is what was sent, only its own reply is trained."""
    tokenizer = open_with(tmp_path, tiny.THINKING)
    said = [
        "<think>\nOne\n</think>\n\ntake key",
        "<think>\nTwo\n</think>\n\nopen door",
        "</think>\n\nlook around",
    ]
    sent = list(chat())
    for turn, reply in enumerate(said):
        tokens = tokenise(replace(SAMPLE, messages=tuple(sent), text=reply), tokenizer, 500)
        assert tokens.messages == tuple(sent)
        prompt = masked(tokens, tokenizer, 0)
        assert prompt == tokenizer.render(sent) and prompt.endswith("<think>\n")
        # the block that the prompt opened is neither opened again nor left open, and none is added
        assert masked(tokens, tokenizer) == reply.removeprefix("<think>\n") + "<|end|>"
        assert masked(tokens, tokenizer).count("think>") == 1
        sent += [Message("assistant", reply), Message("user", f"turn {turn}")]


@pytest.mark.parametrize(
    ("template", "text", "reasoning", "expected"),
    [
        (tiny.CHATML, "take key", "I need it", "<think>\nI need it\n</think>\n\ntake key"),
        (tiny.CHATML, "</think>\n\ntake key", None, "</think>\n\ntake key"),
        (tiny.CHATML, "take key", None, "take key"),
        (tiny.THINKING, "take key", "I need it", "I need it\n</think>\n\ntake key"),
        (tiny.THINKING, "take key", None, "</think>\n\ntake key"),
        (tiny.THINKING, "I need it\n</think>\n\ntake key", None, "I need it\n</think>\n\ntake key"),
    ],
)
def test_thinking_is_closed_once(
    tmp_path: Path, template: str, text: str, reasoning: str | None, expected: str
) -> None:
    tokenizer = open_with(tmp_path, template)
    tokens = tokenise(replace(SAMPLE, text=text, reasoning=reasoning), tokenizer, 500)
    assert masked(tokens, tokenizer) == expected + "<|end|>"


def test_rl_13_recorded_ids_are_used_as_they_are(tokenizer: Tokenizer) -> None:
    own = tokenizer.encode("take key")
    spelt = [i for c in "take key" for i in tokenizer.encode(c)]  # how no tokenizer would write it
    assert spelt != own
    logprobs = tuple(-0.1 * k for k in range(len(spelt)))
    tokens = tokenise(replace(SAMPLE, token_ids=tuple(spelt), logprobs=logprobs, ended=False), tokenizer, 500)
    assert list(tokens.ids[tokens.start :]) == spelt
    assert (tokens.source, tokens.differs, tokens.logprobs) == ("recorded", True, logprobs)
    same = tokenise(replace(SAMPLE, token_ids=(*own, tokenizer.end_id)), tokenizer, 500)
    assert (same.source, same.differs) == ("recorded", False)
    assert list(same.ids[same.start :]) == [*own, tokenizer.end_id]


def test_ids_of_another_tokenizer_are_not_used(tokenizer: Tokenizer) -> None:
    tokens = tokenise(replace(SAMPLE, token_ids=(7, 8, 9), logprobs=(-1.0, -1.0, -1.0)), tokenizer, 500)
    assert (tokens.source, tokens.logprobs) == ("foreign", None)
    assert masked(tokens, tokenizer) == "take key<|end|>"


def test_log_probabilities_must_fit_the_tokens(tokenizer: Tokenizer) -> None:
    count = len(tokenizer.encode("take key"))
    for number, kept in ((count + 1, True), (count, False), (count + 2, False)):
        tokens = tokenise(replace(SAMPLE, logprobs=(-0.5,) * number), tokenizer, 500)
        assert (tokens.logprobs is not None) is kept


def long_chat(turns: int, words: int) -> tuple[Message, ...]:
    out = list(chat())
    for turn in range(turns):
        out += [Message("assistant", f"action {turn}"), Message("user", f"turn {turn}: " + "more " * words)]
    return tuple(out)


def test_rl_05_cut_at_the_borders_of_turns(tokenizer: Tokenizer) -> None:
    messages = long_chat(60, 240)
    tokens = tokenise(replace(SAMPLE, messages=messages), tokenizer, 2000)
    assert tokens.before > 28_000 and len(tokens.ids) <= 2000 and not tokens.why
    assert tokens.messages[:2] == messages[:2]  # the task stays
    assert tokens.messages[2:] == messages[len(messages) - len(tokens.messages) + 2 :]  # and the newest turns
    assert tokens.messages[2].role == "assistant" and tokens.removed % 2 == 0
    assert masked(tokens, tokenizer) == "take key<|end|>"
    longer = shorter(messages)[(tokens.removed - 2) // 2 - 1]
    assert len(tokenizer.prompt_ids(tokenizer.render(longer))) + 4 > 2000  # no more went than had to


def test_rl_05_what_cannot_be_cut_is_dropped(tokenizer: Tokenizer) -> None:
    tokens = tokenise(replace(SAMPLE, messages=long_chat(3, 240)), tokenizer, 100)
    assert tokens.why.endswith("100 allowed; its newest exchange alone is too long")
    one = tokenise(replace(SAMPLE, messages=long_chat(0, 0)), tokenizer, 20)
    assert "20 allowed" in one.why and masked(one, tokenizer) == "take key<|end|>"
    whole = tokenise(replace(SAMPLE, messages=long_chat(3, 240)), tokenizer, 1000, "drop")
    assert whole.why.endswith("1000 allowed") and not whole.removed


def test_which_messages_go() -> None:
    def roles(messages: list[Message]) -> str:
        return "".join(m.role[0] for m in messages)

    assert [roles(m) for m in shorter(long_chat(3, 1))] == ["suauau", "suau"]
    begun = [*long_chat(3, 1), Message("assistant", "Goal:")]
    assert [roles(m) for m in shorter(begun)] == ["suauaua", "suaua"]
    assert shorter(chat()) == [] and shorter(()) == []


def test_tokens_of_true_predictions(tokenizer: Tokenizer) -> None:
    text = '{"action": "take key", "predictions": ["You take the key."]}'
    at = text.index("You")
    sample = replace(SAMPLE, text=text, matched=((at, at + len("You take the key.")),))
    tokens = tokenise(sample, tokenizer, 500)
    chosen = [i for i, m in zip(tokens.ids, tokens.predicted, strict=True) if m]
    assert tokenizer.decode(chosen) == "You take the key."
    thought = tokenise(replace(sample, reasoning="I see a key"), tokenizer, 500)
    chosen = [i for i, m in zip(thought.ids, thought.predicted, strict=True) if m]
    assert tokenizer.decode(chosen) == "You take the key."
    batch = collate([tokens], 0)
    assert sum(batch.predicted[0]) == len(chosen)


def test_a_reply_that_the_vocabulary_lacks_is_noticed(tokenizer: Tokenizer) -> None:
    assert tokenise(SAMPLE, tokenizer, 500).exact
    assert not tokenise(replace(SAMPLE, text="take 鍵"), tokenizer, 500).exact
