"""bake: a prompt is taken apart and put together again, and is then the one that would have been sent.

The yardstick is never the code under test: the same episodes are played under the long and under the short
prompt by a stand-in that does not mind the prompt, and what was sent to it is compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roleagent_lite.ask import load_prompts, make_prompt_set
from roleagent_lite.ask.prompts import fill
from roleagent_lite.distill import dump
from roleagent_lite.distill.bake import NONE, SEED, bake, playing, saving, short_prompt, texts_file, unfill
from roleagent_lite.distill.prepare import Prepared, prepare
from roleagent_lite.distill.recipe import from_mapping
from roleagent_lite.distill.samples import EXPERIENCE, Collected, collect
from roleagent_lite.distill.tokenizer import Tokenizer, open_tokenizer
from roleagent_lite.errors import ConfigError
from roleagent_lite.jobs import evaluate
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.store import Run
from roleagent_lite.types import Message, Reply, Request
from tests import tiny
from tests.cli.make import toy_tasks
from tests.distill import make
from tests.evolve.kitchen import SMALL, run_kitchen

LONG = {
    "act.instructions": "Act in the hall.\n\nThink about the door, and about {key}.",
    "act.playbook": "- Take the key first.\n- Then open the door.",
    "act.demonstrations": "Goal: get out of one cellar\n> take key\nYou take the key.\n\n"
    "Goal: Get out of the hall\n> open door\nYou are free.\n\nGoal: eat an apple\n> look around\nNothing.\n\n"
    "Goal: get home\n> open door\nHome.",
}
SHORT = {"act.instructions": "Get out.", "act.playbook": "", "act.demonstrations": ""}
Rule = Callable[[Request], Any]


def says(request: Request) -> str:
    """What the stand-in answers is a function of what it sees; the prompt is no part of that."""
    seen = "\n".join(m.content for m in request.messages if m.role != "system")
    held = "You take the key." in seen.partition("Last steps:")[2]
    said: dict[str, Any] = {"thought": "hm", "action": "open door" if held else "take key"}
    if "not admissible" in seen:
        said["action"] = "take key"
    elif "Step 1 of" in seen:
        said["action"] = "eat the wall"
    if request.module == "predict":
        said = {}
    if "predictions" in (request.schema or {"properties": {}})["properties"]:
        said["predictions"] = ["You take the key."]
    return json.dumps(said)


def chooses(request: Request) -> str | Reply:
    if request.choices is None:
        return "\nYou take the key."
    first = "\n> take key" in request.messages[-1].content.rpartition("Goal:")[2]
    wanted = "open door" if first else "take key"
    scores = tuple((-1.0 if c.strip() == wanted else -9.0,) for c in request.choices)
    return Reply("", scores=scores)


def clumsy(request: Request) -> str:
    """Says nothing usable before it is asked again."""
    return says(request) if request.messages[-1].content.startswith("Your reply") else "I do not know."


def played(folder: Path, name: str, texts: dict[str, str], rule: Rule = says, **config: Any) -> Run:
    """Training tasks of the toy world played under `texts` by the stand-in; the run, open."""
    tasks = toy_tasks(folder / "toy.jsonl")
    own = folder / f"{name}.json"
    own.write_text(json.dumps(texts), encoding="utf-8")
    model = ScriptedModel(rule, "stand-in", can_score=rule is chooses)
    evaluate(
        {"model": "scripted", "agent": "generate", **config}, run_dir=folder / name, tasks=tasks,
        split="train", prompt_file=own, models=dict.fromkeys(("agent", "world", "reflector", "judge"), model),
    )  # fmt: skip
    (folder / name / "prompt.json").write_text(own.read_text(encoding="utf-8"), encoding="utf-8")
    run = Run.open(folder / name)
    make.OPENED.append(run)
    return run


def sent(run: Run) -> dict[tuple[str, int, str], tuple[Message, ...]]:
    """What was sent, by task, step and kind of reply."""
    found = collect(run, predictions=True, matched=0.0)
    return {(s.task, s.step, s.kind): s.messages for s in found.samples}


SETTINGS: dict[str, tuple[Rule, dict[str, Any]]] = {
    "generate": (says, {"prompts": "v1"}),
    "separate predictions": (says, {"prompts": "v1", "wia": {"predict": "separate"}}),
    "no predictions": (says, {"prompts": "v1", "wia": {"predict": "off"}}),
    "asked again": (clumsy, {"prompts": "v1"}),
    "the embedded model's own words": (says, {"prompts": "embedded"}),
    "choose": (chooses, {"prompts": "embedded", "agent": "choose"}),
}


@pytest.mark.parametrize("how", SETTINGS)
def test_what_is_rebuilt_is_what_the_short_prompt_sends(tmp_path: Path, how: str) -> None:
    rule, config = SETTINGS[how]
    long = played(tmp_path, "long", LONG, rule, **config)
    short = played(tmp_path, "short", SHORT, rule, **config)
    found, before = bake(
        long, collect(long, predictions=True, matched=0.0), short_prompt(long, str(tmp_path / "short.json"))
    )
    wanted = sent(short)
    assert not found.dropped and len(found.samples) == len(wanted) >= 4
    for sample in found.samples:
        assert sample.messages == wanted[sample.task, sample.step, sample.kind]
        assert before[sample.id] != sample.messages
        assert before[sample.id] == long.calls.get(sample.call).request.messages  # type: ignore[union-attr]
        assert sample.logprobs is None and sample.scores == ()
    if how == "asked again":
        assert all(len(s.messages) == 4 for s in found.samples)
    if how == "choose":
        assert all(len(s.choices) == 4 and s.text in s.choices for s in found.samples if s.kind == "act")


def test_other_way_round_as_well(tmp_path: Path) -> None:
    """A prompt whose texts are empty, and one that has them all: no paragraph is lost on the way."""
    empty = played(tmp_path, "empty", {**SHORT, "act.instructions": ""}, prompts="v1")
    full = played(tmp_path, "full", LONG, prompts="v1")
    found, _ = bake(empty, collect(empty), short_prompt(empty, str(tmp_path / "full.json")))
    assert {(s.task, s.step, s.kind): s.messages for s in found.samples} == {
        key: messages for key, messages in sent(full).items() if key[2] == "act"
    }


# --- a run of `evolve` itself ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kitchen")
    run_kitchen(folder, SMALL)
    return folder / "run"


@pytest.fixture
def evolved(kitchen: Path) -> Iterator[Run]:
    with Run.open(kitchen) as run:
        yield run


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return open_tokenizer(str(tiny.save_tokenizer(tmp_path / "m")))


def prepared(run: Run, tokenizer: Tokenizer, bake: str) -> Prepared:
    recipe = from_mapping(
        {"method": "sft", "sft": {"bake": bake, "per_task": 99}, "data": {"max_tokens": 9999}}
    )
    return prepare(run, recipe, tokenizer)


def test_the_seed_prompt_stands_in_place_of_the_evolved_one(evolved: Run, tokenizer: Tokenizer) -> None:
    seed = load_prompts("v1").seed_set()
    rows = prepared(evolved, tokenizer, SEED).usable
    told = {t.id: t for t in evolved.trajectories}
    grown = [r for r in rows if told[r.sample.trajectory].prompt_set != seed.id]
    assert 0 < len(grown) < len(rows)  # the run began with the seed prompt
    for row in rows:
        assert "open the microwave before" not in row.messages[0].content.lower()
        assert seed.texts["act.instructions"].strip("\n") in row.messages[0].content
        assert row.sent is not None and (row.sent > row.start) == (row in grown)
    report = prepared(evolved, tokenizer, SEED).report
    assert report.bake["samples"] == len(rows)
    assert report.bake["already_short"] == len(rows) - len(grown)
    assert report.bake["saved_a_step"] == pytest.approx(
        sum(r.sent - r.start for r in rows if r.sent is not None) / len(rows)
    )


def test_no_prompt_at_all_saves_more_and_keeps_the_replies(evolved: Run, tokenizer: Tokenizer) -> None:
    seed, none, plain = (prepared(evolved, tokenizer, name) for name in (SEED, NONE, ""))
    assert [r.sample.text for r in none.usable] == [r.sample.text for r in plain.usable]
    assert [r.ids[r.start :] for r in none.usable] == [r.ids[r.start :] for r in plain.usable]
    assert none.report.bake["saved_a_step"] > seed.report.bake["saved_a_step"] > 0
    assert none.report.bake["already_short"] == 0 and plain.report.bake == {}
    for row in none.usable:
        assert [m.role for m in row.messages] == ["system", "user"]
        assert row.messages[0].content.startswith("Reply with one JSON object")
        assert row.messages[1] == row.sample.messages[1]
    assert none.texts and all(text == "" for text in none.texts.values())


def test_the_dump_says_both_lengths_and_how_to_play(
    evolved: Run, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    found = prepared(evolved, tokenizer, NONE)
    dump.write(found, tokenizer, tmp_path / "out")
    lines = (tmp_path / "out" / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    for line, tokens in zip(lines, found.tokens, strict=True):
        baked = json.loads(line)["bake"]
        assert baked == {"prompt_sent": tokens.sent, "prompt_baked": tokens.start}
    told = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert told["bake"]["saved_a_step"] == found.report.bake["saved_a_step"]
    texts = json.loads((tmp_path / "out" / "prompt.json").read_text(encoding="utf-8"))
    assert load_prompts("v1").override(tmp_path / "out" / "prompt.json").seed_set().texts == texts
    assert playing(NONE, "prompt.json", Path("a b")) == "--prompt 'a b/prompt.json'"
    assert playing("embedded", "", Path("a b")) == "--prompts embedded"
    assert json.loads(texts_file(texts)) == texts


# --- what cannot be rebuilt ---------------------------------------------------------------------------------


def reasons(found: Collected) -> set[str]:
    return {d.reason.removeprefix("prompt not rebuilt: ") for d in found.dropped}


def test_what_was_not_made_by_these_texts_is_dropped_with_the_reason(tmp_path: Path) -> None:
    run = played(tmp_path, "long", LONG, prompts="v1")
    short = short_prompt(run, NONE)
    whole = collect(run)
    first = whole.samples[0]

    def tried(**changes: Any) -> set[str]:
        return reasons(bake(run, replace(whole, samples=(replace(first, **changes),)), short)[0])

    assert tried() == set()
    assert tried(call="nothing") == {"its call is not in the run"}
    assert tried(prompt_set="nothing") == {"its prompt set is not in the run"}
    assert tried(messages=first.messages[1:]) == {"its messages are not as sent (experience stripped)"}
    other = make_prompt_set({**LONG, "act.playbook": "- Something else."})
    run.prompt_sets.put(other)
    assert tried(prompt_set=other.id) == {"what was sent is not what module 'act' makes of its texts"}


def test_another_version_is_used_where_the_inputs_are_known(tmp_path: Path) -> None:
    run = played(tmp_path, "long", LONG, prompts="v1")
    own = tmp_path / "mine"
    own.mkdir()
    v1 = (load_prompts("v1").module("act").path).read_text(encoding="utf-8")
    (own / "act.toml").write_text(v1.replace("You see:\n", "Seen now:\n"), encoding="utf-8")
    short = short_prompt(run, str(own))
    found, _ = bake(run, collect(run), short)
    assert not found.dropped and not short.own
    for sample in found.samples:
        assert "\n\nSeen now:\n" in sample.messages[1].content
        assert "Act in the hall" not in sample.messages[0].content
    (own / "act.toml").write_text(v1.replace("[outputs.thought]", "[outputs.idea]"), encoding="utf-8")
    found, _ = bake(run, collect(run), short_prompt(run, str(own)))
    assert reasons(found) == {f"module 'act' of prompts '{own}' asks for another form of reply"}
    embedded = short_prompt(run, "embedded")
    assert "asks for another form of reply" in reasons(bake(run, collect(run), embedded)[0]).pop()


def test_a_version_that_shows_more_or_lacks_the_module(tmp_path: Path) -> None:
    run = played(tmp_path, "long", LONG, chooses, prompts="embedded", agent="choose")
    found, _ = bake(run, collect(run), short_prompt(run, "v1"))
    assert reasons(found) == {"prompts 'v1' have no module 'choose'"}
    own = tmp_path / "mine"
    own.mkdir()
    shipped = load_prompts("embedded").module("choose").path.read_text(encoding="utf-8")
    more = shipped.replace("[inputs]", '[inputs]\nnote = "a note"').replace(
        "Goal: {task}", "{note}\nGoal: {task}"
    )
    (own / "choose.toml").write_text(more, encoding="utf-8")
    found, _ = bake(run, collect(run), short_prompt(run, str(own)))
    assert reasons(found) == {f"prompts '{own}' show the input 'note', which was not sent"}


def test_a_run_that_does_not_know_its_seed_and_a_name_nobody_knows(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r", prompts="v1")
    with pytest.raises(ConfigError, match=r"does not hold its seed prompt; name a prompt in sft\.bake"):
        short_prompt(run, SEED)
    with pytest.raises(ConfigError, match=r"no prompts 'embeded'.*did you mean 'embedded'"):
        short_prompt(run, "embeded")


def test_stripped_experience_cannot_be_rebuilt(tmp_path: Path) -> None:
    run = make.new_run(tmp_path / "r", prompts="v1")
    run.record("e", EXPERIENCE, {"text": "There is a key and a door."})
    make.episode(run, "a", 0, True, arm="memory")
    found, _ = bake(run, collect(run), short_prompt(run, NONE))
    assert reasons(found) == {"its messages are not as sent (experience stripped)"}


def test_grpo_refuses_to_bake() -> None:
    with pytest.raises(ConfigError, match="advantages hold for the prompt they were earned with"):
        from_mapping({"sft": {"bake": "seed"}})
    assert from_mapping({"method": "sft", "sft": {"bake": "seed"}}).sft.bake == "seed"


def test_nothing_rebuilt_saves_nothing() -> None:
    assert saving([]) == {}


# --- taking a text apart ------------------------------------------------------------------------------------

WORDS = st.text(alphabet="ab:\n ", max_size=12)
TEMPLATES = (
    "{long}\n\nExamples:\n{more}\n\nGoal: {task}\n{log}\n>",
    "Goal: {task}\n\n{progress}\n\nLast:\n{log}\n\nYou see:\n{seen}\n\n{note}\n\nActions:\n{acts}",
    "{task}{log}\n\n{long}\n\n{task} again",
    "nothing to fill",
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TEMPLATES), st.fixed_dictionaries(dict.fromkeys(
    ("long", "more", "task", "log", "progress", "seen", "note", "acts"), WORDS)))  # fmt: skip
def test_what_is_taken_apart_gives_the_same_text_again(template: str, values: dict[str, str]) -> None:
    known = {name: values[name] for name in ("long", "more")}
    text = fill(template, values)
    ways = list(unfill(template, known, text))
    for found in ways:
        assert fill(template, {**values, **found}) == text
    assert ways or template == TEMPLATES[2]  # two holes without a letter between them: not every text


@pytest.mark.parametrize(
    ("template", "text", "found"),
    [
        ("Goal: {task}\n{log}\n>", "Goal: a\nb\nc\n>", {"task": "a", "log": "b\nc"}),
        (
            "Goal: {task}\n\n{note}\n\nDo:\n{acts}",
            "Goal: a\n\nDo:\nx",
            {"task": "a", "note": "", "acts": "x"},
        ),
        ("{task} and {task}", "a and a", {"task": "a"}),
        ("{task} and {task}", "a and b", None),
        ("{long}\n\n{task}", "much\n\na", {"task": "a"}),
        ("{more}\n\n{task}", "a", {"task": "a"}),
        ("Goal: {task}", "Aim: a", None),
        ("Goal: {task}!", "Goal: a!?", None),
        ("plain", "plain", {}),
        ("plain", "plane", None),
    ],
)
def test_by_hand(template: str, text: str, found: dict[str, str] | None) -> None:
    assert next(unfill(template, {"long": "much", "more": ""}, text), None) == found
