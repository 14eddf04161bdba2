"""Which flags of `distill` go together: a command line is one job, and no flag is passed over in silence.

Owns the refusals. Leaves out the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_JOBS = {
    "plan_only": "--plan",
    "online": "--online",
    "cells": "--cells",
    "samples": "--samples",
    "export": "--export",
    "bundle": "--bundle",
    "back": "--take-back",
    "dry_run": "--dry-run",
}
_TRAIN = "training on a RUN"
# Flags that only some jobs hear.
_HEARD: dict[str, tuple[str, tuple[str, ...]]] = {
    "sealed": ("--sealed", ("--online",)),
    "seed": ("--seed", ("--online",)),
    "tasks": ("--tasks", ("--online", "--cells")),
    "layout": ("--layout", ("--samples",)),
    "smaller": ("--smaller", (_TRAIN,)),
    "out": ("--out", (_TRAIN, "--dry-run", "--online", "--cells", "--export", "--take-back")),
}


def one_job(run: str, given: Mapping[str, Any]) -> str:
    """The flag of the job that is meant, or words for training. `given`: the flags' values by name, None or
    False where a flag was left out.

    Raises ConfigError for two jobs, a RUN beside --online, and a flag that this job does not hear.
    """
    from roleagent_lite.errors import ConfigError

    there = {name for name, value in given.items() if value is not None and value is not False}
    jobs = [flag for name, flag in _JOBS.items() if name in there]
    if len(jobs) > 1:
        raise ConfigError(f"{jobs[0]} and {jobs[1]} are two jobs; give one of them")
    job = jobs[0] if jobs else _TRAIN
    if job == "--online" and run:
        raise ConfigError(f"--online plays --tasks and takes no RUN, found '{run}'")
    for name, (flag, heard) in _HEARD.items():
        if name in there and job not in heard:
            raise ConfigError(f"{flag} belongs to {' or '.join(heard)}, not to {job}: leave it out")
    return job
