"""A stranger's environment: what is read from its answers, and the words for what is not (ENV-05)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.envs.adapt import Adapted, adapt, describe, read_observation, read_transition
from roleagent_lite.errors import EnvironmentFault
from roleagent_lite.types import Environment, Observation, Task, Transition

TASK = Task("t1", "toy", "take the key", seed=3)
SEEN = Observation("a key", ("take key",), "k1")


class Toy:
    """The 15-line environment of the README's kind."""

    def __init__(self, task: Task) -> None:
        self.taken = False

    def observe(self) -> Observation:
        return Observation("A key hangs here." if not self.taken else "An empty hook.", ("take key", "wait"))

    def step(self, action: str) -> Any:
        self.taken = self.taken or action == "take key"
        return Transition(self.observe(), float(self.taken), self.taken)

    def score(self) -> float:
        return float(self.taken)


def test_a_class_of_fifteen_lines_is_an_environment() -> None:
    env = adapt(Toy, TASK, "toy")
    assert isinstance(env, Environment)
    assert env.observe().admissible == ("take key", "wait")
    moved = env.step("take key")
    assert (moved.reward, moved.done, moved.valid, env.score()) == (1.0, True, True, 1.0)
    env.close()  # it has none


@pytest.mark.parametrize(
    ("value", "reward", "done", "valid"),
    [
        (Transition(SEEN, 0.5, False), 0.5, False, True),
        (Transition(SEEN, 1, True, valid=False), 1.0, True, False),
        ((SEEN, 0, True), 0.0, True, True),
        ((SEEN, 1.0, False, {}), 1.0, False, True),
        ((SEEN, 1.0, False, {"valid": False}), 1.0, False, False),
        ((SEEN, 0.0, False, True, {}), 0.0, True, True),
        ((SEEN, 0.0, True, False, {"x": 1}), 0.0, True, True),
        ((SEEN, np.float32(0.25), np.bool_(True), np.False_, {}), 0.25, True, True),
        ((SEEN, True, False), 1.0, False, True),
        ({"observation": SEEN, "reward": 1, "done": True}, 1.0, True, True),
    ],
)
def test_env_05_other_shapes_that_say_the_same_are_read(
    value: Any, reward: float, done: bool, valid: bool
) -> None:
    assert read_transition(value) == Transition(SEEN, reward, done, valid)
    assert isinstance(read_transition(value).reward, float)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "NoneType"),
        ("text", "str 'text'"),
        ((), "a tuple of 0"),
        ((SEEN,), "a tuple of 1 (Observation)"),
        ((SEEN, 1.0), "a tuple of 2 (Observation, float)"),
        ((SEEN, 1.0, True, {}, {}, {}), "a tuple of 6"),
        ((SEEN, True, 1.0), "a tuple of 3 (Observation, bool, float)"),
        ((SEEN, 1.0, "yes"), "a tuple of 3 (Observation, float, str)"),
        ((SEEN, 1.0, True, None), "a tuple of 4 (Observation, float, bool, NoneType)"),
        ((SEEN, 1.0, True, {}, False), "a tuple of 5"),
        ((SEEN, "1.0", True), "a tuple of 3"),
        ((SEEN, math.nan, True), "a tuple of 3"),
        ((SEEN, math.inf, True), "a tuple of 3"),
        ((None, 1.0, True), "no observation text"),
        ({"reward": 1.0, "done": True}, "a dict with the keys reward, done"),
        ({}, "a dict with the keys (none)"),
        ([SEEN, 1.0, True], "list"),
        (Transition("x", "much", True), "Transition"),  # type: ignore[arg-type]
        (Transition(3, 1.0, True), "no observation text: found int 3"),  # type: ignore[arg-type]
    ],
)
def test_env_05_unclear_shapes_state_what_is_expected(value: Any, found: str) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        read_transition(value)
    assert found in str(caught.value)
    assert "must return roleagent_lite.types.Transition(observation, reward, done)" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "info", "seen"),
    [
        ("text", None, Observation("text")),
        (SEEN, None, SEEN),
        ({"text": "t", "admissible": ["a"]}, None, Observation("t", ("a",))),
        ({"observation": "t", "state_key": "k"}, None, Observation("t", (), "k")),
        ("t", {"admissible_commands": ["a", "b"]}, Observation("t", ("a", "b"))),
        ("t", {"available_actions": ("a",)}, Observation("t", ("a",))),
        ("t", {"admissible": [1, 2], "state_key": 7}, Observation("t", (), "7")),
        ("t", {"admissible": [1, 2], "state_key": {"a": 1}}, Observation("t")),
        ("t", {"admissible": np.array(["a", "b"])}, Observation("t", ("a", "b"))),
        ("t", {"admissible": {"b", "a"}}, Observation("t", ("a", "b"))),
        (np.str_("t"), {"state_key": (1, "x")}, Observation("t", (), "(1, 'x')")),
        (Observation(np.str_("t"), ["a"], np.int64(3)), None, Observation("t", ("a",), "3")),  # type: ignore[arg-type]
        (Observation("t", (), frozenset({2, 1})), None, Observation("t", (), "[1, 2]")),  # type: ignore[arg-type]
    ],
)
def test_observations(value: Any, info: Any, seen: Observation) -> None:
    assert read_observation(value, info) == seen


@pytest.mark.parametrize("value", [None, 3, b"bytes", {}, {"text": 4}, ["text"]])
def test_no_observation(value: Any) -> None:
    with pytest.raises(EnvironmentFault, match="no observation text"):
        read_observation(value)


def test_an_observation_of_wrong_parts() -> None:
    with pytest.raises(EnvironmentFault, match="needs a text and a tuple of texts"):
        read_observation(Observation("t", "take key"))  # type: ignore[arg-type]
    with pytest.raises(EnvironmentFault, match="found int and"):
        read_observation(Observation(3))  # type: ignore[arg-type]


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4) | st.just(SEEN),
    lambda inner: (
        st.lists(inner, max_size=5).map(tuple) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values)
def test_any_answer_is_read_or_refused(value: Any) -> None:
    try:
        moved = read_transition(value)
    except EnvironmentFault as error:
        assert len(str(error)) < 900
        return
    assert isinstance(moved.observation.text, str) and math.isfinite(moved.reward)


class _Reset:
    def __init__(self) -> None:
        self.seed: int | None = None

    def reset(self, seed: int | None = None) -> Any:
        self.seed = seed
        return "A key hangs here.", {"admissible": ["take key"]}

    def step(self, action: str) -> Any:
        return f"You {action}.", 1.0, True, False, {}

    def score(self) -> float:
        return 1.0


def test_gyms_way_is_read() -> None:
    env = adapt(lambda task: _Reset(), TASK, "gym")
    assert isinstance(env, Adapted)
    assert env.observe() == Observation("A key hangs here.", ("take key",))
    assert env.inner.seed == 3
    assert env.step("take key").done
    assert env.observe().text == "You take key."


def test_a_reset_without_seed_or_info_is_read() -> None:
    class Bare(_Reset):
        def reset(self) -> Any:  # type: ignore[override]
            return "A key hangs here."

    assert adapt(lambda task: Bare(), TASK, "gym").observe() == Observation("A key hangs here.")


def test_what_lacks_a_method_is_refused_before_it_plays() -> None:
    class Nothing:
        def __init__(self, task: Task) -> None:
            pass

    with pytest.raises(EnvironmentFault, match=r"Nothing, which lacks observe\(\), step\(\), score\(\)"):
        adapt(Nothing, TASK, "toy")


@pytest.mark.parametrize("value", [None, "1", -0.1, 1.5, math.nan, [1]])
def test_scores_lie_between_zero_and_one(value: Any) -> None:
    env = adapt(Toy, TASK, "toy")
    env.inner.score = lambda: value  # type: ignore[attr-defined]
    with pytest.raises(EnvironmentFault, match="a number from 0 to 1"):
        env.score()


def test_env_05_an_exception_inside_passes_through() -> None:
    class Broken(Toy):
        def step(self, action: str) -> Any:
            raise ZeroDivisionError("deep inside")

    with pytest.raises(ZeroDivisionError, match="deep inside"):
        adapt(Broken, TASK, "toy").step("wait")


def test_what_else_it_offers_is_passed_through() -> None:
    class Rich(Toy):
        closed = False

        def facts(self) -> list[str]:
            return ["taken"]

        def close(self) -> None:
            self.closed = True

    env = adapt(Rich, TASK, "toy")
    assert isinstance(env, Adapted)
    assert env.facts() == ["taken"]
    assert not hasattr(env, "snapshot")
    env.close()
    assert env.inner.closed


def test_descriptions_are_short() -> None:
    assert describe({"a": 1}) == "a dict with the keys a"
    assert len(describe("x" * 10_000)) <= 200


@pytest.mark.parametrize("key", [{"a": 1}, [1], object()])
def test_env_05_a_state_key_that_cannot_be_told_apart_is_refused(key: Any) -> None:
    """Kept as it is, it would make a run that cannot be read again."""
    with pytest.raises(EnvironmentFault, match="as state_key, found"):
        read_observation(Observation("t", (), key))


@pytest.mark.parametrize(
    "reward", [np.array([1.0, 2.0]), np.array([1.0]), "1", None, 10**400, [1.0], 1j, b"1"]
)
def test_env_05_rewards_that_are_no_number_state_what_is_expected(reward: Any) -> None:
    with pytest.raises(EnvironmentFault, match=r"must return roleagent_lite\.types\.Transition"):
        read_transition((SEEN, reward, True))


def test_env_05_an_async_environment_is_told_so() -> None:
    async def step(action: str) -> Any:
        return SEEN, 0.0, True

    with pytest.raises(EnvironmentFault, match=r"step\(\) is async, but an environment's methods are plain"):
        read_transition(step("x"))
    with pytest.raises(EnvironmentFault, match="is async"):
        read_observation(step("x"))


def test_a_reward_that_is_no_number_is_named() -> None:
    with pytest.raises(EnvironmentFault, match=r"a tuple of 3 .* with the reward nan, which is no number\."):
        read_transition(("a room", math.nan, True))
