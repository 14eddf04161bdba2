"""Goals: equal to the original's, in its order; from a task's params."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from roleagent_lite.envs.webshop.goals import goal_from, human_goals, made_goals
from roleagent_lite.envs.webshop.products import derive
from roleagent_lite.errors import ConfigError
from tests.envs.webshop.conftest import load
from tests.envs.webshop.test_products import ROW


@pytest.mark.parametrize("name", ["human", "synthetic"])
def test_equal_to_the_original(vectors: dict[str, Any], name: str) -> None:
    expected = next(one for one in vectors["loads"] if one["id"] == name)["goals"]
    goals = load(name)[1]
    assert len(goals) == len(expected) > 40
    for one, other in zip(goals, expected, strict=True):
        wanted = other["goal_options"]
        pairs = tuple(wanted.items()) if isinstance(wanted, dict) else tuple(wanted)
        assert (one.asin, one.category, one.query, one.name, one.product_category) == (
            other["asin"], other["category"], other["query"], other["name"], other["product_category"],
        )  # fmt: skip
        assert (one.instruction, list(one.attributes)) == (other["instruction_text"], other["attributes"])
        assert (one.price_upper, one.options) == (other["price_upper"], pairs)
        assert one.weight == pytest.approx(other["weight"], abs=1e-12)


def test_every_choice_of_options_is_a_goal_and_weights_count_attributes() -> None:
    row = {**ROW, "customization_options": {n: [{"value": v} for v in "ab"] for n in ("Size", "Color")}}
    told = {"attributes": ["x"], "instruction": "Find a mug", "instruction_attributes": ["x", "y"]}
    goals = made_goals([derive(row, {})], {ROW["asin"]: 985.0}, {ROW["asin"]: told}, random.Random(0))
    assert [g.options for g in goals] == [
        (("color", "a"), ("size", "a")), (("color", "a"), ("size", "b")),
        (("color", "b"), ("size", "a")), (("color", "b"), ("size", "b")),
    ]  # fmt: skip
    assert goals[1].instruction == "Find a mug with color: a, and size: b"  # one ten above 985: no price
    assert (goals[0].price_upper, goals[0].weight) == (1_000_000, 0.25)


def test_instructions_without_attributes_are_no_goals() -> None:
    product = derive(ROW, {})
    said = {"instruction": "a mug.", "instruction_attributes": ["x"], "instruction_options": ["red"]}
    human = {product.asin: [said, {**said, "instruction_attributes": []}]}
    (goal,) = human_goals([product], {product.asin: 12.0}, human, random.Random(3))
    assert goal.instruction.startswith("a mug, and price lower than ")
    assert goal.price_upper in (30.0, 40.0, 50.0)
    with pytest.raises(ConfigError, match="lacks 'instruction_options'"):
        human_goals(
            [product],
            {product.asin: 1.0},
            {product.asin: [{k: said[k] for k in list(said)[:2]}]},
            random.Random(0),
        )
    with pytest.raises(ConfigError, match="names no attributes"):
        made_goals([product], {product.asin: 1.0}, {product.asin: {"instruction": "x"}}, random.Random(0))


def test_from_params_and_what_is_wrong_with_them() -> None:
    goal = load("synthetic")[1][0]
    row = {name: getattr(goal, name) for name in goal.__dataclass_fields__ if name != "weight"}
    row["options"] = [list(pair) for pair in goal.options]
    assert goal_from(row) == replace(goal, weight=1.0)
    with pytest.raises(ConfigError, match=r"params\.goal lacks 'asin'"):
        goal_from({k: v for k, v in row.items() if k != "asin"})
    with pytest.raises(ConfigError, match="cannot be read"):
        goal_from({**row, "price_upper": "cheap"})
