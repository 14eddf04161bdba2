"""Field cases ENV-* and TSK-* on the shell world, played by the rollout as any world is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from roleagent_lite.config import Wia
from roleagent_lite.envs.shell import sandbox
from roleagent_lite.envs.shell.commands.call import Call, Said
from roleagent_lite.envs.shell.env import Shell
from roleagent_lite.errors import ConfigError
from roleagent_lite.rollout import Episode, irreproducible, play, play_many
from roleagent_lite.stage import STOP_AFTER, Stage, completed
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Decision, PromptSet, Task, Trajectory, View

pytest.importorskip("bashkit", reason="bashkit is not installed: pip install 'roleagent-lite[shell]'")
TASKS = load_tasks("shell")


class Reader:
    """An agent that reads out a script; {task id: lines} or lines for all."""

    prompt_set = PromptSet("p" * 12, {})

    def __init__(self, lines: Sequence[str] | dict[str, list[str]]) -> None:
        self._lines = lines

    async def act(self, view: View) -> Decision:
        lines = self._lines[view.task.id] if isinstance(self._lines, dict) else self._lines
        return Decision(action=lines[(view.step - 1) % len(lines)])


async def played(lines: Sequence[str], task: Task = TASKS[0], steps: int = 0) -> Trajectory:
    return await play(Reader(lines), Episode(task, 0, 0, 0.0, max_steps=steps), model_name="reader")


async def test_env_01_the_same_line_without_effect_ends_as_a_loop() -> None:
    came = await played(["systemctl --failed"])
    assert (came.outcome.kind, came.outcome.reason, len(came.steps)) == ("failed", "loop", STOP_AFTER)


async def test_env_01_a_line_whose_answer_changes_is_no_loop() -> None:
    came = await played(["date"], steps=12)
    assert (came.outcome.reason, len(came.steps)) == ("step_limit", 12)
    assert len({step.outcome for step in came.steps}) == 12


@pytest.mark.parametrize(
    "said",
    [
        "`echo hi`",
        "> echo hi",
        "Action: echo hi",
        "<action>echo hi</action>",
        "echo hi\nObservation: hi",
        "**echo hi**",
    ],
)
async def test_env_03_a_line_in_other_clothes_is_run_bare(said: str) -> None:
    came = await played([said], steps=1)
    assert (came.steps[0].action, came.steps[0].outcome) == ("echo hi", "hi")


@pytest.mark.parametrize(
    "line", ["echo 'a b' \"c\"", "echo a; echo b.", "cat <<E\nx\nE", "grep -c '^$' /etc/hosts"]
)
async def test_env_03_what_is_a_line_passes_unchanged(line: str) -> None:
    assert (await played([line], steps=1)).steps[0].action == line


async def test_env_05_a_fault_of_ours_ends_one_episode_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(call: Call) -> Said:
        if call.machine.seed == TASKS[1].seed:
            raise RuntimeError("a fault in a simulated command")
        return Said("fine\n")

    monkeypatch.setattr(sandbox, "COMMANDS", {**sandbox.COMMANDS, "ss": broken})
    scripts = {task.id: ["ss -ltn", *Shell(task).walkthrough()] for task in TASKS[:4]}
    episodes = [Episode(task, 0, 0, 0.0) for task in TASKS[:4]]
    came = await play_many(Reader(scripts), episodes, workers=4, model_name="reader")
    kinds = [one.outcome.kind for one in came]
    assert kinds == ["solved", "infrastructure_error", "solved", "solved"]
    assert came[1].outcome.reason == "environment" and "a fault in a simulated command" in (
        came[1].error or ""
    )


async def test_env_06_lines_that_never_end_the_episode_are_cut_at_the_limit() -> None:
    came = await played(["", "nosuch", "report", "sleep 9", "echo $RANDOM"], steps=10)
    assert came.outcome.kind == "bad_format"  # no action at all
    came = await played(["nosuch", "report", "sleep 9", "echo $RANDOM"], steps=10)
    assert (came.outcome.kind, came.outcome.reason, len(came.steps)) == ("failed", "step_limit", 10)
    assert [step.valid for step in came.steps[:4]] == [True, False, True, True]


async def test_env_08_rollouts_of_a_task_are_alike_and_hash_the_same() -> None:
    plan = Shell(TASKS[40]).walkthrough()
    episodes = [Episode(TASKS[40], 0, rollout, 0.0) for rollout in range(3)]
    came = await play_many(Reader(plan), episodes, workers=3, model_name="reader")
    assert irreproducible(came) == set()
    assert len({tuple((s.action, s.outcome, s.state_key, s.reward) for s in one.steps) for one in came}) == 1
    assert all(one.outcome.kind == "solved" and one.score == 1.0 for one in came)
    assert all(round(sum(step.reward for step in one.steps), 6) == 1.0 for one in came)


async def test_a_search_goes_back_and_finds_what_was() -> None:
    task = TASKS[7]
    plan = Shell(task).walkthrough()
    stage = Stage(completed(Episode(task, 0, 0, 0.0), Wia()), "r/p/t#0")
    await stage.open()
    mark = await stage.mark()
    for wrong in ("rm -rf /etc /var", "report clock_skew x"):
        await stage.move(Decision(action=wrong))
        await stage.back(mark)
    for line in plan:
        outcome = await stage.move(Decision(action=line))
    await stage.close()
    assert outcome is not None and outcome.kind == "solved"


def test_tsk_03_a_task_of_no_known_family_is_refused_with_its_id(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    rows = [
        {"id": "one", "env": "shell", "goal": "g", "seed": 1, "params": {"type": "disk_full"}},
        {"id": "two", "env": "shell", "goal": "g", "params": {"type": None}},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    good, bad = load_tasks(file)
    assert Shell(good).score() == 0.0
    with pytest.raises(ConfigError, match=r"task two: params\.type is None: one of .*disk_full"):
        Shell(bad)


@pytest.mark.parametrize("seed", [-1, 0, 2**62])
def test_any_seed_of_a_task_file_is_a_machine(seed: int) -> None:
    env = Shell(Task("t", "shell", "g", seed, {"type": "disk_full", "difficulty": "hard"}))
    for line in env.walkthrough():
        env.step(line)
    assert env.score() == 1.0


def test_tsk_07_braces_and_signs_in_a_line_reach_bash_as_they_are() -> None:
    env = Shell(TASKS[0])
    assert (
        env.step("echo '{\"a\": 1} {task} {0} %s ${HOME}'").observation.text
        == '{"a": 1} {task} {0} %s ${HOME}'
    )
