"""Checkpoints of a training run: whole or not there, and enough in them for the very same next step.

Owns the folder `checkpoints/step-000010`: the adapter, `state.safetensors` (the adapter in float32 and the
optimiser's moments) and `state.json` (step, and what run this is). It is written beside its place and renamed
into it, so that a kill or a full disk leaves the one before. Nothing here is ever unpickled.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roleagent_lite.distill import lora
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.stack import load
from roleagent_lite.errors import ConfigError, RoleAgentError

KEPT = 2  # checkpoints that stay
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint on disk. `step`: optimiser steps done."""

    step: int
    path: Path


def latest(out: Path) -> Found | None:
    """The newest whole checkpoint of a training run's folder."""
    found = [
        Found(int(p.name.removeprefix("step-")), p)
        for p in (out / "checkpoints").glob("step-*")
        if p.name.removeprefix("step-").isdigit() and (p / "state.json").is_file()
    ]
    return max(found, key=lambda f: f.step, default=None)


def save(
    out: Path, step: int, policy: Policy, optimizer: Any, identity: Mapping[str, Any], dtype: str
) -> Path:
    """Writes the state after `step` optimiser steps and drops the oldest beyond the last two.

    Raises RoleAgentError where the disk is full or not writable; the checkpoints before it stay.
    """
    folder = out / "checkpoints" / f"step-{step:06d}"
    partial = folder.with_name(folder.name + ".part")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        lora.save(policy.model, partial / "adapter", dtype)
        load("safetensors.torch").save_file(_tensors(policy, optimizer), str(partial / "state.safetensors"))
        state = {"step": step, "identity": dict(identity)}
        (partial / "state.json").write_text(json.dumps(state, indent=1), encoding="utf-8")
        _settle(partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
        _settle(folder.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise RoleAgentError(
            f"cannot write checkpoint {folder}: {error.strerror or error}; the one before it is kept, free "
            "some space and resume"
        ) from None
    for old in sorted(folder.parent.glob("step-*"))[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def restore(found: Found, policy: Policy, optimizer: Any, identity: Mapping[str, Any]) -> None:
    """Puts adapter and optimiser back as they were behind `found.step`.

    Raises ConfigError where the checkpoint is another recipe's or was trained on other samples, naming what
    differs; RoleAgentError where it is damaged.
    """
    torch = load("torch")
    try:
        saved = json.loads((found.path / "state.json").read_text(encoding="utf-8"))["identity"]
        tensors = load("safetensors.torch").load_file(str(found.path / "state.safetensors"))
    except (OSError, ValueError, KeyError) as error:
        raise RoleAgentError(
            f"checkpoint {found.path} is damaged ({error}); delete that folder to go on"
        ) from None
    differing = [k for k in identity if saved.get(k) != identity[k]]
    if differing:
        told = "; ".join(f"{k}: {saved.get(k)!r} then, {identity[k]!r} now" for k in differing)
        raise ConfigError(
            f"{found.path.parent.parent} was begun with other settings ({told}); use another --out, or the "
            "same settings to resume"
        )
    groups = optimizer.param_groups[0]["params"]
    for name, parameter in policy.parameters.items():
        with torch.no_grad():
            parameter.copy_(tensors[f"adapter/{name}"])
    for number, (name, parameter) in enumerate(policy.parameters.items()):
        assert groups[number] is parameter
        if f"{_MOMENTS[0]}/{name}" in tensors:
            moments = {m: tensors[f"{m}/{name}"].to(parameter.device) for m in _MOMENTS}
            optimizer.state[parameter] = {"step": tensors[f"step/{name}"], **moments}


def _tensors(policy: Policy, optimizer: Any) -> dict[str, Any]:
    out = {}
    for name, parameter in policy.parameters.items():
        out[f"adapter/{name}"] = parameter.detach().cpu().contiguous().clone()
        state = optimizer.state.get(parameter)
        if state:
            out |= {f"{m}/{name}": state[m].detach().cpu().contiguous().clone() for m in _MOMENTS}
            out[f"step/{name}"] = state["step"].detach().cpu().clone()
    return out


def _settle(folder: Path) -> None:
    """Files and folder on the disk before the name changes: a rename must not be older than its contents."""
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
