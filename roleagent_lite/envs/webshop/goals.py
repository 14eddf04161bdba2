"""Goals of a web shop: what a customer wants, from human instructions or made from products and options.

Owns the two ways, the upper price and the order (WebShop, arXiv 2207.01206, and its code's draws). Leaves
out how a purchase is scored against a goal (reward.py).
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from roleagent_lite.envs.webshop.products import Product
from roleagent_lite.errors import ConfigError

ORDER_SEED = 233
NO_LIMIT = 1_000_000.0
_STEPS = [10.0 * i for i in range(1, 100)]


@dataclass(frozen=True, slots=True)
class Goal:
    """`options`: wanted values, or (name, value) pairs of a made-up goal; `price_upper` in dollars."""

    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction: str
    attributes: tuple[str, ...]
    price_upper: float
    options: tuple[Any, ...]
    weight: float = 1.0


def _price(price: float, rng: random.Random) -> tuple[float, str]:
    """An upper price drawn from the next four tens above the price, and the words for it."""
    above = [step for step in _STEPS if step > price][:4]
    if len(above) < 2:
        return NO_LIMIT, ""
    upper = max(rng.sample(above, 2))
    return upper, f", and price lower than {upper:.2f} dollars"


def _of(product: Product, instruction: str, attributes: Iterable[str], upper: float, options: Any) -> Goal:
    return Goal(
        product.asin, product.category, product.query, product.title, product.product_category,
        instruction, tuple(attributes), upper, tuple(options),
    )  # fmt: skip


def human_goals(
    products: Sequence[Product], prices: Mapping[str, float], human: Mapping[str, Any], rng: random.Random
) -> list[Goal]:
    """One goal for each human instruction that names attributes."""
    goals = []
    for product in products:
        for said in human.get(product.asin, ()):
            try:
                attributes, words = said["instruction_attributes"], said["instruction"]
                wanted = said["instruction_options"]
            except (KeyError, TypeError) as error:
                raise ConfigError(f"instruction for {product.asin} lacks {error}") from None
            if attributes:
                upper, text = _price(prices[product.asin], rng)
                goals.append(_of(product, words.strip(".") + text, attributes, upper, wanted))
    return goals


def made_goals(
    products: Sequence[Product],
    prices: Mapping[str, float],
    attributes: Mapping[str, Any],
    rng: random.Random,
) -> list[Goal]:
    """For each product with an instruction, one goal for every choice of its options."""
    goals: list[Goal] = []
    seen: Counter[str] = Counter()
    for product in products:
        known = attributes.get(product.asin) or {}
        words, wanted = known.get("instruction"), known.get("instruction_attributes")
        if words is None:
            continue
        if not wanted:
            raise ConfigError(f"the instruction for {product.asin} names no attributes")
        upper, text = _price(prices[product.asin], rng)
        names = sorted(product.options)
        for values in itertools.product(*(product.options[name] for name in names)):
            pairs = tuple(dict(zip(names, values, strict=True)).items())
            choice = ", and ".join(f"{name}: {value}" for name, value in pairs)
            goals.append(
                _of(product, f"{words}{f' with {choice}' if choice else ''}{text}", wanted, upper, pairs)
            )
            seen.update(wanted)
    return [replace(g, weight=sum(1.0 / seen[a] for a in g.attributes) / len(g.attributes)) for g in goals]


def in_order(goals: list[Goal]) -> list[Goal]:
    """The goals as sessions number them: shuffled by the original's seed. Changes the list in place."""
    random.Random(ORDER_SEED).shuffle(goals)
    return goals


def goal_from(row: Mapping[str, Any]) -> Goal:
    """A goal as a task's params hold it. Raises ConfigError that says which field is wrong."""
    try:
        options = tuple(tuple(o) if isinstance(o, list) else o for o in row["options"])
        return Goal(
            str(row["asin"]), str(row["category"]), str(row["query"]), str(row["name"]),
            str(row["product_category"]), str(row["instruction"]), tuple(map(str, row["attributes"])),
            float(row["price_upper"]), options,
        )  # fmt: skip
    except KeyError as error:
        raise ConfigError(f"params.goal lacks {error}; it has {', '.join(map(str, row))}") from None
    except (TypeError, ValueError) as error:
        raise ConfigError(f"params.goal cannot be read: {error}") from None
