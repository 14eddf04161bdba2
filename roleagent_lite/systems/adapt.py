"""adapt: plans only where acting fails, as deep as needed (Prasad et al. 2023, arXiv 2311.05772).

Keeps: an executor (react) that tries a task and says itself whether it completed or failed; on failure a
planner splits the task into sub-tasks joined by AND (in order, all needed) or OR (alternatives, one is
enough), each of which goes the same way, down to DEPTH; all in one episode, which goes on where the last
sub-task left it. It is never told how it was scored.
Leaves out: the hand-written examples of atomic skills and of plans; logic deeper than one AND or OR a
plan. An executor may take SHARE of the episode's steps (20 of household's 50, as in the paper). At the top
only "task failed" can be said: a finished task ends the episode by itself.
"""

from __future__ import annotations

from roleagent_lite.ask import near_miss
from roleagent_lite.errors import EpisodeEnd
from roleagent_lite.rollout import perform
from roleagent_lite.stage import Stage
from roleagent_lite.systems.base import Attempt
from roleagent_lite.systems.mind import CHOOSING, MAX_PARTS, MODULES, Mind, Plan, Thinking, Told
from roleagent_lite.systems.words import COMPLETED, FAILED
from roleagent_lite.types import Outcome, Trajectory

DEPTH = 3  # the task itself is at depth 1
SHARE = 0.4


class _Over(Exception):
    """The episode ended while a sub-task was worked on."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


class Work:
    """One attempt on one stage: the recursion of the paper's algorithm 1."""

    def __init__(self, at: Attempt, stage: Stage, mind: Mind) -> None:
        self.at = at
        self.stage = stage
        self.mind = mind
        self.most = max(2, round(SHARE * stage.episode.max_steps))
        self.done: list[str] = []
        self.plans = 0

    async def run(self) -> Outcome:
        """Raises EpisodeEnd (gave_up) where the episode goes on and there is nothing left to try."""
        try:
            completed = await self.adapt("", 1)
        except _Over as over:
            return over.outcome
        how = "was carried out, and the goal is not reached" if completed else "failed"
        raise EpisodeEnd("gave_up", f"all that was planned {how}")

    async def adapt(self, goal: str, depth: int) -> bool:
        """Whether `goal` ("" = the task itself) is completed, by its own word or that of its parts."""
        if await self.execute(goal):
            return True
        if depth >= DEPTH:
            return False
        plan = await self.plan(goal)
        for part in plan.steps:
            completed = await self.adapt(part, depth + 1)
            if completed and plan.logic == "OR":
                return True
            if not completed and plan.logic == "AND":
                return False
        return bool(plan.steps) and plan.logic == "AND"

    async def plan(self, goal: str) -> Plan:
        self.plans += 1
        whole = self.stage.episode.task.goal
        return await self.mind.plan(self.stage, goal or whole, sample=f"{self.at.id}/plan{self.plans}")

    async def execute(self, goal: str) -> bool:
        """Acts on `goal` until it says how it went, or its steps are used up: then it failed."""
        told = Told(goal=goal, done=tuple(self.done), extra=(COMPLETED, FAILED) if goal else (FAILED,))
        for _ in range(self.most):
            decision = await self.mind.move(self.stage, told)
            word = near_miss(decision.action, told.extra)
            if word is not None:
                if word == COMPLETED:
                    self.done.append(goal)
                return word == COMPLETED
            outcome = await self.stage.move(decision)
            if outcome is not None:
                raise _Over(outcome)
        return False


class Adapt(Thinking):
    paper = "2311.05772"
    keeps = "executor that says how it went; on failure a plan of sub-tasks joined by AND or OR, to depth 3"
    leaves_out = "hand-written examples of skills and plans; logic deeper than one AND or OR a plan"
    modules = (*MODULES, "plan")
    choosing = (*CHOOSING, "plan")

    async def attempt(self, at: Attempt) -> Trajectory:
        mind = self.mind(at)

        async def script(stage: Stage) -> Outcome:
            return await Work(at, stage, mind).run()

        return await perform(
            script, at.episode, name=at.id, prompt_set=self.prompt_set, model_name=self.model
        )

    def most_asks(self, limit: int) -> int:
        executors: int = sum(MAX_PARTS**depth for depth in range(DEPTH))
        planners: int = sum(MAX_PARTS**depth for depth in range(DEPTH - 1))
        return (limit + executors) * self.asks_a_move + planners
