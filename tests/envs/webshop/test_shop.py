"""A visit: every recorded step of the original, and single rules of moving."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from roleagent_lite.envs.webshop import pages
from roleagent_lite.envs.webshop.shop import Shop, Visit, parse
from tests.envs.webshop.conftest import load, products, recorded

BY_ASIN = {product.asin: product for product in products()}


def shop(load_name: str, ranking: list[str], show_attributes: bool = False) -> Shop:
    """A shop with the recorded prices and nouns; `ranking` is what a search by words finds."""

    def search(keywords: Sequence[str]) -> Sequence[str]:
        if keywords[0] == "<q>":
            return [p.asin for p in products() if p.query == " ".join(keywords[1:]).strip()]
        if keywords[0] == "<c>":
            return [p.asin for p in products() if p.category == keywords[1].strip()]
        return list(ranking)

    nouns = recorded()["nouns"]
    return Shop(BY_ASIN, load(load_name)[0], search, lambda title: nouns[title], show_attributes)


@pytest.mark.parametrize("session", recorded()["sessions"], ids=lambda s: s["id"])
def test_equal_to_the_original_step_for_step(session: dict[str, Any]) -> None:
    ranking: list[str] = []
    visit = Visit(
        shop(session["load"], ranking, session["show_attrs"]), load(session["load"])[1][session["goal"]]
    )

    def seen() -> tuple[str, list[str]]:
        text = visit.text() if session["mode"] == "text" else visit.rich_text()
        return text, list(pages.clickables(visit.stand.parts))

    first = session["initial"]
    assert seen() == (first["observation"], first["clickables"])
    for step in session["steps"]:
        ranking[:] = step.get("ranking", ())
        before = visit.stand
        valid = visit.act(step["action"])
        assert seen() == (step["observation"], step["clickables"]), step["action"]
        if not valid:
            assert visit.stand.parts == before.parts
        bought = visit.stand.bought is not None and visit.stand is not before and valid and step["done"]
        assert bought == step["done"], step["action"]
        assert (visit.stand.reward if bought else 0.0) == pytest.approx(step["reward"], abs=1e-9)
        if step.get("reward_parts"):
            assert visit.stand.bought is not None
            for name, value in step["reward_parts"].items():
                assert getattr(visit.stand.bought, name) == pytest.approx(value, abs=1e-9)
            assert dict(visit.stand.chosen) == step["options"]


def test_how_many_steps_that_was(vectors: dict[str, Any]) -> None:
    assert sum(len(session["steps"]) for session in vectors["sessions"]) == 562


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("search[Red Mug]", ("search", "red mug")),
        ("click[a[b]]", ("click[a", "b]")),
        ("search[]", ("search[]", None)),
        ("buy now", ("buy now", None)),
        ("", ("", None)),
    ],
)
def test_actions_are_read(action: str, expected: tuple[str, str | None]) -> None:
    assert parse(action) == expected


def test_a_stand_is_a_snapshot() -> None:
    visit = Visit(shop("human", [products()[0].asin]), load("human")[1][0])
    visit.act("search[mug]")
    kept = visit.stand
    visit.act(f"click[{products()[0].asin.lower()}]")
    visit.act("click[red | white]")
    assert dict(visit.stand.chosen) == {"color": "red | white"}
    assert (kept.asin, dict(kept.chosen)) == (None, {})
    visit.stand = kept
    assert visit.act("click[red | white]") is False
    assert visit.act("click[back to search]") is True
    assert visit.text().startswith("WebShop [SEP]")
