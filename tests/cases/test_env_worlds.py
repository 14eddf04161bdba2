"""Field cases ENV on every world: the loop around it, played through the whole product.

Where a case cannot apply to a world the table beside it says why. What concerns the code of a stranger's
class alone (shapes of answers, async, a class that ignores its seed, success without reward) is in test_env.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.rollout import irreproducible
from roleagent_lite.stage import NOTE_AFTER, STOP_AFTER
from roleagent_lite.types import Environment, Task
from tests.cases.kit import Played, text
from tests.cases.worlds import asked, few, read_out
from tests.envs.worlds import World, every
from tests.fake_server import Say, Seen, always


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The world of the parameter, with the server that it needs."""
    found: World = request.param
    with found.serve():
        yield found


def say(action: str) -> str:
    return json.dumps({"action": action})


def errand(seen: Seen) -> int:
    """The number that the task of a request carries in its goal."""
    found = re.search(r"\(errand (\d+)\)", text(seen))
    assert found is not None
    return int(found[1])


# --- ENV-01 ---


@pytest.mark.parametrize("world", every(), indirect=True)
def test_env_01_repeating_without_effect_is_told_and_ends(world: World, tmp_path: Path) -> None:
    (task,) = few(world, 1, max_steps=20)
    played, requests = asked(tmp_path, [task], always(say(world.idle)))
    assert played.ends == [("failed", "loop")]
    (episode,) = played.trajectories
    # The first may still change something: tools counts it as an answer to the user.
    assert len(requests) == len(episode.steps) <= STOP_AFTER + 1 < 20
    told = ["without effect" in text(seen) for seen in requests]
    assert told == [n >= len(told) - STOP_AFTER + NOTE_AFTER for n in range(len(told))]
    data = json.loads((played.folder / "report.json").read_text(encoding="utf-8"))
    assert data["moves"]["test"]["invalid"] == sum(not step.valid for step in episode.steps)
    assert "not admissible here" in text(requests[-1]) or all(step.valid for step in episode.steps)


# --- ENV-03 ---

MARKS = (
    '"{}"', "`{}`", "Action: {}", "> {}", "{}\nObservation: you hold it", "**{}**", "<action>{}</action>",
    "Action: `{}`\n\nObservation: ok", "  {} \n",
)  # fmt: skip
LISTED = ("{}.", "{UPPER}", "“{}”")  # these may belong to an action where nothing is listed


@pytest.mark.parametrize("world", every(), indirect=True)
def test_env_03_a_good_move_in_other_clothes_reaches_the_world_bare(world: World, tmp_path: Path) -> None:
    (first,) = few(world, 1, max_steps=1)
    bare = world.plan(first)[0]
    env = registry.make(first)
    listed = bare in env.observe().admissible
    came = env.step(bare)
    env.close()
    clothes = [
        form.replace("{}", bare).replace("{UPPER}", bare.upper()) for form in (*MARKS, *LISTED * listed)
    ]
    # Where any text may be an action, prose is none: there it has to stand in the form, or behind "Action:".
    loose = [worn for worn in clothes if listed or worn.startswith("Action:")]
    said = [*map(say, clothes), *loose][:: 3 if world.slow else 1]
    tasks = [replace(first, id=f"w{n}", goal=f"{first.goal} (errand {n})") for n in range(len(said))]
    played, _ = asked(tmp_path, tasks, lambda seen: Say(said[errand(seen)]))
    wrong = [
        (reply, one.outcome, [(step.action, step.outcome[:80]) for step in one.steps])
        for reply, one in zip(said, played.trajectories, strict=True)
        if not one.steps
        or (one.steps[0].action, one.steps[0].outcome, one.steps[0].valid)
        != (bare, came.observation.text, True)
    ]
    assert wrong == []


# --- ENV-05 ---


class Breaks:
    """A world whose engine fails at a given step, after it has done it."""

    def __init__(self, inner: Environment, at: int) -> None:
        self._inner, self._at, self.closed = inner, at, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def step(self, action: str) -> Any:
        came, self._at = self._inner.step(action), self._at - 1
        if not self._at:
            raise RuntimeError("the engine lost its thread")
        return came

    def close(self) -> None:
        self.closed += 1
        self._inner.close()


@pytest.mark.parametrize("world", every(), indirect=True)
def test_env_05_an_episode_that_breaks_leaves_the_others_alone(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = few(world, 3 if world.slow else 5)
    plans = [world.plan(task) for task in tasks]
    at = min(3, len(plans[1]))
    make, broken = registry.make, []

    def breaking(task: Task) -> Any:
        if task.id != "w2":
            return make(task)
        broken.append(Breaks(make(task), at))
        return broken[-1]

    monkeypatch.setattr(registry, "make", breaking)
    played = read_out(tmp_path, tasks, plans, workers=4)
    assert [kind for kind, _ in played.ends] == [
        "infrastructure_error" if task.id == "w2" else "solved" for task in tasks
    ]
    fault = played.trajectories[1]
    assert (fault.outcome.reason, len(fault.steps), fault.score) == ("environment", at - 1, 0.0)
    assert "Traceback" in (fault.error or "") and "the engine lost its thread" in (fault.error or "")
    assert [one.closed for one in broken] == [1]
    (system,) = json.loads((played.folder / "report.json").read_text(encoding="utf-8"))["systems"]
    rest = len(tasks) - 1
    assert (system["success"]["n"], system["success"]["k"], system["errors"]) == (rest, rest, 1)


# --- ENV-06 ---

# Worlds in which any text is an action: what is none there cannot be told.
ANY = ("shell",)


@pytest.mark.parametrize("world", every(), indirect=True)
def test_env_06_what_is_never_understood_ends_at_the_step_limit(world: World, tmp_path: Path) -> None:
    (task,) = few(world, 1, max_steps=10)
    played, requests = asked(tmp_path, [task], lambda seen: Say(say(f"nonsense {seen.number}")))
    assert played.ends == [("failed", "step_limit")] and len(requests) == 10
    (episode,) = played.trajectories
    assert len(episode.steps) == 10 and episode.max_steps == 10
    assert world.name in ANY or not any(step.valid for step in episode.steps)
    assert "step\\_limit" in played.report and episode.score < 1.0


# --- ENV-08 ---


def digest(played: Played) -> list[str]:
    """A hash of each trajectory but for the times."""
    return [hashlib.sha256(repr(replace(t, seconds=0.0)).encode()).hexdigest() for t in played.trajectories]


@pytest.mark.parametrize("world", every(), indirect=True)
def test_env_08_the_same_seed_and_moves_give_the_same_hashes(world: World, tmp_path: Path) -> None:
    """Each task twice under two ids: members of a group begin and go alike, with one worker and with four."""
    tasks = few(world, 2)
    plans = [world.plan(task) for task in tasks]
    twins = [replace(task, id=f"{task.id}-{n}", seed=task.seed) for task in tasks for n in range(2)]
    doubled = [plan for plan in plans for _ in range(2)]
    found = []
    for workers in (1, 4):
        found.append(read_out(tmp_path / str(workers), twins, doubled, workers=workers))
        group = [replace(t, task=t.task[:2]) for t in found[-1].trajectories]
        assert irreproducible(group) == set()
        for one, other in zip(group[::2], group[1::2], strict=True):
            assert (one.steps, one.score, one.final_state_key) == (
                other.steps,
                other.score,
                other.final_state_key,
            )
        assert found[-1].notes == []
    assert digest(found[0]) == digest(found[1]) and len(set(digest(found[0]))) == len(twins)
    assert {kind for kind, _ in found[0].ends} == {"solved"}
