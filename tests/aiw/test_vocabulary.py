"""The shipped vocabularies hold the paper's names (Table 6); spelling is settled; bad files are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite.aiw.vocabulary import Vocabulary, load_vocabulary
from roleagent_lite.errors import ConfigError

PAPER = {
    "household": """repetitive_exploration wrong_target_location wrong_receptacle premature_give_up
        missing_precondition repeated_failed_action navigation_loop entity_confusion wrong_object_interaction
        exhaustive_exploration_failure action_format_error""",
    "webshop": """irrelevant_query wrong_product_selection wrong_attribute_selection
        missing_attribute_selection premature_purchase excessive_browsing repeated_query navigation_error
        price_constraint_violation action_format_error premature_termination""",
    "search": """wrong_answer insufficient_retrieval irrelevant_retrieval_query repeated_retrieval_query
        information_misinterpretation partial_answer hallucinated_answer premature_answer
        action_format_error""",
}


@pytest.mark.parametrize("name", PAPER)
def test_names_of_the_paper(name: str) -> None:
    vocabulary = load_vocabulary(name)
    assert vocabulary.name == name
    assert list(vocabulary.modes) == PAPER[name].split()
    assert all(4 <= len(what.split()) <= 25 for what in vocabulary.modes.values())
    assert len(set(vocabulary.modes.values())) == len(vocabulary.modes)


def test_general_is_made_of_names_of_the_others() -> None:
    general = load_vocabulary()
    assert general.name == "general"
    known = {mode for names in PAPER.values() for mode in names.split()}
    assert set(general.modes) <= known
    assert "action_format_error" in general.modes
    for name, words in PAPER.items():
        assert set(general.modes) & set(words.split()), f"general has nothing of {name}"


def test_text_for_the_prompt() -> None:
    vocabulary = Vocabulary("v", {"a_b": "when a", "c": "when c"})
    lines = vocabulary.text().splitlines()
    assert lines[:2] == ["- a_b: when a", "- c: when c"]
    assert lines[2].startswith("- other:")
    assert vocabulary.names == ("a_b", "c", "other")


@pytest.mark.parametrize(
    ("said", "mode"),
    [
        ("missing_precondition", "missing_precondition"),
        ("Missing Precondition", "missing_precondition"),
        ("- missing-precondition.", "missing_precondition"),
        ("other: missing_precondition", "missing_precondition"),
        ("other: Took the wrong door", "other:took_the_wrong_door"),
        ("other:cold_feet", "other:cold_feet"),
        ("cold feet", "other:cold_feet"),
        ("otherwise_lost", "other:otherwise_lost"),
        ("дверь закрыта", "other:дверь_закрыта"),
        ("other", "other"),
        ("", "other"),
        ("…", "other"),
        ("other: " + "x" * 100, "other:" + "x" * 40),
    ],
)
def test_settle(said: str, mode: str) -> None:
    assert load_vocabulary("household").settle(said) == mode


def test_a_bare_other_is_named_after_the_keywords() -> None:
    vocabulary = load_vocabulary("household")
    assert vocabulary.settle("other", "open Drawer lamp switch bulb") == "other:open_drawer_lamp_switch"
    assert vocabulary.settle("other: cold_feet", "open drawer") == "other:cold_feet"
    assert vocabulary.settle("wrong receptacle", "open drawer") == "wrong_receptacle"


def test_settling_twice_changes_nothing() -> None:
    vocabulary = load_vocabulary("search")
    for said in ("wrong answer", "other: took a nap", "other", "élan vital"):
        once = vocabulary.settle(said)
        assert vocabulary.settle(once) == once


def test_a_users_own_file(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('[modes]\nbad_luck = "nothing  could\\n be done"\n', encoding="utf-8")
    vocabulary = load_vocabulary(str(own))
    assert (vocabulary.name, dict(vocabulary.modes)) == ("mine", {"bad_luck": "nothing could be done"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modes = 3", "needs a table"),
        ("[modes]", "needs a table"),
        ("[modes]\nx = ", "not valid TOML"),
        ('[modes]\n"Bad Luck" = "x"', "'Bad Luck'"),
        ('[modes]\nother = "x"', "'other'"),
        ('[modes]\nbad = ""', "'bad'"),
        ("[modes]\nbad = 3", "'bad'"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        load_vocabulary(str(own))
    assert str(own) in str(caught.value)


def test_unknown_name_gives_the_nearest() -> None:
    with pytest.raises(ConfigError, match="vocabularies/household"):
        load_vocabulary("houshold")
