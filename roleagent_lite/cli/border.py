"""The border of the command line: every fault becomes one message and one exit code, once, here.

Owns the process environment that must be set before heavy libraries, where libraries' noise goes, and how an
error reaches the screen. Leaves out what commands do. Exit codes: 0 done; 1 fault or unexpected; 2 a setting,
file or package is wrong; 3 a cap was reached; 4 a model could not answer; 5 finished, but some episodes ended
in infrastructure errors; 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import TextIOWrapper
from pathlib import Path

PARTIAL = 5
# Optional packages and the extra that brings each.
_EXTRAS = {"torch": "embed", "transformers": "embed", "alfworld": "alfworld", "textworld": "alfworld"}
_EXTRAS |= {"peft": "distill", "safetensors": "distill", "gguf": "distill", "unsloth": "unsloth"}
_BEFORE_HEAVY_IMPORTS = {
    "OMP_WAIT_POLICY": "PASSIVE",  # else two cores stall 5 to 40 times in OpenMP's busy wait
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else importing litellm goes to the network
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_state: dict[str, Path | None] = {"log": None}


def prepare_environment() -> None:
    """Set what libraries read at import (the user's own values win) and remember keys so as to hide them."""
    for name, value in _BEFORE_HEAVY_IMPORTS.items():
        os.environ.setdefault(name, value)
    if sys.stdout is None:  # closed by whoever started us (`>&-`): then nobody wants to read the result
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        # A model may say anything; a terminal that cannot show a character must not end the run.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    from roleagent_lite.redact import register_environment

    register_environment()


def use_run(path: Path) -> None:
    """From here on warnings and the logs of libraries go to `log.txt` in the run directory, scrubbed."""
    import logging

    from roleagent_lite.redact import scrub, visible

    os.environ.setdefault("DSPY_CACHEDIR", str(path / "dspy"))
    _state["log"] = path / "log.txt"

    class Scrubbed(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return visible(scrub(super().format(record)))

    class Late(logging.FileHandler):
        def _open(self) -> TextIOWrapper:  # a run that is refused leaves no folder behind
            Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
            return super()._open()

        def handleError(self, record: logging.LogRecord) -> None:
            """A log that cannot be written (a full disk) must not fill the screen with tracebacks."""

    handler = Late(path / "log.txt", encoding="utf-8", errors="replace", delay=True)
    handler.setFormatter(Scrubbed("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)


@contextmanager
def result_only() -> Iterator[None]:
    """What the code of others prints goes to standard error, for standard output is for the result alone.

    What it writes to file descriptor 1 past Python goes there too, and so do the programs that it starts;
    where descriptor 1 or 2 is closed, print alone is led away.
    """
    ours = sys.stdout
    ours.flush()
    saved: int | None = None
    with suppress(OSError):
        saved = os.dup(1)
        os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if saved is not None:
            with suppress(OSError):
                ours.flush()  # what went to sys.__stdout__
            os.dup2(saved, 1)
            os.close(saved)


def tell(message: str) -> None:
    """One message to the person at the screen: standard error, never a key in it."""
    from roleagent_lite.redact import scrub, visible

    print(visible(scrub(message)), file=sys.stderr, flush=True)


def missing(error: BaseException) -> str | None:
    """What to do about a package that is not installed or broken; None where `error` says something else."""
    ours = isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "roleagent_lite"
    if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError) and not ours:
        return f"a package cannot be imported: {error}; `roleagent-lite doctor --imports` says which"
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    package = error.name.partition(".")[0]
    if package == "roleagent_lite":
        return None
    if package in _EXTRAS:
        return f"this needs the package '{package}': pip install 'roleagent-lite[{_EXTRAS[package]}]'"
    return f"the package '{package}' is not installed (module {error.name}); reinstall roleagent-lite"


def _unexpected(error: BaseException) -> str:
    try:
        where = f"; the details are in {_save_traceback(error)}"
    except OSError as full:
        where = f"; the details could not be saved ({full.strerror})"
    return f"unexpected {type(error).__name__}: {error}{where}"


def _save_traceback(error: BaseException) -> Path:
    import tempfile
    import traceback

    from roleagent_lite.redact import scrub, visible

    text = visible(scrub("".join(traceback.format_exception(error))))
    path = _state["log"]
    if path is None:
        handle, name = tempfile.mkstemp(prefix="roleagent-lite-", suffix=".txt")
        os.close(handle)
        path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return path


def _full(error: BaseException) -> str | None:
    """A disk that is full, standard output redirected to one included, in words; None for anything else."""
    if not isinstance(error, OSError) or error.errno not in _DISK:
        return None
    where = error.filename or "standard output, or a file (--debug says which)"
    return f"cannot write {where}: {error.strerror}"


def guarded(job: Callable[[], object], debug: bool = False) -> int:
    """Run `job`; its exit code. Prints one message for a fault; `debug` adds the traceback, scrubbed.

    A SystemExit of the argument parser passes through (it has printed its own message).
    """
    from roleagent_lite.errors import RoleAgentError

    try:
        try:
            code = job()
        except SystemExit:  # the usual end of a command: what it printed must be out before it counts as done
            sys.stdout.flush()
            raise
        return code if isinstance(code, int) else 0
    except RoleAgentError as error:
        caught: BaseException = error
        message, exit_code = str(error) or type(error).__name__, error.exit_code
    except KeyboardInterrupt as error:
        caught = error
        message, exit_code = "interrupted; what was finished is kept", 130
    except BrokenPipeError:  # `roleagent-lite runs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # border: cli  # noqa: BLE001
        caught = error
        advice = missing(error)
        message, exit_code = (advice, 2) if advice else (_full(error) or _unexpected(error), 1)
    if debug:
        import traceback

        tell("".join(traceback.format_exception(caught)).rstrip())
    tell(f"roleagent-lite: {message}")
    return exit_code


def ending_on_signals() -> None:
    """SIGTERM (containers, batch systems) ends a run like Ctrl-C does: finished work is kept."""
    import signal

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


@contextmanager
def going_on(path: Path) -> Iterator[None]:
    """Ctrl-C and SIGTERM inside end with words on what is kept in `path`. Raises Interrupted."""
    from roleagent_lite.errors import Interrupted

    try:
        yield
    except KeyboardInterrupt:
        words = f"interrupted; what was finished is kept in {path}; the same command goes on"
        raise Interrupted(words) from None
