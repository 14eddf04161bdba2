"""Prompt files: what is read, what is refused and in which words, prompt sets, the user's own texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.ask.prompts import Prompts, fill, holes, load_prompts, make_prompt_set
from roleagent_lite.errors import ConfigError

MODULE = """
name = "greet"
role = "agent"
description = "Says something."
evolve = ["instructions"]
max_tokens = 64

[inputs]
who = "whom"

[outputs.words]
type = "string"
description = "what is said"
max_words = 5

[texts]
instructions = "Be kind."
lessons = "@act.playbook"

[template]
system = '''
{instructions}

{lessons}

Like {"words": "..."} or {0}:
{reply_form}
'''
user = "Greet {who}"
"""


def folder(tmp_path: Path, text: str = MODULE, name: str = "greet.toml") -> Path:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_shipped_version_has_all_modules_and_the_three_texts_of_act_evolve() -> None:
    prompts = load_prompts("v1")
    systems = {"react", "reflexion", "value", "plan"}  # what the systems of an evaluation ask
    own = {"act", "predict", "diagnose", "retrieve", "reflect", "judge"}
    assert set(prompts.modules) == own | systems
    assert set(prompts.seed_set().texts) == {"act.instructions", "act.playbook", "act.demonstrations"}
    assert [o.name for o in prompts.module("act").outputs] == ["thought", "action", "predictions"]
    assert [o.name for o in prompts.module("diagnose").outputs] == [
        "mode", "detail", "critical_step", "lesson", "query",
    ]  # fmt: skip
    assert prompts.module("diagnose").temperature == 0.5


def test_stable_text_is_in_the_system_message_and_what_changes_in_the_users() -> None:
    for module in load_prompts("v1").modules.values():
        changing = set(module.inputs) - {"modes"}
        assert not holes(module.system) & changing, module.name
        assert holes(module.user) == changing, module.name


def test_a_folder_is_read_and_lacking_modules_come_from_v1(tmp_path: Path) -> None:
    prompts = load_prompts(folder(tmp_path))
    greet = prompts.module("greet")
    assert (greet.role, greet.max_tokens, greet.temperature, greet.shown) == ("agent", 64, 0.0, 3)
    assert greet.outputs[0].max_words == 5
    assert greet.refs == {"lessons": "act.playbook"}
    assert prompts.module("act") == load_prompts("v1").module("act")


def test_a_fingerprint_is_that_of_all_that_the_files_say(tmp_path: Path) -> None:
    for place in ("a", "b", "c", "d"):
        (tmp_path / place).mkdir()
    plain = load_prompts(folder(tmp_path / "a"))
    assert plain.fingerprint == load_prompts(folder(tmp_path / "b")).fingerprint
    for place, old, new in (("c", "max_tokens = 64", "shown = 2"), ("d", "Like {", "As {")):
        other = load_prompts(folder(tmp_path / place, MODULE.replace(old, new)))
        assert other.seed_set() == plain.seed_set() and other.fingerprint != plain.fingerprint


def test_a_reference_follows_the_other_module_as_it_evolves(tmp_path: Path) -> None:
    prompts = load_prompts(folder(tmp_path))
    assert prompts.texts("greet", None) == {"instructions": "Be kind.", "lessons": ""}
    evolved = make_prompt_set({"act.playbook": "Knock first.", "greet.instructions": "Be brief."})
    assert prompts.texts("greet", evolved) == {"instructions": "Be brief.", "lessons": "Knock first."}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Greet {who}", "Greet {whom}", r"unknown hole \{whom\}; did you mean 'who'"),
        ("Greet {who}", "Greet", r"lacks the hole \{who\} \(an input\)"),
        ("{instructions}\n", "\n", r"lacks the hole \{instructions\} \(a text\)"),
        ('role = "agent"', 'role = "agnet"', "role is 'agnet'; did you mean 'agent'"),
        ('name = "greet"', 'nmae = "greet"', "unknown key 'nmae'; did you mean 'name'"),
        ("max_words = 5", "max_word = 5", "unknown key 'outputs.words.max_word'; did you mean 'max_words'"),
        ('type = "string"', 'type = "text"', "'outputs.words.type' is 'text'"),
        ('type = "string"', 'type = "list[object]"', "'fields' and type list"),
        ('evolve = ["instructions"]', 'evolve = ["instruction"]', "evolve names 'instruction'"),
        ('evolve = ["instructions"]', 'evolve = ["lessons"]', "which is another module's text"),
        ("@act.playbook", "@act.playbok", "refers to 'act.playbok'; did you mean 'act.playbook'"),
        ("max_tokens = 64", "max_tokens = 0", "'max_tokens' must be a positive"),
        ("max_tokens = 64", "max_tokens = true", "'max_tokens' must be a positive"),
        ("max_tokens = 64", "shown = 0", "'shown' must be a positive"),
        ("max_tokens = 64", "temperature = 3", "'temperature' must be in 0..2"),
        ('who = "whom"', "who = 3", "'inputs.who' must be a text"),
        ('who = "whom"', 'instructions = "x"', "is an input and a text"),
        ("[template]", "[templates]", "unknown key 'templates'"),
        ('user = "Greet {who}"', 'usr = "x"', "unknown key 'template.usr'"),
        ("[inputs]", "[inputs", "not valid TOML"),
    ],
)
def test_a_broken_file_is_refused_by_file_and_name(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in MODULE
    with pytest.raises(ConfigError, match=words) as caught:
        load_prompts(folder(tmp_path, MODULE.replace(old, new, 1)))
    assert "greet.toml" in str(caught.value)


def test_unknown_versions_empty_folders_and_unknown_modules_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no prompts 'v7'.*v1"):
        load_prompts("v7")
    with pytest.raises(ConfigError, match=r"holds no \.toml file"):
        load_prompts(tmp_path)
    with pytest.raises(ConfigError, match="no module 'akt'; did you mean 'act'"):
        load_prompts("v1").module("akt")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_prompts(tmp_path)


def test_tsk_07_braces_in_what_is_filled_in_are_never_read_again() -> None:
    goal = 'Return {"a": 1} and {task} {0} %s ${HOME} {{x}}'
    assert fill("Goal: {task}\n\n{note}", {"task": goal, "note": "{task}"}) == f"Goal: {goal}\n\n{{task}}"


def test_tsk_07_a_users_prompt_file_with_a_json_example_works(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    text = 'Answer like this: {"action": "take key", "why": {"a": [1]}} and never {0}.'
    mine.write_text("\ufeff" + text + "\r\n", encoding="utf-8")
    prompts = load_prompts("v1").override(mine)
    assert prompts.seed_set().texts["act.instructions"] == text
    assert prompts.texts("act", prompts.seed_set())["instructions"] == text
    assert load_prompts(mine).seed_set() == prompts.seed_set()


def test_tsk_07_a_placeholder_of_ours_in_a_users_text_is_named(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("Do {task} quickly", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.txt.*'act\.instructions'.*\{task\}"):
        load_prompts("v1").override(mine)


def test_a_users_texts_in_toml_and_json(tmp_path: Path) -> None:
    toml, jsn = tmp_path / "mine.toml", tmp_path / "mine.json"
    toml.write_text('[act]\nplaybook = "Open first."\n', encoding="utf-8")
    jsn.write_text(json.dumps({"act.playbook": "Open first."}), encoding="utf-8")
    seed = load_prompts("v1").override(toml).seed_set()
    assert seed.texts["act.playbook"] == "Open first."
    assert load_prompts("v1").override(jsn).seed_set() == seed
    assert seed.id != load_prompts("v1").seed_set().id


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('[act]\nplayboook = "x"', "no text 'act.playboook'; did you mean 'act.playbook'"),
        ("[act]\nplaybook = 3", "'act.playbook' must be a text, found 3"),
        ("act = [", "not valid TOML"),
    ],
)
def test_a_users_texts_are_checked(tmp_path: Path, body: str, words: str) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(body, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        load_prompts("v1").override(mine)
    with pytest.raises(ConfigError, match="cannot read prompt file"):
        load_prompts("v1").override(tmp_path / "nowhere.toml")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(ConfigError, match="an object of texts"):
        load_prompts("v1").override(tmp_path / "list.json")


def test_a_whole_prompt_file_replaces_the_module(tmp_path: Path) -> None:
    mine = folder(tmp_path) / "greet.toml"
    prompts = load_prompts("v1").override(mine)
    assert prompts.module("greet").user == "Greet {who}"
    assert "greet.instructions" in prompts.seed_set().texts


def test_an_empty_file_is_no_prompt(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text(" \n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.txt is empty"):
        load_prompts("v1").override(mine)


def test_an_override_of_a_referring_text_ends_the_reference(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[predict]\nplaybook = "My own."\n', encoding="utf-8")
    prompts = load_prompts("v1").override(mine)
    evolved = make_prompt_set({"act.playbook": "Theirs."})
    assert prompts.texts("predict", evolved)["playbook"] == "My own."


def test_a_paragraph_whose_holes_are_all_empty_is_left_out() -> None:
    template = "\nAlways here.\n\nLessons:\n{a}\n\n{a} or {b}\n\nEnd {b}\n"
    assert fill(template, {"a": " ", "b": "B"}) == "Always here.\n\n  or B\n\nEnd B"
    assert fill(template, {"a": "", "b": ""}) == "Always here."


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4))
def test_a_prompt_sets_id_depends_on_its_texts_alone(texts: dict[str, str]) -> None:
    one = make_prompt_set(texts)
    again = make_prompt_set(dict(reversed(texts.items())), parent="x", why="y")
    assert one.id == again.id and len(one.id) == 12
    assert make_prompt_set({**texts, "more": "1"}).id != one.id


@given(st.text(max_size=60), st.text(max_size=60))
def test_filling_inserts_every_text_once_and_verbatim(a: str, b: str) -> None:
    filled = fill("<{x}|{y}>", {"x": a, "y": b})
    expected = f"<{a}|{b}>" if a.strip() or b.strip() else ""
    assert filled == expected


def test_prompts_are_values() -> None:
    assert load_prompts("v1") == load_prompts("v1")
    assert Prompts("empty").seed_set().texts == {}
