"""A round of AIW end to end on a scripted world, a real store and a real run directory."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.aiw.atlas import FIXED, Atlas
from roleagent_lite.aiw.curriculum import Curriculum
from roleagent_lite.aiw.retrieve import TAKE
from roleagent_lite.aiw.round import AiwRound, aiw_round, mastered, note_fixed
from roleagent_lite.aiw.vocabulary import load_vocabulary
from roleagent_lite.errors import BudgetStop, ConfigError, RoleAgentError
from roleagent_lite.memory import Memory
from roleagent_lite.store import Run
from roleagent_lite.types import Request, Task, Trajectory
from tests.aiw.make import Hashing, World, chosen, diagnosed, episode, open_run, said, task

HEAT = [task(f"heat{i}", f"put a hot apple {i} on the table") for i in range(6)]
LAMP = [task(f"lamp{i}", f"look at book {i} under the desklamp") for i in range(18)]
TASKS = [*HEAT, *LAMP]
HOUSEHOLD = {"household": load_vocabulary("household")}


def by_goal(request: Request) -> str:
    """A stand-in world: heat goals fail for want of heating, the others in loops."""
    if "hot apple" in said(request):
        return diagnosed("missing_precondition", query="heat hot apple")
    return diagnosed("navigation_loop", query="book desklamp")


def first_two(request: Request) -> str:
    ids = re.findall(r"^(\w+\d+): ", said(request), re.MULTILINE)
    return chosen(*ids[:2])


class Loop:
    """What evolve keeps from round to round, over one run directory."""

    def __init__(self, run: Run, world: World | None = None, tasks: Sequence[Task] = TASKS) -> None:
        self.run = run
        self.world = world or World(diagnose=by_goal, retrieve=first_two)
        self.tasks = tasks
        self.atlas = Atlas(Memory(run.dir / "atlas", Hashing()))
        aiw = run.config.aiw
        self.curriculum = Curriculum.start([t.id for t in tasks], aiw.rho, aiw.decay, run.config.seed)

    async def round(self, number: int, episodes: Sequence[Trajectory]) -> AiwRound:
        for trajectory in episodes:
            self.run.trajectories.put(trajectory)
        out = await aiw_round(
            number,
            episodes,
            tasks=self.tasks,
            atlas=self.atlas,
            curriculum=self.curriculum,
            asker=self.world.asker(),
            prompt_set=None,
            vocabularies=HOUSEHOLD,
            run=self.run,
        )
        self.curriculum = out.curriculum
        return out


def group(task_id: str, *kinds: str, round: int = 1) -> list[Trajectory]:
    return [
        episode(task_id, i, (f"try {i}",), kind=kind, round=round)  # type: ignore[arg-type]
        for i, kind in enumerate(kinds)
    ]


ROUND1 = [
    *group("heat0", "failed", "failed", "solved"),
    *group("heat1", "failed"),
    *group("lamp0", "bad_format"),
    *group("lamp1", "solved", "solved"),
    *group("lamp2", "solved", "cut_off"),
    *group("lamp3", "solved", "infrastructure_error"),
]


async def test_one_round(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        loop = Loop(run)
        out = await loop.round(1, ROUND1)
        event = run.events.get("curriculum/1")
    assert [d.mode for d in out.diagnoses] == ["missing_precondition"] * 3 + ["navigation_loop"]
    assert len(loop.world.of("retrieve")) == 2  # one a distinct mode
    own = [c for c in out.chosen if c.own]
    assert [(c.task_id, c.mode) for c in own] == [
        ("heat0", "missing_precondition"), ("heat1", "missing_precondition"), ("lamp0", "navigation_loop"),
    ]  # fmt: skip
    retrieved = [c for c in out.chosen if not c.own]
    assert len(retrieved) == 4
    assert all(c.reason == "same skill" for c in retrieved)
    assert {c.task_id[:4] for c in retrieved if c.mode == "missing_precondition"} == {"heat"}
    counts = dict(zip(out.curriculum.task_ids, out.curriculum.counts, strict=True))
    assert counts["heat0"] == counts["heat1"] == counts["lamp0"] == 1.0
    assert sum(counts.values()) == 7
    assert event is not None
    assert event.kind == "curriculum"
    assert dict(event.data) == json.loads(json.dumps(dict(out.record)))


async def test_the_record_says_what_happened(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        record = (await Loop(run).round(1, [*ROUND1, episode("heat1", 7, ("try 0",))])).record
    assert record["round"] == 1
    assert (record["failures"], record["diagnosed"], record["shared"]) == (5, 5, 1)
    assert record["solved"] == ["lamp1", "lamp3"]
    assert sum(record["p"].values()) == pytest.approx(1)
    assert set(record["p"]) == {t.id for t in TASKS}
    assert set(record["counts"]) == {c["task_id"] for c in record["chosen"]}
    assert record["dropped"] == {}
    modes = {m["name"]: m for m in record["modes"]}
    assert modes["missing_precondition"]["evidence"] == modes["missing_precondition"]["in_round"] == 4
    assert modes["navigation_loop"]["rule"] == "Heat first."


@pytest.mark.parametrize(("retrieve", "shown"), [("llm", True), ("task_text", False)])
async def test_retrieval_by_task_text_sees_no_failure_mode_of_the_candidates(
    tmp_path: Path, retrieve: str, shown: bool
) -> None:
    with open_run(tmp_path, aiw={"retrieve": retrieve}) as run:
        loop = Loop(run)
        await loop.round(1, ROUND1)
        await loop.round(2, group("lamp1", "failed", round=2))
        told = said(loop.world.of("retrieve")[-1])
    assert "heat0: " in told
    assert ("missing_precondition" in told) == ("Heat first." in told) == shown


async def test_resume_answers_from_the_run_and_asks_nothing(tmp_path: Path) -> None:
    second = [*group("heat2", "failed", round=2), *group("heat0", "solved", round=2)]
    with open_run(tmp_path) as run:
        loop = Loop(run)
        before = [await loop.round(1, ROUND1), await loop.round(2, second)]
        modes = loop.atlas.modes()
    with open_run(tmp_path) as run:
        again = Loop(run, World())
        after = [await again.round(1, ROUND1), await again.round(2, second)]
    assert [a.curriculum for a in after] == [b.curriculum for b in before]
    assert [a.diagnoses for a in after] == [b.diagnoses for b in before]
    assert [a.chosen for a in after] == [b.chosen for b in before]
    assert [dict(a.record) for a in after] == [json.loads(json.dumps(dict(b.record))) for b in before]
    assert again.atlas.modes() == modes
    assert again.curriculum.draw(6, 3) == loop.curriculum.draw(6, 3)


async def test_a_round_cut_between_diagnosis_and_retrieval_sends_the_same_requests(tmp_path: Path) -> None:
    whole = World(diagnose=by_goal, retrieve=first_two)
    with open_run(tmp_path / "whole") as run:
        loop = Loop(run, whole)
        await loop.round(1, ROUND1)
        undisturbed = await loop.round(2, group("heat3", "failed", round=2))

    def stop(request: Request) -> str:
        raise BudgetStop("cap")

    with open_run(tmp_path / "cut") as run:
        loop = Loop(run)
        await loop.round(1, ROUND1)
        loop.world = World(diagnose=by_goal, retrieve=stop)
        with pytest.raises(BudgetStop):
            await loop.round(2, group("heat3", "failed", round=2))
        assert "curriculum/2" not in run.events
    cut = World(diagnose=by_goal, retrieve=first_two)
    with open_run(tmp_path / "cut") as run:
        loop = Loop(run, cut)
        await loop.round(1, ROUND1)
        resumed = await loop.round(2, group("heat3", "failed", round=2))
    assert cut.of("diagnose") == []
    assert cut.seen == whole.of("retrieve")[-1:]
    assert resumed.record == undisturbed.record


@pytest.mark.parametrize("split", ["dev", "test"])
async def test_episodes_of_dev_and_test_never_enter_the_atlas(tmp_path: Path, split: Any) -> None:
    with open_run(tmp_path) as run:
        loop = Loop(run)
        with pytest.raises(RoleAgentError, match="never enter the atlas"):
            await loop.round(1, [*ROUND1, episode("heat5", split=split)])
        assert loop.atlas.modes() == []
        assert len(run.diagnoses) == 0
    assert loop.world.seen == []


@pytest.mark.parametrize(
    ("aiw", "asked", "own", "retrieved"),
    [
        ({"diagnose": "none"}, (0, 0), 0, 0),
        ({"retrieve": "none"}, (4, 0), 0, 0),
        ({"retrieve": "random"}, (4, 0), 3, 2 * TAKE),
        ({"retrieve": "vector"}, (4, 0), 3, 4 + TAKE),
        ({"retrieve": "task_text"}, (4, 2), 3, 4),
    ],
)
async def test_every_ablation_is_a_name(
    tmp_path: Path, aiw: dict[str, str], asked: tuple[int, int], own: int, retrieved: int
) -> None:
    with open_run(tmp_path, aiw=aiw) as run:
        loop = Loop(run, World(diagnose=by_goal, retrieve=first_two))
        out = await loop.round(1, ROUND1)
    assert (len(loop.world.of("diagnose")), len(loop.world.of("retrieve"))) == asked
    assert sum(c.own for c in out.chosen) == own
    assert sum(not c.own for c in out.chosen) >= retrieved
    if not own:
        assert set(out.curriculum.probabilities().values()) == {1 / len(TASKS)}


async def test_unknown_names_are_refused(tmp_path: Path) -> None:
    for setting, name in (("diagnose", "lm"), ("retrieve", "randon")):
        with (
            open_run(tmp_path / setting, aiw={setting: name}) as run,
            pytest.raises(ConfigError, match=f"aiw.{setting} is '{name}'; did you mean"),
        ):
            await Loop(run).round(1, ROUND1)


async def test_a_failure_that_could_not_be_read_still_counts_for_its_task(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        loop = Loop(run, World(diagnose="no use"))
        out = await loop.round(1, ROUND1)
    assert out.diagnoses == ()
    assert [(c.task_id, c.mode) for c in out.chosen] == [("heat0", ""), ("heat1", ""), ("lamp0", "")]


async def test_no_failures_change_nothing_but_time(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        loop = Loop(run)
        await loop.round(1, ROUND1)
        before = loop.curriculum
        out = await loop.round(2, group("heat0", "solved", round=2))
    assert out.chosen == ()
    assert out.curriculum == before.update([], ["heat0"])


async def test_note_fixed_marks_and_records(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        loop = Loop(run)
        await loop.round(1, ROUND1)
        child = [episode(t, kind="solved", prompt_set="child") for t in ("heat0", "heat1")]
        others = [episode("lamp0", prompt_set="child"), episode("heat0", kind="failed")]
        names = note_fixed(1, [*child, *others], "child", atlas=loop.atlas, run=run)
        assert names == ["missing_precondition"]
        event = run.events.get(f"{FIXED}/1/missing_precondition")
        assert event is not None
        assert event.data == {"mode": "missing_precondition", "prompt_set": "child", "round": 1}
        fixed = {m.name: m.fixed_by for m in loop.atlas.modes()}
        assert fixed == {"missing_precondition": "child", "navigation_loop": None}
        out = await loop.round(2, group("heat4", "failed", round=2))
    modes = {m["name"]: m for m in out.record["modes"]}
    assert modes["missing_precondition"]["fixed_by"] is None
    assert modes["missing_precondition"]["reopened"] == [2]


def test_mastered() -> None:
    assert mastered(ROUND1) == ["lamp1", "lamp3"]
    assert mastered(group("a", "infrastructure_error")) == []
    assert mastered([]) == []


async def test_a_failing_family_is_drawn_more_over_200_draws(tmp_path: Path) -> None:
    """Diagnosis, store, retrieval and curriculum together: 40 rounds of 6 draws, heat tasks always fail."""
    heat = {t.id for t in HEAT}
    played: Counter[str] = Counter()
    with open_run(tmp_path) as run:
        loop = Loop(run)
        for number in range(1, 41):
            drawn = loop.curriculum.draw(6, number)
            played.update(drawn)
            await loop.round(
                number,
                [e for t in drawn for e in group(t, "failed" if t in heat else "solved", round=number)],
            )
            p = loop.curriculum.probabilities()
            assert min(p.values()) >= 0.7 / len(TASKS)
    total, n = sum(played.values()), len(TASKS)
    assert total == 240
    uniform = len(heat) / n
    assert sum(played[t] for t in heat) / total > uniform + 2 * math.sqrt(uniform * (1 - uniform) / total)
    assert sum(p[t] for t in heat) > uniform
    assert set(played) == set(loop.curriculum.task_ids)
