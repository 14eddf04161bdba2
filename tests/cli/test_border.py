"""The border: one message and one exit code for each kind of fault, never a key, the details kept."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from roleagent_lite import redact
from roleagent_lite.cli import border
from roleagent_lite.errors import (
    BudgetStop,
    ConfigError,
    FatalModelError,
    Interrupted,
    MissingExtra,
    RoleAgentError,
)
from tests.cli.make import environment

SECRET = "sesame-open-987654"


pytestmark = pytest.mark.usefixtures("untouched")


@pytest.fixture(autouse=True)
def no_cache_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSPY_CACHEDIR", raising=False)


def raising(error: BaseException) -> int:
    def job() -> None:
        raise error

    return border.guarded(job)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("bad setting"), 2),
        (MissingExtra("needs torch"), 2),
        (BudgetStop("cap reached"), 3),
        (FatalModelError("wrong key"), 4),
        (RoleAgentError("disk full"), 1),
        (Interrupted("stopped"), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_each_fault_has_its_code_and_one_line(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(error) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("roleagent-lite: ") and err.count("\n") == 1
    assert str(error) in err


def test_a_job_that_ends_well_gives_its_code() -> None:
    assert border.guarded(lambda: None) == 0
    assert border.guarded(lambda: 5) == 5


def test_the_unexpected_is_one_line_and_the_traceback_lies_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    border.use_run(tmp_path / "r")
    redact.register(SECRET)
    try:
        assert raising(ZeroDivisionError(f"by {SECRET}")) == 1
    finally:
        redact._secrets.discard(SECRET)
    err = capsys.readouterr().err
    log = (tmp_path / "r" / "log.txt").read_text()
    assert err.count("\n") == 1 and "unexpected ZeroDivisionError" in err and str(tmp_path) in err
    assert "Traceback" in log and SECRET not in log + err and "[key]" in err


def test_without_a_run_the_traceback_lies_in_a_file_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    raising(ZeroDivisionError("x"))
    path = Path(capsys.readouterr().err.strip().rpartition(" ")[2])
    assert "Traceback" in path.read_text()
    path.unlink()


def test_debug_adds_the_scrubbed_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    redact.register(SECRET)
    try:
        border.guarded(lambda: (_ for _ in ()).throw(ConfigError(f"key {SECRET}")), debug=True)
    finally:
        redact._secrets.discard(SECRET)
    err = capsys.readouterr().err
    assert "Traceback" in err and "[key]" in err and SECRET not in err


def test_a_missing_package_names_its_extra(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(ModuleNotFoundError("No module named 'torch'", name="torch.nn")) == 2
    assert "pip install 'roleagent-lite[embed]'" in capsys.readouterr().err
    assert raising(ModuleNotFoundError("No module named 'gepa'", name="gepa")) == 2
    assert "'gepa' is not installed" in capsys.readouterr().err


def test_a_package_that_is_broken_is_named_and_the_doctor_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(ImportError("libfoo.so.3: cannot open shared object file", name="lancedb")) == 2
    err = capsys.readouterr().err
    assert "libfoo.so.3" in err and "doctor --imports" in err and "unexpected" not in err


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="a full disk is played by /dev/full")
@pytest.mark.parametrize("words", [["runs"], ["runs", "--json"], ["--version"], ["runs", "--help"]])
def test_standard_output_on_a_full_disk_is_one_plain_message(words: list[str], tmp_path: Path) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "roleagent_lite.cli.main", *words], cwd=tmp_path, env=environment(),
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("roleagent-lite: cannot write standard output"), done.stderr
    assert "No space left on device" in done.stderr and done.stderr.count("\n") == 1


def test_a_file_on_a_full_disk_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(OSError(errno.ENOSPC, "No space left on device", "runs/r/x.json")) == 1
    assert capsys.readouterr().err == "roleagent-lite: cannot write runs/r/x.json: No space left on device\n"


def test_standard_output_that_was_closed_is_no_fault(tmp_path: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m roleagent_lite.cli.main runs >&-"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_missing_module_of_our_own_is_a_fault_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    border.use_run(tmp_path / "r")
    assert raising(ModuleNotFoundError("No module named 'roleagent_lite.x'", name="roleagent_lite.x")) == 1
    assert "unexpected ModuleNotFoundError" in capsys.readouterr().err
    assert raising(ImportError("cannot import name 'y' from it", name="roleagent_lite.x")) == 1
    assert "unexpected ImportError" in capsys.readouterr().err


def test_noise_goes_to_the_run_not_to_the_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    border.use_run(tmp_path / "r")
    assert not (tmp_path / "r").exists()  # nothing was said yet
    redact.register(SECRET)
    try:
        logging.getLogger("litellm").warning("calling with %s", SECRET)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(True)
            warnings.warn("an old parameter", DeprecationWarning, stacklevel=1)
    finally:
        redact._secrets.discard(SECRET)
    log = (tmp_path / "r" / "log.txt").read_text()
    assert "litellm: calling with [key]" in log and "an old parameter" in log
    assert capsys.readouterr() == ("", "")
    assert os.environ["DSPY_CACHEDIR"] == str(tmp_path / "r" / "dspy")


def test_environment_is_set_but_the_users_own_values_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP", raising=False)
    border.prepare_environment()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"


def test_an_interrupt_says_what_is_kept_and_how_to_go_on(tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match=r"kept in .*; the same command goes on"), border.going_on(tmp_path):
        raise KeyboardInterrupt
    with pytest.raises(ConfigError), border.going_on(tmp_path):
        raise ConfigError("x")


def test_sigterm_ends_like_an_interrupt() -> None:
    border.ending_on_signals()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
