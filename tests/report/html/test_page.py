"""The document: one file, a policy that names its own script and style, sections in order, no address."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from roleagent_lite.report.html import page
from roleagent_lite.report.write import build
from roleagent_lite.types import PromptSet
from tests.report import make
from tests.report.html.test_episodes import HOSTILE
from tests.report.html.test_piece import Reader


def text_of(path: Path) -> str:
    from roleagent_lite.store import Run

    with Run.open(path) as run:
        return "".join(page.document(build(run)))


@pytest.fixture
def whole(tmp_path: Path) -> str:
    make.whole_run(tmp_path / "r").close()
    return text_of(tmp_path / "r")


def test_sections_stand_in_order_each_with_its_tab(whole: str) -> None:
    ids = [
        "overview",
        "results",
        "tasks",
        "episodes",
        "foresight",
        "failures",
        "curriculum",
        "candidates",
        "cost",
        "settings",
    ]
    assert re.findall(r'<section id="(\w+)" class="panel"', whole) == ids
    assert re.findall(r'<a href="#(\w+)" id="tab-', whole) == ids
    assert whole.startswith("<!doctype html>\n<html lang=") and whole.endswith("</html>\n")


def test_the_policy_lets_only_this_script_and_this_style_through(whole: str) -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', whole)
    for name, rule in (("script", "script-src"), ("style", "style-src")):
        (body,) = re.findall(rf"<{name}>(.*?)</{name}>", whole, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';") and "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy and "http" not in policy


def test_nothing_in_the_page_points_outside(whole: str) -> None:
    seen = Reader(whole)
    assert not {"img", "iframe", "object", "embed", "form", "base"} & set(seen.tags)
    assert seen.tags.count("link") == 1 and 'href="data:,"' in whole
    for address in re.findall(r'(?:href|src|action)="([^"]*)"', whole):
        assert address.startswith(("#", "data:,")), address
    assert "style=" not in whole.split("</style>")[1].split("<script")[0]
    assert not re.findall(r"""\son\w+\s*=\s*["']""", whole.split("</style>")[1].split("<script>")[0])


def test_the_script_parses_no_text_as_html_and_talks_to_nobody() -> None:
    script = page.script()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "Function(",
        "fetch(",
        "XMLHttp",
        "WebSocket",
        "import(",
    ):
        assert word not in script, word
    assert "</script" not in script and "<!--" not in script


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to read the script's grammar")
def test_the_script_is_valid_javascript(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text(page.script(), encoding="utf-8")
    done = subprocess.run(
        ["node", "--check", str(tmp_path / "page.js")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_numbers_of_the_markdown_report_are_in_the_page(whole: str) -> None:
    assert "On the 12 sealed test tasks that both played" in whole
    assert "3 of 12" in whole and "9 of 12" in whole and "navigation_loop" in whole
    assert "+ - Open it first." in whole.replace("+- Open", "+ - Open"), "the prompt's difference"


def test_hostile_texts_make_no_element(tmp_path: Path) -> None:
    make.whole_run(tmp_path / "plain").close()
    with make.whole_run(tmp_path / "odd", finished=False) as run:
        odd = replace(make.task(77, "test"), id=HOSTILE, goal=HOSTILE, params={"type": HOSTILE})
        made = make.episode(odd, PromptSet(HOSTILE, {}), make.BROKEN, error=HOSTILE)
        make.play(run, made, tasks=[odd])
        run.record(
            "candidate/9/x",
            "candidate",
            {"round": 9, "parent": HOSTILE, "child": HOSTILE, "reason": HOSTILE, "component": HOSTILE},
        )
        run.record("note/x", "note", {"text": HOSTILE})
        run.record("round/9", "round", {"round": 9, "drawn": [HOSTILE], "p": {HOSTILE: 0.9, "b": 0.1}})
        run.record("session/9", "session", {"stopped": HOSTILE})
    plain, odd_text = Reader(text_of(tmp_path / "plain")), Reader(text_of(tmp_path / "odd"))
    assert odd_text.tags.count("script") == plain.tags.count("script") == 3
    assert not any(v and v.startswith("alert") for v in odd_text.values)
    assert "</script><!--<script>alert(1)</script>" in odd_text.words, "it is shown as text"
    assert "\u202e" not in odd_text.words and "\u2028" not in odd_text.words


def test_res_04_a_partial_run_says_so(tmp_path: Path) -> None:
    make.whole_run(tmp_path / "r", finished=False).close()
    text = text_of(tmp_path / "r")
    assert '<span class="tag warned">partial</span>' in text and "Partial: this run is not finished." in text


def test_a_name_of_a_run_is_text_too(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "<b>r&amp;") as run:
        text = "".join(page.document(build(run)))
    assert "<title>&lt;b&gt;r&amp;amp; – roleagent-lite</title>" in text and "<b>r" not in text
