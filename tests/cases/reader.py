"""An agent of a user's own that reads its moves out: `tests.cases.reader:read`, from PLANS by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roleagent_lite.types import View

PLANS: dict[str, Sequence[str]] = {}


def read(view: View, prompt_set: Any, ask: Any) -> str:
    """The move that stands at this step of the task's plan; from its beginning again where it is over."""
    plan = PLANS[view.task.id]
    return plan[(view.step - 1) % len(plan)]
