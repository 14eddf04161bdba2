"""share: a copy of a run that names no key, machine or person, made without following a link."""

from __future__ import annotations

import base64
import gzip
import json
import re
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from roleagent_lite import redact
from roleagent_lite.config import from_mapping
from roleagent_lite.errors import ConfigError
from roleagent_lite.report import share
from roleagent_lite.report.share import LEFT
from roleagent_lite.report.write import write_report
from roleagent_lite.store import TABLES, Run
from roleagent_lite.types import Call, Message, Reply, Request
from tests.report.make import BROKEN, SEED, episode, play, task, whole_run

KEY = "canary-key-0123456789"
SECRETS = (KEY, "zoe", "gpu-host-7", "/home/zoe", "10.1.2.3", "bigbox")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_secrets", set())
    monkeypatch.setattr("getpass.getuser", lambda: "zoe")
    monkeypatch.setattr("platform.node", lambda: "gpu-host-7")
    monkeypatch.setenv("HOME", "/home/zoe")


def full(path: Path) -> Path:
    """A run with something to hide in every table."""
    config = from_mapping(
        {
            "model": "m@http://10.1.2.3:8000/v1",
            "tasks": "/home/zoe/sets/t.jsonl",
            "limits": {"base_url": "http://bigbox/v1"},
        }
    )
    run = whole_run(path, config=config)
    error = 'Traceback\n  File "/home/zoe/env/world.py", line 1\nOSError: gpu-host-7 is down, asked by bob'
    bad = replace(task(77), goal="Mail zoe at /home/bob/inbox/x about it.")
    play(run, episode(bad, SEED, BROKEN, error=error), tasks=[bad])
    request = Request(
        "agent", "act", (Message("user", "hello from zoe, SECRETWORD"),), choices=("a",), stop=("b",)
    )
    run.calls.put(
        Call(
            "c77",
            "m",
            "http://10.1.2.3:8000/v1",
            request,
            Reply("I am on gpu-host-7, SECRETWORD", reasoning="zoe?"),
        )
    )
    run.record("note/zoe", "note", {"text": "http://bigbox/v1: no seed", "/home/zoe/x": [1, "gpu-host-7"]})
    run.close()
    redact.register(KEY)
    with (path / "log.txt").open("w") as log:
        log.write(f"zoe {KEY}")
    (path / "memory").mkdir()
    (path / "memory" / "x.bin").write_bytes(KEY.encode())
    (path / "notes.md").write_text("my own")
    write_report(path)
    return path


def read(text: str) -> str:
    """A text with the packed parts of a page unpacked: three letters may stand in base64 by chance."""

    def plain(found: re.Match[str]) -> str:
        return gzip.decompress(base64.b64decode(found[1])).decode("utf-8")

    return re.sub(r"(?<=>)(H4sI[A-Za-z0-9+/=]+)(?=</script>)", plain, text)


def texts(folder: Path) -> str:
    return read(_texts(folder))


def _texts(folder: Path) -> str:
    return "\n".join(
        str(p.relative_to(folder)) + p.read_text(encoding="utf-8")
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    )


def test_nothing_of_the_machine_is_in_the_copy(tmp_path: Path) -> None:
    source, target = full(tmp_path / "mine"), tmp_path / "copy"
    before = {p: p.read_bytes() for p in source.rglob("*") if p.is_file()}
    shared = share.share(source, target)
    assert shared.path == target
    found = texts(target)
    for secret in (*SECRETS, str(tmp_path)):
        assert secret not in found, secret
    assert "[path1]/t.jsonl" in found and "[user]" in found and "bob" not in found
    assert {p: p.read_bytes() for p in source.rglob("*") if p.is_file()} == before, "the run is only read"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy", "mine"], "no folder is left behind"
    assert {"report.md", "report.json", "report.html"} <= {p.name for p in target.iterdir()}
    assert {"log.txt", "memory", "lock", "notes.md"}.isdisjoint(p.name for p in target.iterdir())
    words = "\n".join(shared.left_out)
    assert (
        "log.txt: may hold" in words and "memory: a search index" in words and "notes.md: not a part" in words
    )


def test_the_copy_is_a_run_with_the_same_records_and_report(tmp_path: Path) -> None:
    source, target = full(tmp_path / "mine"), tmp_path / "mine-copy"
    share.share(source, target)
    with Run.open(source) as old, Run.open(target) as new:
        for name in TABLES:
            assert len(getattr(old, name)) == len(getattr(new, name)), name
        assert new.status == "finished"
        assert new.config.limits.base_url == "http://server1/v1" or "server" in str(
            new.config.limits.base_url
        )
    old_report, new_report = (json.loads((p / "report.json").read_text()) for p in (source, target))
    for key in ("systems", "outcomes", "moves", "sealed", "seed", "final", "fidelity"):
        assert old_report[key] == new_report[key], key


def test_without_prompts(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    shared = share.share(full(tmp_path / "mine"), target, prompts=False)
    found = texts(target)
    assert "SECRETWORD" not in found and "Open it first." not in (target / "prompt_sets.jsonl").read_text()
    assert "You see a box." in found, "observations stay"
    assert any("texts of prompts" in words for words in shared.left_out)
    assert not any("calls.jsonl" in words for words in shared.to_read)


def test_without_observations(tmp_path: Path) -> None:
    source, target = full(tmp_path / "mine"), tmp_path / "copy"
    shared = share.share(source, target, observations=False)
    found = texts(target)
    for text in ("You see a box.", "The box is open.", "SECRETWORD", "went round", "s-look", "world.py"):
        assert text not in found, text
    assert "open box" in (target / "trajectories.jsonl").read_text(), "actions stay"
    old, new = (json.loads((p / "report.json").read_text()) for p in (source, target))
    assert old["fidelity"] == new["fidelity"] and old["systems"] == new["systems"], (
        "counted before the texts went"
    )
    with Run.open(target) as run:
        states = [s.state_key for t in run.trajectories for s in t.steps]
        assert len(set(states)) > 1 and all(s and len(s) == 16 for s in states)
        assert all(s.observation == LEFT for t in run.trajectories for s in t.steps)
    assert any("actions and numbers remain" in words for words in shared.left_out)
    assert not (target / "report.html").exists()


def test_a_zip_file(tmp_path: Path) -> None:
    share.share(full(tmp_path / "mine"), tmp_path / "zoe-run.zip")
    with zipfile.ZipFile(tmp_path / "zoe-run.zip") as archive:
        assert archive.testzip() is None
        for entry in archive.infolist():
            assert entry.filename.startswith("user-run/") and ".." not in entry.filename
            assert entry.date_time == (1980, 1, 1, 0, 0, 0), "no time, no owner"
            assert not stat.S_ISLNK(entry.external_attr >> 16)
        whole = b"".join(archive.read(e) for e in archive.infolist())
    found = read(whole.decode("utf-8"))
    for secret in SECRETS:
        assert secret not in found, secret
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "zoe-run.zip"]


@pytest.mark.parametrize("name", ["there", "link", "there.zip"])
def test_nothing_is_overwritten(name: str, tmp_path: Path) -> None:
    source = full(tmp_path / "mine")
    (tmp_path / "there").mkdir()
    (tmp_path / "there.zip").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="is there already"):
        share.share(source, tmp_path / name)
    assert not (tmp_path / "nowhere").exists()


def test_not_into_the_run_itself(tmp_path: Path) -> None:
    source = full(tmp_path / "mine")
    with pytest.raises(ConfigError, match="inside the run"):
        share.share(source, source / "copy")


def test_a_run_with_a_link_is_not_read(tmp_path: Path) -> None:
    source = full(tmp_path / "mine")
    (tmp_path / "secret").write_text("private")
    (source / "report.html").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match=r"holds report.html, which is a link"):
        share.share(source, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_no_run_no_copy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run at"):
        share.share(tmp_path / "none", tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []
