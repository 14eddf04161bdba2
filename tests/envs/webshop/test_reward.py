"""The reward: equal to the original's, whole and in its parts."""

from __future__ import annotations

from typing import Any

import pytest

from roleagent_lite.envs.webshop.goals import Goal
from roleagent_lite.envs.webshop.products import Product
from roleagent_lite.envs.webshop.reward import Parts, kind_of, normalize_colour, score, token_set_ratio

PARTS = ("r_type", "r_att", "w_att", "query_match", "category_match", "title_score", "r_option", "w_option",
         "r_price", "w_price")  # fmt: skip


def scored(case: dict[str, Any]) -> Parts:
    wish, has = case["goal"], case["product"]
    wanted = wish["goal_options"]
    goal = Goal(
        wish["asin"], "", wish["query"], wish["name"], wish["product_category"], "",
        tuple(wish["attributes"]), wish["price_upper"],
        tuple(wanted.items()) if isinstance(wanted, dict) else tuple(wanted),
    )  # fmt: skip
    product = Product(
        has["asin"], has["Title"], has["Description"], tuple(has["BulletPoints"]), "", (), {}, has["query"],
        "", has["product_category"], tuple(has["Attributes"]),
    )  # fmt: skip
    nouns = {wish["name"]: case["goal_nouns"], has["Title"]: case["product_nouns"]}
    return score(product, goal, case["price"], case["options"], lambda title: nouns[title])


def test_equal_to_the_original_in_every_case(vectors: dict[str, Any]) -> None:
    for case in vectors["reward_cases"]:
        found = scored(case)
        assert found.reward == pytest.approx(case["reward"], abs=1e-9), case["id"]
        assert list(found.attribute_matches) == case["attribute_matches"], case["id"]
        assert list(found.option_matches) == case["option_matches"], case["id"]
        for name in PARTS:
            expected = case["parts"].get(name)
            assert getattr(found, name) == (
                None if expected is None else pytest.approx(expected, abs=1e-9)
            ), name
    assert len(vectors["reward_cases"]) == 125


def test_likeness_of_words(vectors: dict[str, Any]) -> None:
    for case in vectors["token_set_ratio"]:
        assert token_set_ratio(case["a"], case["b"]) == case["token_set_ratio"], case


def test_colours(vectors: dict[str, Any]) -> None:
    for case in vectors["normalize_color"]:
        assert normalize_colour(case["text"]) == case["normalize_color"], case
    assert normalize_colour(("color", "red")) == "red"
    assert normalize_colour(("color", "dark red")) == ("color", "dark red")  # an element, not a part of one


@pytest.mark.parametrize(
    ("nouns", "query", "expected"),
    [
        (["mug", "lid"], "mugs", (1.0, 1.0)),
        (["mug", "x"], "other", (1.0, 0.5)),
        (["mug", *"abcd"], "other", (0.5, 0.2)),
        (["mug", *"abcdefghij"], "mugs", (0.1, 1 / 11)),
        (["lamp"], "mugs", (0.0, 0.0)),  # even where the query is the same
        ([], "other", (0.5, 0.2)),
    ],
)
def test_the_kind_of_thing(nouns: list[str], query: str, expected: tuple[float, float]) -> None:
    product = Product("B1", "has", "", (), "", (), {}, "mugs", "", "A › B", ())
    goal = Goal("B2", "", query, "wish", "A › C", "", ("x",), 10.0, ())
    r_type, _, _, title = kind_of(product, goal, lambda title: ["mug", "lid"] if title == "has" else nouns)
    assert (r_type, title) == pytest.approx(expected)
