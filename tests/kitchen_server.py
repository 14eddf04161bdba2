"""The scripted kitchen behind a server: the rules of `scripted_world` as a script of the fake server.

A request over HTTP says which module asks by the name of its schema; the role and the sample are not sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roleagent_lite.config import dump_toml
from roleagent_lite.types import Message, Request
from tests.evolve.kitchen import settings
from tests.fake_server import Answer, Say, Seen
from tests.scripted_world import rule

SMALL: dict[str, Any] = {"evolve": {"rounds": 2, "tasks_per_round": 4, "group": 2, "dev": 5, "test": 5}}


def module(seen: Seen) -> str:
    """Which module sent a request."""
    name: str = seen.body["response_format"]["json_schema"]["name"]
    return name


def serve(seen: Seen) -> Answer:
    """The scripted provider's reply, counted as 100 tokens in and 10 out."""
    body = seen.body
    messages = tuple(Message(m["role"], m["content"]) for m in body["messages"])
    schema = body["response_format"]["json_schema"]["schema"]
    return Say(rule(Request("agent", module(seen), messages, body["temperature"], schema=schema)))


def config_file(folder: Path, *over: Mapping[str, Any]) -> Path:
    """`kitchen.toml` in `folder`: a short evolution on the kitchen's task file beside it."""
    path = folder / "kitchen.toml"
    path.write_text(dump_toml(settings(folder, SMALL, *over)), encoding="utf-8")
    return path
