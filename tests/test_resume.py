"""Tests of record, resume and replay over whole runs: kills in the middle of a record, cuts, signals."""

from __future__ import annotations

import json
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.cli.runs import describe
from roleagent_lite.config import Budget, from_mapping, merge
from roleagent_lite.errors import ConfigError
from roleagent_lite.jobs import evolve
from roleagent_lite.lm.ledger import Ledger
from roleagent_lite.lm.price import FREE
from roleagent_lite.store import Run
from roleagent_lite.types import Request
from tests.evolve.kitchen import TABLES, settings, tables
from tests.kill_runner import Session, play
from tests.scripted_world import provider, rule

ROUNDS = {"rounds": 3, "tasks_per_round": 4, "group": 2, "dev": 5, "test": 5}
WORKERS = 4
KILLS = 20


def config(folder: Path) -> dict[str, Any]:
    """The settings of every run here, as a child process gets them."""
    over = {"workers": WORKERS, "aiw": {"retrieve": "llm"}, "evolve": ROUNDS}
    return settings(folder, over).model_dump(exclude_unset=True)


def lines(path: Path) -> list[Any]:
    """The whole lines of a table; half a line at the end is left out."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def size(run: Path) -> int:
    return sum(path.stat().st_size for path in run.glob("*.jsonl"))


@dataclass
class Story:
    """A run that was killed and resumed. One entry a kill in each list."""

    run: Path
    sent: list[str] = field(default_factory=list)
    in_flight: list[int] = field(default_factory=list)
    half: list[int] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    resent: int = 0
    paid_twice: int = 0
    unsent: int = 0

    def session(self, settings: dict[str, Any], **how: Any) -> int:
        """One more session; its exit code."""
        stored = {row["key"] for row in lines(self.run / "calls.jsonl")}
        dispatched = len(lines(self.run / "dispatched.jsonl"))
        log = self.run.with_suffix(".sent")
        before = len(lines(log))
        code = play(Session(self.run, settings, log, **how))
        sent = [row["key"] for row in lines(log)[before:]]
        assert len(sent) == len(set(sent)), "one process asked the same twice"
        self.paid_twice += len(stored & set(sent))
        self.resent += len(set(self.sent) & set(sent))
        self.sent += sent
        rows = lines(self.run / "dispatched.jsonl")[dispatched:]
        asked = [row["key"].partition("#")[0] for row in rows if row["row"]["kind"] in ("call", "again")]
        assert len(asked) == len(set(asked)) and set(sent) <= set(asked), "sent without a record of it"
        self.unsent += len(asked) - len(sent)
        if code == -signal.SIGKILL:
            stored = {row["key"] for row in lines(self.run / "calls.jsonl")}
            self.in_flight.append(len(set(sent) - stored))
            self.half.append(sum(not p.read_bytes().endswith(b"\n") for p in self.run.glob("*.jsonl")))
            self.status.append(describe(self.run)["status"])
        return code


@dataclass(frozen=True)
class Whole:
    """The undisturbed run that all others must equal."""

    run: Path
    settings: dict[str, Any]
    tables: dict[str, dict[str, Any]]
    dispatched: set[str]
    sent: Counter[str]
    bytes: int
    report: dict[str, Any]


def dispatched(run: Path) -> set[str]:
    """Keys of the calls that were sent; a sending after a kill has a key of its own and is left out."""
    return {row["key"] for row in lines(run / "dispatched.jsonl") if "#" not in row["key"]}


def report(run: Path) -> dict[str, Any]:
    """The report's numbers without what tells two equal runs apart: name, sessions, time, lost calls."""
    data: dict[str, Any] = json.loads((run / "report.json").read_text(encoding="utf-8"))
    for name in ("run", "sessions", "notes"):
        del data[name]
    for row in data["spend"]:
        for name in ("calls", "lost", "seconds", "unknown_tokens"):
            del row[name]
    for row in data["results"]:
        row.pop("seconds", None)
    return data


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    story = Story(folder / "run")
    values = config(folder)
    assert story.session(values) == 0
    found = tables(story.run)
    # What a kill could hit must be there to be hit.
    modules = {call["request"]["module"] for call in found["calls"].values()}
    assert modules == {"act", "diagnose", "retrieve", "reflect"}
    assert found["diagnoses"] and found["credits"] and len(found["results"]) == 2
    assert len(story.sent) == len(found["calls"]) and story.unsent == 0
    run, sent = story.run, Counter(story.sent)
    return Whole(run, values, found, dispatched(run), sent, size(run), report(run))


def killed(folder: Path, whole: Whole, moments: Sequence[int]) -> Story:
    """A run killed at each of `moments` (bytes into the session; past its end = no kill), then resumed."""
    story = Story(folder / "run")
    for moment in moments:
        if story.session(whole.settings, die_at=moment) == 0:
            return story
    assert story.session(whole.settings) == 0
    return story


def check_tables(run: Path, whole: Whole) -> None:
    """Equal to the undisturbed run by key, each key once, no half record, and the same report."""
    assert tables(run) == whole.tables
    assert dispatched(run) == whole.dispatched
    for name in [*TABLES, "dispatched"]:
        keys = [row["key"] for row in lines(run / f"{name}.jsonl")]
        assert len(keys) == len(set(keys)), name
        assert (run / f"{name}.jsonl").read_bytes().endswith(b"\n")
    assert describe(run)["status"] == "finished"
    assert report(run) == whole.report


def check(story: Story, whole: Whole) -> None:
    """All that must hold of a run that was killed and resumed to its end."""
    check_tables(story.run, whole)
    assert story.paid_twice == 0
    assert set(story.sent) == set(whole.sent)
    assert story.resent <= sum(story.in_flight)
    assert all(n <= WORKERS for n in story.in_flight)
    assert set(story.status) <= {"interrupted", "new"}
    with Run.open(story.run) as read:
        ledger = Ledger(Budget())
        ledger.rebuild(read, {"scripted-kitchen": FREE})
    total = ledger.snapshot().total
    assert total.calls == len(story.sent) + story.unsent, "each request that left is counted"
    assert total.lost == sum(story.in_flight) + story.unsent


def moments(count: int, total: int) -> list[list[int]]:
    """Seeded, one in each of `count` equal parts of the bytes; every third run is killed a second time."""
    draw = random.Random(20)
    first = [int((n + draw.random()) / count * total) for n in range(count)]
    return [[at] if n % 3 else [at, int(draw.random() * max(1, total - at))] for n, at in enumerate(first)]


def told(stories: Sequence[Story], total: int) -> str:
    """The figures, for who runs the tests with -s."""
    flying = [n for story in stories for n in story.in_flight]
    half = sum(sum(story.half) for story in stories)
    sent, again, twice, unsent = (
        sum(count)
        for count in zip(*((len(s.sent), s.resent, s.paid_twice, s.unsent) for s in stories), strict=True)
    )
    return (
        f"\n{len(flying)} kills in {len(stories)} runs over {total:,} bytes, {half} half records left; "
        f"{len(stories)} runs equal to the undisturbed one; {sent} requests reached the model; of those "
        f"whose reply was stored {twice} were sent again; {sum(flying)} were in flight at a kill (at most "
        f"{max(flying)} at once, {WORKERS} workers), {again} of them sent again; {unsent} were recorded "
        "and not yet sent"
    )


@pytest.mark.parametrize("part", [0, 1, 2])
def test_res_03_a_kill_inside_a_record_costs_only_what_was_in_flight(
    whole: Whole, tmp_path: Path, part: int
) -> None:
    story = killed(tmp_path, whole, moments(3, whole.bytes)[part])
    check(story, whole)
    print(told([story], whole.bytes))
    before = (story.run / "report.md").read_bytes()
    count = len(story.sent)
    (story.run / "report.md").unlink()
    assert story.session(whole.settings, replay=True) == 0
    assert (story.run / "report.md").read_bytes() == before
    assert len(story.sent) == count


@pytest.mark.slow
def test_res_03_twenty_kills_over_the_bytes_written(whole: Whole, tmp_path: Path) -> None:
    stories = []
    for n, at in enumerate(moments(KILLS, whole.bytes)):
        folder = tmp_path / str(n)
        folder.mkdir()
        story = killed(folder, whole, at)
        check(story, whole)
        stories.append(story)
    assert sum(len(s.in_flight) for s in stories) >= KILLS
    assert sum(sum(s.in_flight) for s in stories) > 0, "no kill met a call in flight: workers never overlap"
    print(told(stories, whole.bytes))


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.003, 0.01, 0.03])
def test_a_kill_while_the_index_is_written_costs_nothing(
    whole: Whole, tmp_path: Path, seconds: float
) -> None:
    story = Story(tmp_path / "run")
    assert story.session(whole.settings, die_indexing=seconds) == -signal.SIGKILL
    assert story.session(whole.settings) == 0
    check(story, whole)


# --- half a record ---


def after_a_cut(whole: Whole, folder: Path, keep: Callable[[bytes], int]) -> Story:
    """A copy of the whole run whose trajectories end where `keep` says, resumed."""
    story = Story(folder / "run")
    shutil.copytree(whole.run, story.run)
    path = story.run / "trajectories.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[: keep(data)])
    with Run.open(story.run) as run:
        assert list(run.torn) == ["trajectories"] and len(run.trajectories) == data.count(b"\n") - 1
    assert story.session(whole.settings) == 0
    assert story.sent == [], "its calls are all stored"
    check_tables(story.run, whole)
    assert path.read_bytes().count(b"\n") == data.count(b"\n")
    report = (story.run / "report.md").read_text(encoding="utf-8")
    assert "the last record of trajectories.jsonl was half written" in report
    return story


def test_res_01_the_last_30_bytes_of_a_real_run_are_cut(whole: Whole, tmp_path: Path) -> None:
    after_a_cut(whole, tmp_path, lambda data: len(data) - 30)


def test_res_01_cut_in_the_middle_of_a_character_of_a_real_run(whole: Whole, tmp_path: Path) -> None:
    after_a_cut(whole, tmp_path, lambda data: data.rindex("→".encode()) + 1)


# --- other settings ---


def test_res_03_another_model_temperature_or_task_file_is_refused_by_name(
    whole: Whole, tmp_path: Path
) -> None:
    story, values = Story(tmp_path / "run"), whole.settings
    tasks = tmp_path / "kitchen.jsonl"
    shutil.copy(values["tasks"], tasks)
    mine = {**values, "tasks": str(tasks)}
    assert story.session(mine, die_at=whole.bytes // 2) == -signal.SIGKILL
    before = {path.name: path.read_bytes() for path in story.run.glob("*.jsonl")}
    asked: list[Request] = []

    def noted(request: Request) -> str:
        asked.append(request)
        return rule(request)

    def refused(words: str, name: str = "scripted-kitchen", **changed: Any) -> None:
        with pytest.raises(ConfigError, match=words):
            evolve(from_mapping(merge(mine, changed)), run_dir=story.run, models=provider(noted, name))

    refused(r"model: 'scripted' then, 'other/model' now", model="other/model")
    refused(r"models\.world: None then, 'other/model' now", models={"world": "other/model"})
    refused(r"evolve\.temperature: 0\.9 then, 0\.5 now", evolve={"temperature": 0.5})
    refused(r"limits\.max_tokens: 1024 then, 99 now", limits={"max_tokens": 99})
    other = shutil.copy(tasks, tmp_path / "other.jsonl")
    refused(r"tasks: '.*kitchen\.jsonl' then, '.*other\.jsonl' now", tasks=str(other))
    refused(r"asked 'scripted-kitchen' then, 'another' now", name="another")
    rows = tasks.read_text(encoding="utf-8")
    tasks.write_text(rows.replace("heat the mug", "warm the mug"), encoding="utf-8")
    refused(r"another task file '.*kitchen\.jsonl'")
    assert asked == []
    assert {path.name: path.read_bytes() for path in story.run.glob("*.jsonl")} == before
    tasks.write_text(rows, encoding="utf-8")
    assert story.session(mine) == 0
    assert tables(story.run) == whole.tables
