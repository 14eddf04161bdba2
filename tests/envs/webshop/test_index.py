"""Search: words in LanceDB, special queries, an index that is built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite.envs.webshop import index as indexes
from roleagent_lite.envs.webshop.index import Index, fingerprint
from roleagent_lite.memory import Memory
from tests.envs.webshop.conftest import products


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index(products(), tmp_path_factory.mktemp("index"))


def test_words_find_titles_options_and_attributes_in_texts(index: Index) -> None:
    titles = {p.asin: p.title.lower() for p in products()}
    found = index.search(["mug"])
    assert found and all("mug" in titles[asin] for asin in found[:3])
    assert products()[0].asin in index.search(["havenloom", "modern", "mug", "for", "travel"])[:1]
    assert products()[0].asin in index.search(["forest", "green", "mug"])
    assert len(index.search(["for", "travel", "gift", "women", "premium", "vintage", "with", "lid"])) <= 50


def test_nothing_to_look_for(index: Index) -> None:
    assert index.search([""]) == index.search(["!!", "?"]) == ()
    assert index.search(["xyzzyplugh"]) == ()


def test_odd_words_break_nothing(index: Index) -> None:
    for query in ('"', "a:b AND (", "mug*", "+-&&||", "'; DROP TABLE", "naïve café ☕"):
        index.search(query.split(" "))


def test_special_queries(index: Index) -> None:
    asked = products()[0]
    assert asked.asin in index.search(["<q>", *asked.query.split(" ")])
    assert index.search(["<c>", asked.category]) == tuple(
        p.asin for p in products() if p.category == asked.category
    )
    assert index.search(["<c>"]) == ()
    assert asked.asin in index.search(["<a>", *asked.attributes[0].split(" ")])
    assert len(index.search(["<r>"])) == 50
    assert index.search(["<r>"]) == index.search(["<r>"])


def test_built_once_and_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Index(products(), tmp_path).search(["lamp"])
    monkeypatch.setattr(Memory, "upsert", lambda *_: pytest.fail("built again"))
    assert Index(products(), tmp_path).search(["lamp"]) == first


def test_answers_are_remembered_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "REMEMBERED", 2)
    index = Index(products()[:5], tmp_path)
    for word in ("mug", "lamp", "tea", "socks"):
        index.search([word])
    assert len(index._known) == 2


def test_the_fingerprint_is_of_what_is_searched() -> None:
    assert fingerprint(products()) == fingerprint(products())
    assert fingerprint(products()[1:]) != fingerprint(products())
