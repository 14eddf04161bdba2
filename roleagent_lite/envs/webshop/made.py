"""A made-up catalogue and its customers: twelve kinds of goods, near-duplicates, options, price ranges.

Everything is drawn from one seed, so that the catalogue is the same everywhere and takes no file. A family
of products shares its name and differs in what a customer may ask for: an attribute, the values of an
option, the price. Brands, names and texts are invented. Leaves out the schema's meaning (products.py,
goals.py).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SEED = 7
FAMILIES = 30  # of each kind
SIBLINGS = (3, 4)  # products of a family
CUSTOMERS = 2  # of a family


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of goods. `options`: name -> pool of values; `price`: lowest and highest, in dollars."""

    noun: str
    query: str
    category: str
    path: str
    styles: tuple[str, ...]
    attributes: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    price: tuple[float, float]


_SIZES = ("small", "medium", "large", "x-large", "xx-large")
KINDS = (
    Kind("Travel Mug", "travel mugs", "garden", "Home & Kitchen › Kitchen & Dining › Travel Mugs",
         ("Ridge", "Harbor", "Trail", "Commuter"),
         ("leak proof", "double walled", "bpa free", "dishwasher safe", "vacuum insulated", "one handed lid"),
         {"color": ("matte black", "ocean blue", "brushed steel", "rose pink", "forest green"),
          "capacity": ("12 ounce", "16 ounce", "20 ounce")}, (12, 38)),
    Kind("Desk Lamp", "desk lamps", "electronics", "Home & Kitchen › Lighting › Desk Lamps",
         ("Swing Arm", "Gooseneck", "Panel", "Clip"),
         ("dimmable", "usb charging", "eye caring", "touch control", "memory function", "flicker free"),
         {"color": ("black", "white", "walnut", "silver"), "plug": ("us plug", "uk plug", "eu plug")}, (18,
          70)),
    Kind("Running Socks", "running socks", "fashion", "Clothing, Shoes & Jewelry › Sport › Socks",
         ("Crew", "Ankle", "No Show", "Quarter"),
         ("moisture wicking", "arch support", "cushioned heel", "seamless toe", "machine washable",
          "odor resistant"),
         {"size": ("small", "medium", "large", "x-large"), "color": ("white", "black", "grey", "navy"),
          "pack": ("3 pairs", "6 pairs")}, (8, 26)),
    Kind("Rain Jacket", "rain jackets", "fashion", "Clothing, Shoes & Jewelry › Outdoor › Jackets",
         ("Hooded", "Packable", "City", "Alpine"),
         ("water resistant", "wind proof", "sealed seams", "reflective trim", "zip pockets",
          "breathable lining"),
         {"size": _SIZES, "color": ("yellow", "olive", "navy", "black", "burgundy")}, (32, 120)),
    Kind("Earbuds", "earbuds", "electronics", "Electronics › Audio › Earbuds",
         ("Studio", "Sport", "Pocket", "Sleep"),
         ("noise cancelling", "sweat proof", "fast charging", "low latency", "long battery life",
          "mono mode"),
         {"color": ("black", "white", "mint", "lilac"), "tips": ("silicone tips", "foam tips")}, (19, 150)),
    Kind("HDMI Cable", "hdmi cables", "electronics", "Electronics › Cables › HDMI Cables",
         ("Braided", "Slim", "Right Angle", "Armored"),
         ("gold plated", "high speed", "triple shielded", "tangle free", "4k ready", "ethernet channel"),
         {"length": ("3 feet", "6 feet", "10 feet", "15 feet"), "pack": ("1 pack", "2 pack")}, (7, 35)),
    Kind("Soy Candle", "candles", "garden", "Home & Kitchen › Home Decor › Candles",
         ("Jar", "Pillar", "Tin", "Wood Wick"),
         ("long lasting", "hand poured", "lead free wick", "dye free", "phthalate free", "reusable jar"),
         {"scent": ("sandalwood", "lavender", "citrus grove", "sea salt", "vanilla"),
          "weight": ("6 ounce", "9 ounce", "14 ounce")}, (9, 34)),
    Kind("Shampoo", "shampoos", "beauty", "Beauty & Personal Care › Hair Care › Shampoo",
         ("Balancing", "Volume", "Repair", "Scalp"),
         ("sulfate free", "paraben free", "cruelty free", "color safe", "tea tree oil", "fragrance free"),
         {"size": ("8 fl oz", "12 fl oz", "33 fl oz"), "scent": ("unscented", "mint", "coconut")}, (8, 40)),
    Kind("Green Tea", "green tea", "grocery", "Grocery & Gourmet Food › Beverages › Tea",
         ("Sencha", "Jasmine", "Gunpowder", "Genmaicha"),
         ("usda organic", "caffeine free", "non gmo", "sugar free", "single origin", "plastic free bags"),
         {"form": ("loose leaf", "tea bags"), "amount": ("20 count", "50 count", "100 count")}, (6, 30)),
    Kind("Trail Mix", "trail mix", "grocery", "Grocery & Gourmet Food › Snacks › Trail Mixes",
         ("Mountain", "Tropical", "Berry", "Savory"),
         ("gluten free", "low sodium", "plant based", "no added sugar", "high protein", "dairy free"),
         {"size": ("8 ounce", "16 ounce", "32 ounce"), "pack": ("1 pack", "4 pack", "12 pack")}, (7, 48)),
    Kind("Office Chair", "office chairs", "furniture", "Home & Kitchen › Furniture › Office Chairs",
         ("Mesh", "Task", "Executive", "Kneeling"),
         ("lumbar support", "height adjustable", "easy assembly", "swivel seat", "padded armrests",
          "silent casters"),
         {"color": ("black", "grey", "beige", "teal"), "base": ("nylon base", "aluminum base")}, (65, 320)),
    Kind("Backpack", "backpacks", "fashion", "Clothing, Shoes & Jewelry › Luggage › Backpacks",
         ("Commuter", "School", "Roll Top", "Day"),
         ("laptop sleeve", "water repellent", "usb port", "chest strap", "anti theft pocket",
          "carry on size"),
         {"color": ("charcoal", "navy", "olive", "mustard"), "volume": ("18 liter", "24 liter", "30 liter")},
         (24, 110)),
)  # fmt: skip
BRANDS = (
    "Alderwick", "Brackenfell", "Cindermoor", "Dovetail & Finch", "Ellinghurst", "Fennimore", "Gallowglen",
    "Hartsmere", "Inglebrook", "Juniper Row", "Kestrelby", "Lindqvale", "Marlowe Pike", "Nettlefold",
    "Oakhampton", "Pembrindle", "Quarrystone", "Ravensholt", "Saltmarsh", "Thornaby", "Underhill Works",
    "Verrington", "Wexcombe", "Yarrowdale",
)  # fmt: skip
_USES = ("for daily use", "for travel", "for the office", "for small homes", "for gifts", "for outdoors")
_ASKS = (
    "i am looking for {article} {noun} that is {attributes}{options}",
    "i need {article} {noun}, {attributes}{options}",
    "find me {article} {attributes} {noun}{options}",
    "can you find {article} {noun} with these qualities: {attributes}{options}",
    "i would like to buy {article} {noun} which is {attributes}{options}",
)


def _asin(rng: random.Random, taken: set[str]) -> str:
    while True:
        asin = "B0" + "".join(rng.choice("23456789BCDFGHJKLMNPQRSTVWXYZ") for _ in range(8))
        if asin not in taken:
            taken.add(asin)
            return asin


def _some(rng: random.Random, pool: tuple[str, ...], low: int, high: int) -> list[str]:
    """A few of the pool, in the pool's order."""
    chosen = set(rng.sample(pool, rng.randint(low, min(high, len(pool)))))
    return [value for value in pool if value in chosen]


def _pricing(rng: random.Random, low: float, high: float) -> str:
    price = round(rng.uniform(low, high), 2)
    return f"${price:.2f}${price * rng.uniform(1.1, 1.6):.2f}" if rng.random() < 0.2 else f"${price:.2f}"


def _item(rng: random.Random, kind: Kind, title: str, asin: str, has: list[str]) -> dict[str, Any]:
    options = {name: _some(rng, pool, 2, len(pool)) for name, pool in kind.options.items()}
    brand = title.split(f" {kind.noun}")[0]
    bullets = [
        f"{has[0].capitalize()} by design",
        *(f"{a.capitalize()}, checked before it ships" for a in has[1:]),
    ]
    return {
        "asin": asin,
        "name": title,
        "full_description": f"The {brand} {kind.noun.lower()} is made to be kept. It is {', '.join(has)}.",
        "small_description": bullets,
        "pricing": _pricing(rng, *kind.price),
        "images": [""],
        "product_category": kind.path,
        "category": kind.category,
        "query": kind.query,
        "customization_options": {
            name.title(): [{"value": value, "image": None} for value in values]
            for name, values in options.items()
        },
    }


def _ask(rng: random.Random, kind: Kind, item: Mapping[str, Any], has: list[str]) -> dict[str, Any]:
    """What a customer says who wants this very item."""
    wanted = rng.sample(has, rng.randint(1, min(2, len(has))))
    options = []
    for contents in item["customization_options"].values():
        if rng.random() < 0.75:
            options.append(rng.choice(contents)["value"])
    noun = kind.noun.lower()
    plural = noun.endswith("s") or noun in ("green tea", "trail mix", "shampoo")
    article = "some" if plural else "an" if noun[0] in "aeiou" else "a"
    words = rng.choice(_ASKS).format(
        article=article, noun=noun, attributes=" and ".join(wanted),
        options=f", in {' and '.join(options)}" if options else "",
    )  # fmt: skip
    return {
        "asin": item["asin"], "instruction": words, "attributes": has, "options": options,
        "instruction_attributes": wanted, "instruction_options": options,
    }  # fmt: skip


def make(seed: int = SEED) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """(items, attributes, human instructions) as WebShop's three files hold them; about 1,250 items and 720
    instructions. The same seed gives the same catalogue."""
    rng = random.Random(seed)
    taken: set[str] = set()
    items: list[dict[str, Any]] = []
    attributes: dict[str, Any] = {}
    human: dict[str, Any] = {}
    for kind in KINDS:
        for _ in range(FAMILIES):
            use = rng.choice(_USES)
            title = f"{rng.choice(BRANDS)} {rng.choice(kind.styles)} {kind.noun} {use}"
            family = []
            core = rng.choice(kind.attributes)
            for _ in range(rng.choice(SIBLINGS)):
                has = sorted({core, *_some(rng, kind.attributes, 1, 3)}, key=kind.attributes.index)
                item = _item(rng, kind, title, _asin(rng, taken), has)
                attributes[item["asin"]] = {"attributes": has}
                family.append((item, has))
            items += [item for item, _ in family]
            for item, has in rng.sample(family, CUSTOMERS):
                human.setdefault(item["asin"], []).append(_ask(rng, kind, item, has))
    rng.shuffle(items)
    return items, attributes, human
