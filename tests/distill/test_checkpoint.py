"""checkpoint: whole or not there, two kept, damage and full disks named, and kills at any byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("peft", reason="needs the distill extra", exc_type=ImportError)

import torch

from roleagent_lite.distill import checkpoint
from roleagent_lite.errors import RoleAgentError
from tests.distill import local

ROOT = Path(__file__).resolve().parent.parent.parent


def made() -> tuple[Any, Any]:
    policy = local.policy(local.recipe())
    optimizer = torch.optim.AdamW(list(policy.parameters.values()), lr=0.1)
    (policy.logps(policy.rows(local.rows())).sum()).backward()
    optimizer.step()
    return policy, optimizer


def test_adapter_and_moments_come_back_to_the_bit(tmp_path: Path) -> None:
    policy, optimizer = made()
    checkpoint.save(tmp_path, 3, policy, optimizer, {"a": 1}, "bfloat16")
    other = local.policy(local.recipe(train={"seed": 5}))
    again = torch.optim.AdamW(list(other.parameters.values()), lr=0.1)
    found = checkpoint.latest(tmp_path)
    assert found is not None and found.step == 3
    checkpoint.restore(found, other, again, {"a": 1})
    for mine, its in zip(policy.parameters.values(), other.parameters.values(), strict=True):
        assert torch.equal(mine, its)  # in float32, though the adapter beside it is bfloat16
        for name, value in optimizer.state[mine].items():
            assert torch.equal(value, again.state[its][name]), name


def test_the_last_two_stay_and_half_ones_do_not_count(tmp_path: Path) -> None:
    policy, optimizer = made()
    for step in (1, 2, 10):
        checkpoint.save(tmp_path, step, policy, optimizer, {}, "float32")
    folder = tmp_path / "checkpoints"
    assert sorted(p.name for p in folder.iterdir()) == ["step-000002", "step-000010"]
    (folder / "step-000011.part").mkdir()
    (folder / "step-000012").mkdir()  # no state in it
    found = checkpoint.latest(tmp_path)
    assert found is not None and found.step == 10
    assert checkpoint.latest(tmp_path / "nowhere") is None


def test_a_damaged_one_is_named(tmp_path: Path) -> None:
    policy, optimizer = made()
    path = checkpoint.save(tmp_path, 1, policy, optimizer, {}, "float32")
    (path / "state.json").write_text("{", encoding="utf-8")
    with pytest.raises(RoleAgentError, match="step-000001 is damaged"):
        checkpoint.restore(checkpoint.Found(1, path), policy, optimizer, {})


def test_disk_full_keeps_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, optimizer = made()
    checkpoint.save(tmp_path, 1, policy, optimizer, {}, "float32")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "_settle", full)
    with pytest.raises(RoleAgentError, match="No space left on device; the one before it is kept"):
        checkpoint.save(tmp_path, 2, policy, optimizer, {}, "float32")
    found = checkpoint.latest(tmp_path)
    assert found is not None and found.step == 1
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-000001"]


# Imports once what is slow, then forks a child a session. argv: folder, then one number a session that is
# killed: at which change of the disk.
KILLER = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from tests.distill import local
from roleagent_lite.distill import checkpoint, train
from roleagent_lite.distill.sft import Imitation
import peft, safetensors.torch, torch, transformers

out, *kills = sys.argv[1:]
local.model()

def session(out, kill):
    torch.set_num_threads(1)
    calls = [0]
    def dying(function):
        def called(*arguments, **named):
            calls[0] += 1
            if kill and calls[0] == kill:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)
        return called
    # every change of the disk on the way of a checkpoint, a log line or the result
    os.fsync, os.rename, os.mkdir = dying(os.fsync), dying(os.rename), dying(os.mkdir)
    os.rmdir, os.unlink = dying(os.rmdir), dying(os.unlink)
    safetensors.torch.save_file = dying(safetensors.torch.save_file)
    train.Trainer._log, train.Trainer._update = dying(train.Trainer._log), dying(train.Trainer._update)
    recipe = local.recipe(adapter={"dropout": 0.1}, train={"epochs": 3})
    train.Trainer(local.policy(recipe), Imitation(), recipe, Path(out), {}).run(local.rows())
    print("calls", calls[0], flush=True)

def forked(out, kill):
    child = os.fork()
    if child == 0:
        session(out, kill)
        os._exit(0)
    return os.waitpid(child, 0)[1]

print("whole", forked(out + "/whole", 0), flush=True)
for number, kill in enumerate(kills):
    print("killed", forked(out + "/parts", int(kill)), flush=True)
print("rest", forked(out + "/parts", 0), flush=True)
"""


@pytest.mark.slow
def test_killed_again_and_again_it_ends_as_if_undisturbed(tmp_path: Path) -> None:
    """SIGKILL at 12 places: between and inside checkpoints, log lines and updates."""
    kills = [1, 2, 3, 5, 8, 9, 11, 13, 17, 21, 26, 30]
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(tmp_path), *map(str, kills)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    said = [line.split() for line in done.stdout.splitlines()]
    assert [s[1] for s in said if s[0] == "killed"] == ["9"] * len(kills)
    assert [s[1] for s in said if s[0] in ("whole", "rest")] == ["0", "0"]
    for file in ("steps.jsonl", "adapter/adapter_model.safetensors"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "parts" / file).read_bytes(), file
    whole, parts = (
        json.loads((tmp_path / n / "adapter/adapter_config.json").read_text()) for n in ("whole", "parts")
    )
    assert whole == parts
