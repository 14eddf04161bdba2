"""What the events of a run must look like before a report reads them: a run from strangers may hold anything.

Owns the fields and their kinds (CONTRIBUTING lists them); every field may be missing, others are not looked
at. Leaves out the tables' own records, whose shape the store checks.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Event

_Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True)


class _Start(_Shape):
    version: str | None = None
    tasks_hash: str | None = None
    seed_set: str | None = None
    models: dict[str, str | None] | None = None
    counts: dict[str, _Whole] | None = None


class _Round(_Shape):
    round: _Whole = 0
    drawn: list[str] | None = None
    p: dict[str, _Number] | None = None
    counts: dict[str, _Number] | None = None


class _Candidate(_Shape):
    round: _Whole | None = None
    parent: str | None = None
    child: str | None = None
    component: str | None = None
    accepted: bool | None = None
    reason: str | None = None
    wins: _Whole | None = None
    losses: _Whole | None = None
    ties: _Whole | None = None


class _Final(_Shape):
    seed: str | None = None
    best: str | None = None
    final: str | None = None
    accepted: bool | None = None
    p: _Number | None = None
    reason: str | None = None


class _Session(_Shape):
    seconds: _Number | None = None
    calls: _Whole | None = None
    replayed: _Whole | None = None
    stopped: str | None = None


class _Fixed(_Shape):
    mode: str | None = None
    prompt_set: str | None = None
    round: _Whole = 0


class _Call(_Shape):
    role: str | None = None
    model: str | None = None
    input: _Whole | None = None
    output: _Whole | None = None
    cached: _Whole | None = None
    reasoning: _Whole | None = None
    dollars: _Number | None = None
    requests: _Whole | None = None
    unread: bool | None = None


class _Note(_Shape):
    text: str | None = None


class _Set(_Shape):
    tasks: str | None = None
    split: str | None = None
    hash: str | None = None
    limit: _Whole | None = None
    max_steps: _Whole | None = None


class _Budget(_Shape):
    rule: str | None = None
    amount: _Number | None = None


class _Suite(_Shape):
    name: str = ""
    about: str = ""
    sets: list[_Set] = []
    systems: list[str] = []
    repetitions: _Whole = 1
    temperature: _Number | None = None
    seeds: list[_Whole] = []
    budget: _Budget = _Budget()
    reference: list[str] = []


class _System(_Shape):
    system: str | None = None
    prompt_set: str | None = None
    model: str | None = None


SHAPES: dict[str, type[BaseModel]] = {
    "start": _Start, "round": _Round, "candidate": _Candidate, "final": _Final, "session": _Session,
    "fixed": _Fixed, "note": _Note, "suite": _Suite, "system": _System,
    **dict.fromkeys(("call", "again", "lost", "void", "failed"), _Call),
}  # fmt: skip


def checked(event: Event) -> Event:
    """`event` itself. Raises RoleAgentError that names the event and the field where it has another shape."""
    shape = SHAPES.get(event.kind)
    if shape is not None:
        try:
            shape.model_validate(dict(event.data))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part)[:60] for part in first["loc"])
            raise RoleAgentError(
                f"the run's event '{event.key[:80]}' ({event.kind}) has an odd '{where}': {first['msg']}; "
                "the run was written by another program, or damaged"
            ) from None
    return event
