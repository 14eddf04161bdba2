"""role-agent: the agent of this project under any prompt set, with its predictions (arXiv 2606.10917).

`role-agent` plays the starting prompts, `role-agent:RUN` the final prompt of a run (a directory, or a name in
the folder of runs), `role-agent:FILE` a prompt of the user's. Keeps: acting and foretelling in one reply
(World-In-Agent). Leaves out: all learning; the prompt stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from roleagent_lite.agents import make_agent
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.store import Run
from roleagent_lite.systems.base import Attempt, Base
from roleagent_lite.systems.setting import Setting
from roleagent_lite.types import Agent, PromptSet


def final_prompt(path: Path) -> PromptSet:
    """The prompt set a run ended with. Raises ConfigError where there is none."""
    with Run.open(path) as run:
        final = run.events.get("final")
        found = run.prompt_sets.get(str(final.data["final"])) if final is not None else None
        if found is None:
            raise ConfigError(f"run {path} has no final prompt (it is {run.status}); resume it first")
        return found


def with_prompt(setting: Setting, source: str) -> tuple[Setting, PromptSet]:
    """The setting and prompt set that `source` names: "" = the starting prompts. Raises ConfigError."""
    if not source:
        return setting, setting.prompts.seed_set()
    for folder in (Path(source), setting.runs / source):
        if (folder / "config.toml").is_file():
            return setting, final_prompt(folder)
    if Path(source).is_file():
        own = setting.prompts.override(source)
        return replace(setting, prompts=own), own.seed_set()
    known = [p.name for p in setting.runs.iterdir()] if setting.runs.is_dir() else []
    raise ConfigError(f"role-agent:{source}: neither a run nor a prompt file{nearest(source, known)}")


class RoleAgent(Base):
    paper = "2606.10917"
    keeps = "an action and what it will bring foretold, under the prompt set named"
    leaves_out = "learning: the prompt stays as it is"
    predict = True
    modules = ("act",)
    choosing = ("choose",)

    def __init__(self, setting: Setting, name: str) -> None:
        setting, base = with_prompt(setting, name.partition(":")[2])
        super().__init__(setting, name, base)
        wia = setting.config.wia
        self._wia = wia.model_copy(update={"predict": "together"}) if wia.predict == "off" else wia

    def agent(self, at: Attempt) -> Agent:
        setting = self.setting
        return make_agent(setting.config.agent, at.asker, self.prompt_set, self._wia, setting.seed)

    def most_asks(self, limit: int) -> int:
        return 2 * limit if self.kind == "choose" or self._wia.predict == "separate" else limit
