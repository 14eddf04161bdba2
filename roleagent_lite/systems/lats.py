"""lats: tree search over an episode, with values and reflections (Zhou et al. 2023, arXiv 2310.04406).

Keeps: selection by UCT; expansion by SAMPLES actions drawn at temperature 1; the value of a new point, LAMBDA
of the model's own score (module value) and the rest the share of the samples that agreed on it; simulation to
an end along the points of highest value, each expanded in the same way; back-propagation of the
environment's score as a running mean; a reflection on a failed end, shown to later moves and values (the last
MEMORY of them); the first solved end is the answer. Going back is by the environment's snapshots, else the
same actions are played again in a fresh one and must bring the same observations: the environment has to be
deterministic. It is told how the ends that it reached were scored.
Leaves out: more than ITERATIONS rounds (the paper has 30 to 50); ends and fully searched branches are not
selected again; without a solved end the best one reached counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from roleagent_lite.errors import EpisodeEnd, ReplyError
from roleagent_lite.rollout import perform, trajectory_of
from roleagent_lite.stage import Mark, Stage, admitted
from roleagent_lite.systems.base import Attempt
from roleagent_lite.systems.meter import SPENT
from roleagent_lite.systems.mind import CHOOSING, MODULES, Mind, Thinking, Told
from roleagent_lite.types import Decision, Outcome, Trajectory

ITERATIONS = 8
SAMPLES = 5
TEMPERATURE = 1.0
EXPLORE = 1.0  # w of UCT
LAMBDA = 0.5
MEMORY = 3  # reflections that are kept


@dataclass(slots=True, eq=False)
class Node:
    """A point of the episode. `value`: 0..1, an estimate until an end was reached through it, then the mean
    of the scores that were; `end`: how the episode ended here; `closed`: nothing is left to search below."""

    mark: Mark
    number: int
    parent: Node | None = None
    end: Outcome | None = None
    value: float = 0.0
    visits: int = 0
    closed: bool = False
    children: list[Node] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The environment's score of an end, 0 elsewhere."""
        return self.mark.score if self.end is not None else 0.0


def uct(node: Node) -> float:
    """V(s) + w sqrt(ln N(parent) / N(s)); an unvisited point counts as visited once (paper, section 4.2)."""
    assert node.parent is not None
    return node.value + EXPLORE * math.sqrt(math.log(max(1, node.parent.visits)) / max(1, node.visits))


def select(root: Node) -> Node:
    """Down the open children of highest UCT, of equals the first, to a point that was not expanded yet."""
    node = root
    while node.children:
        node = max((child for child in node.children if not child.closed), key=uct)
    return node


def backpropagate(node: Node, score: float) -> None:
    """V(s) = (V(s) (N(s) - 1) + r) / N(s) from an end up to the root (paper, section 4.2)."""
    at: Node | None = node
    while at is not None:
        at.visits += 1
        at.value = (at.value * (at.visits - 1) + score) / at.visits
        at = at.parent


def close(node: Node) -> None:
    """Marks a point as searched, and every one above it of which nothing is left."""
    node.closed = True
    parent = node.parent
    while parent is not None and all(child.closed for child in parent.children):
        parent.closed = True
        parent = parent.parent


class Search:
    """One search on one stage. `lessons`: reflections so far; `nodes` in order of their making."""

    def __init__(self, system: Lats, at: Attempt, stage: Stage, mind: Mind) -> None:
        self.system = system
        self.at = at
        self.stage = stage
        self.mind = mind
        self.lessons: list[str] = []
        self.nodes: list[Node] = []

    @property
    def told(self) -> Told:
        return Told(tuple(self.lessons[-MEMORY:]))

    def node(self, mark: Mark, parent: Node | None = None, end: Outcome | None = None) -> Node:
        made = Node(mark, len(self.nodes), parent, end)
        self.nodes.append(made)
        return made

    async def run(self) -> Outcome:
        """Searches; leaves the best path on the stage and says how it ended."""
        root = self.node(await self.stage.mark())
        reason = "gave_up"
        try:
            for iteration in range(1, self.system.iterations + 1):
                if root.closed:
                    break
                end = await self.simulate(select(root))
                if end.end is None:  # no usable reply below that point
                    continue
                backpropagate(end, end.score)
                if end.end.kind == "solved":
                    break
                await self.reflect(end, iteration)
        except EpisodeEnd as stop:
            if stop.reason != SPENT:
                raise
            reason = SPENT
        return await self.show(self.best(), reason)

    async def simulate(self, node: Node) -> Node:
        """Expands from `node` along the best child to an end; a solved child is taken at once."""
        while node.end is None:
            await self.expand(node)
            if not node.children:
                close(node)
                return node
            solved = [c for c in node.children if c.end is not None and c.end.kind == "solved"]
            node = solved[0] if solved else max(node.children, key=lambda child: child.value)
        close(node)
        return node

    async def expand(self, node: Node) -> None:
        """Draws actions at `node` and makes a child of each distinct one. The last error is raised where the
        root brings none; elsewhere the point is left without children."""
        drawn: dict[str, list[Decision]] = {}
        fault: ReplyError | None = None
        await self.stage.back(node.mark)
        for k in range(self.system.samples):
            try:
                decision = await self.mind.move(
                    self.stage,
                    self.told,
                    sample=f"{self.at.id}/node{node.number}.{k}",
                    temperature=TEMPERATURE,
                )
            except ReplyError as error:
                if error.kind == "infrastructure_error":
                    raise
                fault = error
                continue
            action, _ = admitted(decision.action, node.mark.seen.admissible)
            if action:
                drawn.setdefault(action, []).append(decision)
        total = sum(len(same) for same in drawn.values())
        for same in drawn.values():
            child = await self.child(node, same[0])
            if child.end is not None and child.end.kind == "solved":
                return
            child.value = await self.value(child, len(same) / total)
        for child in node.children:  # a failed end is known: selecting it would teach nothing more
            if child.end is not None:
                close(child)
        if not drawn and node.parent is None and fault is not None:
            raise fault

    async def child(self, node: Node, decision: Decision) -> Node:
        await self.stage.back(node.mark)
        end = await self.stage.move(decision)
        made = self.node(await self.stage.mark(), node, end)
        node.children.append(made)
        return made

    async def value(self, node: Node, agreement: float) -> float:
        """LAMBDA LM(s) + (1 - LAMBDA) SC(s), 0..1; an end is worth its score (paper, eq. 2)."""
        if node.end is not None:
            return node.score
        try:
            own = await self.mind.value(self.stage, self.told, sample=f"{self.at.id}/value{node.number}")
        except ReplyError as error:
            if error.kind == "infrastructure_error":
                raise
            own = 0.5  # no usable word on it: neither good nor bad
        return LAMBDA * own + (1 - LAMBDA) * agreement

    async def reflect(self, end: Node, iteration: int) -> None:
        """Stores the failed path as a trial and learns from it."""
        await self.stage.back(end.mark)
        tried = self.trial(end, iteration)
        lesson = await self.mind.reflect(
            tried, self.at.episode.task, self.lessons[-MEMORY:], sample=f"{self.at.id}/reflect{iteration}"
        )
        self.lessons += [lesson] if lesson else []

    def trial(self, end: Node, iteration: int) -> Trajectory:
        assert end.end is not None
        tried = trajectory_of(
            self.stage, end.end, name=f"{self.at.id}/search{iteration}",
            prompt_set=self.system.prompt_set, model_name=self.system.model,
        )  # fmt: skip
        self.system.setting.run.trials.put(tried)
        return tried

    def best(self) -> Node:
        """The leaf with the highest score, then value; of equals the first."""
        return max((n for n in self.nodes if not n.children), key=lambda n: (n.score, n.value))

    async def show(self, node: Node, reason: str) -> Outcome:
        await self.stage.back(node.mark)
        if node.end is not None:
            return node.end
        self.stage.score = await self.stage.settle()
        return Outcome("solved") if self.stage.score >= 1.0 else Outcome("failed", reason)


class Lats(Thinking):
    paper = "2310.04406"
    keeps = (
        "tree search: UCT, 5 sampled actions, value by model score and agreement, simulation, "
        "back-propagation, reflections; told how the ends it reached were scored"
    )
    leaves_out = "more than 8 iterations; ends are not selected again"
    sees_score = True
    modules = (*MODULES, "value", "reflexion")
    choosing = (*CHOOSING, "value", "reflexion")
    iterations = ITERATIONS
    samples = SAMPLES

    async def attempt(self, at: Attempt) -> Trajectory:
        mind = self.mind(at)

        async def script(stage: Stage) -> Outcome:
            return await Search(self, at, stage, mind).run()

        return await perform(
            script, at.episode, name=at.id, prompt_set=self.prompt_set, model_name=self.model
        )

    def most_asks(self, limit: int) -> int:
        return self.iterations * (limit * self.samples * (self.asks_a_move + 1) + 1)
