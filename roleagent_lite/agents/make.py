"""Agents by name. Owns the names and which agent `auto` is. Leaves out how each acts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from roleagent_lite.agents.chance import RandomAgent
from roleagent_lite.agents.external import ExternalAgent, load_callable
from roleagent_lite.agents.generate import GenerateAgent
from roleagent_lite.ask import Asker, Prompts
from roleagent_lite.config import RunConfig, Wia
from roleagent_lite.envs import registry
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.types import Agent, PromptSet, Task

Maker = Callable[[Asker, PromptSet, Wia, int], Agent]


def _generate(asker: Asker, prompt_set: PromptSet, wia: Wia, seed: int) -> Agent:
    return GenerateAgent(asker, prompt_set, wia.predict)


def _choose(asker: Asker, prompt_set: PromptSet, wia: Wia, seed: int, rule: str = "mean") -> Agent:
    from roleagent_lite.agents.choose import ChooseAgent

    model = asker.models["agent"]
    if not model.can_score:
        raise ConfigError(
            f"the agent 'choose' scores given actions, which {model.name} cannot; use --agent generate, "
            "or the embedded model"
        )
    return ChooseAgent(asker, prompt_set, wia.predict, rule, seed)


def _choose_pmi(asker: Asker, prompt_set: PromptSet, wia: Wia, seed: int) -> Agent:
    return _choose(asker, prompt_set, wia, seed, "pmi")


def _auto(asker: Asker, prompt_set: PromptSet, wia: Wia, seed: int) -> Agent:
    """choose where the agent's model can score given replies and the prompts say how, else generate."""
    can = asker.models["agent"].can_score and "choose" in asker.prompts.modules
    return (_choose if can else _generate)(asker, prompt_set, wia, seed)


def settled(config: RunConfig, prompts: Prompts, tasks: Iterable[Task]) -> RunConfig:
    """`config` with what `auto` has to be on `tasks`: generate, where a world of theirs lists no actions to
    choose among."""
    if config.agent != "auto" or "choose" not in prompts.modules:
        return config
    return config if registry.listed(tasks) else config.model_copy(update={"agent": "generate"})


def _random(asker: Asker, prompt_set: PromptSet, wia: Wia, seed: int) -> Agent:
    return RandomAgent(prompt_set, seed)


AGENTS: dict[str, Maker] = {
    "generate": _generate,
    "choose": _choose,
    "choose-pmi": _choose_pmi,
    "auto": _auto,
    "random": _random,
}


def make_agent(
    name: str, asker: Asker, prompt_set: PromptSet, wia: Wia | None = None, seed: int = 0
) -> Agent:
    """An agent by name, or the user's own as `module:callable`. Raises ConfigError with the nearest name.

    seed: of the draws that an agent makes itself (random, choose); a model's sampling is the server's.
    """
    if ":" in name:
        return ExternalAgent(load_callable(name), asker, prompt_set, name)
    if name not in AGENTS:
        raise ConfigError(f"no agent '{name}'{nearest(name, AGENTS)}, or your own as module:callable")
    return AGENTS[name](asker, prompt_set, wia or Wia(), seed)
