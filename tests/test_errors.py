"""errors: exit codes, and the nearest right name in a message."""

from __future__ import annotations

import pytest

from roleagent_lite import errors
from roleagent_lite.errors import ModelError, ReplyError, RoleAgentError, nearest


def test_exit_codes_tell_the_faults_apart() -> None:
    codes: dict[type[RoleAgentError], int] = {
        errors.RoleAgentError: 1,
        errors.ConfigError: 2,
        errors.MissingExtra: 2,
        errors.BudgetStop: 3,
        errors.ModelError: 4,
        errors.FatalModelError: 4,
        errors.ReplyError: 1,
        errors.EnvironmentFault: 1,
        errors.Interrupted: 130,
    }
    assert {kind: kind.exit_code for kind in codes} == codes
    assert all(issubclass(kind, RoleAgentError) for kind in codes)


def test_only_a_fatal_model_error_stops_the_run() -> None:
    kinds = [
        errors.TransientModelError,
        errors.ContextTooLong,
        errors.ContentFiltered,
        errors.UnsupportedRequest,
        errors.FatalModelError,
    ]
    assert [kind("x").fatal for kind in kinds] == [False, False, False, False, True]
    assert all(issubclass(kind, ModelError) for kind in kinds)


def test_a_model_error_keeps_what_the_server_said() -> None:
    error = errors.TransientModelError("slow down", status=429, retry_after=2.5)
    assert (str(error), error.status, error.retry_after) == ("slow down", 429, 2.5)
    assert (ModelError("x").status, ModelError("x").retry_after) == (None, None)


def test_a_reply_error_carries_the_outcome_and_what_was_paid() -> None:
    error = ReplyError("cut_off", "max_tokens", "output cut at max tokens 16", ("c1", "c2"))
    assert (error.kind, error.reason, error.call_ids) == ("cut_off", "max_tokens", ("c1", "c2"))
    assert str(error) == "output cut at max tokens 16"
    assert ReplyError("bad_format", "no_json", "x").call_ids == ()


@pytest.mark.parametrize(
    ("name", "known", "words"),
    [
        ("modle", ["model", "tasks"], "; did you mean 'model'?"),
        ("sl", ["ls", "cd"], "; did you mean 'ls'?"),
        ("easy.jsonl", ["deep/hard", "easy"], "; did you mean 'easy'?"),
        ("react:runs/x", ["re", "react", "oracle"], "; did you mean 'react'?"),
        ("nosuch", ["search", "shell"], "; known: search, shell"),
        ("a", ["abc"], "; known: abc"),
        ("zzz", ["b", "a"], "; known: a, b"),
        ("zzz", [], ""),
        ("zzz", [f"n{i:02}" for i in range(20)], "; known: " + ", ".join(f"n{i:02}" for i in range(20))),
        (
            "zzz",
            [f"n{i:02}" for i in range(21)],
            "; known: " + ", ".join(f"n{i:02}" for i in range(20)) + ", …",
        ),
    ],
)
def test_nearest(name: str, known: list[str], words: str) -> None:
    assert nearest(name, known) == words
    assert nearest(name, iter(known)) == words
