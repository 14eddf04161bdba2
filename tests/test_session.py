"""Sessions: settings and the embedded profile, what a resume refuses, the record that each session leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.ask import load_prompts
from roleagent_lite.config import RunConfig, from_mapping
from roleagent_lite.errors import BudgetStop, ConfigError
from roleagent_lite.lm.plan import PlannedCalls
from roleagent_lite.session import Beginning, opened, profile, run_now, settings, starting_prompts
from roleagent_lite.store import Run
from roleagent_lite.types import Progress, Request, Task
from tests.scripted_world import provider

# --- settings ---


def test_flags_win_and_what_is_not_set_is_left_to_defaults() -> None:
    config = settings(
        from_mapping({"model": "openai/x", "agent": "choose"}), agent="random", tasks=Path("a.jsonl")
    )
    assert (config.model, config.agent, config.tasks) == ("openai/x", "random", "a.jsonl")
    assert config.evolve == RunConfig().evolve and not config.limits.replay
    assert settings(None, replay=True).limits.replay


def test_a_mapping_will_do_and_names_what_it_does_not_know() -> None:
    config = settings({"model": "openai/x", "evolve": {"rounds": 3}}, agent="random")
    assert (config.model, config.evolve.rounds, config.agent) == ("openai/x", 3, "random")
    with pytest.raises(ConfigError, match=r"unknown setting 'evolve\.ronds'; did you mean 'rounds'"):
        settings({"evolve": {"ronds": 3}})


@pytest.mark.parametrize(("model", "choose"), [("embedded", True), ("openai/x", False)])
def test_a_prompt_file_stands_over_the_prompts_of_the_agents_model(
    model: str, choose: bool, tmp_path: Path
) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("Look before you leap.", encoding="utf-8")
    as_setting = starting_prompts(
        settings({"model": model, "prompts": str(file)}), None
    )  # as --prompt does it
    as_argument = starting_prompts(settings({"model": model}), file)
    assert as_setting == as_argument
    assert as_setting.seed_set().texts["act.instructions"] == "Look before you leap."
    assert ("choose" in as_setting.modules) is choose, "the embedded model keeps its short prompts"


def test_the_profile_goes_under_what_the_user_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "prompts" / "embedded"
    folder.mkdir(parents=True)
    (folder / "profile.toml").write_text(
        'agent = "choose"\n[evolve]\nrounds = 2\ngroup = 3\n', encoding="utf-8"
    )
    monkeypatch.setattr("roleagent_lite.content.room", lambda name: tmp_path / name)
    config = settings(from_mapping({"model": "embedded:x.gguf", "evolve": {"group": 4}}))
    assert (config.agent, config.evolve.rounds, config.evolve.group) == ("choose", 2, 4)
    assert settings(from_mapping({"model": "openai/x"})).evolve.rounds == RunConfig().evolve.rounds
    mixed = from_mapping({"model": "openai/x", "models": {"agent": "embedded"}})
    assert settings(mixed).evolve.rounds == 2
    assert settings(config) == config


def test_other_models_have_no_profile() -> None:
    assert profile("openai/embedded") == {}


# --- an open run ---

SEED = load_prompts("v1").seed_set()
TASKS = [Task(f"t{i}", "tests.toy:Toy", "Get out.", split="test" if i else "dev") for i in range(3)]


def begun(**fixed: Any) -> Beginning:
    return Beginning(TASKS, "abc", "task file 'x'", SEED, {"suite": fixed} if fixed else {})


async def session(path: Path, beginning: Beginning, **how: Any) -> str:
    """Opens a run, asks one call, closes it; where its report lies."""
    config = from_mapping({"model": "scripted", "tasks": "x"})
    async with opened(config, path, beginning, models=provider(lambda r: "hello"), **how) as one:
        await one.models["agent"].complete(Request("agent", "act", ()))
    return str(one.report)


async def test_a_session_leaves_start_tasks_and_its_record(tmp_path: Path) -> None:
    reported: list[Path] = []

    def report(path: Path) -> Path:
        reported.append(path)
        return path / "mine.md"

    said = await session(tmp_path / "r", begun(a=1), report=report)
    assert said == str(tmp_path / "r" / "mine.md") and reported == [tmp_path / "r"]
    with Run.open(tmp_path / "r") as run:
        start, one = run.events.get("start"), run.events.get("session/1")
        assert start is not None and start.data["counts"] == {"train": 0, "dev": 1, "test": 2}
        assert one is not None and (one.data["calls"], one.data["stopped"]) == (1, "")
        assert run.status == "finished" and run.tasks.keys() == ["t0", "t1", "t2"]
        assert (suite := run.events.get("suite")) is not None and suite.data == {"a": 1}
    await session(tmp_path / "r", begun(a=1))
    with Run.open(tmp_path / "r") as run:
        assert "session/2" not in run.events, "a finished run that is opened again gets no session more"


async def test_a_stop_is_recorded_and_reported_and_leaves_the_run_open(tmp_path: Path) -> None:
    reported: list[Path] = []

    def keep(path: Path) -> Path:
        reported.append(path)
        return path

    config = from_mapping({"model": "scripted", "tasks": "x", "budget": {"max_calls": 1}})
    with pytest.raises(BudgetStop):
        models = provider(lambda r: "hello")
        async with opened(config, tmp_path / "r", begun(), models=models, report=keep) as one:
            for sample in "ab":
                await one.models["agent"].complete(Request("agent", "act", (), sample=sample))
    assert reported == [tmp_path / "r"]
    with Run.open(tmp_path / "r") as run:
        one_session = run.events.get("session/1")
        assert one_session is not None and one_session.data["stopped"].startswith("BudgetStop: ")
        assert run.status == "interrupted"


async def test_what_must_be_the_same_at_a_resume_is_named(tmp_path: Path) -> None:
    await session(tmp_path / "r", begun(repetitions=1, systems=("a", "b")))
    await session(tmp_path / "r", begun(repetitions=1, systems=["a", "b"]))  # JSON knows no tuples
    with pytest.raises(ConfigError, match=r"another suite \(repetitions 1 then, 3 now\)"):
        await session(tmp_path / "r", begun(repetitions=3, systems=["a", "b"]))
    await session(tmp_path / "plain", begun())
    with pytest.raises(ConfigError, match="is another job"):
        await session(tmp_path / "plain", begun(repetitions=1))


async def test_other_prompt_files_are_another_run(tmp_path: Path) -> None:
    """What is shown of the same texts is no text itself."""
    await session(tmp_path / "r", replace(begun(), prompts="a"))
    await session(tmp_path / "r", replace(begun(), prompts="a"))
    with pytest.raises(ConfigError, match=r"another set of prompt files \(prompts a then, b now\)"):
        await session(tmp_path / "r", replace(begun(), prompts="b"))
    await session(tmp_path / "old", begun())  # begun before this was recorded
    await session(tmp_path / "old", replace(begun(), prompts="b"))


async def test_the_plan_is_told_and_kept_before_the_first_call(tmp_path: Path) -> None:
    heard: list[Progress] = []
    config = from_mapping({"model": "scripted", "tasks": "x"})
    async with opened(config, tmp_path / "r", begun(), models=provider(), listener=heard.append) as one:
        one.announce([PlannedCalls("agent", "act", 7, 100, 10)])
    assert [p.stage for p in heard] == ["estimate"] and "planned at most 7 calls" in heard[0].note
    with Run.open(tmp_path / "r") as run:
        assert (plan := run.events.get("estimate")) is not None and plan.data["calls"] == 7


async def test_inside_a_loop_a_job_says_what_to_await() -> None:
    async def work() -> int:
        return 3

    with pytest.raises(ConfigError, match=r"await evolve_async"):
        run_now(work(), "evolve")


def test_outside_a_loop_a_job_runs() -> None:
    async def work() -> int:
        return 3

    assert run_now(work(), "evolve") == 3
