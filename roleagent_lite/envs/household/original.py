"""The original ALFWorld engine behind our interface: `household:alfworld` (extra `alfworld`).

Owns the conversation with textworld and alfworld. Play only game files you trust here: the original evaluates
expressions of a game's grammar (the light engine never does). Task rows are written to a temporary file with
domain and grammar read from the installed package.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from roleagent_lite.envs.household.env import game_of, plan_of
from roleagent_lite.envs.household.problem import read_json
from roleagent_lite.envs.household.writer import write_game_file
from roleagent_lite.errors import MissingExtra
from roleagent_lite.types import Observation, Task, Transition


def logic_texts() -> tuple[str, str]:
    """Domain and grammar of the installed alfworld package. Raises MissingExtra."""
    found = find_spec("alfworld")
    if found is None or found.origin is None:
        raise MissingExtra(
            "the original ALFWorld engine is not installed: pip install 'roleagent-lite[alfworld]' (needs a "
            "C++ compiler); the environment 'household' plays the same games without it"
        )
    data = Path(found.origin).parent / "data"
    try:
        domain, grammar = (data / n for n in ("alfred.pddl", "alfred.twl2"))
        return domain.read_text(encoding="utf-8"), grammar.read_text(encoding="utf-8")
    except OSError as error:
        raise MissingExtra(f"the installed alfworld package lacks a file ({error}); reinstall it") from None


@contextmanager
def _own_argv() -> Iterator[None]:
    """The planner's translator overwrites `sys.argv` while it loads a game."""
    saved = list(sys.argv)
    try:
        yield
    finally:
        sys.argv[:] = saved


class OriginalEngine:
    """One episode of a game file on textworld's PddlEnv, names as ALFWorld shows them.

    `admissible`, `won`, `score` and `facts()` as in the light engine; `raw` is textworld's own state.
    """

    def __init__(self, game_file: str | Path) -> None:
        logic_texts()  # a clear message where the extra is missing
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs import PddlEnv

        wanted = textworld.EnvInfos(won=True, admissible_commands=True, facts=True)
        self._env: Any = AlfredDemangler(PddlEnv(wanted), shuffle=False)
        with _own_argv():
            self._env.load(read_json(Path(game_file)))  # given a path, textworld leaves the file open
            self.raw: Any = self._env.reset()

    def intro(self) -> str:
        return str(self.raw.feedback)

    def step(self, command: str) -> tuple[str, bool]:
        valid = command.strip() in self.raw["admissible_commands"]
        self.raw = self._env.step(command)[0]
        return str(self.raw.feedback), valid

    def admissible(self) -> list[str]:
        return sorted(self.raw["admissible_commands"])

    @property
    def won(self) -> bool:
        return bool(self.raw["won"])

    @property
    def score(self) -> int:
        return int(self.won)

    def facts(self) -> list[str]:
        """True facts in readable names, sorted; negated ones are left out."""
        return sorted(
            f"{fact.name}({', '.join(arg.name.strip() for arg in fact.arguments)})"
            for fact in self.raw["facts"]
            if not fact.name.startswith(("not_", "new-axiom@"))  # the planner's own helpers
        )


class Original:
    """The Environment `household:alfworld`: same tasks, texts and rewards as `household`, original engine."""

    def __init__(self, task: Task) -> None:
        self._task = task
        domain, grammar = logic_texts()
        path = task.params.get("game")
        if path is not None:
            self.engine = OriginalEngine(str(path))
        else:
            with tempfile.TemporaryDirectory(prefix="roleagent-household-") as folder:
                self.engine = OriginalEngine(write_game_file(game_of(task), folder, domain, grammar))
        # Without banner and task sentence, like the light environment.
        self._text = self.engine.intro().split("\n\n")[1]
        self._score = self.engine.score

    def observe(self) -> Observation:
        return Observation(self._text, tuple(self.engine.admissible()), self._state_key())

    def _state_key(self) -> str:
        facts = "\n".join(f for f in self.engine.facts() if not f.startswith("checked("))
        return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()

    def step(self, action: str) -> Transition:
        self._text, valid = self.engine.step(action)
        before, self._score = self._score, self.engine.score
        return Transition(self.observe(), float(self._score - before), self.engine.won, valid)

    def score(self) -> float:
        """1.0 while the goal holds, else 0.0."""
        return float(self.engine.score)

    def facts(self) -> list[str]:
        """All true facts in readable names, sorted."""
        return self.engine.facts()

    def walkthrough(self) -> list[str]:
        """The plan of the light engine, whose games these are. Raises ConfigError where there is none."""
        return plan_of(game_of(self._task))

    def close(self) -> None:
        """Lets the original engine go."""
        self.engine = None  # type: ignore[assignment]
