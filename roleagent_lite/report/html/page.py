"""The HTML document: head, policy, sections as tabs, the places that the page's script fills.

Owns the order of the sections and the skeleton. The page asks nothing of any network: its policy lets only
its own script and style sheet through, by their hashes, and none of its data is ever parsed as HTML. Leaves
out what the sections show (success, course, means) and the file (write).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import roleagent_lite.report.html.course as course
import roleagent_lite.report.html.means as means
import roleagent_lite.report.html.success as success
import roleagent_lite.report.html.systems as systems
from roleagent_lite.report.html.episodes import MOST_BYTES, Episodes
from roleagent_lite.report.html.naming import labels
from roleagent_lite.report.html.piece import Markup, esc, join, tag
from roleagent_lite.report.write import Report

SCRIPTS = ("base.js", "tables.js", "listing.js", "steps.js", "viewer.js", "start.js")
STYLES = ("page.css", "parts.css")


@dataclass(frozen=True, slots=True)
class Section:
    """One tab: its address in the page, its title, its inside."""

    id: str
    title: str
    inside: Markup


@lru_cache(maxsize=2)
def asset(names: tuple[str, ...]) -> str:
    """The text of the package's own files, one after another."""
    room = files("roleagent_lite.report.html")
    return "\n".join((room / name).read_text(encoding="utf-8").strip() for name in names) + "\n"


def script() -> str:
    return f'"use strict";\n(() => {{\n{asset(SCRIPTS)}}})();\n'


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def policy() -> str:
    """The Content-Security-Policy: nothing is loaded, nothing sent; this page's own script and style run."""
    return (
        f"default-src 'none'; script-src '{_hash(script())}'; style-src '{_hash(asset(STYLES))}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def head(title: str) -> Markup:
    return Markup(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        f'<link rel="icon" href="data:,">\n<title>{esc(title)}</title>\n'
        f"<style>{asset(STYLES)}</style>\n</head>\n"
    )


_KEYS = (
    ("← →", "in the tabs: the section beside this one"),
    ("/", "go to the filter of the table that is shown"),
    ("?", "this help"),
    ("in an episode: j, k", "next, previous step"),
    ("in an episode: n or →, p or ←", "next, previous episode of the list as it is filtered and sorted"),
    ("Esc", "close"),
)


def _dialogs() -> Markup:
    keys = tag("dl", *(join([tag("dt", k), tag("dd", v)]) for k, v in _KEYS))
    button = tag("button", "Close", type="button", class_="close")
    return join(
        [
            tag(
                "dialog",
                tag("h2", "Keys", id="keys-title"),
                keys,
                button,
                id="keys",
                aria_labelledby="keys-title",
            ),
            tag("dialog", id="viewer", aria_labelledby="viewer-title"),
        ]
    )


def _top(report_name: str, kind: str, state: str, sections: Sequence[Section]) -> Markup:
    badge = tag("span", state, class_="tag warned") if state else ""
    buttons = tag(
        "span",
        tag("button", "Keys", type="button", id="help", aria_haspopup="dialog", hidden=True),
        tag("button", "Theme: system", type="button", id="theme", hidden=True),
        class_="buttons",
    )
    title = tag("h1", tag("span", f"{kind} ", class_="dim"), report_name, " ", badge)
    links = (tag("a", s.title, href=f"#{s.id}", id=f"tab-{s.id}") for s in sections)
    return tag(
        "header",
        tag("div", title, buttons, class_="bar"),
        tag("nav", tag("div", *links, class_="tabs"), aria_label="Sections"),
        class_="top",
    )  # fmt: skip


def _panel(section: Section) -> Markup:
    return tag(
        "section",
        tag("h2", section.title),
        section.inside,
        id=section.id,
        class_="panel",
        aria_labelledby=f"tab-{section.id}",
    )


def frame(name: str, kind: str, state: str, sections: Sequence[Section]) -> Markup:
    """The body's beginning: skip link, title, tabs, panels. Close it with `end`."""
    return Markup(
        '<body>\n<a class="skip" href="#main">Skip to the content</a>\n'
        f"{_top(name, kind, state, sections)}\n"
        f'<main id="main" tabindex="-1">\n{join(map(_panel, sections), chr(10))}\n</main>\n'
        "<footer><p>Made by roleagent-lite from the run's tables; this page loads nothing and sends nothing. "
        "The same numbers: report.md, report.json.</p></footer>\n"
    )


def end() -> str:
    return f"{_dialogs()}\n<script>{script()}</script>\n</body>\n</html>\n"


def _list_place(kind: str) -> Markup:
    """Where the script puts a long table; without it, a word on how to read the same."""
    return join(
        [
            tag("p", id=f"{kind}-words", class_="note"),
            tag("div", id=f"{kind}-list"),
            Markup("<noscript><p>This list needs the page's own script. The same in a terminal: "
                   "<code>roleagent-lite show RUN list</code>.</p></noscript>"),
        ]
    )  # fmt: skip


def sections(report: Report) -> list[Section]:
    """Every tab of a run's report; those on an evolution's course only where there is something to show."""
    suite, facts = report.standings, report.facts
    found = [
        Section("overview", "Overview", success.overview(report)),
        Section("systems", "Systems", systems.systems(suite) if suite is not None else Markup("")),
        Section("results", "Results", success.results(report)),
        Section("tasks", "Tasks", _list_place("tasks")),
        Section("episodes", "Episodes", _list_place("episodes")),
        Section("foresight", "Foresight", course.world(report)),
        Section("failures", "Failure modes", course.failures(report)),
        Section("curriculum", "Curriculum", course.curriculum(report)),
        Section(
            "candidates",
            "Candidates" if facts.rounds or facts.candidates else "Prompt",
            join([course.candidates(report), course.prompt(report)]),
        ),
        Section("cost", "Cost", means.cost(report)),
        Section("settings", "Settings", means.settings(report)),
    ]
    return [one for one in found if one.inside]


def document(report: Report, most: int = MOST_BYTES) -> Iterator[str]:
    """The page in pieces, so that it is never whole in memory; at most `most` bytes of steps are in it."""
    word = "prompt" if report.standings is None else "system"
    episodes = Episodes(report.run, labels(report), most, word)
    yield head(f"{report.name} – roleagent-lite")
    state = "" if report.facts.finished else "partial"
    yield frame(report.name, "Run", state, sections(report))
    yield from episodes.blocks()
    yield episodes.listing()
    yield end()
