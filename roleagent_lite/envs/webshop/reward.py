"""What a purchase earns (WebShop, arXiv 2207.01206, section 3.2, and what its code adds to it).

    reward = r_type * (n_attributes + n_options + r_price) / (|attributes| + |options| + 1)

Owns the matching of attributes, options, price and kind. Leaves out which words of a title are nouns
(nouns.py): the tagger is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roleagent_lite.envs.webshop.goals import Goal
from roleagent_lite.envs.webshop.products import Product

ALIKE = 85  # a token set ratio above this is a match
Tagger = Callable[[str], Sequence[str]]
# Words that name a colour for WebShop's normaliser, in its order: the first that is in a text stands for it.
_COLOURS = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy
camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral
cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass
gray green grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon
mauve merlot midnight mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter
pink plum purple rainbow red rose royal rust sand sapphire seashell silver skull slate steel stone
stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow
"""
COLOURS = tuple(_COLOURS.split())


@dataclass(frozen=True, slots=True)
class Parts:
    """How a reward came about: shares r_* and weights w_* in 0..1, those of options None without any."""

    reward: float
    r_type: float
    r_att: float
    w_att: float
    query_match: bool
    category_match: bool
    title_score: float
    r_price: bool
    w_price: float
    r_option: float | None = None
    w_option: float | None = None
    attribute_matches: tuple[bool, ...] = ()
    option_matches: tuple[bool, ...] = ()


def token_set_ratio(first: Any, second: Any) -> int:
    """Likeness 0..100 of two texts as sets of words (thefuzz's; Latin-1 letters are dropped)."""
    from rapidfuzz import fuzz, utils

    plain = [
        utils.default_process("".join(c for c in str(x) if not 128 <= ord(c) < 256)) for x in (first, second)
    ]
    return round(fuzz.token_set_ratio(*plain))


def normalize_colour(option: Any) -> Any:
    """The first colour word that is in a text; of a (name, value) pair, one that is an element of it."""
    return next((colour for colour in COLOURS if colour in option), option)


def kind_of(product: Product, goal: Goal, tagger: Tagger) -> tuple[float, bool, bool, float]:
    """(r_type, query match, category match, title score): is this the kind of thing that is wanted."""
    query = product.query == goal.query
    paths = [
        {part.strip() for part in p.split("›")} for p in (product.product_category, goal.product_category)
    ]
    category = len(paths[0] & paths[1]) >= 2
    wanted = tagger(goal.name)
    title = len(set(tagger(product.title)) & set(wanted)) / len(wanted) if wanted else 0.2
    r_type = 1.0 if query or category or title > 0.2 else 0.5
    if title < 0.1:
        r_type = 0.1
    if title == 0.0:
        r_type = 0.0
    return r_type, query, category, title


def attribute_matches(product: Product, goal: Goal) -> tuple[bool, ...]:
    """For each wanted attribute: one of the product's is like it, or its texts contain it."""
    texts = (product.title.lower(), " ".join(product.bullets).lower(), product.description.lower())
    return tuple(
        any(token_set_ratio(has, wanted) > ALIKE for has in product.attributes)
        or any(wanted in text for text in texts)
        for wanted in goal.attributes
    )


def option_matches(chosen: Mapping[str, str], goal: Goal) -> tuple[bool, ...]:
    """For each wanted option: a chosen value is like it. Names are not compared, as in the original."""
    values = [normalize_colour(value) for value in chosen.values()]
    return tuple(
        any(token_set_ratio(value, wanted) > ALIKE for value in values)
        for wanted in map(normalize_colour, goal.options)
    )


def score(product: Product, goal: Goal, price: float, chosen: Mapping[str, str], tagger: Tagger) -> Parts:
    """The reward 0..1 of buying `product` at `price` dollars with the options `chosen`, and its parts."""
    r_type, query, category, title = kind_of(product, goal, tagger)
    attributes, options = attribute_matches(product, goal), option_matches(chosen, goal)
    cheap = price <= goal.price_upper
    wishes = len(goal.attributes) + len(goal.options) + 1
    reward = (sum(attributes) + sum(options) + cheap) / wishes * r_type
    return Parts(
        reward=reward,
        r_type=r_type,
        r_att=sum(attributes) / len(attributes) if attributes else 0.0,
        w_att=len(attributes) / wishes,
        query_match=query,
        category_match=category,
        title_score=title,
        r_price=cheap,
        w_price=1 / wishes,
        r_option=sum(options) / len(options) if options else None,
        w_option=len(options) / wishes if options else None,
        attribute_matches=attributes,
        option_matches=options,
    )
