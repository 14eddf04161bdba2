"""The furniture and things of our own scenes: what goes where, what can be done with what.

Owns the tables the generator draws from; a task row may bring its own instead. Class names are CamelCase as
in AI2-THOR; the game's names are the same in lower case.
"""

from __future__ import annotations

_SMALL = "CellPhone CreditCard KeyChain Pen Pencil Watch CD RemoteControl"
_DISHES = "Bowl Cup Mug Plate"
_COOKWARE = "Pan Pot Kettle"
_CUTLERY = "ButterKnife Fork Knife Ladle Spatula Spoon"
_FOOD = "Apple Bread Egg Lettuce Potato Tomato"
_CONDIMENTS = "PepperShaker SaltShaker"
_BOTTLES = "Glassbottle SoapBottle SprayBottle WineBottle"
_BATH = "Candle Cloth HandTowel SoapBar TissueBox ToiletPaper ToiletPaperRoll"
_LIVING = "Book Box Laptop Newspaper Statue Vase WateringCan"
_TOYS = "AlarmClock BaseballBat BasketBall Pillow TeddyBear TennisRacket"
_LAMPS = "DeskLamp FloorLamp"
_ALL = " ".join((_SMALL, _DISHES, _COOKWARE, _CUTLERY, _FOOD, _CONDIMENTS, _BOTTLES, _BATH, _LIVING, _TOYS,
                 "DishSponge PaperTowel Plunger DeskLamp"))  # fmt: skip

_FITS: dict[str, str] = {
    "ArmChair": f"{_SMALL} Book Box Cloth Laptop Newspaper Pillow TeddyBear TennisRacket BasketBall",
    "BathtubBasin": "Cloth DishSponge HandTowel SoapBar SoapBottle",
    "Bed": f"{_SMALL} {_TOYS} Book Box Cloth Laptop Newspaper",
    "Cabinet": f"{_DISHES} {_COOKWARE} {_BOTTLES} {_BATH} {_CONDIMENTS} Box DishSponge Ladle Plunger Vase",
    "CoffeeMachine": "Mug Cup",
    "CoffeeTable": f"{_ALL} Statue",
    "CounterTop": _ALL,
    "Desk": f"{_SMALL} {_LIVING} {_TOYS} Bowl Cup Mug Plate Candle Cloth TissueBox DeskLamp",
    "DiningTable": _ALL,
    "Drawer": f"{_SMALL} {_CUTLERY} {_CONDIMENTS} Book Candle Cloth DishSponge HandTowel Newspaper SoapBar "
              "SoapBottle TissueBox ToiletPaper ToiletPaperRoll",
    "Dresser": f"{_SMALL} {_LIVING} {_TOYS} Bowl Cup Mug Candle Cloth TissueBox SprayBottle DeskLamp",
    "Fridge": f"{_FOOD} {_DISHES} Pan Pot Glassbottle WineBottle",
    "GarbageCan": f"{_FOOD} {_BOTTLES} Cloth DishSponge HandTowel Newspaper PaperTowel Pen Pencil SoapBar "
                  "TissueBox ToiletPaper ToiletPaperRoll CD",
    "Microwave": f"{_DISHES} Apple Bread Egg Potato Tomato",
    "Ottoman": f"{_SMALL} Book Box Laptop Newspaper Pillow TeddyBear Cloth",
    "Safe": f"{_SMALL} Statue Vase",
    "Shelf": f"{_SMALL} {_DISHES} {_BOTTLES} {_BATH} {_LIVING} {_CONDIMENTS} AlarmClock TeddyBear Kettle Pot "
             "DeskLamp",
    "SideTable": f"{_SMALL} {_DISHES} {_LIVING} {_BATH} {_TOYS} {_CONDIMENTS} SprayBottle SoapBottle Apple "
                 "Bread PaperTowel DeskLamp",
    "SinkBasin": f"{_DISHES} {_COOKWARE} {_CUTLERY} {_FOOD} Cloth DishSponge HandTowel SoapBar",
    "Sofa": f"{_SMALL} Book Box Cloth Laptop Newspaper Pillow TeddyBear TennisRacket BasketBall",
    "StoveBurner": "Kettle Pan Pot",
    "TVStand": f"{_SMALL} {_LIVING} Bowl Cup Mug TissueBox Candle",
    "Toilet": "Candle Cloth DishSponge HandTowel Newspaper PaperTowel SoapBar SoapBottle SprayBottle "
              "TissueBox ToiletPaper ToiletPaperRoll",
    "ToiletPaperHanger": "ToiletPaper ToiletPaperRoll",
    "TowelHolder": "HandTowel",
}  # fmt: skip

_CAN: dict[str, str] = {
    "cleanable": f"{_DISHES} {_COOKWARE} {_CUTLERY} Apple Lettuce Potato Tomato Cloth DishSponge SoapBar",
    "heatable": "Apple Bread Cup Egg Mug Plate Potato Tomato",
    "coolable": f"{_FOOD} Bowl Cup Mug Pan Plate Pot WineBottle",
    "sliceable": "Apple Bread Egg Lettuce Potato Tomato",
    "toggleable": _LAMPS,
    "container": "Bowl Box Cup Mug Pan Plate Pot",
}

OPENABLE = frozenset({"fridge", "cabinet", "microwave", "drawer", "safe"})

# Room -> (receptacle class, most of them in one room); the first entries are in every room.
ROOMS: dict[str, tuple[tuple[str, int], ...]] = {
    "kitchen": (("CounterTop", 3), ("SinkBasin", 1), ("Fridge", 1), ("Microwave", 1), ("Cabinet", 12),
                ("Drawer", 9), ("StoveBurner", 4), ("DiningTable", 2), ("GarbageCan", 1),
                ("CoffeeMachine", 1), ("Shelf", 3), ("SideTable", 1)),
    "bathroom": (("SinkBasin", 2), ("CounterTop", 2), ("Cabinet", 6), ("Drawer", 4), ("GarbageCan", 1),
                 ("Shelf", 3), ("Toilet", 1), ("ToiletPaperHanger", 1), ("BathtubBasin", 1), ("SideTable", 1),
                 ("TowelHolder", 1)),
    "bedroom": (("Desk", 2), ("Bed", 1), ("Drawer", 8), ("SideTable", 2), ("Shelf", 6), ("Dresser", 2),
                ("GarbageCan", 1), ("Safe", 1), ("ArmChair", 2), ("Ottoman", 1)),
    "livingroom": (("Sofa", 2), ("SideTable", 2), ("CoffeeTable", 2), ("ArmChair", 2), ("Shelf", 8),
                   ("TVStand", 1), ("Drawer", 6), ("Desk", 1), ("Dresser", 1), ("DiningTable", 1),
                   ("GarbageCan", 1), ("Cabinet", 4), ("Ottoman", 1), ("Safe", 1)),
}  # fmt: skip

THINGS: dict[str, tuple[str, ...]] = {
    "kitchen": tuple(
        f"{_DISHES} {_COOKWARE} {_CUTLERY} {_FOOD} {_CONDIMENTS} {_BOTTLES} DishSponge PaperTowel Book "
        "CreditCard Statue Vase".split()
    ),
    "bathroom": tuple(f"{_BATH} DishSponge PaperTowel Plunger SoapBottle SprayBottle".split()),
    "bedroom": tuple(f"{_SMALL} {_TOYS} Book Bowl Box Cloth Laptop Mug Statue Vase TissueBox".split()),
    "livingroom": tuple(
        f"{_SMALL} {_LIVING} Bowl Candle Mug Pillow Plate TeddyBear TissueBox BasketBall".split()
    ),
}

# Task type -> rooms it is played in.
PLAYED_IN: dict[str, tuple[str, ...]] = {
    "pick_and_place_simple": ("kitchen", "bathroom", "bedroom", "livingroom"),
    "look_at_obj_in_light": ("bedroom", "livingroom"),
    "pick_clean_then_place_in_recep": ("kitchen", "bathroom"),
    "pick_heat_then_place_in_recep": ("kitchen",),
    "pick_cool_then_place_in_recep": ("kitchen",),
    "pick_two_obj_and_place": ("kitchen", "bathroom", "bedroom", "livingroom"),
}
TOOL = {
    "pick_clean_then_place_in_recep": ("SinkBasin", "cleanable"),
    "pick_heat_then_place_in_recep": ("Microwave", "heatable"),
    "pick_cool_then_place_in_recep": ("Fridge", "coolable"),
}
LAMPS = tuple(_LAMPS.split())

CAMEL = {name.lower(): name for name in (*_FITS, *_ALL.split(), *LAMPS)}
_FITS_LOWER = {r.lower(): frozenset(o.lower() for o in things.split()) for r, things in _FITS.items()}
_CAN_LOWER = {
    o.lower(): tuple(a for a in _CAN if o in _CAN[a].split()) for o in (*_ALL.split(), *LAMPS)
}  # fmt: skip


def fits(receptacle: str) -> frozenset[str]:
    """Classes of things that a receptacle class takes (lower case); none for an unknown class."""
    return _FITS_LOWER.get(receptacle, frozenset())


def can(thing: str) -> tuple[str, ...]:
    """Abilities of a class of things (lower case), "container" among them; none for an unknown class."""
    return _CAN_LOWER.get(thing, ())
