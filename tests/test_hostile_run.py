"""A run directory from an enemy: shown, reported, exported and shared, it runs nothing, loads nothing, writes
nothing outside and steers no terminal. Told by a twin in plain words: documents have the same elements."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.report.write import write_report
from roleagent_lite.store import TABLES, Run
from tests.cli.conftest import Inside, inside, untouched
from tests.cli.make import clear
from tests.hostile_run import EVIL, IDS, build, evil, harmless

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
__all__ = ["inside", "untouched"]  # fixtures


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile") / "runs"
    for name, words in (("evil", evil), ("plain", harmless)):
        write_report(build(root / name, words))
    return root


def elements(markdown: str) -> Counter[str]:
    """What a Markdown reader that lets HTML through and makes links of addresses in brackets finds."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    found: Counter[str] = Counter()
    for token in parser.parse(markdown):
        found[token.type] += 1
        for child in token.children or ():
            if child.type == "image":
                found[f"image {child.attrs['src']}"] += 1
            elif child.type not in ("text", "softbreak", "code_inline"):
                found[child.type] += 1
    return found


def test_markdown(runs: Path) -> None:
    texts = [(runs / name / "report.md").read_text(encoding="utf-8") for name in ("evil", "plain")]
    mine, plain = map(elements, texts)
    assert not {k for k in mine if k.startswith(("html", "link", "image http", "image x"))}
    # Failure modes differ in number only if texts are told apart by what is cut off; all else is one to one.
    assert mine == plain
    assert "alert(1)" in texts[0] and not CONTROLS.search(texts[0])


def test_markdown_reader_is_no_fool() -> None:
    found = elements(EVIL.replace("\x1b", ""))
    assert found["html_block"] or found["html_inline"], "unescaped, the same text does become elements"
    assert elements("![pixel](http://evil.example/p.png) [click](x)")["image http://evil.example/p.png"] == 1


@pytest.mark.parametrize("name", ["success.svg", "curriculum.svg", "foresight.svg"])
def test_plots(name: str, runs: Path) -> None:
    mine, plain = (ET.parse(runs / run / name) for run in ("evil", "plain"))
    assert Counter(e.tag for e in mine.iter()) == Counter(e.tag for e in plain.iter())
    names = {attribute for e in mine.iter() for attribute in e.attrib}
    assert names == {attribute for e in plain.iter() for attribute in e.attrib}
    assert not any(a.startswith("on") or "href" in a for a in names)
    assert not CONTROLS.search((runs / "evil" / name).read_text(encoding="utf-8"))


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: Counter[str] = Counter()
        self.code: list[str] = []
        self.values: list[tuple[str, str]] = []
        self._in = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found[tag] += 1
        self.values += [(name, value or "") for name, value in attributes]
        data = tag == "script" and dict(attributes).get("type") == "application/octet-stream"
        self.found["script data"] += data
        self._in = "" if data else tag

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in in ("script", "style"):
            self.code.append(data)


def page(run: Path) -> Elements:
    from roleagent_lite.report.html.write import write_html

    parser = Elements()
    parser.feed(write_html(run).read_text(encoding="utf-8"))
    parser.close()
    return parser


@pytest.mark.skipif(
    importlib.util.find_spec("roleagent_lite.report.html") is None, reason="the HTML report is not built yet"
)
def test_html(runs: Path) -> None:
    mine, plain = page(runs / "evil"), page(runs / "plain")
    assert mine.code == plain.code and mine.code, "scripts and styles are the page's own, to the letter"
    assert (
        mine.found["script"] - mine.found["script data"] == plain.found["script"] - plain.found["script data"]
    )
    assert set(mine.found) <= set(plain.found), "no element comes from a text"
    assert mine.found["img"] == plain.found["img"]
    names = {name for name, _ in mine.values}
    assert not any(name.startswith("on") for name in names), names
    assert names <= {name for name, _ in plain.values} | {"title"}
    for name, value in mine.values:
        if name in ("href", "src", "action", "formaction", "srcset", "data", "poster", "xlink:href"):
            assert value.startswith(("#", "data:")), (name, value[:80])
    own = "".join(mine.code)
    assert own == "".join(plain.code) or "alert(1)" not in re.sub(r"\\u003[ce]", "", own).replace(
        "script", ""
    )


def test_the_screen_shows_what_could_steer_it(runs: Path, inside: Inside) -> None:
    with Run.open(runs / "evil") as run:
        ids = run.trajectories.keys()
    root = ("--runs", str(runs))
    for words in (
        ("runs",),
        ("show", "evil"),
        ("show", "evil", "list"),
        *(("show", "evil", i, "--full") for i in ids[:3]),
    ):
        for more in ((), ("--json",)):
            done = inside(*words, *root, *more)
            assert done.returncode == 0, done.stderr
            assert not CONTROLS.search(done.stdout), (words, more)
            assert "alert(1)" in done.stdout or words == ("runs",)
            if more:
                json.loads(done.stdout)
    wrong = inside("show", "evil", "nothing \x1b]0;x\x07", *root)
    clear(wrong, 2, "has no trajectory")
    assert not CONTROLS.search(wrong.stderr)


def test_reading_changes_nothing_and_imports_nothing(runs: Path, inside: Inside, tmp_path: Path) -> None:
    before = {p: (p.lstat().st_mtime_ns, p.read_bytes()) for p in runs.rglob("*") if p.is_file()}
    modules = {m for m in sys.modules if not m.startswith(("roleagent_lite", "encodings"))}
    root = ("--runs", str(runs))
    for words in (("runs",), ("show", "evil"), ("export", "evil"), ("share", "evil", "--to", "out")):
        inside(*words, *root)
    assert {p: (p.lstat().st_mtime_ns, p.read_bytes()) for p in runs.rglob("*") if p.is_file()} == before
    assert not [m for m in set(sys.modules) - modules if m in ("os.system", "evil", "x")]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


def test_a_shared_copy_keeps_odd_ids_as_names_only(runs: Path, tmp_path: Path) -> None:
    from roleagent_lite.report.share import share

    share(runs / "evil", tmp_path / "copy")
    assert {p.name for p in tmp_path.iterdir()} == {"copy"}
    allowed = {f"{t}.jsonl" for t in TABLES} | {"config.toml", "report.md", "report.json", "report.html"}
    assert {p.name for p in (tmp_path / "copy").iterdir()} - allowed <= {
        "success.svg",
        "curriculum.svg",
        "foresight.svg",
    }


# --- links, pipes, damage ------------------------------------------------------------------------------

FILES = ("calls.jsonl", "config.toml", "report.md.part", "config.toml.part", "log.txt", "memory", "anything")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["link", "dangling", "folder link", "pipe"])
def test_a_link_or_a_pipe_in_a_run_is_neither_read_nor_written(
    name: str, kind: str, tmp_path: Path, inside: Inside
) -> None:
    run = build(tmp_path / "runs" / "evil", harmless)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text('{"v":1,"key":"k","row":{}}\n')
    (run / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to(outside / {"link": "file", "dangling": "new", "folder link": ""}[kind])
    for words in (("show", "evil"), ("share", "evil"), ("export", "evil")):
        done = inside(*words)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    with pytest.raises(ConfigError):
        write_report(run)
    with pytest.raises(ConfigError), Run.create(run, Run.open(run).config if name != "config.toml" else None):  # type: ignore[arg-type]
        pass
    assert [p.name for p in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == '{"v":1,"key":"k","row":{}}\n'


LINES = {
    "not JSON": b"<script>\n",
    "deep": b"[" * 100_000 + b"\n",
    "deep inside": b'{"v":1,"key":"k","row":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n",
    "infinite": b'{"v":1,"key":"k","row":{"id":"i","task":"t","score":1e999}}\n',
    "no number": b'{"v":1,"key":"k","row":{"score":NaN}}\n',
    "key of another kind": b'{"v":1,"key":["k"],"row":{}}\n',
    "no bytes of text": b'{"v":1,"key":"\xff","row":{}}\n',
    "another schema": b'{"v":99,"key":"k","row":{}}\n',
    "many digits": b'{"v":1,"key":"k","row":{"round":' + b"9" * 5000 + b"}}\n",
    "empty": b"\n",
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("table", ["trajectories", "events", "calls", "tasks"])
def test_odd_records_are_named(name: str, table: str, tmp_path: Path) -> None:
    run = build(tmp_path / "run", harmless)
    with (run / f"{table}.jsonl").open("ab") as file:
        file.write(LINES[name])
    with pytest.raises(RoleAgentError) as caught:
        write_report(run)
    assert f"{table}.jsonl" in str(caught.value) and len(str(caught.value)) < 2000


def test_odd_ids_are_there_and_found_again(runs: Path) -> None:
    with Run.open(runs / "evil") as run:
        ids = [t.id for t in run.tasks]
        assert all(any(i in found for found in ids) for i in IDS[:4])
        assert all(run.tasks.get(i) is not None for i in ids)
