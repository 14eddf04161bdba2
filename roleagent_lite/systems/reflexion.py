"""reflexion: tries the task again, with its own words on why it failed (Shinn et al. 2023, arXiv 2303.11366).

Keeps: an actor (react), an evaluator, and a self-reflection after each failed try; reflections are the memory
that the next try is shown, the last MEMORY of them, as in the paper. The evaluator is the environment's own
success signal: this system is told between its tries whether it succeeded, which the other systems but lats
are not, and the best try counts.
Leaves out: evaluators by heuristic or by a model, which the paper has for ALFWorld; more than TRIALS tries
(the paper goes to 12); the hand-written examples of a reflection.
"""

from __future__ import annotations

from dataclasses import replace

from roleagent_lite.errors import EpisodeEnd, ReplyError
from roleagent_lite.redact import scrub
from roleagent_lite.rollout import perform
from roleagent_lite.stage import Stage
from roleagent_lite.systems.base import Attempt
from roleagent_lite.systems.meter import SPENT
from roleagent_lite.systems.mind import CHOOSING, MODULES, Mind, Thinking, Told
from roleagent_lite.systems.react import think_and_act
from roleagent_lite.types import Outcome, Trajectory

TRIALS = 4
MEMORY = 3  # reflections that are kept


class Reflexion(Thinking):
    paper = "2303.11366"
    keeps = (
        "tries with a verbal memory of its own failures, at most 3 reflections; told whether a try succeeded"
    )
    leaves_out = "evaluators by heuristic or model; more than 4 tries; hand-written examples"
    sees_score = True
    modules = (*MODULES, "reflexion")
    choosing = (*CHOOSING, "reflexion")
    trials = TRIALS

    async def attempt(self, at: Attempt) -> Trajectory:
        mind = self.mind(at)
        lessons: list[str] = []
        tries: list[Trajectory] = []
        for number in range(1, self.trials + 1):
            tried = await self._try(at, mind, Told(tuple(lessons[-MEMORY:])), number)
            tries.append(tried)
            if _final(tried) or number == self.trials:
                break
            try:
                lesson = await mind.reflect(
                    tried, at.episode.task, lessons[-MEMORY:], sample=f"{at.id}/reflect{number}"
                )
            except EpisodeEnd:
                break
            except ReplyError as error:
                return replace(
                    tried, outcome=Outcome("infrastructure_error", error.reason), score=0.0,
                    error=scrub(str(error)),
                )  # fmt: skip
            lessons += [lesson] if lesson else []
            if at.asker.meter.spent:
                break
        return best(tries)

    async def _try(self, at: Attempt, mind: Mind, told: Told, number: int) -> Trajectory:
        async def script(stage: Stage) -> Outcome:
            return await think_and_act(stage, mind, told)

        tried = await perform(
            script, at.episode, name=f"{at.id}/trial{number}", prompt_set=self.prompt_set,
            model_name=self.model,
        )  # fmt: skip
        self.setting.run.trials.put(tried)
        return tried

    def most_asks(self, limit: int) -> int:
        return self.trials * limit * self.asks_a_move + self.trials - 1


def _final(tried: Trajectory) -> bool:
    """Whether no further try makes sense: solved, broken, or nothing left to spend."""
    kind, reason = tried.outcome.kind, tried.outcome.reason
    return kind in ("solved", "infrastructure_error") or (kind, reason) == ("failed", SPENT)


def best(tries: list[Trajectory]) -> Trajectory:
    """The try with the highest score, of equals the last; a broken last one hides the rest."""
    if tries[-1].outcome.kind == "infrastructure_error":
        return tries[-1]
    return max(enumerate(tries), key=lambda pair: (pair[1].score, pair[0]))[1]
