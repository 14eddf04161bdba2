"""`verifiers:` worlds on the library where it is installed, else on a stand-in with its interface."""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from roleagent_lite.envs import own, registry, verifiers
from roleagent_lite.envs.checker import check
from roleagent_lite.envs.verifiers import Classic
from roleagent_lite.errors import ConfigError, EnvironmentFault, MissingExtra
from roleagent_lite.types import Task
from tests import verifiers_standin

REAL = importlib.util.find_spec("verifiers") is not None
DATA = """
import verifiers as vf
try:
    from datasets import Dataset
    data = Dataset.from_list
except ImportError:
    data = list
"""
GUESS = """
class Guess(vf.MultiTurnEnv):
    cleaned = 0

    async def setup_state(self, state):
        state["tries"] = 0
        return state

    @vf.cleanup
    async def count(self, state):
        Guess.cleaned += 1

    async def env_response(self, messages, state, **kwargs):
        said = messages[-1].content
        if said == "break":
            raise vf.Error("broken pipe")
        if said == "crash":
            raise RuntimeError("no such luck")
        state["tries"] += 1
        if said == state["answer"]:
            state["final_env_response"] = [{"role": "user", "content": "Right."}]
            return state["final_env_response"]
        return [{"role": "user", "content": "higher" if int(said) < int(state["answer"]) else "lower"}]

def won(state):
    return 1.0 if state.get("final_env_response") else 0.0

def tried(state):
    return state["tries"]

def load_environment(max_turns=-1, few_shot=None, reward=1.0, both=True, **more):
    rows = [{"question": f"Find number {i}.", "answer": str(i)} for i in range(40, 50)]
    kwargs = {"eval_dataset": data(rows[:6])} if both else {}
    return Guess(dataset=data(rows), system_prompt="Guess a number.", few_shot=few_shot, max_turns=max_turns,
                 rubric=vf.Rubric(funcs=[won, tried], weights=[reward, 0.1]), **kwargs)
"""
TOOLS = '''
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b

def right(completion, answer):
    return 1.0 if completion[-1]["content"] == answer else 0.0

def load_environment():
    rows = [{"question": "What is 2 and 3?", "answer": "5"}]
    return vf.ToolEnv(tools=[add], dataset=data(rows), rubric=vf.Rubric(funcs=[right]), max_turns=4)
'''
SINGLE = """
def right(completion, answer):
    return 1.0 if completion[-1]["content"] == answer else 0.0

def load_environment():
    rows = [{"question": f"Say {i}.", "answer": str(i)} for i in range(5)]
    return vf.SingleTurnEnv(eval_dataset=data(rows), rubric=vf.Rubric(funcs=[right]))
"""
GROUP = SINGLE.replace("def right(completion, answer):", "def right(completions, answers) -> list:")
SPOILT = "def load_environment():\n    raise SystemExit('not today')\n"
WORLDS = {"guess": GUESS, "tools": TOOLS, "single": SINGLE, "group": GROUP, "spoilt": SPOILT}


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library or its stand-in, and worlds written for it where they can be imported."""
    for name, text in WORLDS.items():
        (tmp_path / f"ra_{name}.py").write_text(DATA + text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_registered", {})
    with nullcontext() if REAL else verifiers_standin.installed():
        yield
    verifiers._load.cache_clear()
    for name in WORLDS:
        sys.modules.pop(f"ra_{name}", None)


def task(world: str = "guess", goal: str = "g", **params: Any) -> Task:
    return Task("t", f"verifiers:ra-{world}", goal, params={"row": 2, **params})


def made(world: str = "guess", **params: Any) -> Classic:
    return cast(Classic, registry.make(task(world, **params)))


def test_an_environment_is_talked_to_and_its_rubric_scores_the_end() -> None:
    env = made()
    assert env.observe().text == "Guess a number.\n\nFind number 42."
    assert env.observe().admissible == ()
    first = env.step("10")
    assert (first.observation.text, first.reward, first.done, first.valid) == ("higher", 0.0, False, True)
    assert env.step("77").observation.text == "lower"
    last = env.step("42")
    assert (last.observation.text, last.done, last.reward, env.score()) == ("Right.", True, 1.0, 1.0)
    again = env.step("42")
    assert (again.done, again.valid, again.reward, env.score()) == (True, False, 0.0, 1.0)
    env.close()


def test_a_reply_is_the_whole_answer_where_the_environment_has_one_turn() -> None:
    assert registry.spec("verifiers:ra-single").max_steps(task("single")) == 1
    for said, score in (("2", 1.0), ("3", 0.0)):
        env = made("single")
        last = env.step(said)
        assert (last.observation.text, last.done, last.reward) == ("The episode has ended.", True, score)
        env.close()


def test_examples_are_told_apart_from_the_question() -> None:
    shots = [{"role": "user", "content": "Find number 1."}, {"role": "assistant", "content": "1"}]
    env = made(kwargs={"few_shot": shots})
    assert env.observe().text.split("\n\n")[-3:] == [
        "user: Find number 1.",
        "assistant: 1",
        "user: Find number 42.",
    ]
    assert env.step("3").observation.text == "higher"
    env.close()


def test_tools_are_listed_and_called() -> None:
    env = made("tools", row=0)
    listed = '\n\nTools:\n- add({"a": integer, "b": integer}) - Adds two numbers.'
    assert env.observe().text == "What is 2 and 3?" + listed
    assert env.step('add({"a": 2, "b": 3})').observation.text == "5" + listed
    assert "'x'" in env.step('add({"x": 2})').observation.text  # the environment says what is wrong
    wrong = env.step("add(2, 3)")
    assert wrong.observation.text.startswith("The arguments of add are no JSON") and not wrong.valid
    last = env.step("5")
    assert (last.done, last.reward, env.score()) == (True, 1.0, 1.0)
    env.close()


def test_what_only_looks_like_a_call_is_a_reply() -> None:
    env = made("tools", row=0)
    assert env.step("Five (5)").done and env.score() == 0.0
    env.close()


def test_the_environments_own_turns_are_the_limit() -> None:
    few = task(kwargs={"max_turns": 3})
    spec = registry.spec(few.env)
    assert spec.max_steps(few) == 3
    assert spec.max_steps(task()) == 30
    assert spec.max_steps(task(max_steps=7)) == 7
    env = spec.make(few)
    assert [env.step("1").done for _ in range(3)] == [False, False, True]
    assert env.score() == pytest.approx(0.2)  # two answers came; after the third nobody looks
    env.close()


def test_a_score_on_the_way_is_that_of_the_conversation_so_far_and_play_goes_on() -> None:
    env = made()
    assert env.score() == 0.0
    env.step("1")
    env.step("2")
    assert env.score() == env.score() == pytest.approx(0.2)
    assert env.step("99").observation.text == "lower"
    assert env.score() == pytest.approx(0.3)
    assert env.step("42").done and env.score() == 1.0
    env.close()


def test_a_threshold_makes_the_score() -> None:
    env = made(success_at=0.4, kwargs={"reward": 0.3})
    env.step("1")
    assert env.score() == 0.0
    last = env.step("42")
    assert (last.reward, env.score()) == (1.0, 1.0)  # 0.3 and two tries of 0.1
    env.close()
    plain = made(kwargs={"reward": 0.3})
    assert plain.step("42").reward == pytest.approx(0.4)
    plain.close()


@pytest.mark.parametrize(("said", "why"), [("break", "broken pipe"), ("crash", "no such luck")])
def test_what_breaks_in_it_is_a_fault(said: str, why: str) -> None:
    env = made()
    with pytest.raises(EnvironmentFault, match=f"verifiers:ra-guess.*{why}"):
        env.step(said)
    env.close()


def test_closing_lets_it_clean_up() -> None:
    env = made()
    env.step("1")
    kind = type(env._made[1])
    before = kind.cleaned
    env.close()
    assert kind.cleaned == before + 1
    env.close()
    assert kind.cleaned == before + 1


def test_a_rollout_is_closed_at_once_however_it_ended() -> None:
    """Its task may still stand in the loop while its end has been told."""
    for number in range(200):
        env = made("single")
        if number % 2:
            env.step("2")
        env.close()
        assert env._rollout._over.is_set()


def test_an_environment_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    env = made()
    monkeypatch.setattr(verifiers, "WAIT", 0.05)
    with pytest.raises(EnvironmentFault, match=r"has not answered for 0\.05 seconds"):
        env._rollout.next()  # it waits for a reply itself
    monkeypatch.setattr(verifiers, "WAIT", 30.0)
    env.close()


def test_episodes_at_once_are_as_one_by_one() -> None:
    """Both play on one environment, which the second finds loaded."""
    moves = {40: ["1", "40"], 43: ["99", "2", "43"], 44: ["44"]}

    def play(env: Classic, number: int) -> list[tuple[str, float, bool]]:
        return [(t.observation.text, t.reward, t.done) for t in map(env.step, moves[number])]

    alone = {}
    for number in moves:
        env = made(row=number - 40)
        alone[number] = play(env, number)
        env.close()
    envs = {number: made(row=number - 40) for number in moves}
    assert len({id(env._made[1]) for env in envs.values()}) == 1
    seen: dict[int, list[tuple[str, float, bool]]] = {number: [] for number in moves}
    for turn in range(3):
        for number, env in envs.items():
            if turn < len(moves[number]):
                t = env.step(moves[number][turn])
                seen[number].append((t.observation.text, t.reward, t.done))
    assert seen == alone
    for env in envs.values():
        env.close()


def test_the_checker_finds_nothing() -> None:
    spec = registry.spec("verifiers:ra-tools")
    assert check(spec.make, task("tools", row=0), steps=6) == []


def test_its_data_are_the_tasks() -> None:
    rows = own.rows_of("verifiers:ra-guess")
    assert [row["split"] for row in rows] == ["train"] * 10 + ["dev", "test", "test"] * 2
    assert rows[3] == {
        "id": "train-3", "env": "verifiers:ra-guess", "goal": "Guess a number.\n\nFind number 43.",
        "params": {"row": 3, "from": "train"}, "split": "train",
    }  # fmt: skip
    env = registry.make(Task("t", rows[-1]["env"], rows[-1]["goal"], params=rows[-1]["params"]))
    assert env.observe().text == rows[-1]["goal"] == "Guess a number.\n\nFind number 45."
    env.close()
    alone = own.rows_of("verifiers:ra-single")
    assert [row["split"] for row in alone] == ["train", "dev", "test", "train", "train"]
    assert {row["params"]["from"] for row in alone} == {"eval"}


def test_large_data_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifiers, "MOST_ROWS", {"train": 4, "eval": 3})
    assert [row["id"] for row in verifiers.rows("verifiers:ra-guess")][3:] == [
        "train-3",
        "eval-0",
        "eval-1",
        "eval-2",
    ]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"row": 6}, "params.row is 6, but verifiers:ra-guess has 6 rows, counted from 0, under 'eval'"),
        ({"row": "2"}, r"params\.row must be a whole number"),
        ({"row": 1, "from": "eval", "kwargs": {"both": False}}, "has no data under 'eval'"),
        ({"from": "tain"}, "did you mean 'train'"),
        ({"kwargs": [1]}, r"params\.kwargs must be an object"),
        ({"kwargs": {"max_turns": 1, "few_shots": 2}, "row": 99}, "has 6 rows"),
        ({"success_at": "high"}, r"params\.success_at must be a number"),
        ({"success_at": True}, r"params\.success_at must be a number"),
    ],
)
def test_what_is_wrong_with_a_task(params: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**params)


@pytest.mark.parametrize(
    ("world", "said"),
    [
        ("nowhere", "cannot be loaded: Could not import"),
        ("spoilt", "cannot be loaded: .*not today"),
        ("group", "rewards the rollouts of a group against each other"),
    ],
)
def test_what_cannot_be_played_is_said(world: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(world, row=0)


def test_an_environment_of_the_v1_framework_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type("Env", (), {"__module__": "verifiers.v1.env", "rubric": None})
    monkeypatch.setattr(sys.modules["verifiers"], "load_environment", lambda _: kind(), raising=False)
    with pytest.raises(ConfigError, match="v1 framework, which runs the model itself and offers no step"):
        made()


@pytest.mark.parametrize("version", ["0.4.0", "0.1.9"])
def test_a_version_without_the_interface_gives_one_message(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.4 has `verifiers.v1` alone; 0.1.9 has no clients of its own."""
    for name in [one for one in sys.modules if one.split(".")[0] == "verifiers"]:
        monkeypatch.delitem(sys.modules, name)
    bare = ModuleType("verifiers")
    bare.__path__ = []
    monkeypatch.setitem(sys.modules, "verifiers", bare)
    monkeypatch.setattr(metadata, "version", lambda _: version)
    with pytest.raises(MissingExtra) as caught:
        made()
    assert f"verifiers {version} has not the classic interface" in str(caught.value)
    assert "pip install 'verifiers>=0.1.14,<0.4'" in str(caught.value)


def test_without_the_package_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verifiers", None)
    with pytest.raises(
        MissingExtra, match=r"needs the package verifiers .*pip install 'verifiers>=0\.1\.14,<0\.4'"
    ):
        made()


def test_signals_stay_the_programs() -> None:
    def mine(*_: object) -> None: ...

    before = signal.signal(signal.SIGINT, mine)
    try:
        made().close()
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_the_registry_knows() -> None:
    spec = registry.spec("verifiers:ra-guess")
    assert (spec.blocking, spec.facts, spec.snapshots, spec.history) == (True, False, False, 4)
    assert "calls one" in spec.vocabulary
