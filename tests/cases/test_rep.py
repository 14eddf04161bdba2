"""Field cases REP: replies that a user's model really sends, played through the whole product."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.types import Observation
from tests.cases import kit
from tests.cases.kit import DIALECTS, TAKE, command_line, evaluate, first, foretell, of_task, text
from tests.cli.make import cli
from tests.fake_server import Answer, FakeServer, Raw, Say, Seen, stream
from tests.toy import Toy

SOLVED = ("solved", "")
OBJECT = '{"action":"take key","prediction":"You hold the key."}'
TICKS = '{"action":"take key","prediction":"It says ```json\\nx\\n``` on the key."}'


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("reply", "foretold"),
    [
        (f"The key is near, so:\n\n```json\n{OBJECT}\n```", "You hold the key."),
        (f"The key is near, so:\n\n```\n{OBJECT}\n```", "You hold the key."),
        (f"The key is near, so:\n\n```JSON\n{OBJECT}\n```", "You hold the key."),
        (f"The key is near, so:\r\n\r\n```json\r\n{OBJECT}\r\n```\r\n", "You hold the key."),
        (f"So:\n```json\n{OBJECT}\n```\nThen I open the {{door}}.", "You hold the key."),
        (f"So:\n```json\n{TICKS}\n```\nDone.", "It says ```json\nx\n``` on the key."),
        (f"So:\n~~~json\n{OBJECT}\n~~~", "You hold the key."),
        (f"<answer>{OBJECT}</answer>", "You hold the key."),
        (f"\ufeff{OBJECT}\x00", "You hold the key."),
    ],
    ids=["json", "no label", "JSON", "CRLF", "prose after", "three backticks", "tildes", "tags", "BOM"],
)
async def test_rep_01_json_in_a_fence_after_prose(
    reply: str, foretold: str, dialect: str, tmp_path: Path
) -> None:
    with FakeServer(first(Say(reply))) as fake:
        played = await foretell(fake, tmp_path, dialect=dialect)
    (episode,) = played.trajectories
    assert [s.action for s in episode.steps] == ["take key", "open door"]
    assert episode.steps[0].predictions == (foretold,)
    assert fake.count == 2, "one request a step"
    assert played.ends == [SOLVED]


THOUGHT = "maybe drop key first"
THINKING: dict[str, Answer] = {
    "closing tag only": Say(f"{THOUGHT}</think>\n{TAKE}"),
    "both tags": Say(f"<think>{THOUGHT}</think>\n{TAKE}"),
    "other tags": Say(f"<thinking>\n{THOUGHT}\n</thinking>\n\n{TAKE}"),
    "in one chunk": stream([f"<think>{THOUGHT}</think>\n{TAKE}"]),
    "tags across chunks": stream(["<thi", f"nk>{THOUGHT}</th", 'ink>\n{"act', 'ion": "take key"}']),
    "field of its own": Say(TAKE, reasoning=THOUGHT),
    "field named reasoning": Say(TAKE, message={"reasoning": THOUGHT}),
    "a part of the content": Say(
        None, message={"content": [{"type": "reasoning", "text": THOUGHT}, {"type": "text", "text": TAKE}]}
    ),
    "nested parts": Say(
        None,
        message={
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]},
                {"type": "text", "text": TAKE},
            ]
        },
    ),
    "an object inside": Say(f'<think>{THOUGHT} {{"action": "drop key"}}</think>{TAKE}'),
}


@pytest.mark.parametrize("shape", THINKING)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_rep_03_thinking_is_kept_apart(shape: str, dialect: str, tmp_path: Path) -> None:
    if dialect != "openai" and ("chunk" in shape or (dialect == "anthropic" and "part" in shape)):
        pytest.skip("this dialect's client asks for no stream and gets no such parts")
    if dialect == "anthropic" and shape == "field named reasoning":
        pytest.skip("a field of OpenAI's message")
    with FakeServer(first(THINKING[shape])) as fake:
        played = await foretell(fake, tmp_path, dialect=dialect)
    (episode,) = played.trajectories
    assert played.ends == [SOLVED]
    assert played.moves["t1"] == [["take key", "open door"]]
    assert fake.count == 2
    assert all("drop key" not in text(seen) for seen in fake.requests), "thinking was sent on"
    for step in episode.steps:
        assert "drop key" not in json.dumps([step.action, step.said, step.predictions, step.thought])
    assert THOUGHT in str(played.calls[0].reply.reasoning)
    assert "drop key" not in played.calls[0].reply.text


NOTHING: dict[str, Answer] = {
    "null": Say(None),
    "empty": Say(""),
    "blank": Say(" \n\t"),
    "no parts": Say(None, message={"content": []}),
    "thinking only": Say(None, reasoning="hm"),
    "thinking in the text only": Say("<think>hm</think>\n"),
    "no content": Raw(200, {"choices": [{"message": {"role": "assistant"}, "finish_reason": "stop"}]}),
    "no message": Raw(200, {"choices": [{"finish_reason": "stop"}]}),
    "no choice": Raw(200, {"choices": []}),
    "an empty stream": stream([]),
}


@pytest.mark.parametrize("shape", NOTHING)
def test_rep_05_an_empty_reply_is_a_failed_step_and_the_next_task_goes_on(shape: str, tmp_path: Path) -> None:
    with FakeServer(of_task(1, NOTHING[shape])) as fake:
        played = evaluate(fake, tmp_path, tasks=2)
    assert played.ends == [("infrastructure_error", "empty reply"), SOLVED]
    assert [kit.goal(seen) for seen in fake.requests] == ["1", "1", "1", "2", "2"]
    assert played.moves["t1"] == [[]], "the environment was stepped"
    assert "empty reply" in played.report


@pytest.mark.parametrize("dialect", ["groq", "anthropic"])
@pytest.mark.parametrize("shape", ["null", "blank", "thinking only"])
def test_rep_05_in_other_dialects(shape: str, dialect: str, tmp_path: Path) -> None:
    with FakeServer(of_task(1, NOTHING[shape])) as fake:
        played = evaluate(fake, tmp_path, tasks=2, dialect=dialect)
    assert played.ends == [("infrastructure_error", "empty reply"), SOLVED]
    assert fake.count == 3 + 2 and played.moves["t1"] == [[]]


@pytest.mark.parametrize(
    "reply", ["{}", '{"action": ""}', '{"action": null}', '{"action": "  "}', '{"action": []}', "[]", '""']
)
def test_rep_05_an_object_without_an_action_is_no_action(reply: str, tmp_path: Path) -> None:
    with FakeServer(of_task(1, Say(reply))) as fake:
        played = evaluate(fake, tmp_path, tasks=2)
    assert played.ends == [("bad_format", "wrong form"), SOLVED]
    assert fake.count == 2 + 2 and played.moves["t1"] == [[]]


def test_rep_05_on_the_command_line(tmp_path: Path) -> None:
    with FakeServer(of_task(1, Say(None))) as fake:
        said = command_line(fake, tmp_path, tasks=2)
    assert said.code == 5, said.err
    assert "1 of 1" in said.out and "1 episodes ended in infrastructure errors" in said.err


CUT: dict[str, tuple[str, Answer]] = {
    "half an object": ("openai", Say('{"action": "ta', "length")),
    "null": ("openai", Say(None, "length")),
    "thinking only": ("openai", Say(None, "length", reasoning="hm")),
    "an open thinking tag": ("openai", Say('<think>{"action": "take key"} or', "length")),
    "vLLM's other word": ("openai", Say('{"action": "ta', "max_tokens")),
    "Mistral's word": ("openai", Say('{"action": "ta', "model_length")),
    "Gemini's word": ("openai", Say('{"action": "ta', "MAX_TOKENS")),
    "groq": ("groq", Say('{"action": "ta', "length")),
    "groq, another word": ("groq", Say(None, "max_tokens")),
    "anthropic": ("anthropic", Say('{"action": "ta', "length")),
    "anthropic, nothing": ("anthropic", Say(None, "length")),
    "anthropic, the window": ("anthropic", Say("ta", "model_context_window_exceeded")),
}


@pytest.mark.parametrize("shape", CUT)
def test_rep_07_a_reply_cut_at_its_limit_says_so(shape: str, tmp_path: Path) -> None:
    dialect, answer = CUT[shape]
    with FakeServer(of_task(1, answer)) as fake:
        played = evaluate(fake, tmp_path, tasks=2, dialect=dialect, limits={"max_tokens": 64})
    assert played.ends == [("cut_off", "max_tokens"), SOLVED]
    assert fake.count == 1 + 2, "the doomed request was sent again"
    said = str(played.trajectories[0].error)
    assert "output cut at max tokens 64" in said and "raise limits.max_tokens" in said
    assert "JSON" not in said and played.moves["t1"] == [[]] and not played.trajectories[0].steps
    assert "output cut at max tokens 64; raise limits.max_tokens" in played.report
    assert "infrastructure errors" not in played.report
    assert "| cut_off | max\\_tokens | 1 |" in played.report


def test_rep_07_a_whole_object_before_the_limit_is_used(tmp_path: Path) -> None:
    with FakeServer(first(Say(f"{TAKE} and then I would", "length"))) as fake:
        assert evaluate(fake, tmp_path).ends == [SOLVED]
    assert fake.count == 2


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "answer",
    [
        Say(None, message={"refusal": "I can't help with that."}),
        Say("I can't help with that.", "refusal"),
        Say(None, "refusal"),
        Say(None, message={"content": [{"type": "refusal", "refusal": "I can't help with that."}]}),
    ],
    ids=["field", "finish", "finish alone", "part"],
)
def test_rep_08_a_refusal_is_counted_as_one(answer: Say, dialect: str, tmp_path: Path) -> None:
    if dialect == "anthropic" and isinstance(answer.message.get("content"), list):
        pytest.skip("a part of OpenAI's")
    with FakeServer(of_task(1, answer)) as fake:
        played = evaluate(fake, tmp_path, tasks=2, dialect=dialect)
    assert played.ends == [("cut_off", "refused"), SOLVED]
    assert 1 <= fake.count - 2 <= 2
    assert "| cut_off | refused | 1 |" in played.report and "bad_format" not in played.report


def test_rep_08_a_model_that_comes_round_is_used(tmp_path: Path) -> None:
    def script(seen: Seen) -> Answer:
        return Say(None, message={"refusal": "No."}) if seen.number == 0 else kit.won(seen)

    with FakeServer(script) as fake:
        assert evaluate(fake, tmp_path).ends == [SOLVED]
    assert fake.count == 3


def raw_reply(content: str) -> Raw:
    """A reply whose content is written into the JSON as it stands, escapes and all."""
    choice = f'{{"message": {{"role": "assistant", "content": "{content}"}}, "finish_reason": "stop"}}'
    return Raw(200, f'{{"choices": [{choice}]}}')


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("\\ud83d\\udd11", "🔑"),  # the provider's JSON escapes the pair
        ("\\\\ud83d\\\\udd11", "🔑"),  # the model's own JSON does
        ("\\ud83d", "\ufffd"),
        ("\\\\ud83d", "\ufffd"),
        ("\\udd11\\ud83d", "\ufffd\ufffd"),
        ("🔑 مفتاح", "🔑 مفتاح"),
    ],
    ids=["pair", "pair inside", "half", "half inside", "the wrong way round", "plain"],
)
async def test_rep_10_escaped_emoji_and_halves_of_them(written: str, stored: str, tmp_path: Path) -> None:
    inner = json.dumps({"thought": "W", "action": "take key", "predictions": ["W"]})
    inner = inner.replace('"', '\\"').replace("W", written)
    with FakeServer(first(raw_reply(inner))) as fake:
        played = await foretell(fake, tmp_path)
    assert played.ends == [SOLVED] and fake.count == 2
    step = played.trajectories[0].steps[0]
    assert (step.thought, step.predictions) == (stored, (stored,))
    for line in (played.folder / "calls.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line)


STRANGE = "🔑 مفتاح \x00 \x1b[31m \u2028 ends here"


class Babel(Toy):
    """Says what consoles and logs choke on."""

    def observe(self) -> Any:
        return Observation(STRANGE, self.listed, self._state())


def test_rep_10_an_observation_with_emoji_arabic_and_nul(tmp_path: Path) -> None:
    kit.tasks_file(tmp_path / "t.jsonl", world="tests.cases.test_rep:Babel")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    with FakeServer(kit.won) as fake:
        words = ("eval", "--tasks", "t.jsonl", "--model", "fake", "--base-url", fake.url, "--run", "run")
        done = cli(*words, cwd=tmp_path, env=plain)
    assert done.returncode == 0, done.stderr
    played = kit.read(tmp_path / "runs" / "run")
    assert played.trajectories[0].steps[0].observation == STRANGE
    assert played.calls[0].request.messages[-1].content.count(STRANGE) == 1
    assert STRANGE in fake.requests[0].body["messages"][-1]["content"] and fake.count == 2
    shown = cli("show", "run", "t1#0", "--full", cwd=tmp_path, env=plain)
    assert shown.returncode == 0, shown.stderr
    assert "\\U0001f511" in shown.stdout and "\x00" not in shown.stdout and "\x1b" not in shown.stdout


async def test_a_reply_of_megabytes_ends_its_episode_as_cut_off_and_is_not_stored_whole(
    tmp_path: Path,
) -> None:
    with FakeServer(lambda seen: Say("I think. " * 500_000)) as fake:
        played = await foretell(fake, tmp_path)
        assert fake.count == 1, "it is not asked for again with all of it in the request"
    assert played.ends == [("cut_off", "max_tokens")]
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.jsonl")) < 3_000_000
