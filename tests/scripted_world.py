"""A stand-in for a provider and a world, so named: an agent that fails on one family until it is told why.

`Kitchen` is a small deterministic environment. In five families of tasks an object has to be brought to the
table; in the family "heat" the microwave must be opened first, and the scripted agent does that only if its
prompt says so. The scripted world (diagnose, retrieve) and reflector see nothing but the text of the request
they get: what they say about the microwave they have read there. Objects of train, dev and test are disjoint.

Used by name: `tests.scripted_world:Kitchen` as an environment, `provider()` as a model for all roles.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.types import Model, Observation, Request, Role, Task, Transition

FAMILIES = ("heat", "cool", "clean", "fetch", "weigh")
DONE = {"heat": "hot", "cool": "cold", "clean": "clean", "weigh": "weighed"}
OBJECTS = {
    "train": ("mug", "apple", "cup", "potato"),
    "dev": ("egg", "plate", "bowl", "tomato"),
    "test": ("pan", "bread", "kettle", "spoon"),
}
LESSON = re.compile(r"open the microwave before", re.IGNORECASE)
CLOSED = re.compile(r"the (\w+) is closed", re.IGNORECASE)


class Kitchen:
    """`task.params`: object and family. Everything that can be known is in the observation."""

    max_steps = 6

    def __init__(self, task: Task) -> None:
        self.object, self.family = task.params["object"], task.params["family"]
        self.held = self.open = self.treated = self.placed = False
        self.said = "You are in a kitchen."

    @property
    def _treatable(self) -> bool:
        return self.held and (self.family != "heat" or self.open)

    def observe(self) -> Observation:
        where = "is on the table" if self.placed else "is in your hand" if self.held else "is on the counter"
        state = f", {DONE[self.family]}" if self.treated else ""
        actions = [f"take {self.object}", "look", "open microwave", f"put {self.object} on table"]
        actions += [f"{self.family} {self.object}"] if self.family in DONE else []
        text = f"{self.said} The {self.object} {where}{state}."
        return Observation(text, tuple(actions), f"{self.held}{self.open}{self.treated}{self.placed}")

    def step(self, action: str) -> Transition:
        verb = action.split()[0]
        done = False
        if action == f"take {self.object}" and not self.held:
            self.held, self.said = True, f"You pick up the {self.object}."
        elif action == "open microwave" and not self.open:
            self.open, self.said = True, "You open the microwave."
        elif action == f"put {self.object} on table" and self.held:
            self.placed, done = True, True
            self.said = f"You put the {self.object} on the table."
        elif verb in DONE and verb == self.family and self._treatable:
            self.treated, self.said = True, f"You {verb} the {self.object}."
        elif verb == "heat" and self.held:
            self.said = "Nothing happens: the microwave is closed."
        else:
            self.said = "Nothing happens."
        return Transition(self.observe(), self.score() if done else 0.0, done)

    def score(self) -> float:
        return float(self.placed and (self.treated or self.family not in DONE))

    def close(self) -> None:
        """Nothing is held open."""


def rows() -> list[dict[str, Any]]:
    """Task rows: every family with every object of its split; 20 train, 20 dev, 20 test."""
    made = []
    for split, objects in OBJECTS.items():
        for family in FAMILIES:
            for thing in objects:
                treat = f"{family} the {thing} and put it" if family in DONE else f"put the {thing}"
                made.append(
                    {
                        "id": f"{split}-{family}-{thing}",
                        "env": "tests.scripted_world:Kitchen",
                        "goal": f"{treat} on the table",
                        "params": {"object": thing, "family": family, "type": family},
                        "split": split,
                    }
                )
    return made


def write_tasks(path: Path) -> Path:
    """The task file, as a user would have it."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    return path


# --- the provider: each rule sees one request and nothing else -----------------------------------------


def _text(request: Request, role: str = "") -> str:
    return "\n".join(m.content for m in request.messages if role in ("", m.role))


def _after(marker: str, text: str) -> str:
    """The paragraph under a marker line of the prompt."""
    return text.partition(marker)[2].lstrip("\n").partition("\n\n")[0]


def act(request: Request) -> str:
    """Takes, treats, puts; opens the microwave only if the system text says so. Sometimes it just looks."""
    user = _text(request, "user")
    goal, seen = _after("Goal:", user).strip(), _after("You see:", user)
    family = goal.split()[0] if goal.split()[0] in DONE else "fetch"
    found = re.search(r"\bthe (\w+)", goal)
    assert found is not None, f"no object in the goal: {goal!r}"
    thing = found[1]
    opened = "You open the microwave" in seen
    if request.temperature > 0 and zlib.crc32(f"{request.sample}{seen}".encode()) % 20 == 0:
        action, foretold = "look", f"You look around. {seen}"
    elif "on the counter" in seen:
        action, foretold = f"take {thing}", f"You pick up the {thing}. The {thing} is in your hand."
    elif family in DONE and f", {DONE[family]}." not in seen:
        if family == "heat" and not opened and LESSON.search(_text(request, "system")):
            action, foretold = "open microwave", f"You open the microwave. The {thing} is in your hand."
        else:
            action = f"{family} {thing}"
            foretold = f"You {family} the {thing}. The {thing} is in your hand, {DONE[family]}."
    else:
        action, foretold = f"put {thing} on table", f"You put the {thing} on the table."
    reply: dict[str, Any] = {"thought": f"next: {action}", "action": action}
    if "predictions" in json.dumps(request.schema or {}, default=dict):
        reply["predictions"] = [foretold]
    return json.dumps(reply)


def diagnose(request: Request) -> str:
    """Names what the episode in the request shows: a thing that was closed, or nothing in particular."""
    episode = _text(request, "user")
    closed = CLOSED.search(episode)
    verb = re.search(r"\d+\. (\w+) \w+(?: \([^)]*\))? -> Nothing happens: ", episode)
    if closed and verb:
        thing, what = closed[1], verb[1]
        said = {
            "mode": "missing_precondition",
            "detail": f"The agent tried to {what} while the {thing} was closed.",
            "critical_step": 2,
            "lesson": f"Open the {thing} before you {what} something.",
            "query": f"{what} {thing} closed",
        }
    else:
        said = {
            "mode": "premature_give_up",
            "detail": "The agent ran out of steps.",
            "critical_step": 1,
            "lesson": "Do not waste steps.",
            "query": "time",
        }
    return json.dumps(said)


def retrieve(request: Request) -> str:
    """Chooses the candidates that share the first keyword of the query."""
    user = _text(request, "user")
    keyword = (_after("Keywords:", user).split() or [""])[0]
    if not keyword:  # retrieval by task text: the failed goals are all there is
        keyword = (user.partition("failed at:")[2].split() or ["?"])[0]
    lines = _after("of these candidates:", user).splitlines()
    hits = [line.partition(":") for line in lines if keyword in line.partition(":")[2]]
    return json.dumps({"chosen": [{"id": id.strip(), "reason": f"needs {keyword}"} for id, _, _ in hits[:5]]})


def reflect(request: Request) -> str:
    """Adds the lesson it can read in the feedback: from a diagnosis, else from a wrong prediction."""
    user = _text(request, "user")
    current = user.partition("<<<")[2].partition(">>>")[0].strip()
    lesson = re.search(r"Lesson: ((?!Do not waste)[^.\n]+\.)", user)
    wrong = re.search(r"after '(\w+) \w+' [^\n]*'[^'\n]*the (\w+) is closed", user)
    if lesson:
        rule = lesson[1]
    elif wrong:
        rule = f"Open the {wrong[2]} before you {wrong[1]} something."
    else:
        rule = f"Be careful ({zlib.crc32(user.encode()) % 1000})."
    text = current if rule in current else f"{current}\n- {rule}".strip()
    return json.dumps({"why": "as the feedback says", "text": text})


RULES: dict[str, Callable[[Request], str]] = {
    "act": act,
    "diagnose": diagnose,
    "retrieve": retrieve,
    "reflect": reflect,
}


def rule(request: Request) -> str:
    """One reply of the scripted provider. KeyError for a module it has no rule for."""
    return RULES[request.module](request)


def provider(rule: Callable[[Request], Any] = rule, name: str = "scripted-kitchen") -> dict[Role, Model]:
    """One scripted model for all four roles, as `models=` of a job."""
    model = ScriptedModel(rule, name)
    return {"agent": model, "world": model, "reflector": model, "judge": model}
