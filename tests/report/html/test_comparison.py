"""The page of a comparison: pairs, warnings, where they differ with links into each run's own report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from roleagent_lite.evals.compare import Comparison, compare
from roleagent_lite.report.html import comparison
from roleagent_lite.report.html.comparison import address, write_comparison
from roleagent_lite.report.html.write import write_html
from tests.report.html.test_episodes import HOSTILE
from tests.report.html.test_piece import Reader
from tests.report.html.test_success import words
from tests.report.test_systems import evaluated, won


@pytest.fixture
def two(tmp_path: Path) -> Comparison:
    evaluated(tmp_path / "first", {"react": won(2)}).close()
    evaluated(tmp_path / "second", {"react": won(10)}).close()
    return compare(tmp_path / "first", tmp_path / "second")


def test_the_pair_its_words_and_its_differences(two: Comparison, tmp_path: Path) -> None:
    text = write_comparison(two, tmp_path / "compare.html").read_text()
    seen = words(text)
    assert two.pairs[0].words in seen
    assert "second:react against first:react 8 / 0 / 4" in seen
    assert text.count('href="./second/report.html#t=') == text.count('href="./first/report.html#t=') == 8
    assert "8 of 8" not in seen and "0 % 100 %" in seen
    assert '<section id="differing"' in text and "Comparison" in seen


def test_links_lead_to_the_episode_in_the_runs_own_page(two: Comparison, tmp_path: Path) -> None:
    page = write_html(two.sides[0].run_dir)
    (tmp_path / "out").mkdir()
    text = write_comparison(two, tmp_path / "out" / "compare.html").read_text()
    link = next(v for v in Reader(text).values if v and v.startswith("./../first"))
    target = urlsplit(link)
    assert (tmp_path / "out" / unquote(target.path)).resolve() == page.resolve()
    assert unquote(target.fragment) == f"t={two.pairs[0].gained[0].first_trajectory}"


@pytest.mark.parametrize("name", ["javascript:alert(1)", "a#b?c", "https:", '"><b>'])
def test_a_run_of_any_name_gives_a_path_never_a_scheme(name: str, tmp_path: Path) -> None:
    link = address(tmp_path, tmp_path / name, "x&y#z")
    assert link.startswith("./") and urlsplit(link).scheme == "" and urlsplit(link).netloc == ""
    assert unquote(urlsplit(link).path) == f"./{name}/report.html" and link.endswith("#t=x%26y%23z")


def test_of_many_pairs_only_those_beyond_noise_are_told(tmp_path: Path) -> None:
    ends = {name: won(n) for name, n in (("a", 0), ("b", 1), ("c", 2), ("d", 12))}
    evaluated(tmp_path / "many", ends).close()
    found = compare(tmp_path / "many")
    told = comparison._verdicts(found.pairs)
    assert [pair.words for pair in found.pairs if pair.second == "many:d"] == told[:3]
    assert told[3:] == ["Within noise, or without a task in common: 3 of 6 pairs."]


def test_warnings_come_first_and_alike_is_said(two: Comparison, tmp_path: Path) -> None:
    pair = replace(two.pairs[0], gained=(), lost=())
    found = replace(two, warnings=("models differ: a x, b y",), pairs=(pair,), spread=("spread of a",))
    text = "".join(comparison.comparison_page(found, tmp_path))
    assert text.index("Not alike:") < text.index(two.pairs[0].words[:20])
    assert "alike on every task." in text and "spread of a" in text


def test_an_episode_that_is_not_known_has_no_link(two: Comparison, tmp_path: Path) -> None:
    one = replace(two.pairs[0].gained[0], first_trajectory="")
    found = replace(two, pairs=(replace(two.pairs[0], gained=(one,), lost=()),))
    text = "".join(comparison.comparison_page(found, tmp_path))
    assert "./first/report" not in text and text.count("./second/report") == 1


def test_hostile_names_and_goals_make_no_element(two: Comparison, tmp_path: Path) -> None:
    sides = tuple(replace(s, name=f"{HOSTILE}{i}", tasks_hash=HOSTILE) for i, s in enumerate(two.sides))
    rows = tuple(replace(one, goal=HOSTILE, task=HOSTILE) for one in two.pairs[0].gained)
    pair = replace(two.pairs[0], first=sides[0].name, second=sides[1].name, gained=rows, words=HOSTILE)
    found = replace(two, sides=sides, pairs=(pair,), warnings=(HOSTILE,), spread=(HOSTILE,))
    seen = Reader("".join(comparison.comparison_page(found, tmp_path)))
    assert seen.tags.count("script") == 1 and "</script><!--<script>alert(1)</script>" in seen.words
