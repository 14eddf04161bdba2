"""What a system is made from, and the prompt set that is its own.

Owns Setting, which kind of agent plays (writes its action or chooses it), and how a system's prompt set is
put together. Leaves out names (make) and every system.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from roleagent_lite.ask import Prompts, make_prompt_set
from roleagent_lite.config import RunConfig
from roleagent_lite.errors import ConfigError
from roleagent_lite.lm.pool import Models
from roleagent_lite.store import Run
from roleagent_lite.types import PromptSet, TaskBudget

Kind = Literal["generate", "choose"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One evaluation's surroundings. `models`: the open pool, which records into `run`.

    prompts: the starting prompts, the same for all systems. budget: what a system may spend on one task.
    seed: of the draws that a system makes itself. runs: where a run named by its name alone is looked for.
    """

    config: RunConfig
    run: Run
    models: Models
    prompts: Prompts
    budget: TaskBudget = field(default_factory=TaskBudget)
    seed: int = 0
    runs: Path = Path("runs")

    def __post_init__(self) -> None:
        rule, amount = self.budget.rule, self.budget.amount
        if (rule == "unlimited") != (amount is None) or (amount is not None and amount <= 0):
            raise ConfigError(
                f"a budget of {amount} by the rule '{rule}': give unlimited, or calls or dollars above 0"
            )
        if rule == "calls" and amount is not None and amount != int(amount):
            raise ConfigError(f"a budget of {amount} calls a task: a whole number is needed")
        unpriced = [model for model, price in self.models.prices.items() if price is None]
        if rule == "dollars" and unpriced:
            raise ConfigError(
                f"a budget in dollars cannot be kept: the price of {', '.join(unpriced)} is not known; "
                "give --price IN/OUT (dollars per million tokens), or a budget of calls"
            )


def kind_of(setting: Setting) -> Kind:
    """Whether actions are written or chosen: as config.agent says, "auto" as the model and the prompts can.

    Raises ConfigError where the model cannot score what it should choose.
    """
    name, model = setting.config.agent, setting.models["agent"]
    if name.startswith("choose"):
        if not model.can_score:
            raise ConfigError(
                f"the agent '{name}' scores given actions, which {model.name} cannot; use --agent generate, "
                "or the embedded model"
            )
        return "choose"
    can = name == "auto" and model.can_score and "choose" in setting.prompts.modules
    return "choose" if can else "generate"


def own_set(setting: Setting, name: str, modules: Iterable[str], base: PromptSet | None = None) -> PromptSet:
    """The texts of `modules` under `base` (default: the prompts' own) together with the system's name.

    The name makes the id the system's own, so that trajectories of two systems that use the same texts never
    share an id; so do the kind of agent and a budget.
    """
    texts: dict[str, str] = {}
    for module in modules:
        file = setting.prompts.module(module)
        for text, value in setting.prompts.texts(module, base).items():
            texts[file.refs.get(text, f"{module}.{text}")] = value
    if base is not None:
        texts |= base.texts
    texts |= {"system.name": name, "system.agent": setting.config.agent}
    if setting.budget.amount is not None:
        texts["system.budget"] = setting.budget.words
    return make_prompt_set(texts, base.id if base is not None else None, f"system {name}")
