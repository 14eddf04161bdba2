"""Parameters of a task: the right kind passes, another one is refused in words."""

from __future__ import annotations

from typing import Any

import pytest

from roleagent_lite.envs import params
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Task


def task(**given: Any) -> Task:
    return Task("t1", "e", "g", params=given)


def test_what_is_given_or_else_the_default() -> None:
    assert params.whole(task(n=3), "n", 7) == 3
    assert params.whole(task(), "n", 7) == 7
    assert params.flag(task(f=True), "f") and not params.flag(task(), "f")
    assert params.choice(task(c="a"), "c", ("a", "b")) == "a"
    assert params.choice(task(), "c", ("a", "b"), "b") == "b"
    assert params.texts(task(t=["x", "y"]), "t") == ["x", "y"]
    assert params.texts(task(), "t") is None


@pytest.mark.parametrize("value", ["3", True, 2.0, -1, None])
def test_no_whole_number(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"task t1: params\.n must be a whole number of at least 0"):
        params.whole(task(n=value), "n", 5)


def test_a_number_that_must_be_given_or_is_too_small() -> None:
    with pytest.raises(ConfigError, match="found None"):
        params.whole(task(), "n")
    with pytest.raises(ConfigError, match="at least 1, found 0"):
        params.whole(task(n=0), "n", least=1)


@pytest.mark.parametrize("value", [1, "true", None])
def test_no_truth(value: Any) -> None:
    with pytest.raises(ConfigError, match="true or false"):
        params.flag(task(f=value), "f")


def test_a_choice_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'boil'"):
        params.choice(task(c="boill"), "c", ("boil", "melt"))
    with pytest.raises(ConfigError, match="one of boil, melt"):
        params.choice(task(c=7), "c", ("boil", "melt"))


@pytest.mark.parametrize("value", [1, "", " ", None, ["x"]])
def test_no_text(value: Any) -> None:
    assert params.text(task(t="x"), "t") == "x"
    with pytest.raises(ConfigError, match="must be a text, found"):
        params.text(task(t=value), "t")


@pytest.mark.parametrize("value", ["x", [1], [], None])
def test_not_one_text(value: Any) -> None:
    assert params.some(task(t=("x",)), "t") == ["x"]
    with pytest.raises(ConfigError, match="a list of texts"):
        params.some(task(t=value), "t")


@pytest.mark.parametrize("value", ["x", [1], {"a": 1}])
def test_no_texts(value: Any) -> None:
    with pytest.raises(ConfigError, match="a list of texts"):
        params.texts(task(t=value), "t")
