"""types: frozen, what teaches and what counts, and which rollouts may be compared."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from roleagent_lite import types
from roleagent_lite.types import Environment, Kind, Observation, Outcome, Step, Trajectory, Transition

RECORDS: list[Any] = [
    c for _, c in inspect.getmembers(types, dataclasses.is_dataclass) if c.__module__ == types.__name__
]

ASKED = types.Request("agent", "act", (types.Message("user", "hi"),), choices=("a",))


def trajectory(**changes: Any) -> Trajectory:
    values: dict[str, Any] = {
        "id": "0/abcdefgh/t#1", "task": "t", "prompt_set": "abcdefgh0123", "model": "m", "round": 2,
        "rollout": 1, "split": "train", "steps": (), "score": 0.0, "outcome": Outcome("failed", "loop"),
    }  # fmt: skip
    return Trajectory(**{**values, **changes})


@pytest.mark.parametrize("record", RECORDS, ids=lambda c: c.__name__)
def test_records_are_frozen_and_slotted(record: Any) -> None:
    assert record.__dataclass_params__.frozen
    assert "__slots__" in vars(record)


@pytest.mark.parametrize("record", RECORDS, ids=lambda c: c.__name__)
def test_records_do_no_io(record: Any) -> None:
    """No method but properties and what dataclass makes."""
    own = [n for n, m in vars(record).items() if inspect.isfunction(m) and not n.startswith("_")]
    assert own == []


def test_a_fact_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        trajectory().score = 1.0  # type: ignore[misc]


def test_which_outcomes_teach_and_which_are_scored() -> None:
    told = {kind: (Outcome(kind).teaches, Outcome(kind).scored) for kind in get_args(Kind)}
    assert told == {
        "solved": (True, True),
        "failed": (True, True),
        "bad_format": (True, True),
        "cut_off": (False, True),
        "infrastructure_error": (False, False),
    }


def test_solved_is_the_outcome_not_the_score() -> None:
    assert trajectory(outcome=Outcome("solved"), score=0.0).solved
    assert not trajectory(outcome=Outcome("failed"), score=1.0).solved


@pytest.mark.parametrize("field", ["round", "prompt_set", "model", "arm", "task"])
def test_the_group_holds_all_that_must_be_equal(field: str) -> None:
    base = trajectory()
    assert base.group == "2/abcdefgh0123/m/none/t"
    changed = dataclasses.replace(base, **{field: 7 if field == "round" else "other"})  # type: ignore[arg-type]
    assert changed.group != base.group
    assert dataclasses.replace(base, rollout=5, id="x", score=1.0).group == base.group


def test_unknown_tokens_are_none_not_zero() -> None:
    assert dataclasses.astuple(types.Usage()) == (None,) * 5


def test_an_environment_in_a_few_lines_fits_the_protocol() -> None:
    class Toy:
        def observe(self) -> Observation:
            return Observation("a room")

        def step(self, action: str) -> Transition:
            return Transition(self.observe(), reward=0.0, done=False)

        def score(self) -> float:
            return 0.0

        def close(self) -> None:
            return None

    assert isinstance(Toy(), Environment)
    assert not isinstance(object(), Environment)


@pytest.mark.parametrize(
    "record",
    [
        types.Task("t", "toy", "go", params={"a": [1, {"b": None}]}),
        types.Call("k", "m", None, ASKED, types.Reply("a", scores=((-0.5, -1.0), ()))),
        trajectory(steps=(Step("o", "a", "p", predictions=("x", None), state_key="k"),), error="trace"),
        types.Credit("t", ((0.5, None),), (0.5,), (1.0,), (1.5,), (0,), (0.1,), -0.2, (-0.1,)),
        types.Diagnosis("t", "loop", "d", 3, "l", "q"),
        types.FailureMode("loop", "rule", ("t",)),
        types.PromptSet("p", {"act.instructions": "Do."}),
        types.Result("s", "sys", {"t": (1.0, None)}, None, None, None, 0),
    ],
    ids=lambda r: type(r).__name__,
)  # fmt: skip
def test_every_record_survives_json(record: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(type(record))
    assert adapter.validate_json(adapter.dump_json(record)) == record
