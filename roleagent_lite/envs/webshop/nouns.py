"""Which words of a product's title name things: for the title score of the reward.

The original asks spaCy, whose answer changes with its version. The default here is a rule, the same
everywhere: a word counts unless it is a function word, a common adjective, a number or a measure. Exact
title scores therefore differ from the original's in places; `spacy` takes the original's way, where spaCy
and a model are installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from roleagent_lite.errors import ConfigError, MissingExtra, nearest

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_OTHERS = """
a an and as at by for from in into is it of on or our per the this to up us with without your my all any
each every no not only than that very when which while be can has have made make use used using set new
old big small large extra ultra super mini soft hard light heavy dark bright modern vintage classic
casual compact portable foldable adjustable reusable washable disposable wireless cordless electric
automatic manual natural organic fresh premium deluxe luxury fancy cute cool warm hot cold dry wet
everyday daily handmade recycled safe strong thick thin long short high low wide narrow deep flat round
square full half double single dual triple multi free easy quick fast slow best good great perfect ideal
black white red blue green yellow orange purple pink brown grey gray beige golden silver oz ounce ounces
inch inches cm mm ml lb lbs kg ft count
"""
_NOT_NOUNS = frozenset(_OTHERS.split())


def by_rule(title: str) -> list[str]:
    """Lower-case words of the title but for those that name no thing, in order, repeats kept."""
    return [word for word in _WORD.findall(title.lower()) if word not in _NOT_NOUNS and len(word) > 1]


@lru_cache(maxsize=1)
def _spacy() -> Callable[[str], object]:
    try:
        import spacy

        loaded: Callable[[str], object] = spacy.load("en_core_web_sm")
    except (ImportError, OSError) as error:
        raise MissingExtra(
            f"nouns = 'spacy' needs spaCy and its model en_core_web_sm ({error}); install both, or use rule"
        ) from None
    return loaded


def by_spacy(title: str) -> list[str]:
    """Nouns and proper nouns as spaCy's small English model tags them."""
    return [t.text.lower() for t in _spacy()(title) if t.pos_ in ("NOUN", "PROPN")]  # type: ignore[attr-defined]


TAGGERS: Mapping[str, Callable[[str], list[str]]] = {"rule": by_rule, "spacy": by_spacy}


def tagger(name: str) -> Callable[[str], list[str]]:
    """The tagger of this name. Raises ConfigError."""
    if name not in TAGGERS:
        raise ConfigError(f"no tagger of nouns '{name}'{nearest(name, TAGGERS)}")
    return TAGGERS[name]
