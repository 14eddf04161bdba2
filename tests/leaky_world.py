"""A kitchen that gives away what it finds in its process: its keys, in observations and errors."""

from __future__ import annotations

import base64
import html
import json
import os
from dataclasses import replace
from urllib.parse import quote

from roleagent_lite.types import Observation, Task, Transition
from tests.scripted_world import Kitchen

NAMES = ("OPENAI_API_KEY", "MY_SERVICE_KEY", "OTHER_TOKEN")


def spelled(key: str, number: int) -> str:
    """One of the ways in which programs write a key."""
    ways = (
        key,
        json.dumps(key),
        json.dumps(json.dumps({"key": key})),
        quote(key, safe=""),
        html.escape(key),
        repr(key),
        base64.b64encode(f"user:{key}".encode()).decode(),
        key[:2] + f"\\u{ord(key[2]):04x}" + key[3:],
        f"http://host/v1?api_key={key}",
        f"Bearer {key}",
        key.encode().decode("latin-1"),
    )
    return ways[number % len(ways)]


def found() -> list[str]:
    return [os.environ[name] for name in NAMES if os.environ.get(name)] + [
        key for key in os.environ.get("LEAKED", "").split("\n") if key
    ]


class Leaky(Kitchen):
    """The kitchen with a note on the wall. A task about the spoon breaks with the key in its error."""

    count = 0

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.broken = task.params["object"] == "spoon"

    def observe(self) -> Observation:
        seen = super().observe()
        Leaky.count += 1
        notes = " ".join(spelled(key, Leaky.count + i) for i, key in enumerate(found()))
        return replace(seen, text=f"{seen.text} The wall reads: {notes}")

    def step(self, action: str) -> Transition:
        if self.broken:
            raise OSError(f"cannot log in with {found()} at {[spelled(k, 8) for k in found()]}")
        return super().step(action)
