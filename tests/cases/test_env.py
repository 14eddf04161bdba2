"""Field cases ENV: the agent loop and strangers' environments, played through the whole product."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite import jobs
from roleagent_lite.config import from_mapping
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.rollout import irreproducible
from roleagent_lite.stage import NOTE_AFTER, STOP_AFTER
from roleagent_lite.store import Run
from roleagent_lite.types import Request
from tests.cases import kit
from tests.cases.kit import Played, command_line, evaluate, text, won
from tests.fake_server import Answer, FakeServer, Say, Script, Seen, always
from tests.kill_runner import command

ODD = "tests.odd_worlds:"


def say(action: str) -> str:
    return json.dumps({"action": action})


def opening(reply: str) -> Script:
    """`reply` to the first request, good play from then on."""
    return lambda seen: won(seen) if seen.number else Say(reply)


# --- ENV-01 ---


def test_env_01_repeating_without_effect_is_told_and_ends(tmp_path: Path) -> None:
    with FakeServer(always(say("look around"))) as fake:
        played = evaluate(fake, tmp_path, world=ODD + "Long")
        told = ["without effect" in text(seen) for seen in fake.requests]
    assert played.ends == [("failed", "loop")]
    assert told == [n >= NOTE_AFTER for n in range(STOP_AFTER)]
    assert len(told) <= 30


def test_env_01_two_moves_in_turn_are_a_loop_too(tmp_path: Path) -> None:
    moves = ("look around", "say hello.")
    with FakeServer(lambda seen: Say(say(moves[seen.number % 2]))) as fake:
        played = evaluate(fake, tmp_path, world=ODD + "Long")
        assert played.ends == [("failed", "loop")] and fake.count == 2 * STOP_AFTER
        assert "without effect" in text(fake.requests[2 * NOTE_AFTER])


def test_env_01_the_report_counts_invalid_actions(tmp_path: Path) -> None:
    def script(seen: Seen) -> Answer:
        return Say(say("fly")) if seen.number < 2 else won(seen)

    with FakeServer(script) as fake:
        played = evaluate(fake, tmp_path)
    assert played.ends == [("solved", "")]
    data = json.loads((played.folder / "report.json").read_text(encoding="utf-8"))
    assert data["moves"]["test"]["invalid"] == 2
    assert "invalid" in played.report or "not admissible" in played.report


# --- ENV-03 ---


@pytest.mark.parametrize(
    "said",
    ['"take key"', "Take key.", "`take key`", "Action: take key", "> take key",
     "take key\nObservation: you hold it", "**take key**", "Action: `take key`\n\nObservation: ok",
     "  take key \n",      "TAKE  KEY", "“take key”", "<action>take key</action>"],
)  # fmt: skip
def test_env_03_a_good_move_in_other_clothes_reaches_the_environment_bare(said: str, tmp_path: Path) -> None:
    for n, reply in enumerate((said, say(said))):
        with FakeServer(opening(reply)) as fake:
            played = evaluate(fake, tmp_path / str(n))
        assert played.moves["t1"] == [["take key", "open door"]], reply
        assert all(step.valid for step in played.trajectories[0].steps)


def test_env_03_a_listed_text_passes_unchanged(tmp_path: Path) -> None:
    for n, said in enumerate(("say hello.", "Say hello", '"say hello."', "> say hello.")):
        with FakeServer(opening(say(said))) as fake:
            played = evaluate(fake, tmp_path / str(n))
        assert played.moves["t1"][0][0] == "say hello."


# --- ENV-05 ---


@pytest.mark.parametrize("name", ["key", "exit", "stop", "memory", "os", "assert", "recursion", "iter"])
def test_env_05_one_environment_that_raises_leaves_the_others_alone(name: str, tmp_path: Path) -> None:
    def script(seen: Seen) -> Answer:
        return Say(say("look around")) if "number 2" in text(seen) else won(seen)

    file = kit.tasks_file(tmp_path / "t.jsonl", 5, ODD + "Raises", raises=name)
    with FakeServer(script) as fake:
        words = ["eval", "--tasks", file.name, "--model", "fake", "--base-url", fake.url, "--run", "run"]
        said = kit.Said(*command(*words, cwd=tmp_path), tmp_path)
    assert said.code == 5, said.err
    played = said.played()
    assert [kind for kind, _ in played.ends].count("solved") == 4
    broken = played.trajectories[1]
    assert (broken.outcome.kind, broken.outcome.reason) == ("infrastructure_error", "environment")
    assert "Traceback" in (broken.error or "") and "odd_worlds.py" in (broken.error or "")
    assert len(broken.steps) == 2
    data = json.loads((played.folder / "report.json").read_text(encoding="utf-8"))
    (system,) = data["systems"]
    assert (system["success"]["n"], system["success"]["k"], system["errors"]) == (4, 4, 1)
    assert "1 episodes ended in infrastructure errors" in said.err and "Traceback" not in said.err


@pytest.mark.parametrize("answer", ["four", "five", "numpy"])
def test_env_05_shapes_that_say_the_same_are_read(answer: str, tmp_path: Path) -> None:
    assert shaped(answer, tmp_path).ends == [("failed", "lost")]


@pytest.mark.parametrize("answer", ["none", "dict", "bytes", "array", "reward", "nan", "two"])
def test_env_05_other_shapes_state_the_expected_one(answer: str, tmp_path: Path) -> None:
    played = shaped(answer, tmp_path)
    assert played.ends == [("infrastructure_error", "environment")]
    assert "Transition(observation, reward, done)" in (played.trajectories[0].error or "")


def shaped(answer: str, folder: Path) -> Played:
    file = kit.tasks_file(folder / "t.jsonl", 1, ODD + "Answers", answer=answer)
    with FakeServer(won) as fake:
        jobs.evaluate({"model": f"fake@{fake.url}"}, tasks=file, run_dir=folder / "run")
    return kit.read(folder / "run")


def test_env_05_an_async_environment_is_told_so(tmp_path: Path) -> None:
    with FakeServer(won) as fake:
        played = evaluate(fake, tmp_path, world=ODD + "Async")
    assert played.ends == [("infrastructure_error", "environment")]
    assert "step() is async" in (played.trajectories[0].error or "")


def test_env_05_numpy_everywhere_is_played_stored_and_resumed(tmp_path: Path) -> None:
    for n, world in enumerate(("Arrays", "Keyed")):
        with FakeServer(won) as fake:
            first = evaluate(fake, tmp_path / str(n), world=ODD + world)
            asked = fake.count
            again = evaluate(fake, tmp_path / str(n), world=ODD + world)
            assert fake.count == asked, "read again from the run"
        assert first.ends == again.ends == [("solved", "")]
        keys = [step.state_key for step in again.trajectories[0].steps]
        assert all(isinstance(key, str | None) for key in keys)


def test_env_05_half_a_character_in_an_action_is_shown_whole_and_given_back(tmp_path: Path) -> None:
    with FakeServer(always(say("take \ufffd key"))) as fake:
        played = evaluate(fake, tmp_path, world=ODD + "HalfCharacters")
    assert played.ends == [("solved", "")]
    assert played.moves["t1"] == [["take \ud83d key"]]
    assert played.trajectories[0].steps[0].action == "take \ufffd key"


def test_env_05_what_an_environment_prints_is_no_part_of_the_result(tmp_path: Path) -> None:
    with FakeServer(won) as fake:
        said = command_line(fake, tmp_path, "--json", world=ODD + "Prints")
    assert said.code == 0, said.err
    assert json.loads(said.out)["status"] == "finished"
    assert said.err.count("debug: stepping") == 2


# --- ENV-06 ---


def test_env_06_an_environment_that_never_ends_is_cut_at_the_step_limit(tmp_path: Path) -> None:
    with FakeServer(lambda seen: Say(say(f"nonsense {seen.number}"))) as fake:
        played = evaluate(fake, tmp_path, world="Endless")
        assert fake.count == 10
    assert played.ends == [("failed", "step_limit")]
    assert len(played.trajectories[0].steps) == 10 and not any(s.valid for s in played.trajectories[0].steps)
    assert "step\\_limit" in played.report


# --- ENV-08 ---


def rows(folder: Path, world: str) -> Path:
    file = folder / "t.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    made = [
        {
            "id": f"{split}{n}",
            "env": world,
            "goal": f"Get out of hall {split} {n}.",
            "split": split,
            "seed": 1,
        }
        for split in ("train", "dev", "test")
        for n in range(2)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return file


def rule(request: Request) -> str:
    """Plays badly half of the time, so that a group would have a signal."""
    user = "".join(m.content for m in request.messages)
    if request.module != "act":
        return json.dumps({"mode": "no_progress", "detail": "d", "critical_step": 1, "lesson": "l",
                           "query": "q", "chosen": [], "text": "Look.", "why": "w"})  # fmt: skip
    if request.sample.endswith(("#1", "#3")):
        return json.dumps({"action": "say hello.", "predictions": ["x"]})
    return json.dumps(
        {"action": "open door" if "You take the key." in user else "take key", "predictions": ["y"]}
    )


def evolved(folder: Path, world: str) -> Run:
    model = ScriptedModel(rule, "scripted")
    small = {"rounds": 1, "tasks_per_round": 2, "group": 4, "dev": 2, "test": 2}
    config = from_mapping({"model": "a/b", "evolve": small, "aiw": {"embedder": "none", "retrieve": "none"}})
    roles: Any = dict.fromkeys(("agent", "world", "reflector", "judge"), model)
    jobs.evolve(config, run_dir=folder / "run", tasks=rows(folder, world), models=roles)
    return Run.open(folder / "run")


def test_env_08_a_random_start_is_flagged_and_makes_no_group(tmp_path: Path) -> None:
    with evolved(tmp_path / "dice", "tests.toy:Dice") as run:
        trained = [t for t in run.trajectories if t.split == "train"]
        assert len(irreproducible(trained)) == 2
        credits = {c.trajectory: c for c in run.credits}
        assert credits and all(c.episode_advantage == 0.0 for c in credits.values())
        assert {t.solved for t in trained} == {True, False}
    report = (tmp_path / "dice" / "run" / "report.md").read_text(encoding="utf-8")
    assert "environment not reproducible: task 'train0'" in report
    with evolved(tmp_path / "toy", "tests.toy:Toy") as run:
        assert any(c.episode_advantage != 0.0 for c in run.credits)
    assert "not reproducible" not in (tmp_path / "toy" / "run" / "report.md").read_text(encoding="utf-8")


def digest(played: Played) -> list[str]:
    """A hash of each trajectory but for its time and the ids of its calls, which hold the server's port."""
    plain = [
        replace(t, seconds=0.0, steps=tuple(replace(step, call_ids=()) for step in t.steps))
        for t in played.trajectories
    ]
    return [hashlib.sha256(repr(t).encode()).hexdigest() for t in plain]


def test_env_08_the_same_seed_and_replies_give_the_same_hashes(tmp_path: Path) -> None:
    found = []
    for n, workers in enumerate((1, 1, 4)):
        with FakeServer(won) as fake:
            model = f"fake@{fake.url}"
            found.append(digest(evaluate(fake, tmp_path / str(n), tasks=4, model=model, workers=workers)))
    assert found[0] == found[1] == found[2] and len(set(found[0])) == 4


def test_env_08_success_without_reward_is_warned_about(tmp_path: Path) -> None:
    with FakeServer(won) as fake:
        said = command_line(fake, tmp_path, tasks=2, world="Unpaid")
    assert said.code == 0, said.err
    assert "success without any reward" in said.err
    assert "success without any reward" in said.played().report
