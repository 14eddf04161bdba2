"""ACC-07 and its whole kind: keys as canaries. Server, environment and model echo them in every way they can;
afterwards no byte of a run, its index, reports, logs, screens, exports and copies has one; no prompt had."""

from __future__ import annotations

import base64
import gzip
import html
import io
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from roleagent_lite.memory import Memory
from tests.fake_server import Answer, FakeServer, Raw, Say, Seen
from tests.kill_runner import command
from tests.kitchen_server import config_file, serve
from tests.leaky_world import spelled

LONG = "sk-canary-0123456789abcdefghijklmnop"
SHORT = "c4n4ry"
ODD = "c\\an/ar+y%7&<odd>=#key"
WORD = "pässwört-canary🔑"


@dataclass(frozen=True)
class Case:
    """Where a key comes from. `secrets`: what must not be found; `base`: of the URL, `{url}` the server's."""

    name: str
    secrets: tuple[str, ...]
    environ: dict[str, str]
    base: str = "{url}"
    flags: tuple[str, ...] = ()
    in_file: bool = False


CASES = [
    Case(
        "environment",
        (LONG, "canary-other-token"),
        {"OPENAI_API_KEY": LONG, "OTHER_TOKEN": "canary-other-token"},
    ),
    Case(
        "named variable, odd key", (ODD,), {"MY_SERVICE_KEY": ODD}, flags=("--api-key-env", "MY_SERVICE_KEY")
    ),
    Case("short key", (SHORT,), {"OPENAI_API_KEY": SHORT}),
    Case(
        "password in the URL", (WORD,), {"LEAKED": WORD}, f"{{scheme}}me:{quote(WORD, safe='')}@{{host}}/v1"
    ),
    Case(
        "query of a URL in the settings",
        ("canary-in-query",),
        {"LEAKED": "canary-in-query"},
        "{url}/v1?api_key=canary-in-query",
        in_file=True,
    ),
]


QUICK = ("environment",)  # the others take as long again, each


def forms(key: str) -> list[bytes]:
    """What to look for: the key and all that stands for the whole of it."""
    dumped = json.dumps(key)[1:-1]
    escaped = f"{key[:2]}\\u{ord(key[2]):04x}"
    texts = {key, dumped, json.dumps(dumped)[1:-1], quote(key, safe=""), quote(key), html.escape(key)}
    texts |= {repr(key)[1:-1], key.encode().decode("latin-1"), escaped + key[3:]}
    texts |= {escaped + json.dumps(key[3:])[1:-1]}
    for user in ("", "m:", "me:", "use:", "user:"):
        texts.add(base64.b64encode(f"{user}{key}".encode()).decode().rstrip("=")[4:-2])
    return [t.encode() for t in texts if len(t) >= 5]


def opened(path: Path) -> Iterator[tuple[str, bytes]]:
    """The bytes of a file, and what is packed in them."""
    data = path.read_bytes()
    yield path.name, data
    if path.suffix == ".zip":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield f"{path.name}/{name}", archive.read(name)
                if name.endswith(".html"):
                    yield from unpacked(name, archive.read(name))
    if path.suffix == ".html":
        yield from unpacked(path.name, data)


def unpacked(name: str, page: bytes) -> Iterator[tuple[str, bytes]]:
    for block in re.findall(rb"H4sI[A-Za-z0-9+/=]+", page):
        yield f"{name} (packed)", gzip.decompress(base64.b64decode(block))


def search(folder: Path, secrets: tuple[str, ...]) -> list[str]:
    """Where a secret stands: `file: form`."""
    wanted = [form for key in secrets for form in forms(key)]
    return [
        f"{name}: {form!r}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for name, data in opened(path)
        for form in wanted
        if form in data
    ]


class Echo:
    """The scripted kitchen's provider, which repeats what it was sent in errors, replies and thinking."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self.secrets = secrets

    def __call__(self, seen: Seen) -> Answer:
        told = f"{json.dumps(dict(seen.headers))} {seen.path} " + " ".join(
            spelled(key, seen.number + i) for i, key in enumerate(self.secrets)
        )
        if seen.number % 9 == 4:
            return Raw(
                500, {"error": {"message": f"broken: {told}", "code": self.secrets[0]}}, {"x-echo": "1"}
            )
        if seen.number % 9 == 7:
            return Raw(503, f"<html>{html.escape(told)}</html>", {"Retry-After": "0"}, "text/html")
        said = serve(seen)
        assert isinstance(said, Say) and said.text is not None
        values: dict[str, Any] = json.loads(said.text)
        for name, value in values.items():
            if isinstance(value, str) and name not in ("action", "mode"):
                values[name] = f"{value} {told}"
        text = json.dumps(values, ensure_ascii=bool(seen.number % 2))
        if seen.number % 3 == 0:
            text = f"<think>{told}</think>{text}"
        more = {"reasoning_content": told} if seen.number % 3 == 1 else {}
        return replace(said, text=text, message=more)


def world(folder: Path) -> None:
    file = folder / "kitchen.jsonl"
    file.write_text(file.read_text().replace("tests.scripted_world:Kitchen", "tests.leaky_world:Leaky"))


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.name, marks=() if c.name in QUICK else pytest.mark.slow) for c in CASES],
)
def test_acc_07_no_key_is_anywhere(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("state", "tmp", "cache"):
        (tmp_path / name).mkdir()
    environ = {
        **case.environ,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TMPDIR": str(tmp_path / "tmp"),
        "LITELLM_LOG": "DEBUG",
        "PYTHONASYNCIODEBUG": "0",
    }
    with FakeServer(Echo(case.secrets)) as fake:
        url = case.base.format(url=fake.url, scheme="http://", host=fake.url.removeprefix("http://"))
        config_file(tmp_path, {"aiw": {"retrieve": "llm"}, "limits": {"retries": 4}})
        world(tmp_path)
        settings = tmp_path / "kitchen.toml"
        if case.in_file:
            settings.write_text(settings.read_text().replace("# base_url = (not set)", f'base_url = "{url}"'))
        where = () if case.in_file else ("--base-url", url)
        own = settings.read_bytes()
        first = ("--debug", "evolve", "--config", "kitchen.toml", "--model", "fake", "--run", "mine")
        code, _, err = command(*first, *where, *case.flags, cwd=tmp_path, **environ)
        assert code == 5, err  # the spoon's episodes broke
        again = ("--debug", "eval", "mine", "--run", "again", "--limit", "5", *case.flags)
        if url != fake.url:  # the run's settings keep the URL without its secret
            code, _, err = command(*again, cwd=tmp_path, **environ)
            assert code == 2 and "without its password or key" in err, err
        code, _, err = command(*again, "--base-url", url, cwd=tmp_path, **environ)
        assert code in (0, 5), err
        sent = [json.dumps(seen.body, ensure_ascii=False).encode() for seen in fake.requests]
        assert all("authorization" in seen.headers or "api_key=" in seen.path for seen in fake.requests)
        for words in (
            ("show", "mine"),
            ("show", "mine", "list"),
            ("export", "mine"),
            ("export", "mine", "--format", "json", "--out", "p.json"),
            ("share", "mine"),
            ("share", "mine", "--to", "copy"),
            ("runs", "--json"),
        ):
            code, _, err = command("--debug", *words, cwd=tmp_path, **environ)
            assert code == 0, err
    if not case.in_file:  # else no command knows of the key that reads no settings
        wrong = ("--debug", "evolve", "--tasks", f"no-such-{case.secrets[0]}", "--model", "fake", *where)
        assert command(*wrong, cwd=tmp_path, **environ)[0] == 2
    settings.unlink()
    assert own, "the settings file is the user's own, and holds what he wrote"
    assert search(tmp_path, case.secrets) == []
    prompts = [form for key in case.secrets for form in forms(key) for body in sent if form in body]
    assert prompts == [], "no prompt holds a key, though the environment shows it"
    memory = Memory(tmp_path / "runs" / "mine" / "memory")
    rows = [item for table in memory.tables() for item in memory.all(table)]
    assert rows and not any(form in repr(rows).encode() for key in case.secrets for form in forms(key))
    text = (tmp_path / "runs" / "mine" / "trajectories.jsonl").read_text(encoding="utf-8")
    assert "The wall reads: [key]" in text or "[key]" in text, "it was there to be found"


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    """The reader is no fool: each spelling, also packed, is found."""
    for number in range(11):
        for key in (LONG, ODD, WORD):
            folder = tmp_path / f"{number}{len(key)}"
            folder.mkdir()
            page = (
                b'<script id="c0">'
                + base64.b64encode(gzip.compress(spelled(key, number).encode()))
                + b"</script>"
            )
            (folder / "report.html").write_bytes(page)
            with zipfile.ZipFile(folder / "x.zip", "w") as archive:
                archive.writestr("report.html", page)
            found = search(folder, (key,))
            assert {f.partition(":")[0] for f in found} == {"report.html (packed)"}, (number, key)
