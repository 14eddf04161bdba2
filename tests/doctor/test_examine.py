"""The whole examination: the order, the border, and nothing sent or loaded unasked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from roleagent_lite import redact
from roleagent_lite.config import RunConfig
from roleagent_lite.doctor import Line, examine, machine
from roleagent_lite.doctor.examine import checks, guarded
from roleagent_lite.doctor.line import ok
from roleagent_lite.store import Run
from tests.cli.make import environment
from tests.fake_server import FakeServer


def test_a_check_that_breaks_is_a_line_and_hides_no_other() -> None:
    redact.register("swordfish-4711")

    def broken() -> Line:
        raise ZeroDivisionError("at swordfish-4711")

    (line,) = guarded("gpu", broken)
    assert (line.name, line.state) == ("gpu", "problem")
    assert "ZeroDivisionError" in line.found and "swordfish" not in line.found
    assert guarded("x", lambda: ok("a", "b")) == [ok("a", "b")]
    assert guarded("x", lambda: [ok("a", "b")] * 2) == [ok("a", "b")] * 2


def test_everything_is_looked_at_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpu", lambda: 1 / 0)
    lines = examine(runs=tmp_path / "runs")
    names = list(dict.fromkeys(line.name for line in lines))
    for name in ("python", "packages", "extra embed", "encoding", "clock", "cores", "memory", "open files",
                 "gpu", "java", "disk", "folder of runs", "cache", "temporary files", "keys", "proxy",
                 "embedded model", "runs", "stores", "model"):  # fmt: skip
        assert name in names, name
    assert names.index("python") < names.index("gpu") < names.index("runs") < names.index("model")
    assert next(line for line in lines if line.name == "gpu").state == "problem"
    assert not (tmp_path / "runs").exists(), "looking makes nothing"


def test_one_run_alone(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Run.create(tmp_path / name, RunConfig()).close()
    lines = examine(runs=tmp_path, run=tmp_path / "a")
    assert [line.name for line in lines if line.name.startswith("run")] == ["run a"]
    assert (
        dict(checks(tmp_path, None, None, None, None, False)).keys()
        == dict(checks(tmp_path, tmp_path / "a", None, None, None, False)).keys()
    )


def test_a_named_model_is_looked_at() -> None:
    with FakeServer() as fake:
        lines = examine(model="fake", base_url=fake.url)
    assert sum(line.name == "model" for line in lines) == 9


def test_nothing_heavy_is_loaded_without_need(tmp_path: Path) -> None:
    heavy = ("dspy", "litellm", "openai", "anthropic", "lancedb", "torch", "gepa", "scipy", "xllamacpp")
    code = (
        "import sys; from pathlib import Path; from roleagent_lite.doctor import examine\n"
        "lines = examine(runs=Path('runs'))\n"
        f"print([m for m in {heavy!r} if m in sys.modules], len(lines))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("[] ")
