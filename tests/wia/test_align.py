"""align: the number of the paper in the right order, and what of a long page is compared."""

from __future__ import annotations

import difflib
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Step
from roleagent_lite.wia import align
from tests.wia.make import steps

ANY = st.text(st.characters(exclude_categories=()), max_size=60)  # lone surrogates included
WORDS = st.text("ab cdé.", max_size=80)
STEP = Step(observation="s", action="a", outcome="o")


def plain(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a, b, False).ratio()


@given(ANY, ANY)
def test_lms_is_difflibs_number(a: str, b: str) -> None:
    assert align.lms(a, b) == plain(a, b)


@given(WORDS, WORDS)
def test_lms_is_difflibs_number_on_texts_that_share_much(a: str, b: str) -> None:
    assert align.lms(a, b) == plain(a, b)
    assert 0.0 <= align.lms(a, b) <= 1.0


def test_the_order_is_prediction_then_actual() -> None:
    # Ratcliff/Obershelp is not symmetric: a pair that tells the order
    assert align.lms("tide", "diet") == 0.25
    assert align.lms("diet", "tide") == 0.5
    assert align.agreement("tide", align.Target("diet"), align.lms) == 0.25
    told = steps(["x", "diet"], [0.0], [["tide"]])
    assert align.align(told, 1, align.lms)[0] == ((0.25,),)


def test_two_changed_words_of_a_long_text_cost_little() -> None:
    words = [f"word{random.Random(i).randint(0, 99)}" for i in range(80)]
    changed = [*words[:20], "other", *words[21:50], "thing", *words[51:]]
    assert align.lms(" ".join(changed), " ".join(words)) > 0.95  # autojunk would give far less


def test_tokens_counts_words() -> None:
    assert align.tokens("the mug is red", "the  mug\nis blue") == 0.75
    assert align.tokens("themug", "the mug") == 0.0
    assert align.tokens("a b", "a b") == 1.0
    assert align.tokens("Mug", "mug") == 0.0
    assert align.tokens("a b c d", "b x") == pytest.approx(2 / 6)


def test_scorers_by_name() -> None:
    assert align.scorer("lms") is align.lms
    assert align.scorer("tokens") is align.tokens
    with pytest.raises(ConfigError, match="no scorer 'lsm'; did you mean 'lms'"):
        align.scorer("lsm")


def test_without_cydifflib_the_number_is_the_same() -> None:
    code = (
        "import sys; sys.modules['cydifflib'] = None\n"
        "from roleagent_lite.wia import align\n"
        "assert align.SequenceMatcher.__module__ == 'difflib'\n"
        "print(align.lms('tide', 'diet'), align.tokens('a b', 'a c'))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["0.25", "0.5"]


# --- what is compared ---------------------------------------------------------------------------------


def test_up_to_400_characters_the_whole_text_is_compared() -> None:
    text = "Known. " + "x" * 393
    assert len(text) == align.LONG == 400
    assert align.target("Known.", text) == align.Target(text, cut=False)


def test_over_400_characters_only_what_is_new() -> None:
    old = "You are in a hall. The door is shut."
    later = old + " A dragon comes in! Is it red?\nIt roars" + " loudly" * 60
    assert len(later) > 400
    found = align.target(old, later)
    assert found is not None
    assert found.cut
    assert found.text.startswith("A dragon comes in! Is it red? It roars loudly loudly")
    assert len(found.text.split()) == align.WORDS == 60


def test_401_characters_are_over() -> None:
    found = align.target("", "x" * 401)
    assert found == align.Target("x" * 401, cut=True)


def test_a_long_page_that_did_not_change_has_no_target() -> None:
    page = "This sentence stands here. " * 20
    assert align.target(page, page) is None
    assert align.target("", page) == align.Target(" ".join(["This sentence stands here."] * 15), cut=True)


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_an_empty_observation_is_no_target(text: str) -> None:
    assert align.target("state", text) is None


def test_a_sentence_is_known_only_as_a_whole() -> None:
    later = "The door is shut. " + "The door is shut now. " * 20
    found = align.target("The door is shut.", later)
    assert found is not None
    assert found.text.startswith("The door is shut now. The door")


def test_sentences() -> None:
    assert align.sentences("One. Two!  Three?\n\n Four 4.5 five\nsix") == [
        "One.", "Two!", "Three?", "Four 4.5 five", "six",
    ]  # fmt: skip
    assert align.sentences("  ") == []


def test_first_words() -> None:
    assert align.first_words("a  b\nc d", 3) == "a b c"
    assert align.first_words("a b", 3) == "a b"


def test_the_prediction_is_cut_only_beside_a_cut_target() -> None:
    said = "  ".join(["word"] * 100)
    seen: list[str] = []

    def note(prediction: str, actual: str) -> float:
        seen.append(prediction)
        return 0.5

    assert align.agreement(said, align.Target("x", cut=True), note) == 0.5
    assert align.agreement(said, align.Target("x"), note) == 0.5
    assert seen == [" ".join(["word"] * 60), said]


# --- the matrix ---------------------------------------------------------------------------------------


def test_predictions_point_h_steps_ahead_and_stop_at_the_end() -> None:
    its = steps(["s1", "s2", "s3"], [0.0, 0.0], [["s2", "s3", "s4"], ["s3", "s4"]])
    matrix, cut = align.align(its, 3, align.lms)
    assert matrix == ((1.0, 1.0, None), (1.0, None, None))
    assert cut == (0, 0)


def test_missing_and_blank_predictions_are_none() -> None:
    its = steps(["a", "b", "c", "d", "e"], [0.0] * 4, [None, [None], [""], [" \n"]])
    assert align.align(its, 1, align.lms)[0] == ((None,),) * 4


def test_predictions_beyond_the_horizon_are_ignored() -> None:
    its = steps(["a", "b", "c"], [0.0, 0.0], [["b", "c"], ["c"]])
    assert align.align(its, 1, align.lms)[0] == ((1.0,), (1.0,))


def test_cuts_are_counted_for_each_step() -> None:
    long = [f"Page {i} says this and that. " * 20 for i in range(3)]
    its = steps(["short", *long], [0.0] * 3, [["a", "b"], ["a", None], ["a", "b"]])
    matrix, cut = align.align(its, 2, align.lms)
    assert cut == (2, 1, 1)
    assert [sum(v is not None for v in row) for row in matrix] == [2, 1, 1]


def test_an_empty_target_in_the_middle_is_dropped() -> None:
    its = steps(["a", "", "c"], [0.0, 0.0], [["x", "c"], ["c"]])
    assert align.align(its, 2, align.lms)[0] == ((None, 1.0), (1.0, None))


def test_the_target_is_what_came_not_the_next_prompt() -> None:
    first = Step(observation="a", action="x", outcome="came", predictions=("came",))
    second = Step(observation="came, with a note to the agent", action="y", outcome="end")
    assert align.align((first, second), 1, align.lms)[0] == ((1.0,), (None,))


def test_no_steps() -> None:
    assert align.align((), 2, align.lms) == ((), ())


def test_prediction_of_counts_from_one() -> None:
    step = steps(["a", "b"], [0.0], [["one", None, "three"]])[0]
    assert [align.prediction_of(step, h) for h in (1, 2, 3, 4)] == ["one", None, "three", None]


def test_target_of_uses_the_state_in_which_it_was_foretold() -> None:
    page = "Old news here. " * 30
    its = steps(["start", page, page + "New line."], [0.0, 0.0])
    assert align.target_of(its, 0, 2) == align.Target(align.first_words("Old news here. " * 20), cut=True)
    assert align.target_of(its, 1, 1) == align.Target("New line.", cut=True)
    assert align.target_of(its, 1, 2) is None
    assert align.target_of((STEP,), 0, 1) == align.Target("o")
