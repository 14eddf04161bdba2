"""The page in a real Chromium: it opens, asks nothing of any network, is read by mouse and by keyboard."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from roleagent_lite.evals.compare import compare
from roleagent_lite.report.html import episodes
from roleagent_lite.report.html.comparison import write_comparison
from roleagent_lite.report.html.page import document
from roleagent_lite.report.html.write import save, write_html
from roleagent_lite.report.write import build
from roleagent_lite.types import Step
from tests.browser import Browser, Page, find
from tests.report import make
from tests.report.test_systems import evaluated, won

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        find() is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
    ),
]
HOSTILE = "<script>window.ran = 1</script><img src=x onerror='window.ran = 2'>\u202e</div>"
LONG_ID = "9/child000/test4#0"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find()
    assert program is not None
    with Browser(program, tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with hostile texts in its goals, observations and failure modes."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    with make.whole_run(path) as run:
        odd = replace(make.task(50, "train"), goal=HOSTILE, params={"type": "odd"})
        step = Step(
            HOSTILE, HOSTILE, "The door is now open wide.", 1.0, None, (HOSTILE, "look"), HOSTILE,
            ("The door is still shut.", "Nothing."), "I say " + HOSTILE, False,
        )  # fmt: skip
        second = Step(
            "The door is now open wide.", "go in", "You are inside.", predictions=("You are inside.",)
        )
        played = [make.episode(odd, make.SEED, make.LOST, rollout=r, steps=[step, second]) for r in range(2)]
        make.play(run, *played, tasks=[odd])
        make.credit(run, played)
    return write_html(path)


@pytest.fixture
def page(browser: Browser, whole: Path) -> Iterator[Page]:
    """The whole run's page, new; at the end it must have said nothing and asked for nothing but itself."""
    tab = browser.page()
    tab.size(1280)
    tab.prefers("light")
    tab.open(whole.as_uri())
    yield tab
    assert tab.said == []
    assert [r for r in tab.requests if not r.startswith(("data:", whole.as_uri()))] == []
    assert tab.js("window.ran") is None, "a text of the run was run"


def opened(page: Page, id: str) -> None:
    """Go to an episode by its address."""
    page.js(f"location.hash = '#t={quote(id, safe='')}'")
    page.wait(f"(v => v.open && v.textContent.includes({json.dumps(id)}))(document.getElementById('viewer'))")


def test_it_opens_on_the_overview(page: Page) -> None:
    assert page.text("title") == "whole – roleagent-lite"
    assert page.texts("main h2") == ["Overview"]
    assert "On the 12 sealed test tasks that both played" in page.text("#overview .headline")
    assert page.js("document.querySelectorAll('#overview figure svg').length") >= 1


def test_nothing_can_leave_even_if_asked(page: Page) -> None:
    """The policy holds in this browser: request, image, style and markup made by hand are refused."""
    code = """(async () => {
      const refused = [];
      document.addEventListener("securitypolicyviolation", (e) => refused.push(e.effectiveDirective));
      await fetch("https://example.invalid/x").catch(() => 0);
      const image = new Image(); image.src = "https://example.invalid/y.png"; document.body.append(image);
      const style = document.createElement("style");
      style.textContent = "body{color:red}";
      document.body.append(style);
      try { document.body.innerHTML += "<b>x</b>"; refused.push("not refused"); }
      catch { refused.push("trusted-types"); }
      await new Promise((done) => setTimeout(done, 200));
      image.remove(); style.remove();
      return refused;
    })()"""
    refused = page.js(code)
    assert {"connect-src", "img-src", "style-src-elem", "trusted-types"} <= set(refused)
    assert "not refused" not in refused
    page.said.clear()  # the browser tells of each refusal
    page.requests = [r for r in page.requests if "example.invalid" not in r]


def test_tabs_by_mouse_and_by_keyboard(page: Page) -> None:
    page.click("#tab-cost")
    page.wait("location.hash === '#cost' && !document.getElementById('cost').hidden")
    assert page.texts("main h2") == ["Cost"]
    page.js("document.getElementById('tab-cost').focus()")
    page.key("ArrowRight")
    assert page.texts("main h2") == ["Settings"] and page.js("document.activeElement.id") == "tab-settings"
    page.key("ArrowRight")
    assert page.texts("main h2") == ["Overview"], "round at the end"
    page.key("End")
    page.key("Home")
    assert page.js("location.hash") == "#overview"
    tabs = "[...document.querySelectorAll('[role=tab]')]"
    states = page.js(f"{tabs}.map(t => [t.getAttribute('aria-selected'), t.tabIndex])")
    assert states[0] == ["true", 0] and all(s == ["false", -1] for s in states[1:])
    panel = "document.querySelector('.panel')"
    assert page.js(f"[{panel}.getAttribute('role'), {panel}.getAttribute('aria-labelledby')]") == [
        "tabpanel",
        "tab-overview",
    ]


def test_skip_link_and_visible_focus_come_first(page: Page) -> None:
    page.key("Tab")
    assert page.js("document.activeElement.className") == "skip"
    assert page.js("document.activeElement.getBoundingClientRect().top") >= 0, "it comes into view"
    page.key("Tab")
    style = page.js("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"


def test_tables_sort_up_and_down(page: Page) -> None:
    page.click("#tab-results")
    tables = "[...document.querySelectorAll('#results table')]"
    heads = f"{tables}.find(t => t.caption.textContent === 'Success by prompt')"
    button = f"{heads}.tHead.rows[0].cells[2].querySelector('button')"
    column = f"[...{heads}.tBodies[0].rows].map(r => parseInt(r.cells[2].textContent))"
    before = page.js(column)
    page.js(f"{button}.click()")
    up = page.js(column)
    assert (
        up == sorted(before)
        and page.js(f"{heads}.tHead.rows[0].cells[2].getAttribute('aria-sort')") == "ascending"
    )
    page.js(f"{button}.click()")
    assert page.js(column) == sorted(before, reverse=True)
    page.js(f"{heads}.tHead.rows[0].cells[0].querySelector('button').focus()")
    page.key("Enter")
    names = page.js(f"[...{heads}.tBodies[0].rows].map(r => r.cells[0].textContent)")
    assert names == sorted(names)
    assert page.js(f"{heads}.querySelectorAll('[aria-sort]').length") == 1


def test_episodes_filter_by_word_and_by_choice(page: Page) -> None:
    page.click("#tab-episodes")
    rows = "#episodes-list tbody tr"
    total = page.js(f"document.querySelectorAll('{rows}').length")
    assert f"{total} of {total} episodes" in page.text("#episodes-list .count")
    page.key("/")
    assert page.js("document.activeElement.id") == "Episodes-filter"
    page.write("#Episodes-filter", "test4#")
    assert page.texts(f"{rows} th") == ["9/child000/test4#0", "9/seed0000/test4#0"]
    choice = "[...document.querySelectorAll('#episodes-list label')].find(l => l.textContent[0] === 'E')"
    page.js(f"(s => {{ s.value = 'solved'; s.dispatchEvent(new Event('change')) }})({choice}.control)")
    assert page.texts(f"{rows} th") == ["9/child000/test4#0"]
    assert "1 of " in page.text("#episodes-list .count")


def test_a_failure_mode_leads_to_its_episodes(page: Page) -> None:
    page.click("#tab-failures")
    page.click("#failures tbody a")
    page.wait("!document.getElementById('episodes').hidden")
    assert page.js("document.getElementById('Episodes-filter').value") == "navigation_loop"
    assert len(page.texts("#episodes-list tbody tr")) == 4


def test_an_episode_opens_from_its_task_and_back_again(page: Page) -> None:
    page.click("#tab-tasks")
    link = "#tasks-list a.chip"
    where = page.js(f"document.querySelector('{link}').getAttribute('href')")
    page.click(link)
    page.wait("document.getElementById('viewer').open")
    assert page.js("location.hash") == where
    assert page.js("document.activeElement.className") == "close", "focus is in the dialog"
    page.key("Escape")
    page.wait("!document.getElementById('viewer').open && location.hash === '#tasks'")
    assert page.js("document.activeElement.getAttribute('href')") == where, "focus is back on the link"


def test_a_step_shows_what_was_foretold_beside_what_came(page: Page) -> None:
    opened(page, "1/seed0000/train50#0")
    cards = "#viewer article.step"
    assert page.texts(f"{cards} h3") == ["Step 1 of 2", "Step 2 of 2"]
    first = page.text(f"{cards}:first-of-type")
    for words in (
        "not admissible",
        "reward 1.00",
        "Foretold for this step",
        "Foretold 2 steps on",
        "alignment",
        "advantage",
        "The reply as written",
    ):
        assert words in first, words
    assert (
        page.texts("#viewer .pair del")[0] == "still shut."
        and page.texts("#viewer .pair ins")[0] == "now open wide."
    )
    assert "what step 1 brought" in page.text(f"{cards}:last-of-type")
    assert "loop" not in first
    assert page.texts("#viewer .adm li") == [], "admissible actions are folded"
    page.click("#viewer details summary")
    page.wait("document.querySelector('#viewer .adm').childElementCount === 2")
    assert page.texts("#viewer .adm .chosen")[0].endswith(" (taken)")


def test_a_script_in_an_observation_is_shown_and_not_run(page: Page) -> None:
    opened(page, "1/seed0000/train50#0")
    seen = page.text("#viewer article.step .said")
    assert seen == HOSTILE.replace("\u202e", "\\u202e")
    assert page.js("document.querySelectorAll('#viewer script, #viewer img').length") == 0
    page.js("document.getElementById('viewer').close()")
    page.click("#tab-tasks")
    assert HOSTILE.replace("\u202e", "\\u202e") in page.text("#tasks-list tbody")


def test_keys_go_through_steps_and_episodes(page: Page) -> None:
    page.click("#tab-episodes")
    opened(page, "1/seed0000/train50#0")
    page.key("j")
    assert page.js("document.activeElement.id") == "step-1"
    page.key("j")
    assert page.js("document.activeElement.id") == "step-2"
    assert page.js("document.querySelectorAll('.rail [aria-current]')[0].textContent").startswith("2")
    page.key("j")
    page.key("k")
    assert page.js("document.activeElement.id") == "step-1"
    page.key("n")
    page.wait("location.hash.includes('train50%231')")
    page.key("ArrowLeft")
    page.wait("location.hash.includes('train50%230')")
    assert page.js("document.querySelectorAll('dialog[open]').length") == 1
    page.key("Escape")
    page.key("?", shift=True)
    assert "next, previous step" in page.text("#keys[open]")
    page.key("Escape")
    assert page.js("document.querySelectorAll('dialog[open]').length") == 0


def test_deep_links_open_a_section_or_an_episode(browser: Browser, whole: Path) -> None:
    tab = browser.page()
    tab.open(f"{whole.as_uri()}#t={quote(LONG_ID, safe='')}")
    assert LONG_ID in tab.text("#viewer-title") and tab.text("title").startswith(LONG_ID)
    other = browser.page()
    other.open(f"{whole.as_uri()}#foresight")
    assert other.texts("main h2") == ["Foresight"]
    lost = browser.page()
    lost.open(f"{whole.as_uri()}#t=%E0%A4%A")
    assert lost.js("document.getElementById('viewer').open") is False
    missing = browser.page()
    missing.open(f"{whole.as_uri()}#t=gone")
    assert "No episode gone in this run." in missing.text("#episodes-words")
    assert tab.said == other.said == lost.said == missing.said == []


def contrast(page: Page, selector: str) -> float:
    """The WCAG contrast of an element's words with the page behind them."""
    code = f"""(() => {{
      const parse = (c) => c.match(/[\\d.]+/g).map(Number);
      const lum = (c) => parse(c).slice(0, 3).map((v) => v / 255)
        .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      let node = document.querySelector({json.dumps(selector)});
      const ink = lum(getComputedStyle(node)[node instanceof SVGElement ? "fill" : "color"]);
      while (parse(getComputedStyle(node).backgroundColor)[3] === 0) node = node.parentElement;
      const paper = lum(getComputedStyle(node).backgroundColor);
      return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    }})()"""
    return float(page.js(code))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_can_be_read(page: Page, scheme: str) -> None:
    page.prefers(scheme)
    dark = page.js("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(255, 255, 255)") == (scheme == "light")
    for selector in ("#overview .headline", ".dim", "#overview thead th", "#tab-cost", "#overview svg text"):
        assert contrast(page, selector) >= 4.5, selector
    assert contrast(page, "#overview svg .mark") >= 3
    opened(page, "1/seed0000/train50#0")
    for selector in ("#viewer del", "#viewer ins", "#viewer .tag.bad", "#viewer .k"):
        assert contrast(page, selector) >= 4.5, selector


def test_the_theme_can_be_chosen(page: Page) -> None:
    look = "getComputedStyle(document.body).backgroundColor"
    assert page.js(look) == "rgb(255, 255, 255)" and page.text("#theme") == "Theme: system"
    page.click("#theme")
    page.click("#theme")
    assert page.text("#theme") == "Theme: dark" and page.js(look) != "rgb(255, 255, 255)"
    page.click("#theme")
    assert page.text("#theme") == "Theme: system"


@pytest.mark.parametrize("width", [400, 1280])
def test_no_section_is_wider_than_the_window(page: Page, width: int) -> None:
    page.size(width)
    for panel in page.js("[...document.querySelectorAll('.panel')].map(p => p.id)"):
        page.click(f"#tab-{panel}")
        assert page.js("document.documentElement.scrollWidth") <= width, panel
    opened(page, LONG_ID)
    assert page.js("document.getElementById('viewer').scrollWidth") <= width


def test_without_script_the_tables_are_all_there(browser: Browser, whole: Path) -> None:
    tab = browser.page()
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.call("Page.navigate", url=whole.as_uri())
    tab.wait("document.querySelectorAll('.panel').length === 10")
    assert len(tab.texts(".panel h2")) == 10, "no section is hidden"
    assert "roleagent-lite show RUN list" in tab.text("noscript")


def test_partial_and_empty_runs_open(browser: Browser, tmp_path: Path) -> None:
    make.whole_run(tmp_path / "part", finished=False).close()
    make.new_run(tmp_path / "empty").close()
    tab = browser.page()
    tab.open(write_html(tmp_path / "part").as_uri())
    assert tab.text("h1") == "Run part partial"
    tab.open(write_html(tmp_path / "empty").as_uri())
    assert "No episode has been played yet" in tab.text("#results")
    tab.click("#tab-episodes")
    assert tab.texts("#episodes-list tbody td") == ["No episodes here."]
    assert tab.said == []


def test_an_evaluation_of_several_systems(browser: Browser, tmp_path: Path) -> None:
    ends = {name: won(2 * k + 1) for k, name in enumerate(("random", "prompt", "react", "role-agent"))}
    with evaluated(tmp_path / "eval", ends) as run:
        run.record("finished", "finished", {})
    tab = browser.page()
    tab.open(write_html(tmp_path / "eval").as_uri())
    assert tab.js("document.querySelectorAll('#overview figure .legend li').length") == 4
    tab.click("#tab-systems")
    assert tab.js("document.querySelector('#systems table').tBodies[0].rows.length") == 4
    assert {"random", "prompt", "react", "role-agent"} <= set(tab.texts("#systems tbody th"))
    tab.click("#tab-tasks")
    assert "random 1/1" in tab.text("#tasks-list tbody tr")
    assert "by system" in tab.text("#tasks-list thead")
    assert tab.texts(".pager") == [], "one page needs no buttons"
    assert tab.said == []


def test_a_comparison_leads_to_the_episodes_of_both_runs(browser: Browser, tmp_path: Path) -> None:
    for name, n in (("first", 2), ("second", 10)):
        evaluated(tmp_path / name, {"react": won(n)}).close()
        write_html(tmp_path / name)
    found = compare(tmp_path / "first", tmp_path / "second")
    tab = browser.page()
    tab.open(write_comparison(found, tmp_path / "compare.html").as_uri() + "#t=x")
    assert tab.texts("main h2") == ["Overview"]
    tab.click("#tab-differing")
    tab.js("document.querySelector('#differing tbody a').click()")
    tab.wait("document.querySelector('#viewer[open]') && document.documentElement.dataset.ready === 'true'")
    assert tab.js("location.pathname").endswith("first/report.html")
    assert tab.text("#viewer-title").startswith(found.pairs[0].gained[0].first_trajectory)
    assert tab.said == []


def test_an_episode_that_was_left_out_says_how_to_see_it(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episodes, "BLOCK", 1)
    with make.new_run(tmp_path / "r") as run:
        make.play(run, *(make.episode(make.task(i), make.SEED, make.LOST) for i in range(3)))
        evil = replace(make.task(4), id="$(touch x)'; ls")
        make.play(run, make.episode(evil, make.SEED, make.LOST))
        path = save(run.dir / "report.html", document(build(run), 1))
    tab = browser.page()
    tab.open(f"{path.as_uri()}#t={quote('1/seed0000/test2#0', safe='')}")
    assert "roleagent-lite show r 1/seed0000/test2#0" in tab.text("#viewer")
    assert "4 test (not solved)" in tab.text("#episodes-words")
    opened(tab, "1/seed0000/$(touch x)'; ls#0")
    command = tab.text("#viewer .steps pre")
    assert shlex.split(command) == ["roleagent-lite", "show", "r", "1/seed0000/$(touch x)'; ls#0"]
    assert tab.said == []


def test_a_long_list_comes_in_pages(browser: Browser, tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        make.play(run, *(make.episode(make.task(i), make.SEED) for i in range(250)))
    tab = browser.page()
    tab.open(write_html(tmp_path / "r").as_uri() + "#episodes")
    assert len(tab.texts("#episodes-list tbody tr")) == 100
    assert "page 1 of 3" in tab.text("#episodes-list .pager")
    tab.click("#episodes-list .pager button:nth-of-type(2)")
    tab.click("#episodes-list .pager button:nth-of-type(2)")
    assert len(tab.texts("#episodes-list tbody tr")) == 50
    assert tab.js("document.querySelector('#episodes-list .pager button:nth-of-type(2)').disabled") is True


def test_a_page_that_was_cut_off_still_shows_its_tables(
    browser: Browser, whole: Path, tmp_path: Path
) -> None:
    text = whole.read_text(encoding="utf-8")
    (tmp_path / "cut.html").write_text(text.replace('id="list">H4sI', 'id="list">AAAA'), encoding="utf-8")
    tab = browser.page()
    tab.open((tmp_path / "cut.html").as_uri() + "#t=x")
    assert tab.text("#episodes-words").startswith("The episodes cannot be read")
    tab.click("#tab-results")
    assert "Success by prompt" in tab.texts("#results h3")


def test_another_section_begins_at_its_top(page: Page) -> None:
    page.size(1280, 400)
    page.js("window.scrollTo(0, 300)")
    page.click("#tab-results")
    page.wait("!document.getElementById('results').hidden")
    assert page.js("window.scrollY") == 0


@pytest.mark.embedded
def test_the_page_of_a_real_embedded_run(browser: Browser, tmp_path: Path) -> None:
    """An evaluation by the real embedded model, played here; its page opens and shows each episode."""
    from roleagent_lite.jobs import evaluate

    done = evaluate({"model": "embedded", "tasks": "household-easy"}, run_dir=tmp_path / "real", limit=2)
    tab = browser.page()
    tab.open((done.run_dir / "report.html").as_uri())
    tab.click("#tab-episodes")
    ids = tab.texts("#episodes-list tbody th")
    assert len(ids) == 2
    for one in ids:
        opened(tab, one)
        assert "Step 1 of" in tab.text("#viewer article.step h3")
    shutil.copy(done.run_dir / "report.html", tmp_path / "elsewhere.html")
    assert tab.said == []
