"""The made-up catalogue: always the same, large enough, and hard enough."""

from __future__ import annotations

from collections import Counter

from roleagent_lite.envs.webshop import made
from roleagent_lite.envs.webshop.index import fingerprint
from roleagent_lite.envs.webshop.products import read_products

ITEMS, ATTRIBUTES, HUMAN = made.make()
PRODUCTS = read_products(ITEMS, ATTRIBUTES)


def test_the_same_everywhere() -> None:
    assert made.make() == (ITEMS, ATTRIBUTES, HUMAN)
    assert made.make(8)[0] != ITEMS
    assert fingerprint(PRODUCTS) == "7f974262bf45ccf1"


def test_size() -> None:
    assert len(PRODUCTS) == len(ITEMS) >= 1000
    assert sum(map(len, HUMAN.values())) >= 500
    assert len({p.query for p in PRODUCTS}) == len(made.KINDS) == 12


def test_near_duplicates_ranges_and_options() -> None:
    names = Counter(p.title for p in PRODUCTS)
    assert sum(n > 1 for n in names.values()) > 0.9 * len(names)
    assert 0.1 < sum(len(p.pricing) == 2 for p in PRODUCTS) / len(PRODUCTS) < 0.3
    assert all(len(values) >= 2 for p in PRODUCTS for values in p.options.values())
    alike = [p for p in PRODUCTS if p.title == PRODUCTS[0].title]
    assert len({(p.attributes, p.price_tag) for p in alike}) > 1


def test_a_customer_wants_what_the_product_has() -> None:
    by_asin = {p.asin: p for p in PRODUCTS}
    for asin, wishes in HUMAN.items():
        has = by_asin[asin]
        values = {v for vs in has.options.values() for v in vs}
        for wish in wishes:
            assert set(wish["instruction_attributes"]) <= set(has.attributes)
            assert set(wish["instruction_options"]) <= values
