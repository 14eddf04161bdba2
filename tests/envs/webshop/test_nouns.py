"""The rule for nouns in titles, and the choice of a tagger."""

from __future__ import annotations

import sys

import pytest

from roleagent_lite.envs.webshop.nouns import by_rule, tagger
from roleagent_lite.errors import ConfigError, MissingExtra


def test_words_that_name_things() -> None:
    assert by_rule("Havenloom Modern Mug for Travel, 12 oz - Set of 2") == ["havenloom", "mug", "travel"]
    assert by_rule("O'Dannell Men’s T-Shirt") == ["o'dannell", "men’s", "shirt"]
    assert by_rule("The Small Black 4 in") == []
    assert by_rule("lamp lamp") == ["lamp", "lamp"]


def test_choice() -> None:
    assert tagger("rule") is by_rule
    with pytest.raises(ConfigError, match="no tagger of nouns 'ruel'; did you mean 'rule'"):
        tagger("ruel")


def test_without_spacy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtra, match="needs spaCy and its model"):
        tagger("spacy")("a mug")
