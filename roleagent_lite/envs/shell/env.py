"""The shell Environment: a machine on which something is broken; find it, mend it, report it.

A task's `params`: `type` (the fault family; drawn from the seed where it is left out), `difficulty` easy,
medium (default) or hard, `max_steps`; its `seed` draws all else. An action is one command line for a bash in
a sandbox, or `report CAUSE CULPRIT`, which ends the episode. Score: 0.5 while every service serves, and with
the report 0.3 for the right cause, 0.2 for its culprit; rewards are its changes.
"""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass

from roleagent_lite.envs import params
from roleagent_lite.envs.shell import faults, herrings, world
from roleagent_lite.envs.shell.health import trouble, well
from roleagent_lite.envs.shell.sandbox import MOST_LINE, Result, Sandbox, State
from roleagent_lite.types import Observation, Task, Transition

STEPS = 30
GOAL = "Find what is broken on this machine, mend it, and report it."
MENDED, CAUSE, CULPRIT = 0.5, 0.3, 0.2
MOST_SHOWN = 4000  # characters of one answer
HEAD = 2800  # of them, those from its beginning
VOCABULARY = (
    "one bash command line, with pipes and loops where wanted: cat, grep, sed, ls, find, systemctl, "
    "journalctl, docker, kubectl, ps, kill, ss, lsof, df, du, free, curl, dig, getent, date, timedatectl, "
    "chronyc, openssl, chmod, chown, certctl renew NAME, dbctl status|migrate NAME; "
    "and, at the end, report CAUSE CULPRIT, where CAUSE is one of " + ", ".join(faults.CULPRIT)
)
_MARKS = "\"'`*,:;()<>[]"
_FILLERS = (
    "of",
    "on",
    "in",
    "by",
    "at",
    "is",
    "the",
    "file",
    "service",
    "process",
    "host",
    "pid",
    "culprit",
    "path",
    "with",
    "port",
)


def limit(task: Task) -> int:
    """Steps an episode may have: params.max_steps, else 30."""
    return params.steps(task, STEPS)


def drawn_family(seed: int) -> str:
    """The family of a task that names none."""
    return random.Random(f"family {seed}").choice(list(faults.FAMILIES))


def fault_of(task: Task) -> tuple[str, str]:
    """Family and difficulty of a task. Raises ConfigError."""
    family = params.choice(task, "type", list(faults.FAMILIES), drawn_family(task.seed))
    return family, params.choice(task, "difficulty", list(herrings.COUNT), "medium")


def ticket(seed: int, difficulty: str) -> str:
    """What whoever is on duty is told: which service answers badly, not why."""
    return _ticket(world.draw(seed), difficulty)


def _ticket(drawn: world.World, difficulty: str) -> str:
    name = drawn.front if difficulty == "hard" else drawn.victim
    runtime = drawn.machine.services[name].runtime
    where = f"On {drawn.machine.host}, {name} ({runtime})"
    return f"{where} does not serve its users. Find the cause, mend it, and report it."


def clipped(text: str) -> str:
    """`text`, its middle left out where it is too long, with a note."""
    if len(text) <= MOST_SHOWN:
        return text
    tail = MOST_SHOWN - HEAD
    cut = len(text) - MOST_SHOWN
    note = f"[… {cut} characters left out; narrow it down with grep, head or tail …]"
    return f"{text[:HEAD]}\n{note}\n{text[-tail:]}"


def shown(result: Result) -> str:
    """What the agent reads of a line's result."""
    if result.undone:
        return f"bash: stopped: {result.undone}. Nothing that the line did was kept."
    text = clipped("\n".join(part.rstrip("\n") for part in (result.out, result.err) if part.strip("\n")))
    if result.code:
        return f"{text}\n[exit {result.code}]" if text else f"[no output, exit {result.code}]"
    return text or "[no output]"


@dataclass(frozen=True, slots=True)
class Report:
    family: str
    culprit: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An episode at one point."""

    sandbox: State
    text: str
    report: Report | None
    score: float


class Shell:
    """An Environment with `facts`, `snapshot`, `restore` and a plan (`walkthrough`)."""

    def __init__(self, task: Task) -> None:
        family, difficulty = fault_of(task)
        drawn = world.draw(task.seed)
        self._sandbox = Sandbox(drawn.machine, drawn.files, drawn.modes)
        files = self._sandbox.files
        world.begin(drawn, files)
        herrings.put(difficulty, drawn, files)
        self._sandbox.refresh()  # what is there before the fault is older than it
        for path, (mark, _) in drawn.machine.stamps.items():
            drawn.machine.stamps[path] = (mark, drawn.machine.clock - 86400.0 * (3 + mark % 60))
        self.broken = faults.put(family, drawn, files)
        self._sandbox.refresh()
        self._report: Report | None = None
        self._text = f"{_ticket(drawn, difficulty)}\n{_help()}"
        self._score = self._worth()

    def observe(self) -> Observation:
        return Observation(self._text, state_key=self._key())

    def _key(self) -> str:
        machine = self._sandbox.machine
        parts = (
            self._sandbox.survey.digest, self._sandbox.place(), sorted(map(repr, machine.processes.values())),
            [(s.name, s.enabled, s.limit, s.failed) for s in machine.services.values()],
            machine.offset, self._report,
        )  # fmt: skip
        return hashlib.sha256(repr(parts).encode("utf-8", "replace")).hexdigest()[:16]

    def _worth(self) -> float:
        """The score as things stand."""
        found = MENDED if well(self._sandbox.files, self._sandbox.machine) else 0.0
        if self._report is not None and self._report.family == self.broken.family:
            found += CAUSE
            if self._report.culprit.lower() in {name.lower() for name in self.broken.culprits}:
                found += CULPRIT
        return round(found, 2)

    def step(self, action: str) -> Transition:
        """Runs a line, or ends the episode by a report. What is no line is refused in words."""
        if self._report is not None:
            return Transition(self.observe(), 0.0, True, valid=False)
        line = action.strip()
        valid = True
        if re.match(r"report\b", line):
            self._text, valid = self._take(line)
        elif not line.replace("\0", "").strip() or len(line) > MOST_LINE:
            self._text, valid = f"Give one command line of 1 to {MOST_LINE} characters.", False
        else:
            self._text = shown(self._sandbox.run(line))
        before, self._score = self._score, self._worth()
        return Transition(self.observe(), round(self._score - before, 2), self._report is not None, valid)

    def _take(self, line: str) -> tuple[str, bool]:
        """A report: its cause is one of the known names, its culprit the first word that says something."""
        bare = (word.strip(_MARKS).rstrip(".").rstrip(_MARKS) for word in line.split()[1:])
        words = [word for word in bare if word]
        for take in (3, 2, 1):
            family = "_".join(words[:take]).lower().replace("-", "_")
            if family in faults.FAMILIES:
                rest = [word for word in words[take:] if word.lower() not in _FILLERS]
                if not rest:
                    return f"Name the culprit too: report {family} CULPRIT ({faults.CULPRIT[family]}).", False
                self._report = Report(family, rest[0])
                return f"Reported: {family}, culprit {rest[0]}.", True
        said = f"'{' '.join(words[:3])}' names no cause" if words else "This report names no cause"
        causes = ", ".join(faults.FAMILIES)
        return f"{said}. Write report CAUSE CULPRIT, where CAUSE is one of {causes}.", False

    def score(self) -> float:
        """0.5 for a mended machine, 0.3 for the right cause, 0.2 for its culprit."""
        return self._score

    def facts(self) -> list[str]:
        """What is true of each service, the clock and the report, sorted."""
        machine, files = self._sandbox.machine, self._sandbox.files
        facts = [f"{s.name}: {trouble(s, files, machine) or 'serves'}" for s in machine.services.values()]
        used = files.used()
        facts += [f"disk {d.mount}: {min(100, 100 * used[d.mount] // d.size)} % full" for d in machine.disks]
        facts += [f"clock off by: {machine.offset:.0f} s", f"memory free: {machine.free_memory} MiB"]
        if self._report is not None:
            facts.append(f"reported: {self._report.family} {self._report.culprit}")
        return sorted(facts)

    def snapshot(self) -> Snapshot:
        return Snapshot(self._sandbox.save(), self._text, self._report, self._score)

    def restore(self, snapshot: Snapshot) -> None:
        self._sandbox.load(snapshot.sandbox)
        self._text, self._report, self._score = snapshot.text, snapshot.report, snapshot.score

    def walkthrough(self) -> list[str]:
        """One way to look, mend and report."""
        return [*self.broken.plan, f"report {self.broken.family} {self.broken.culprits[0]}"]

    def close(self) -> None:
        """Nothing to release."""


def _help() -> str:
    causes = "\n".join(f"  {name}: {what}" for name, what in faults.CULPRIT.items())
    return f"Causes, and what CULPRIT is in `report CAUSE CULPRIT`, which ends the episode:\n{causes}"
