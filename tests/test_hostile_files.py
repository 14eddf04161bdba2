"""Files from strangers (settings, prompts, task sets, games) are read as data, refused in words, not run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from roleagent_lite.ask.prompts import fill, load_prompts
from roleagent_lite.cli.settings import parse_sets
from roleagent_lite.config import MAX_BYTES, brief, dump_toml, load
from roleagent_lite.envs.household.pddl import initial
from roleagent_lite.envs.household.problem import game_from_data, load_game
from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import MAX_DEPTH, MAX_LINE, load_tasks
from tests.envs.household.rooms import game_data, recorded

DEEP = 100_000
BOMBS = {
    "arrays": "seed = " + "[" * DEEP,
    "closed arrays": "seed = " + "[" * 5000 + "]" * 5000,
    "tables": "x = " + "{a=" * DEEP,
    "dotted": "seed" + ".a" * DEEP + " = 1",
    "header": "[" + "a." * DEEP + "b]\nseed = 1",
    "decimal": "seed = " + "9" * 100_000,
    "hexadecimal": "seed = 0x" + "f" * 50_000,
    "float": "[wia]\ngamma = 1e999",
    "not a number": "[wia]\nalpha = nan",
    "long": "model = '" + "x" * MAX_BYTES + "'",
    "wrong kind": "workers = '" + "x" * 500_000 + "'",
    "binary": "\x00\x01",
}


@pytest.mark.parametrize("name", BOMBS)
def test_settings(name: str, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(BOMBS[name], encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert "c.toml" in str(caught.value) and len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("end", [".toml", ".json"])
def test_prompts(name: str, end: str, tmp_path: Path) -> None:
    file = tmp_path / f"p{end}"
    text = BOMBS[name] if end == ".toml" else BOMBS[name].replace("seed = ", "").replace("=", ":")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_prompts(file)
    assert f"p{end}" in str(caught.value) and len(str(caught.value)) < 1000


@pytest.mark.parametrize("deep", ["[" * DEEP, "0x" + "f" * 50_000, "1" * 50_000, "{a=" * DEEP])
def test_flags(deep: str) -> None:
    try:
        value = parse_sets([f"seed={deep}"])["seed"]
    except ConfigError:
        return
    assert value == deep or isinstance(value, int)


def test_the_largest_seed_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f"seed = {2**63 - 1}")
    assert f"seed = {2**63 - 1}" in dump_toml(load(file))
    file.write_text(f"seed = {2**63}")
    with pytest.raises(ConfigError, match="seed"):
        load(file)


def test_brief_shows_anything_shortly() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert brief(deep).startswith("[[[") and len(brief(deep)) < 200
    assert len(brief("x" * 10**6)) <= 80
    assert "too large" in brief(1 << 100_000)


@pytest.mark.parametrize(
    "text", ["{x.__class__}", "{x[0]}", "{x!r}", "{x:>10}", "{0}", "{}", "%(x)s", "$x", "{ x }", "{X}"]
)
def test_a_template_reaches_no_attribute(text: str) -> None:
    """Only `{name}` is a hole; all else is text."""
    assert fill(f"{text} {{x}}", {"x": "value {x} {y}"}) == f"{text} value {{x}} {{y}}"


def test_a_hole_of_a_strangers_file_is_checked(tmp_path: Path) -> None:
    head = 'name = "judge"\nrole = "judge"\n[inputs]\ntask = "t"\n[template]\n'
    file = tmp_path / "judge.toml"
    file.write_text(head + 'user = "{task} {__builtins__}"')
    with pytest.raises(ConfigError, match=r"unknown hole \{__builtins__\}"):
        load_prompts(file)
    file.write_text(head + 'user = "{task} {task.__class__.__mro__}"')
    judge = load_prompts(file).module("judge")
    assert fill(judge.user, {"task": "T"}) == "T {task.__class__.__mro__}"


# --- task sets ---

GOOD = {"env": "household", "goal": "g"}
ROWS: dict[str, str] = {
    "a large number": '{"env": "e", "goal": "g", "params": {"x": 1e999}}',
    "a number of many digits": '{"env": "e", "goal": "g", "seed": ' + "9" * 5000 + "}",
    "a seed out of range": '{"env": "e", "goal": "g", "seed": 9223372036854775808}',
    "no JSON": '{"env": "e", "goal": "g", "params": {"x": NaN}}',
    "a key twice": '{"env": "household", "goal": "g", "env": "os:system"}',
    "a key twice inside": '{"env": "e", "goal": "g", "params": {"x": 1, "x": 2}}',
    "deep": '{"env": "e", "goal": "g", "params": {"x": ' + "[" * 5000 + "]" * 5000 + "}}",
    "deeper than a record may be": '{"env": "e", "goal": "g", "params": '
    + '{"x": ' * MAX_DEPTH + "1" + "}" * MAX_DEPTH + "}",
    "endless": "[" * DEEP,
    "long": '{"env": "e", "goal": "' + "x" * MAX_LINE + '"}',
    "bytes": '{"env": "e", "goal": "\udcff"}',
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_refused_by_line(name: str, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    good = json.dumps(GOOD).encode()
    file.write_bytes(good + b"\n" + ROWS[name].encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(ConfigError, match="line 2") as caught:
        load_tasks(file)
    assert len(str(caught.value)) < 600


def test_a_line_of_100_megabytes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    with file.open("wb") as out:
        out.write(json.dumps(GOOD).encode() + b"\n")
        for _ in range(100):
            out.write(b"x" * 1_000_000)
    with pytest.raises(ConfigError, match=f"line 2: longer than {MAX_LINE} bytes"):
        load_tasks(file)


def test_a_file_without_an_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    with file.open("wb") as out:
        os.truncate(out.fileno(), 1 << 40)  # holes: it takes no room
    with pytest.raises(ConfigError, match=r"over \d+ bytes"):
        load_tasks(file)


@pytest.mark.parametrize(
    "id", ["../../x", "/etc/passwd", "a\x00b", "CON", "x" * 100_000, "a\nb", "-rf", "\u202e", " "]
)
def test_odd_ids_are_only_names(id: str, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text(json.dumps({**GOOD, "id": id}) + "\n")
    assert [t.id for t in load_tasks(file)] == [id]


# --- games ---


def problem(change: Callable[[str], str]) -> dict[str, object]:
    data = game_data(recorded()[0])
    return {**data, "pddl_problem": change(str(data["pddl_problem"]))}


@pytest.mark.parametrize(
    "change",
    [
        lambda p: "(" * 100_000,
        lambda p: "(" * 50 + "a" + ")" * 50 + p,
        lambda p: p.replace("(:init", "(:init " + "(and " * 40 + ")" * 40, 1),
        lambda p: p[: len(p) // 2],
        lambda p: "",
        lambda p: p.replace("(:goal", "(:goal (forall (?x) (or", 1),
    ],
)
def test_games_are_refused(change: Callable[[str], str]) -> None:
    with pytest.raises(ConfigError):
        game_from_data(problem(change))


def test_many_equal_facts_take_no_time() -> None:
    """A list of all facts so far, looked through for each, would take minutes here."""
    facts = [["p", f"x{i}type"] for i in range(60_000)] * 2
    start = time.process_time()
    found = initial(facts, {})  # type: ignore[arg-type]
    assert len(found["p"]) == 60_000
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    "text", ["[" * DEEP, '{"a":' * DEEP, "1e999", "", '{"pddl_problem": 1e999, "grammar": ""}']
)
def test_game_files(text: str, tmp_path: Path) -> None:
    file = tmp_path / "game.tw-pddl"
    file.write_text(text)
    with pytest.raises(ConfigError):
        load_game(file)


def test_a_pipe_is_no_game(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "game.tw-pddl")
    with pytest.raises(ConfigError, match="no file"):
        load_game(tmp_path / "game.tw-pddl")


def test_nothing_in_a_grammar_is_evaluated(tmp_path: Path) -> None:
    data = game_data(recorded()[0])
    marker = tmp_path / "ran"
    evil = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    grammar = str(data["grammar"]).replace("Your task is to: ", "Your task is to: #{" + evil + "}# ")
    assert "#{" in game_from_data({**data, "grammar": grammar}).sentence
    assert not marker.exists()
