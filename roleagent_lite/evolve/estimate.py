"""How many calls an evolution can buy, module by module, before the first is paid.

Owns the counts, which are upper bounds: every episode takes all its steps, every failure is read, every
child is accepted. Leaves out prices and wording (lm.plan). Pure but for the environments' step limits.
"""

from __future__ import annotations

from collections.abc import Sequence

from roleagent_lite.agents.choose import nearest_demonstrations
from roleagent_lite.ask import Prompts
from roleagent_lite.config import RunConfig
from roleagent_lite.envs import registry
from roleagent_lite.evolve.tasks import TaskSets
from roleagent_lite.lm.plan import PlannedCalls, tokens
from roleagent_lite.lm.weights import is_embedded
from roleagent_lite.types import PromptSet, Task

# Expected means of one call, beyond the prompt's own text and what a world shows (registry.shown).
_MOVE = 80  # thought and action
_FORETOLD = 60  # predictions
_EPISODE = 700  # a transcript with the failure modes
_MODES = 4  # distinct failure modes a round


def _chooses(config: RunConfig, prompts: Prompts) -> bool:
    """Whether the agent scores actions and foretells in a request of its own (agents/choose.py)."""
    auto = config.agent == "auto" and is_embedded(config.model_for("agent")) and "choose" in prompts.modules
    return auto or config.agent in ("choose", "choose-pmi")


def _acting(
    config: RunConfig, prompts: Prompts, seed: PromptSet, tasks: Sequence[Task]
) -> tuple[str, PromptSet]:
    """The module that acts, and the texts of which it shows some."""
    if _chooses(config, prompts) and "choose" in prompts.modules:
        return "choose", nearest_demonstrations(prompts, seed, tasks[0].goal)
    return "act", seed


def _own(prompts: Prompts, module: str, prompt_set: PromptSet) -> int:
    file = prompts.module(module)
    return tokens(file.system + file.user + "".join(prompts.texts(module, prompt_set).values()))


def _steps(tasks: Sequence[Task]) -> int:
    """Step limits of one episode of each task, summed."""
    return sum(registry.spec(task.env).max_steps(task) for task in tasks)


def planned(config: RunConfig, prompts: Prompts, seed: PromptSet, sets: TaskSets) -> list[PlannedCalls]:
    """At most so many calls of each module, for all rounds and the sealed test of two prompt sets."""
    evolve, aiw = config.evolve, config.aiw
    drawn = min(evolve.tasks_per_round, len(sets.train))
    episodes = evolve.rounds * drawn * evolve.group * 2  # parent and child
    train = round(episodes * _steps(sets.train) / len(sets.train))
    judged = (evolve.rounds + 1) * _steps(sets.dev) + 2 * _steps(sets.test)
    chooses = _chooses(config, prompts)
    act, shown = _acting(config, prompts, seed, sets.train)
    predict = "foretell" if chooses and "foretell" in prompts.modules else "predict"
    together = _FORETOLD if config.wia.predict == "together" and not chooses else 0
    apart = train if config.wia.predict == "separate" or (chooses and config.wia.predict != "off") else 0
    diagnosed = 0 if aiw.diagnose == "none" else episodes
    retrieved = evolve.rounds * _MODES if aiw.retrieve in ("llm", "task_text") and diagnosed else 0
    rewritten = evolve.rounds if any(not c.endswith(".demonstrations") for c in evolve.components) else 0
    seen = registry.shown(sets.train)
    move = _own(prompts, act, shown) + seen
    return [
        PlannedCalls("agent", act, train, move, _MOVE + together),
        PlannedCalls("agent", act, judged, move, _MOVE),
        PlannedCalls("agent", predict, apart, _own(prompts, predict, shown) + seen, _FORETOLD),
        PlannedCalls("world", "diagnose", diagnosed, _own(prompts, "diagnose", seed) + _EPISODE, 150),
        PlannedCalls(
            "world", "retrieve", retrieved, _own(prompts, "retrieve", seed) + 40 * aiw.candidates, 150
        ),
        PlannedCalls("reflector", "reflect", rewritten, _own(prompts, "reflect", seed) + 1500, 400),
    ]


def planned_evaluation(
    config: RunConfig, prompts: Prompts, seed: PromptSet, tasks: Sequence[Task]
) -> list[PlannedCalls]:
    """At most so many calls for playing `tasks` once."""
    act, shown = _acting(config, prompts, seed, tasks)
    seen = _own(prompts, act, shown) + registry.shown(tasks)
    return [PlannedCalls("agent", act, _steps(tasks), seen, _MOVE)]
