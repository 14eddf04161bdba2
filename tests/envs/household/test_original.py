"""The original engine: equal to the light one on fresh games (marker `alfworld`); a clear word without it."""

from __future__ import annotations

import dataclasses
import importlib.util
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.envs.household import original
from roleagent_lite.envs.household.engine import Engine
from roleagent_lite.envs.household.env import Household
from roleagent_lite.envs.household.game import PUT, TASK_TYPES, TOGGLED, Game, game_from_row
from roleagent_lite.envs.household.generator import draw_row
from roleagent_lite.envs.household.oracle import walkthrough
from roleagent_lite.envs.household.original import OriginalEngine, logic_texts
from roleagent_lite.envs.household.problem import load_game
from roleagent_lite.envs.household.writer import write_game_file
from roleagent_lite.errors import MissingExtra
from roleagent_lite.types import Environment, Task
from tests.envs.household.rooms import kitchen, kitchen_game

TIERS = ("easy", "medium", "full")
GAMES = 50


def fresh_games() -> Iterator[tuple[str, Game]]:
    """50 games of all types and tiers, every fifth one in the older dialect."""
    rng = random.Random("equality with the original")
    kinds = list(TASK_TYPES)
    for number in range(GAMES):
        tier, kind = TIERS[number // 6 % 3], kinds[number % 6]
        row = draw_row(tier, rng.choice(["train", "dev", "test"]), kind, rng)
        game = game_from_row(row["goal"], row["params"])
        yield f"{number}-{tier}-{kind}", dataclasses.replace(game, dialect=PUT) if number % 5 == 4 else game


def odd_games() -> Iterator[tuple[str, Game]]:
    """What our generator never draws, but users' files may hold."""
    game = kitchen_game()
    place = {r.name: i for i, r in enumerate(game.receptacles)}

    def change(name: str, **fields: Any) -> Game:
        things = (dataclasses.replace(t, **fields) if t.name == name else t for t in game.things)
        return dataclasses.replace(game, things=tuple(things))

    yield "neighbours", game
    yield "in two receptacles", change("apple 1", inside=(place["countertop 1"], place["drawer 2"]))
    yield "at another place", change("apple 1", at=(0,))
    yield "nested", change("mug 1", nested=(0, 3))
    yield "lamp lit at the start", change("desklamp 1", state=TOGGLED | 32)
    yield "lamp in the hand", change("desklamp 1", abilities=frozenset({"toggleable", "pickupable"}))
    layout = kitchen()["layout"]
    layout["start"] = 2
    yield (
        "start at a receptacle",
        game_from_row("x", kitchen(layout=layout | {"room": numbered(layout["room"])})),
    )


def numbered(room: dict[str, Any]) -> dict[str, Any]:
    """Places without gaps where the start is one of them."""
    used = sorted({r["place"] for r in room.values()} | {2})
    return {name: row | {"place": used.index(row["place"]) + 1} for name, row in room.items()}


def seen(engine: Engine | OriginalEngine) -> dict[str, Any]:
    return {
        "admissible": engine.admissible(),
        "won": engine.won,
        "score": engine.score,
        "facts": engine.facts(),
    }


def draw(rng: random.Random, commands: list[str]) -> str:
    """Moves of things and looks come more often than walks; one in eight commands is nonsense."""
    if rng.random() < 0.125:
        return rng.choice(["", "dance", "go to fridge 9", "take apple 1", "LOOK", " look "])
    weight = {"take": 8, "move": 8, "put": 8, "go": 1, "help": 0.2, "inventory": 0.5}
    return rng.choices(commands, [weight.get(c.split(" ")[0], 3) for c in commands])[0]


def compare(game: Game, commands: int, seed: str, first: list[str] | None = None) -> None:
    """Plays the same commands on three engines: the row's, the written file's, the original."""
    domain, grammar = logic_texts()
    with tempfile.TemporaryDirectory() as folder:
        path = write_game_file(game, folder, domain, grammar)
        engines: list[Engine | OriginalEngine] = [Engine(game), Engine(load_game(path)), OriginalEngine(path)]
    said = [engine.intro() for engine in engines]
    assert said[0] == said[1] == said[2]
    rng, plan = random.Random(seed), list(first or [])
    for number in range(len(plan) + commands):
        states = [seen(engine) for engine in engines]
        assert states[0] == states[2]
        assert states[1] == states[2]
        command = plan[number] if number < len(plan) else draw(rng, engines[0].admissible())
        answers = [engine.step(command) for engine in engines]
        assert answers[0] == answers[1] == answers[2], command


@pytest.mark.alfworld
@pytest.mark.parametrize("number", range(GAMES))
def test_equal_to_the_original_on_fresh_games(number: int) -> None:
    """The oracle's way to the win, then random commands beyond it."""
    name, game = list(fresh_games())[number]
    plan = walkthrough(game)
    assert plan is not None
    compare(game, 8 if "full" in name else 16, name, plan)
    compare(game, 8 if "full" in name else 16, name + "again")


@pytest.mark.alfworld
@pytest.mark.parametrize("name", [name for name, _ in odd_games()])
def test_equal_to_the_original_on_odd_games(name: str) -> None:
    game = dict(odd_games())[name]
    for seed in range(3):
        compare(game, 50, f"{name}{seed}")


@pytest.mark.alfworld
def test_a_tasks_sentence_is_not_evaluated(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for odd in (f"{{open('{mark}', 'w')}}", "{task} {0}", "#help# {{x}} $HOME %s \\n"):
        env = registry.make(Task("t", "household:alfworld", f"win {odd}", params=kitchen()))
        assert env.step("look").valid
        env.close()
    assert not mark.exists()


@pytest.mark.alfworld
def test_the_environment_of_the_original_plays_task_rows_and_files(tmp_path: Path) -> None:
    params = kitchen()
    task = Task("t", "household:alfworld", "put a cool apple in drawer", params=params)
    arguments = list(sys.argv)
    env, light = registry.make(task), Household(task)
    assert isinstance(env, Environment)
    assert sys.argv == arguments  # the original overwrites them
    assert env.observe().text == light.observe().text
    for command in light.walkthrough():
        ours, theirs = light.step(command), env.step(command)
        assert (ours.observation.text, ours.observation.admissible) == (
            theirs.observation.text,
            theirs.observation.admissible,
        )
        assert (ours.reward, ours.done, ours.valid) == (theirs.reward, theirs.done, theirs.valid)
    assert env.score() == 1.0
    assert env.walkthrough() == light.walkthrough()  # type: ignore[attr-defined]
    assert not env.step("dance").valid
    env.close()
    domain, grammar = logic_texts()
    path = write_game_file(light.game, tmp_path, domain, grammar)
    again = registry.make(Task("t", "household:alfworld", "x", params={"game": str(path)}))
    assert again.observe().text == Household(task).observe().text


@pytest.mark.alfworld
def test_state_keys_of_the_original_ignore_looks() -> None:
    task = Task("t", "household:alfworld", "put a cool apple in drawer", params=kitchen())
    env = registry.make(task)
    key = env.observe().state_key
    assert env.step("look").observation.state_key == key
    assert env.step("go to fridge 1").observation.state_key != key


@pytest.mark.skipif(importlib.util.find_spec("alfworld") is not None, reason="alfworld is installed")
def test_without_the_extra_one_clear_message() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'roleagent-lite\[alfworld\]'"):
        registry.make(Task("t", "household:alfworld", "x", params=kitchen()))
    with pytest.raises(MissingExtra):
        OriginalEngine("game.tw-pddl")


def test_a_package_without_its_files_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Spec:
        origin = str(tmp_path / "alfworld" / "__init__.py")

    monkeypatch.setattr(original, "find_spec", lambda name: Spec())
    with pytest.raises(MissingExtra, match="lacks a file"):
        logic_texts()
    (tmp_path / "alfworld" / "data").mkdir(parents=True)
    for name, text in (("alfred.pddl", "domain"), ("alfred.twl2", "grammar")):
        (tmp_path / "alfworld" / "data" / name).write_text(text)
    assert logic_texts() == ("domain", "grammar")


def test_the_fresh_games_cover_types_tiers_and_dialects() -> None:
    games = dict(fresh_games())
    assert len(games) == GAMES
    assert {(g.goal.type, n.split("-")[1]) for n, g in games.items()} == {
        (kind, tier) for kind in TASK_TYPES for tier in TIERS
    }
    assert {g.dialect.verb for g in games.values()} == {"move", "put"}
