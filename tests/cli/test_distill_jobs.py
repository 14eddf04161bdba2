"""distill_jobs: a command line is one job, and every flag on it is heard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.cli.distill_jobs import one_job
from roleagent_lite.errors import ConfigError
from tests.cli.conftest import Inside
from tests.cli.make import clear

NOTHING: dict[str, Any] = {
    "plan_only": False, "online": False, "cells": False, "samples": None, "export": None, "bundle": None,
    "back": None, "dry_run": False, "sealed": False, "seed": None, "tasks": None, "layout": None,
    "smaller": False, "out": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("run", "given", "job"),
    [
        ("r", {}, "training on a RUN"),
        ("r", {"smaller": True, "out": Path("x")}, "training on a RUN"),
        ("", {"online": True, "sealed": True, "seed": 0, "tasks": "t", "out": Path("x")}, "--online"),
        ("r", {"cells": True, "tasks": "t"}, "--cells"),
        ("r", {"samples": Path("s.jsonl"), "layout": "verl"}, "--samples"),
        ("", {"plan_only": True}, "--plan"),
    ],
)
def test_what_goes_together_is_one_job(run: str, given: dict[str, Any], job: str) -> None:
    assert one_job(run, NOTHING | given) == job


@pytest.mark.parametrize(
    ("run", "given", "words"),
    [
        ("", {"online": True, "dry_run": True}, "--online and --dry-run are two jobs"),
        ("r", {"samples": Path("s"), "bundle": Path("b")}, "--samples and --bundle are two jobs"),
        ("r", {"plan_only": True, "online": True}, "--plan and --online are two jobs"),
        ("r", {"online": True}, "takes no RUN, found 'r'"),
        ("r", {"seed": 0}, "--seed belongs to --online, not to training on a RUN"),
        ("r", {"dry_run": True, "sealed": True}, "--sealed belongs to --online, not to --dry-run"),
        ("r", {"tasks": "t"}, "--tasks belongs to --online or --cells"),
        ("r", {"layout": "trl", "export": "all"}, "--layout belongs to --samples, not to --export"),
        ("", {"online": True, "smaller": True}, "--smaller belongs to training on a RUN, not to --online"),
        ("", {"plan_only": True, "out": Path("x")}, "not to --plan"),
    ],
)
def test_what_would_be_passed_over_is_refused(run: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        one_job(run, NOTHING | given)


def test_the_command_line_asks_before_anything_is_read(inside: Inside) -> None:
    clear(inside("distill", "nosuch", "--online", "--dry-run"), 2, "two jobs")
    clear(inside("distill", "nosuch", "--seed", "3"), 2, "--seed belongs to --online")
