"""What the tests of lm/ share: a request, a config for the fake server, a pool over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from roleagent_lite.config import RunConfig, from_mapping
from roleagent_lite.lm.address import Address, parse
from roleagent_lite.lm.http import HttpModel
from roleagent_lite.lm.pool import Models, open_models
from roleagent_lite.store import Run
from roleagent_lite.types import Message, Model, Request, Role
from tests.fake_server import FakeServer


def ask(user: str = "Take the key.", **over: Any) -> Request:
    values: dict[str, Any] = {
        "role": "agent",
        "module": "act",
        "messages": (Message("system", "You act."), Message("user", user)),
    }
    return Request(**(values | over))


def config_for(fake: FakeServer, **over: Any) -> RunConfig:
    limits = {"base_url": fake.url, "timeout": 10.0} | over.pop("limits", {})
    return from_mapping({"model": "openai/fake", "limits": limits} | over)


def address_of(fake: FakeServer, path: str = "", model: str = "fake") -> Address:
    return parse(f"{model}@{fake.url}{path}", config_for(fake).limits, {})


@asynccontextmanager
async def http_model(
    fake: FakeServer, path: str = "", timeout: float = 10.0, notes: list[str] | None = None
) -> AsyncIterator[HttpModel]:
    model = await HttpModel.open(address_of(fake, path), timeout, None if notes is None else notes.append)
    try:
        yield model
    finally:
        await model.close()


@asynccontextmanager
async def pool(
    config: RunConfig, folder: Path | None = None, overrides: Mapping[Role, Model] | None = None
) -> AsyncIterator[Models]:
    """The models of `config`, recorded in `folder` if there is one."""
    if folder is None:
        async with open_models(config, None, overrides=overrides) as models:
            yield models
        return
    with Run.create(folder, config) as run:
        async with open_models(config, run, overrides=overrides) as models:
            yield models
