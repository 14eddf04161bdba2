"""Game files: what is read, and that hostile or broken files are refused with what was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roleagent_lite.envs.household import problem
from roleagent_lite.envs.household.engine import Engine
from roleagent_lite.envs.household.game import MOVE, PUT, Dialect
from roleagent_lite.envs.household.problem import (
    game_from_data,
    game_from_problem,
    load_game,
    read_dialect,
    read_json,
    read_sentence,
)
from roleagent_lite.envs.household.writer import problem_text
from roleagent_lite.errors import ConfigError
from tests.envs.household.rooms import GRAMMAR, game_data, kitchen_game, recorded

PROBLEM = problem_text(kitchen_game())


def test_a_written_problem_reads_back_as_the_same_game() -> None:
    game = kitchen_game()
    again = game_from_problem(PROBLEM, game.sentence)
    one, two = Engine(game), Engine(again)
    assert one.facts() == two.facts()
    assert one.admissible() == two.admissible()
    assert again.goal == game.goal


def test_recorded_sizes() -> None:
    for game in recorded():
        parsed = game_from_data(game_data(game))
        assert len(parsed.receptacles) == game["receptacles"]
        assert len(parsed.things) == game["objects"]
        assert parsed.sentence == game["task"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("(atLocation agent1", "(holdsAny agent1) ; (atLocation agent1", "one place in :init, found 0"),
        (":init", ":start", "one :init section, found 0"),
        ("- receptacle\n", "- object\n", "needs"),
        ("(openable Fridge", "(openable Oven", "does not declare"),
        ("(define", "(define (", "leaves 1 brackets open"),
        ("(isCool ?o)", "(isHot ?o)", "the goal"),
        ("(:goal", "(:goal (and) ", "the goal has 2 parts"),
    ],
)
def test_broken_problems(old: str, new: str, said: str) -> None:
    assert old in PROBLEM
    with pytest.raises(ConfigError, match=said):
        game_from_problem(PROBLEM.replace(old, new, 1), "x")


def with_facts(*facts: str) -> str:
    return PROBLEM.replace("(:init", "(:init " + " ".join(facts), 1)


def symbols(kind: str) -> list[str]:
    return [line.split(" ")[0] for line in PROBLEM.splitlines() if line.endswith(f"- {kind}")]


def test_two_types_or_places_are_refused() -> None:
    shelf, place = symbols("receptacle")[0], symbols("location")[0]
    other = symbols("location")[1]
    with pytest.raises(ConfigError, match="has two types"):
        game_from_problem(with_facts(f"(receptacleType {shelf} OtherType)"), "x")
    with pytest.raises(ConfigError, match="has two places"):
        game_from_problem(
            with_facts(f"(receptacleAtLocation {shelf} {place})", f"(receptacleAtLocation {shelf} {other})"),
            "x",
        )
    with pytest.raises(ConfigError, match="found 2"):
        game_from_problem(with_facts(f"(atLocation agent1 {place})"), "x")
    one, two = symbols("object")[:2]
    with pytest.raises(ConfigError, match="more than one thing"):
        game_from_problem(with_facts(f"(holds agent1 {one})", f"(holds agent1 {two})"), "x")


def test_a_thing_inside_itself_is_refused() -> None:
    one, two, three = symbols("object")[:3]
    ring = [f"(inReceptacleObject {a} {b})" for a, b in ((one, two), (two, three), (three, one))]
    with pytest.raises(ConfigError, match="inside itself"):
        game_from_problem(with_facts(*ring), "x")
    with pytest.raises(ConfigError, match="inside itself"):
        game_from_problem(with_facts(f"(inReceptacleObject {one} {one})"), "x")
    assert game_from_problem(with_facts(*ring[:2]), "x").things[0].name


def test_unknown_facts_are_kept_and_play_no_part() -> None:
    one = symbols("object")[0]
    game = game_from_problem(with_facts(f"(moveable {one})", "(= (total-cost) 0)"), "x")
    assert any(f.startswith("moveable(") for f in Engine(game).facts())


def test_what_is_held_at_the_start() -> None:
    one = symbols("object")[0]
    game = game_from_problem(with_facts(f"(holds agent1 {one})", "(holdsAny agent1)"), "x")
    assert game.held is not None
    assert f"holds(agent1, {game.things[game.held].name})" in Engine(game).facts()


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem, "MAX_THINGS", 2)
    with pytest.raises(ConfigError, match="at most 400 and 2"):
        game_from_problem(PROBLEM, "x")


def test_a_world_without_furniture_is_refused() -> None:
    source = "(define (:objects agent1 - agent l1 - location) (:init (atlocation agent1 l1)) (:goal (and)))"
    with pytest.raises(ConfigError, match="no receptacle"):
        game_from_problem(source, "x")


def test_dialects_are_read_from_the_grammar() -> None:
    assert read_dialect(GRAMMAR) == MOVE
    older = recorded()[-1]
    assert older["dialect"] == "put in/on"
    assert read_dialect(game_data(older)["grammar"]) == PUT
    assert read_dialect("") == MOVE


def test_help_and_putting_may_have_words_of_their_own() -> None:
    grammar = r'"rhs": "\nAvailable commands:\n  jump\n" ... "You put the {o.name} to the {r.name}."'
    assert read_dialect(grammar) == Dialect(
        "move", False, "You put the {o} to the {r}.", "Available commands:\n  jump\n"
    )


@pytest.mark.parametrize("expression", ["#look#", "{__import__('os')}", "[{o.name}]"])
def test_expressions_in_a_grammar_are_never_used(expression: str) -> None:
    grammar = r'"rhs": "\nAvailable commands:\n  ' + expression + '"'
    assert read_dialect(grammar).help is None


def test_sentences() -> None:
    assert read_sentence(r'"rhs": "Your task is to: say \"hi\" é."') == 'say "hi" é'
    assert read_sentence('"Your task is to: no period"') == "no period"
    with pytest.raises(ConfigError, match="no sentence"):
        read_sentence("nothing here")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "found list"),
        ({}, "needs the text 'pddl_problem'; has no keys"),
        ({"pddl_problem": 3, "grammar": ""}, "needs the text 'pddl_problem'; has pddl_problem, grammar"),
        ({"pddl_problem": "()"}, "needs the text 'grammar'"),
    ],
)
def test_wrong_data(data: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        game_from_data(data)


def test_files(tmp_path: Path) -> None:
    good = tmp_path / "game.tw-pddl"
    good.write_text(json.dumps(game_data(recorded()[0])), encoding="utf-8")
    assert load_game(good).sentence == "put a dishsponge in sinkbasin"
    with pytest.raises(ConfigError, match="cannot read"):
        load_game(tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot read"):
        read_json(tmp_path)
    for name, content in (("a", b"{"), ("b", b"\xff\xfe"), ("c", b"[" * 100_000)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match="is not a JSON file"):
            read_json(tmp_path / name)
    (tmp_path / "d").write_text(json.dumps({"grammar": "", "pddl_problem": ""}))
    with pytest.raises(ConfigError, match=r"d: household game: the grammar has no sentence"):
        load_game(tmp_path / "d")


def test_too_large_a_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem, "MAX_BYTES", 10)
    path = tmp_path / "big"
    path.write_text('"0123456789"')
    with pytest.raises(ConfigError, match="has 12 bytes; at most 10"):
        read_json(path)


LINES = PROBLEM.splitlines()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_damaged_problem_is_played_or_refused(data: st.DataObject) -> None:
    """Lines lost, doubled or swapped: a game comes out that can be played, or a ConfigError."""
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 6))):
        index = data.draw(st.integers(0, len(lines) - 1))
        kind = data.draw(st.sampled_from(["drop", "double", "swap", "cut"]))
        if kind == "drop":
            lines[index] = ""
        elif kind == "double":
            lines.insert(index, lines[index])
        elif kind == "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[index], lines[other] = lines[other], lines[index]
        else:
            lines[index] = lines[index][: data.draw(st.integers(0, len(lines[index])))]
    try:
        game = game_from_problem("\n".join(lines), "x")
    except ConfigError as error:
        assert str(error).startswith("household game: ")
        return
    engine = Engine(game)
    for _ in range(8):
        command = data.draw(st.sampled_from(engine.admissible()))
        said, valid = engine.step(command)
        assert valid and said
        assert engine.score in (0, 1)
