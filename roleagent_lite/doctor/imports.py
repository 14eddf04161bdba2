"""Whether the needed packages can be imported: tried in a process of its own, so that nothing is loaded here.

Owns the child process, its time limit and what is said of a package that raises, kills the process or hangs.
Leaves out versions (packages.py). A package that is not installed is theirs to tell.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib import metadata

from roleagent_lite.doctor.line import Line, ok, problem
from roleagent_lite.doctor.packages import Requirement, read

SECONDS = 90.0  # for all; a quiet machine takes about 8
_LENGTH = 200  # characters of an error that are shown
# Says what it is about to import and how that went, a line each, in JSON. What packages print goes nowhere.
_CHILD = """
import importlib, json, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
sys.path[:] = json.loads(sys.argv[1])
for name in sys.argv[2:]:
    print(json.dumps([name, None]), file=out, flush=True)
    try:
        importlib.import_module(name)
        said = ""
    except BaseException as error:
        said = (type(error).__name__ + ": " + str(error)).strip().splitlines()[0].rstrip(": ")
    print(json.dumps([name, said]), file=out, flush=True)
os._exit(0)
"""


def module(requirement: Requirement) -> str:
    """The module that a needed package brings; each of ours is named like its package."""
    return requirement.name.replace("-", "_")


def _child(modules: Sequence[str], seconds: float) -> tuple[dict[str, str], str, str]:
    """What each module said ("" = fine), the one in which the process ended early, and how it ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD, json.dumps(sys.path), *modules],
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},  # else it asks the network for prices
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    late = threading.Timer(seconds, process.kill)
    late.start()
    said: dict[str, str] = {}
    within = ""
    try:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                name, words = json.loads(line)
                within = name if words is None else ""
                if words is not None:
                    said[name] = words
        code = process.wait()
        over = not late.is_alive()
    finally:
        late.cancel()
        process.kill()
        process.wait()
    if over:
        return said, within, f"was not imported within {seconds:g} s"
    return said, within, f"ends the process that imports it ({_how(code)})" if within else ""


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def tried(modules: Sequence[str], seconds: float = SECONDS) -> dict[str, str]:
    """What is wrong with each module, in words; "" = it can be imported.

    One that ends the process is told and the rest tried in another; after the time limit nothing more is.
    """
    found: dict[str, str] = {}
    left = list(modules)
    while left:
        said, within, how = _child(left, seconds)
        found |= {name: words and f"cannot be imported: {words[:_LENGTH]}" for name, words in said.items()}
        if within:
            found[within] = how
        left = [name for name in left if name not in found]
        if how.startswith("was not") or not (said or within):
            break
    return found | dict.fromkeys(left, "was not tried: an import before it took too long")


def imports(requires: Sequence[str] | None = None, seconds: float = SECONDS) -> list[Line]:
    """One line on all needed packages that are installed, and a problem for each that cannot be imported.

    requires: lines as in `Requires-Dist`; None = this project's own. seconds: for all of them.
    """
    if requires is None:
        try:
            requires = metadata.requires("roleagent-lite") or []
        except metadata.PackageNotFoundError:
            return []  # `packages` tells it
    known = [r for r in map(read, requires) if r is not None and r.extra is None]
    needed = {module(r): r for r in known if _installed(r.name)}
    found = tried(list(needed), seconds)
    bad = [
        problem("import", f"{needed[name].name} {words}",
                f"pip install --force-reinstall '{needed[name].words}'")
        for name, words in found.items() if words
    ]  # fmt: skip
    good = len(needed) - len(bad)
    return [ok("imports", f"{good} of {len(needed)} needed packages can be imported"), *bad]


def not_imported() -> Line:
    """Says that nothing was imported, and how it would be."""
    return ok("imports", "not tried, for it takes some seconds", "--imports imports each needed package")


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
