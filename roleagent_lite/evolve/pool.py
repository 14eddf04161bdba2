"""The pool: every prompt set of a run, from the texts that GEPA hands around, and how each did on dev.

Owns the map between GEPA's candidates (evolving texts only) and PromptSets (all texts). Leaves out which
candidate is drawn as a parent (GEPA) and which is kept (select).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roleagent_lite.ask import make_prompt_set
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.store import Run
from roleagent_lite.types import PromptSet


class Pool:
    """`components`: names of the texts that evolve. Raises ConfigError for one that the seed doesn't hold."""

    def __init__(self, run: Run, seed: PromptSet, components: Sequence[str]) -> None:
        unknown = [name for name in components if name not in seed.texts]
        if unknown or not components:
            what = f"no text '{unknown[0]}'{nearest(unknown[0], seed.texts)}" if unknown else "names no text"
            raise ConfigError(f"evolve.components: {what}")
        self.seed = seed
        self.components = tuple(components)
        self.entered = [seed]
        self.refused: list[PromptSet] = []  # children that played a round and did not enter
        self.dev: dict[str, dict[str, float | None]] = {}
        self._run = run
        self._known: dict[str, PromptSet] = {}
        self.add(seed)

    def candidate(self, prompt_set: PromptSet) -> dict[str, str]:
        """The texts that GEPA may change, in the order of the config."""
        return {name: prompt_set.texts[name] for name in self.components}

    def add(self, prompt_set: PromptSet) -> PromptSet:
        """Store a prompt set; an equal one that came earlier wins, with its parent and reason."""
        known = self._known.setdefault(prompt_set.id, prompt_set)
        self._run.prompt_sets.put(known)
        return known

    def child(
        self, candidate: Mapping[str, str], parent: PromptSet | None = None, why: str = ""
    ) -> PromptSet:
        """The prompt set of a candidate's texts; what doesn't evolve is the seed's."""
        made = make_prompt_set({**self.seed.texts, **candidate}, parent.id if parent else None, why)
        return self.add(made)

    def enter(self, prompt_set: PromptSet) -> None:
        """An accepted child joins those from which parents are drawn."""
        if prompt_set not in self.entered:
            self.entered.append(prompt_set)
