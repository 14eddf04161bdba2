"""Gymnasium environments as text environments: the real package, its own toys, and one made here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.envs.checker import check
from roleagent_lite.envs.gymnasium import plain
from roleagent_lite.errors import ConfigError, EnvironmentFault, MissingExtra
from roleagent_lite.types import Environment, Task

gym: Any = pytest.importorskip("gymnasium", reason="needs the extra gym: pip install 'roleagent-lite[gym]'")
NAMES = ["left", "down", "right", "up"]
LAKE: dict[str, Any] = {"kwargs": {"is_slippery": False}, "actions": NAMES}


class Words(gym.Env):  # type: ignore[misc]
    """Says a word; saying it back wins."""

    observation_space = gym.spaces.Text(20)
    action_space = gym.spaces.Text(20)
    won = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.word = str(self.np_random.choice(["apple", "pear", "plum"]))
        return f"Say {self.word}", {"admissible": [self.word, "nothing"], "state_key": self.word}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.won = action == self.word
        return ("Well said" if self.won else "No"), float(self.won), self.won, False, {}


class Pixels(Words):
    observation_space = gym.spaces.Box(0, 1, (2,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}


class Steering(Words):
    action_space = gym.spaces.Box(0, 1, (2,))


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    for kind in (Words, Pixels, Steering):
        gym.register(f"roleagent/{kind.__name__}-v0", kind, max_episode_steps=5)
    yield
    for kind in (Words, Pixels, Steering):
        del gym.registry[f"roleagent/{kind.__name__}-v0"]


def make(id: str, seed: int = 0, **params: Any) -> Environment:
    return registry.make(Task("t", f"gym:{id}", "g", seed, params))


def test_a_world_of_texts() -> None:
    env = make("roleagent/Words-v0", 3)
    seen = env.observe()
    word = seen.text.removeprefix("Say ")
    assert seen.admissible == (word, "nothing")
    assert seen.state_key == word
    assert env.step("x" * 30).valid is False  # too long for the space: the environment never sees it
    assert env.step("pears").observation.text == "No"
    last = env.step(word)
    assert (last.reward, last.done, env.score()) == (1.0, True, 1.0)
    assert env.step(word).valid is False
    env.close()


def test_the_seed_decides() -> None:
    begun = {make("roleagent/Words-v0", seed).observe().text for seed in range(12)}
    assert len(begun) == 3
    assert make("roleagent/Words-v0", 5).observe() == make("roleagent/Words-v0", 5).observe()


def test_a_drawn_world_is_solved_by_names() -> None:
    env = make("FrozenLake-v1", **LAKE)
    assert env.observe().text == "[S]FFF\nFHFH\nFFFH\nHFFG"
    assert env.observe().admissible == tuple(NAMES)
    for action in ("down", "down", "right", "right", "down"):
        assert env.step(action).reward == 0.0
    assert env.step("sideways").valid is False
    last = env.step("right")
    assert (last.reward, last.done, env.score()) == (1.0, True, 1.0)
    assert last.observation.state_key == "15"
    assert "[G]" in last.observation.text


def test_the_checker_finds_nothing_in_it() -> None:
    spec = registry.spec("gym:FrozenLake-v1")
    assert check(spec.make, Task("t", "gym:FrozenLake-v1", "g", 1, LAKE)) == []
    assert spec.max_steps(Task("t", "gym:FrozenLake-v1", "g")) == 100
    assert spec.max_steps(Task("t", "gym:FrozenLake-v1", "g", 0, {"max_steps": 7})) == 7


def test_a_threshold_makes_the_score_and_the_reward() -> None:
    env = make("FrozenLake-v1", **LAKE, success_at=0.5)
    rewards = [env.step(a).reward for a in ("down", "down", "right", "right", "down", "right")]
    assert (sum(rewards), env.score()) == (1.0, 1.0)
    assert make("FrozenLake-v1", **LAKE, success_at=0).score() == 1.0


def test_the_action_mask_is_kept() -> None:
    taxi = next(id for id in gym.registry if id.startswith("Taxi-v"))
    env = make(taxi, 1, actions=["south", "north", "east", "west", "pick up", "drop off"])
    assert 1 < len(env.observe().admissible) < 6
    moved = env.step(env.observe().admissible[0])
    assert moved.reward == 0.0  # a return below 0 is a score of 0
    assert env.score() == 0.0


def test_actions_without_names_are_numbers() -> None:
    assert make("FrozenLake-v1").observe().admissible == ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("id", "params", "said"),
    [
        ("Nope-v0", {}, "gym:Nope-v0"),
        ("FrozenLake-v1", {"actions": ["left"]}, "has 4 actions; params.actions names 1"),
        ("FrozenLake-v1", {"kwargs": {"colour": 1}}, "cannot be made with kwargs"),
        ("FrozenLake-v1", {"kwargs": 3}, "params.kwargs must be an object"),
        ("FrozenLake-v1", {"success_at": "1"}, "params.success_at must be a number, found '1'"),
        ("FrozenLake-v1", {"success_at": True}, "params.success_at must be a number, found True"),
        ("roleagent/Steering-v0", {}, "needs a Text or Discrete space"),
    ],
)
def test_what_cannot_be_played_is_said(id: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(id, **params)
    assert said in str(caught.value)


def test_pictures_are_refused() -> None:
    with pytest.raises(EnvironmentFault, match="shows ndarray, no text"):
        make("roleagent/Pixels-v0")


def test_a_module_registers_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ra_gym_own.py").write_text(
        "import gymnasium as gym\nfrom tests.envs.test_gymnasium import Words\n"
        "gym.register('Own-v0', Words)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert make("ra_gym_own:Own-v0", 3).observe().text.startswith("Say ")
    assert registry.spec("gym:ra_gym_own:Own-v0").max_steps(Task("t", "x", "g")) == 30
    del gym.registry["Own-v0"]
    with pytest.raises(ConfigError, match="the module ra_gym_none cannot be imported: No module"):
        make("ra_gym_none:Own-v0")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gymnasium", None)
    with pytest.raises(MissingExtra, match=r"pip install 'roleagent-lite\[gym\]'"):
        make("FrozenLake-v1")


@pytest.mark.parametrize("limit", [0, "7", True])
def test_a_limit_that_is_none(limit: Any) -> None:
    with pytest.raises(ConfigError, match="positive whole number"):
        registry.spec("gym:FrozenLake-v1").max_steps(
            Task("t", "gym:FrozenLake-v1", "g", 0, {"max_steps": limit})
        )


def test_colours_become_brackets() -> None:
    assert plain("\n\x1b[41mS\x1b[0mF\x1b[2Km\n") == "[S]Fm"
