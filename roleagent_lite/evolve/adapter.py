"""Our half of GEPA's engine: evaluation, feedback, proposal, acceptance and the end of a round.

GEPA calls these from its own thread, in the order draw, play, feedback, propose, play, accept; each one
crosses the bridge, so that nothing it raises is swallowed. Owns that order's glue and the `candidate`
events. Leaves out all judgement: played, feedback, propose, accept, world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from roleagent_lite.evolve import demos
from roleagent_lite.evolve.accept import Criterion, Verdict
from roleagent_lite.evolve.bridge import Bridge
from roleagent_lite.evolve.feedback import Record, feedback, records
from roleagent_lite.evolve.played import Played
from roleagent_lite.evolve.player import Player
from roleagent_lite.evolve.pool import Pool
from roleagent_lite.evolve.propose import Material, Means, Proposal, child_texts, propose, rotated
from roleagent_lite.evolve.sampler import Clock
from roleagent_lite.evolve.world import World
from roleagent_lite.store import Run
from roleagent_lite.types import PromptSet, Task


@dataclass
class Shop:
    """What the parts of one evolution share. Only GEPA's thread and the coroutine it waits for touch it."""

    run: Run
    bridge: Bridge
    clock: Clock
    pool: Pool
    player: Player
    world: World
    means: Means
    shown: str  # name of the WIA feedback
    solved: list[demos.Demo] = field(default_factory=list)
    parent: PromptSet | None = None  # of this round, once it has played
    proposal: Proposal | None = None
    accepted: PromptSet | None = None


class Adapter:
    """GEPA's adapter. A data instance is a Task, a trajectory a Played, a score mean success in 0..1."""

    propose_new_texts = None  # GEPA reads the attribute; proposals come from `Proposer`

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._show = feedback(shop.shown)

    def evaluate(self, batch: list[Task], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        """An EvaluationBatch. A task that no rollout could score counts 0 here; acceptance leaves it out."""
        from gepa.core.adapter import EvaluationBatch

        played = self._shop.bridge.call(self._play(batch, candidate))
        return EvaluationBatch(played, [p.success or 0.0 for p in played], played)

    async def _play(self, tasks: Sequence[Task], candidate: Mapping[str, str]) -> list[Played]:
        shop = self._shop
        prompt_set = shop.pool.child(candidate)
        played = await shop.player.play(tasks, prompt_set, shop.clock.round)
        if tasks[0].split == "dev":
            shop.pool.dev[prompt_set.id] = {p.task.id: p.success for p in played}
            return played
        shop.parent = shop.parent or prompt_set
        shop.solved += [
            demos.demo(p.task, t, p.credits.get(t.id)) for p in played for t in p.trajectories if t.solved
        ]
        await shop.world.learn(played, shop.clock.round)
        return played

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> dict[str, list[Record]]:
        """The failing tasks of the batch, the same for each component; empty where nothing failed."""

        async def build() -> list[Record]:  # across the bridge: GEPA swallows what is raised here
            return records(eval_batch.trajectories, self._show, self._shop.world.diagnoses)

        rows = self._shop.bridge.call(build())
        return dict.fromkeys(components_to_update, rows)


class Proposer:
    """GEPA's custom proposer. Gives one new text, or none: then GEPA leaves the round without a child."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    def __call__(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        first = components_to_update[0]
        return self._shop.bridge.call(self._propose(candidate, reflective_dataset[first], first))

    async def _propose(
        self, candidate: dict[str, str], rows: Sequence[Mapping[str, Any]], first: str
    ) -> dict[str, str]:
        shop = self._shop
        parent = shop.pool.child(candidate)
        material = Material(
            parent=parent,
            rows=[dict(row) for row in rows],
            failing=[shop.world.task(row["task"]) for row in rows],
            related=shop.world.related,
            candidates=shop.solved,
            sample=f"{shop.clock.round}/{parent.id[:8]}",
        )
        proposal = await propose(rotated(shop.pool.components, first), material, shop.means)
        shop.proposal = proposal
        if proposal.text is None:
            _record(shop, parent, None, proposal, Verdict(False, 0, 0, 0, proposal.why))
            return {}
        child = shop.pool.child(child_texts(candidate, proposal), parent, proposal.why)
        if child in shop.pool.entered:
            _record(shop, parent, None, proposal, Verdict(False, 0, 0, 0, "this prompt set is in the pool"))
            return {}
        return {proposal.component: proposal.text}


class Acceptance:
    """GEPA's acceptance criterion: parent and child have played the same tasks in the same round."""

    def __init__(self, shop: Shop, compare: Criterion) -> None:
        self._shop = shop
        self._compare = compare

    def should_accept(self, proposal: Any, state: Any) -> bool:
        shop = self._shop
        assert shop.proposal is not None
        before, after = (
            [
                p for p in side.trajectories if p.task.id != shop.proposal.shown
            ]  # its solution is in the prompt
            for side in (proposal.eval_before, proposal.eval_after)
        )
        verdict = self._compare(before, after)
        parent = shop.pool.child(state.program_candidates[proposal.parent_program_ids[0]])
        child = shop.pool.child(proposal.candidate)
        if verdict.accepted:
            shop.pool.enter(child)
            shop.accepted = child
        else:
            shop.pool.refused.append(child)
        _record(shop, parent, child, shop.proposal, verdict)
        return verdict.accepted


class RoundEnd:
    """GEPA's stop callback, asked before each iteration: the one place between two rounds.

    Ends the round just played (retrieve, reshape), raises what GEPA may have swallowed, and stops after
    `rounds`.
    """

    def __init__(self, shop: Shop, rounds: int) -> None:
        self._shop = shop
        self._rounds = rounds
        self._ended = 0

    def __call__(self, state: Any) -> bool:
        shop = self._shop
        shop.bridge.check()
        if shop.clock.round > self._ended:
            self._ended = shop.clock.round
            if shop.proposal is None and shop.parent is not None:  # GEPA saw only full scores and went on
                skipped = Proposal("", None, "no failures to learn from: every attempt was solved")
                _record(shop, shop.parent, None, skipped, Verdict(False, 0, 0, 0, skipped.why))
            shop.bridge.call(shop.world.end_round(self._ended, shop.accepted))
            shop.parent = shop.proposal = shop.accepted = None
        return self._ended >= self._rounds


class Silence:
    """GEPA's logger: events are recorded, nothing is printed."""

    def log(self, message: str) -> None:
        pass


def _record(
    shop: Shop, parent: PromptSet, child: PromptSet | None, proposal: Proposal, verdict: Verdict
) -> None:
    round = shop.clock.round
    shop.run.record(
        f"candidate/{round}/{child.id[:8] if child else 'none'}",
        "candidate",
        {
            "round": round,
            "parent": parent.id,
            "child": child.id if child else None,
            "component": proposal.component,
            "accepted": verdict.accepted,
            "reason": verdict.reason,
            "how": proposal.why,
            "wins": verdict.wins,
            "losses": verdict.losses,
            "ties": verdict.ties,
        },
    )
