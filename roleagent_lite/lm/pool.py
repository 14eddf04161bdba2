"""Opens the models of a run, one for each role, and puts the pool around them that all calls go through.

Owns how the parts are composed: recorder over retry over limiter over caps over transport. One transport for
each distinct model string. Leaves out every part itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import roleagent_lite.redact as redact
from roleagent_lite.config import RunConfig
from roleagent_lite.errors import ConfigError
from roleagent_lite.lm.address import Address, parse
from roleagent_lite.lm.capped import Capped
from roleagent_lite.lm.ledger import Ledger
from roleagent_lite.lm.limiter import Limited, Limiter
from roleagent_lite.lm.price import FREE, Price, price_of
from roleagent_lite.lm.price import parse as parse_price
from roleagent_lite.lm.recorder import Counter, Recorder
from roleagent_lite.lm.retry import Breaker, Retried
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.store import Run
from roleagent_lite.types import ROLES, Listener, Model, Role

_PATIENCE = 8  # episodes without any answer from the start, at least, before a run is stopped


@dataclass(slots=True)
class Models:
    """`models[role]` is a Recorder. `notes`: what servers did not take; `prices` by model, None = unknown.

    `note` keeps one more, in the run as well.
    """

    ledger: Ledger
    by_role: Mapping[Role, Recorder]
    prices: Mapping[str, Price | None]
    notes: list[str] = field(default_factory=list)
    note: Callable[[str], None] = lambda _: None

    def __getitem__(self, role: Role) -> Recorder:
        return self.by_role[role]

    def price(self, role: Role) -> Price | None:
        """What a role's tokens cost, None = unknown."""
        return self.prices.get(self.by_role[role].name)


@asynccontextmanager
async def open_models(
    config: RunConfig,
    run: Run | None,
    *,
    overrides: Mapping[Role, Model] | None = None,
    listener: Listener | None = None,
) -> AsyncIterator[Models]:
    """The models of `config` for as long as the block lasts.

    `run` None: calls are not recorded. `overrides`: model objects in place of a role's string, recorded and
    capped like the others. With `limits.replay` no model is opened and all replies come from the run.
    Raises ConfigError for a wrong string, a missing key, a cap that cannot be kept, a run that other models
    were asked for; FatalModelError where a model cannot be opened. Nothing is sent before the first call, but
    for a base URL without a model name.
    """
    redact.register_environment()
    if config.limits.replay:
        yield _replaying(config, run)
        return
    async with AsyncExitStack() as stack:
        notes: list[str] = []

        def note(text: str) -> None:
            if text not in notes:
                notes.append(text)
                if run is not None:
                    run.record(f"note/{text}", "note", {"text": text})

        chosen = await _open_all(config, overrides or {}, stack, note, listener)
        prices = {model.name: price for model, price, _ in chosen.values()}
        ledger = Ledger(config.budget)
        ledger.check_prices(prices)
        if run is not None:
            _refuse_others(run, chosen)
            ledger.rebuild(run, prices)
            _remember(run, chosen)
        limiter, counter = Limiter(config.limits.rpm, config.limits.tpm), Counter()
        breaker = Breaker(max(_PATIENCE, 2 * config.workers))
        stacks: dict[int, Retried] = {}
        by_role: dict[Role, Recorder] = {}
        for role in ROLES:
            model, price, remote = chosen[role]
            if id(model) not in stacks:
                inner: Model = Capped(model, ledger, price)
                if remote:
                    inner = Limited(inner, limiter)
                stacks[id(model)] = Retried(inner, config.limits.retries, breaker, seed=config.seed)
            by_role[role] = Recorder(
                stacks[id(model)], run, ledger,
                name=model.name, base_url=model.base_url, can_score=model.can_score, counter=counter,
            )  # fmt: skip
        yield Models(ledger, by_role, prices, notes, note)


_Chosen = tuple[Model, "Price | None", bool]  # model, price, whether rates per minute apply


async def _open_all(
    config: RunConfig,
    overrides: Mapping[Role, Model],
    stack: AsyncExitStack,
    note: Callable[[str], None],
    listener: Listener | None,
) -> dict[Role, _Chosen]:
    addresses = {
        role: parse(config.model_for(role), config.limits) for role in ROLES if role not in overrides
    }
    own = parse_price(config.budget.price) if config.budget.price is not None else None
    prices = {a.spec: price_of(a, config.budget) for a in addresses.values()}
    if config.limits.base_url and addresses and all(a.kind == "embedded" for a in addresses.values()):
        raise ConfigError(
            "limits.base_url is set, but every role uses the embedded model; "
            "name the server's model with --model NAME"
        )
    unknown = {a.model: prices[a.spec] for a in addresses.values() if a.model}
    Ledger(config.budget).check_prices(unknown)  # before anything is opened
    opened: dict[str, Model] = {}
    out: dict[Role, _Chosen] = {}
    for role in ROLES:
        if role in overrides:
            model = overrides[role]
            free = FREE if isinstance(model, ScriptedModel) else None
            out[role] = (model, own if own is not None else free, True)
            continue
        address = addresses[role]
        if address.spec not in opened:
            opened[address.spec] = await _open(address, config, stack, note, listener)
        out[role] = (opened[address.spec], prices[address.spec], address.kind != "embedded")
    return out


async def _open(
    address: Address,
    config: RunConfig,
    stack: AsyncExitStack,
    note: Callable[[str], None],
    listener: Listener | None,
) -> Model:
    if address.kind == "embedded":
        from roleagent_lite.lm.embedded import EmbeddedModel

        return EmbeddedModel.open(address.spec, listener)  # stays loaded for the life of the process
    if address.kind == "http":
        from roleagent_lite.lm.http import HttpModel

        server = await HttpModel.open(address, config.limits.timeout, note)
        stack.push_async_callback(server.close)
        return server
    from roleagent_lite.lm.client import ProviderModel

    provider = ProviderModel(address, config.limits.timeout, note)
    stack.push_async_callback(provider.close)
    return provider


def _refuse_others(run: Run, chosen: Mapping[Role, _Chosen]) -> None:
    """A resume with another model or server would mix two experiments, and buy again what is stored."""
    for event in run.events:
        if event.kind != "model":
            continue
        model = chosen[event.data["role"]][0]
        then, now = (event.data["name"], event.data["base_url"]), (model.name, model.base_url)
        if then != now:
            raise ConfigError(
                f"run {run.dir} was started with another model: as {event.data['role']} it asked "
                f"{_at(*then)} then, {_at(*now)} now; use another --run name, or the same model to resume"
            )


def _at(name: str, base_url: str | None) -> str:
    return f"'{name}' at {base_url}" if base_url else f"'{name}'"


def _remember(run: Run, chosen: Mapping[Role, _Chosen]) -> None:
    """Stores how each role's model was called, which a replay needs for keys and cannot ask anybody."""
    for role, (model, _, _) in chosen.items():
        data: dict[str, Any] = {"role": role, "name": model.name, "base_url": model.base_url,
                                "can_score": model.can_score}  # fmt: skip
        run.record(f"model/{role}/{model.name}@{model.base_url}", "model", data)


def _replaying(config: RunConfig, run: Run | None) -> Models:
    if run is None:
        raise ConfigError("replay: there is no run to replay from")
    known = {str(e.data["role"]): e.data for e in run.events if e.kind == "model"}
    ledger = Ledger(config.budget)
    counter = Counter()
    by_role: dict[Role, Recorder] = {}
    for role in ROLES:
        data = known.get(role)
        if data is None:
            raise ConfigError(f"replay: run '{run.name}' has never opened a model for role '{role}'")
        by_role[role] = Recorder(
            None, run, ledger, name=data["name"], base_url=data["base_url"], can_score=data["can_score"],
            counter=counter,
        )  # fmt: skip
    return Models(ledger, by_role, {}, [])
