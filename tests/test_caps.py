"""Tests of the caps over whole jobs: where they stop, what they keep, how the run goes on."""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.errors import BudgetStop
from roleagent_lite.store import Run
from roleagent_lite.types import ROLES, Model, Reply, Request, Role, Usage
from tests.evolve.kitchen import run_kitchen, tables
from tests.fake_server import FakeServer
from tests.kill_runner import command
from tests.kitchen_server import SMALL, config_file, serve
from tests.scripted_world import rule

CENTS = 0.02  # a call of 100 tokens in at the price below
PRICE = "200/0"
OVER = {**SMALL, "aiw": {"retrieve": "llm"}}


@dataclass
class Till:
    """A provider with a model for each role; knows how many calls were answered when a request came in."""

    answered: int = 0
    asked: list[tuple[str, int]] = field(default_factory=list)  # module, calls answered before it

    def models(self) -> dict[Role, Model]:
        return {role: Priced(f"priced-{role}", self) for role in ROLES}

    def first(self) -> dict[str, int]:
        """For each module, how many calls were made before its first."""
        found: dict[str, int] = {}
        for number, (module, _) in enumerate(self.asked):
            found.setdefault(module, number)
        return found


@dataclass
class Priced:
    """One of its models: the scripted rules, 100 tokens in a call, and a while in which others may ask."""

    name: str
    till: Till
    base_url: str | None = None
    can_score: bool = False

    async def complete(self, request: Request) -> Reply:
        self.till.asked.append((request.module, self.till.answered))
        await asyncio.sleep(0.001)
        self.till.answered += 1
        return Reply(rule(request), usage=Usage(input=100, output=0))


@dataclass(frozen=True)
class Whole:
    """An undisturbed run: its tables, when each module was first asked, the folder with its task file."""

    tables: dict[str, dict[str, Any]]
    first: dict[str, int]
    folder: Path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder, till = tmp_path_factory.mktemp("whole"), Till()
    run_kitchen(folder, OVER, {"budget": {"price": PRICE}}, models=till.models())
    return Whole(tables(folder / "run"), till.first(), folder)


MODULES = ("act", "diagnose", "retrieve", "reflect")


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("workers", [1, 4])
def test_acc_03_a_dollar_cap_stops_every_role_and_a_higher_one_ends_alike(
    module: str, workers: int, whole: Whole
) -> None:
    folder = whole.folder
    name = f"{module}-{workers}"
    calls = whole.first[module] + (3 if module == "act" else 0)
    cap = round(calls * CENTS - CENTS / 2, 4)  # in the middle of a call: the cap is passed by its end
    till = Till()
    over = {"workers": workers, "budget": {"max_usd": cap, "price": PRICE}}
    with pytest.raises(BudgetStop, match=rf"--max-usd {cap:g} reached: \$"):
        run_kitchen(folder, OVER, over, name=name, models=till.models())
    assert all(answered * CENTS < cap for _, answered in till.asked), "a call began after the cap was spent"
    assert calls <= len(till.asked) <= calls + workers - 1
    with Run.open(folder / name) as run:
        assert run.status == "interrupted"
        assert len(run.calls) == len(till.asked)
        assert not any(t.outcome.kind == "infrastructure_error" for t in run.trajectories)
        kept = set(run.trajectories.keys())
    rest = Till()
    over["budget"] = {"max_usd": 100.0, "price": PRICE}
    run_kitchen(folder, OVER, over, name=name, models=rest.models())
    assert tables(folder / name) == whole.tables
    assert kept <= set(whole.tables["trajectories"])
    assert len(till.asked) + len(rest.asked) == len(whole.tables["calls"])


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_cap_on_calls_is_exact_and_a_higher_one_ends_alike(
    share: float, workers: int, whole: Whole
) -> None:
    folder = whole.folder
    cap = math.floor(share * len(whole.tables["calls"]))
    name, till, rest = f"calls-{cap}-{workers}", Till(), Till()
    over = {"workers": workers, "budget": {"max_calls": cap, "price": PRICE}}
    with pytest.raises(BudgetStop, match=f"--max-calls {cap} reached"):
        run_kitchen(folder, OVER, over, name=name, models=till.models())
    assert len(till.asked) == cap
    over["budget"] = {"max_calls": len(whole.tables["calls"]), "price": PRICE}  # not one call to spare
    run_kitchen(folder, OVER, over, name=name, models=rest.models())
    assert tables(folder / name) == whole.tables
    assert len(rest.asked) == len(whole.tables["calls"]) - cap


# --- the same through the command line, against a server ---


def evolve(fake: FakeServer, run: str, *more: str, folder: Path) -> tuple[int, str, str]:
    """`roleagent-lite evolve` on the kitchen's server."""
    words = ("evolve", "--config", "kitchen.toml", "--model", "fake", "--base-url", fake.url, "--run", run)
    return command(*words, "--price", PRICE, *more, cwd=folder)


@pytest.mark.parametrize("workers", [1, 4])
def test_acc_03_five_cents_at_two_cents_a_call(workers: int, tmp_path: Path) -> None:
    config_file(tmp_path)
    runs = tmp_path / "runs"
    with FakeServer(serve, latency=0.005) as fake:
        code, out, err = evolve(
            fake, "capped", "--max-usd", "0.05", "--workers", str(workers), folder=tmp_path
        )
        sent = fake.count
        assert code == 3 and "Traceback" not in err and out == ""
        assert 3 <= sent <= 3 + workers - 1
        said = re.search(
            r"--max-usd 0\.05 reached: \$(\S+) spent in (\d) calls(?: \((\d) more in flight\))?", err
        )
        assert said is not None, err
        assert float(said[1]) == pytest.approx(int(said[2]) * CENTS)
        assert int(said[2]) + int(said[3] or 0) == sent, "the overshoot is shown"
        assert "evolve --resume --run capped" in err
        text = (runs / "capped" / "report.md").read_text(encoding="utf-8")
        assert "(partial)" in text and "--max-usd 0.05 reached" in text and f"{sent * CENTS:.2f}" in text
        assert f"| agent | `fake` | {sent} |" in text and "lost" not in text, (
            "what the cap refused was not bought"
        )
        kept = tables(runs / "capped")["trajectories"]
        assert all(t["outcome"]["kind"] in ("solved", "failed") for t in kept.values())

        code, _, err = command("evolve", "--resume", "--run", "capped", "--max-usd", "99", cwd=tmp_path)
        assert code == 0, err
        code, _, err = evolve(fake, "whole", folder=tmp_path)
        assert code == 0, err
    assert tables(runs / "capped") == tables(runs / "whole")
    calls = tables(runs / "whole")["calls"]
    assert fake.count == 2 * len(calls), "the capped run and its resume bought each call once"
    print(f"\n{workers} workers: stopped after {sent} requests, {len(kept)} episodes kept")


def test_acc_03_an_unknown_price_refuses_a_dollar_cap_before_the_first_call(tmp_path: Path) -> None:
    config_file(tmp_path)
    words = ("evolve", "--config", "kitchen.toml", "--model", "fake", "--max-usd", "0.05")
    with FakeServer(serve) as fake:
        code, out, err = command(*words, "--base-url", fake.url, cwd=tmp_path)
        assert fake.count == 0 and not fake.others
    assert code == 2 and out == "" and "Traceback" not in err
    assert "--price IN/OUT" in err and "--max-calls" in err and "fake" in err
