"""Checks of the machine: Python, text encoding, clock, cores, memory, open files, GPU, Java.

Owns what is read from the system and which amounts are too little. Leaves out packages (packages.py), disks
and directories (places.py). Nothing heavy is imported: torch is read about, not loaded.
"""

from __future__ import annotations

import importlib.util
import locale
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import roleagent_lite
from roleagent_lite.doctor.line import Line, ok, problem, warning

MIN_PYTHON = (3, 11)
LOW_MEMORY = 1 << 30  # bytes; the embedded model and LanceDB want about this much
MIN_FILES = 1024  # open files; a connection each for some hundred workers
_DAY = 86_400.0
_SECONDS = 5.0  # for a program that only has to say its version
_QUERY = ["--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader,nounits"]

Find = Callable[[str], str | None]


def python(version: Sequence[int] = sys.version_info[:3]) -> Line:
    shown = ".".join(map(str, version))
    if tuple(version[:2]) < MIN_PYTHON:
        return problem("python", f"{shown}, but 3.11 or newer is needed", "install Python 3.11 or newer")
    return ok("python", f"{shown} at {sys.executable}")


def encoding(names: Sequence[str] | None = None) -> Line:
    """Names of the encodings of file names, files and the screen."""
    if names is None:
        screen = getattr(sys.stdout, "encoding", None) or "none"
        names = (sys.getfilesystemencoding(), locale.getpreferredencoding(False), screen)
    shown = "file names {}, files {}, screen {}".format(*names)
    if all(re.sub(r"[^a-z0-9]", "", name.lower()) in ("utf8", "none") for name in names):
        return ok("encoding", shown)
    return warning(
        "encoding", f"{shown}: not all UTF-8", "set PYTHONUTF8=1 or LC_ALL=C.UTF-8, else some text is escaped"
    )


def clock(now: float | None = None, installed: float | None = None) -> Line:
    """Whether the clock is not behind the moment at which this package was written to disk."""
    now = time.time() if now is None else now
    if installed is None:
        installed = Path(roleagent_lite.__file__).stat().st_mtime
    shown = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now))
    if now < installed - _DAY:
        return warning(
            "clock",
            f"{shown}, which is before this package was installed",
            "set the clock: certificates and Retry-After dates are judged by it",
        )
    return ok("clock", shown)


def _number(path: Path) -> int | None:
    """The first whole number in a file; None where there is no file or it says `max`."""
    try:
        words = path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return None
    return int(words[0]) if words and words[0].lstrip("-").isdigit() else None


def _quota(root: Path) -> float | None:
    """Cores that the control group grants, None = all."""
    cgroup = root / "sys/fs/cgroup"
    try:
        words = (cgroup / "cpu.max").read_text(encoding="ascii").split()
    except OSError:
        words = []
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
        return int(words[0]) / int(words[1])
    quota, period = (_number(cgroup / "cpu" / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    return quota / period if quota and period and quota > 0 else None


def cores(root: Path = Path("/"), count: int | None = None) -> Line:
    if count is None:
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(root)
    limit = f", of which the control group grants {quota:g}" if quota is not None and quota < count else ""
    if quota is not None and quota < 1:
        return warning("cores", f"{count}{limit}", "grant one core or more: deadlines of calls may be missed")
    return ok("cores", f"{count}{limit}")


def _free(root: Path) -> tuple[int | None, bool]:
    """Bytes of memory that can still be had, and whether a control group is what limits them."""
    try:
        text = (root / "proc/meminfo").read_text(encoding="ascii")
    except OSError:
        text = ""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    free = int(found[1]) * 1024 if found else None
    cgroup = root / "sys/fs/cgroup"
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most, now = _number(cgroup / limit), _number(cgroup / used)
        if most is not None and now is not None and (free is None or most - now < free):
            return max(0, most - now), True
    return free, False


def memory(root: Path = Path("/")) -> Line:
    free, grouped = _free(root)
    if free is None:
        return ok("memory", "how much is free is not known on this system")
    shown = f"{free / 1e9:.1f} GB free" + (" (limit of the control group)" if grouped else "")
    if free < LOW_MEMORY:
        return warning(
            "memory", shown, "use a model on a server, fewer --workers, or a machine with 2 GB or more"
        )
    return ok("memory", shown)


def open_files(soft: int | None = None) -> Line:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if soft is None else soft
    if soft == resource.RLIM_INFINITY or soft >= MIN_FILES:
        return ok("open files", "no limit" if soft == resource.RLIM_INFINITY else f"{soft} allowed")
    return warning("open files", f"{soft} allowed", f"ulimit -n 4096, or keep --workers under {soft // 4}")


def _said(command: Sequence[str]) -> tuple[int, str]:
    """Exit code and all that a program said; -1 where it cannot run or takes too long."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, f"{type(error).__name__}: {error}"
    return done.returncode, (done.stdout + done.stderr).strip()


def torch_build() -> tuple[str, str | None] | None:
    """Version and CUDA version of an installed torch, read from its files; None where there is none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        text = (Path(next(iter(spec.submodule_search_locations))) / "version.py").read_text(encoding="utf-8")
    except OSError:
        return "unknown", None
    version = re.search(r"__version__\s*=\s*'([^']+)'", text)
    cuda = re.search(r"^cuda\b[^=\n]*=\s*'([^']+)'", text, re.MULTILINE)
    return version[1] if version else "unknown", cuda[1] if cuda else None


def gpu(
    find: Find = shutil.which, torch: Callable[[], tuple[str, str | None] | None] = torch_build
) -> list[Line]:
    """A line for each GPU, and one where torch could not use it. No GPU is no fault."""
    program, build = find("nvidia-smi"), torch()
    about = f"torch {build[0]}, {f'CUDA {build[1]}' if build[1] else 'CPU only'}" if build else "no torch"
    if program is None:
        return [ok("gpu", f"none (no nvidia-smi here; {about}): models run on the CPU or on a server")]
    code, text = _said([program, *_QUERY])
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    good = [row for row in rows if len(row) == 4]
    if code != 0 or not good:
        first = text.splitlines()[0][:200] if text else "it says nothing"
        return [warning("gpu", f"nvidia-smi fails: {first}", "repair the NVIDIA driver, or do without a GPU")]
    lines = [
        ok("gpu", f"{name}, {free} of {total} MiB free, driver {driver}; {about}")
        for name, total, free, driver in good
    ]
    if build is not None and build[1] is None:
        lines.append(
            warning("gpu", f"torch {build[0]} is built without CUDA", "install torch for CUDA to use the GPU")
        )
    return lines


def java(find: Find = shutil.which) -> Line:
    program = find("java")
    if program is None:
        return ok("java", "none; nothing here needs it, but some environments of others do (ScienceWorld)")
    code, text = _said([program, "-version"])
    first = text.splitlines()[0][:120] if text else "it says nothing"
    if code != 0:
        return warning("java", f"{program} fails: {first}", "repair Java, or set JAVA_HOME and PATH")
    return ok("java", first)
