"""fidelity: the agent's predictions beside trivial ones, what is missing, and what is said about it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from roleagent_lite.config import Wia
from roleagent_lite.types import Trajectory
from roleagent_lite.wia.align import lms
from roleagent_lite.wia.credit import credit_all
from roleagent_lite.wia.fidelity import (
    MISSING_RULE,
    ActionFidelity,
    Baseline,
    Fidelity,
    fidelity,
    is_missing,
    missing_warning,
)
from tests.wia.make import rollout, settings, steps


def measure(trajectories: Sequence[Trajectory], wia: Wia | None = None) -> Fidelity:
    wia = wia or settings()
    return fidelity(trajectories, credit_all(trajectories, wia), wia)


def baseline(found: Fidelity, word: str) -> Baseline:
    (one,) = [b for b in found.baselines if word in b.name]
    return one


def test_wm_03_four_of_ten_steps_without_prediction() -> None:
    states = [f"room {i}" for i in range(11)]
    said = [None if i in (1, 4, 5, 9) else [states[i + 1]] for i in range(10)]
    episode = rollout(0, steps(states, [0.0] * 9 + [1.0], said), "solved", score=1.0)
    wia = settings()
    (credit,) = credit_all([episode], wia)
    found = fidelity([episode], [credit], wia)
    assert (found.steps, found.missing, found.missing_share) == (10, 4, 0.4)
    assert (found.compared_steps, found.comparisons, found.alignment) == (6, 6, 1.0)
    assert found.rule == MISSING_RULE
    assert "keeps its plain task return" in MISSING_RULE
    for i in range(10):  # and the rule is what happened
        assert credit.reward[i] == pytest.approx(credit.task_return[i] * (1 if i in (1, 4, 5, 9) else 2))
    assert not any("100 %" in w for w in found.warnings)
    assert missing_warning([episode]) is None


def test_wm_03_all_missing_warns_at_the_end_of_the_first_episode() -> None:
    episode = rollout(0, steps(["a", "b", "c"], [0.0, 0.0], [None, [" ", None]]))
    text = missing_warning([episode])
    assert text is not None
    assert "none of 2 steps carries a prediction (100 % missing)" in text
    assert "plain task returns" in text
    found = measure([episode])
    assert found.warnings[0] == text
    assert (found.alignment, found.comparisons, found.missing_share) == (None, 0, 1.0)
    assert missing_warning([]) is None
    assert missing_warning([rollout(0, ())]) is None
    assert missing_warning([episode, rollout(1, steps(["a", "b"], [0.0], [["b"]]))]) is None


def test_the_ablation_without_predictions_is_no_fault() -> None:
    episode = rollout(0, steps(["a", "b"], [1.0]), "solved")
    assert not any("100 %" in w for w in measure([episode], settings(predict="off")).warnings)


def test_is_missing_looks_at_every_horizon() -> None:
    its = steps(["a"] * 5, [0.0] * 4, [[None, "x"], [None, ""], [], ["x"]])
    assert [is_missing(s) for s in its] == [False, True, True, False]


def test_the_same_observation_again() -> None:
    its = steps(["abcd", "abcX", "abcX"], [0.0, 0.0], [["abcX"], ["zzzz"]])
    found = measure([rollout(0, its)])
    same = baseline(found, "same observation")
    assert same == Baseline("the same observation again", (0.75 + 1.0) / 2, 0.5, 2)
    assert found.alignment == 0.5


def test_trivial_predictors_stand_on_the_same_comparisons_as_the_agent() -> None:
    its = steps(["abcd", "abcX", "abcX"], [0.0, 0.0], [["abcX"], None])
    found = measure([rollout(0, its)])
    assert baseline(found, "same observation") == Baseline("the same observation again", 0.75, 1.0, 1)


def test_the_most_frequent_training_observation() -> None:
    train = rollout(0, steps(["s", "usual", "rare", "usual"], [0.0] * 3), split="train")
    dev = rollout(0, steps(["s", "rare", "rare"], [0.0] * 2, [["rare"], ["rare"]]), split="dev", task="d")
    found = measure([train, dev])
    assert baseline(found, "most frequent") == Baseline(
        "the most frequent training observation", lms("usual", "rare"), 1.0, 2
    )


def test_equally_frequent_observations_are_told_apart_by_alphabet() -> None:
    train = rollout(0, steps(["s", "b", "a"], [0.0] * 2, [["b"], ["x"]]))
    assert baseline(measure([train]), "most frequent").alignment == 0.5  # "a" fits the second step


def test_without_training_episodes_there_is_no_most_frequent_observation() -> None:
    dev = rollout(0, steps(["s", "b"], [0.0], [["b"]]), split="dev")
    assert baseline(measure([dev]), "most frequent") == Baseline(
        "the most frequent training observation", None, None, 0
    )


def test_what_followed_the_same_action_last_time() -> None:
    its = steps(
        ["s", "dark", "door", "dusk", "wall"],
        [0.0] * 4,
        [["dark"], ["door"], ["dusk"], ["xxxx"]],
        actions=["look", "go", "look", "go"],
    )
    found = measure([rollout(0, its)])
    wanted = (lms("dark", "dusk") + lms("door", "wall")) / 2
    assert baseline(found, "same action") == Baseline(
        "what followed the same action last time", wanted, 0.5, 2
    )


def test_the_last_step_of_an_episode_is_remembered_in_the_next() -> None:
    one = rollout(0, steps(["s", "new"], [0.0], [["new"]]))
    two = rollout(1, steps(["s", "new"], [0.0], [["old"]]))
    for order in ([one, two], [two, one]):  # by round and id, not by order of arrival
        found = baseline(measure(order), "same action")
        assert (found.alignment, found.model, found.n) == (1.0, lms("old", "new"), 1)
    early = rollout(0, steps(["s", "abc"], [0.0]), task="z", round=0)
    late = rollout(0, steps(["s", "abc"], [0.0], [["abc"]]), task="a", round=1)
    assert baseline(measure([late, early]), "same action").n == 1


def test_last_time_at_two_steps_ahead() -> None:
    its = steps(["s0", "s1", "s2", "s3", "s4"], [0.0] * 4, [["x", "y"]] * 4, actions=["a", "b", "a", "b"])
    found = measure([rollout(0, its, max_steps=40)])
    # h = 1: a->s1 asked at step 2 (s3), b->s2 asked at step 3 (s4); h = 2: a->s2 asked at step 2 (s4)
    same = baseline(found, "same action")
    assert same.n == 3
    assert same.alignment == pytest.approx((lms("s1", "s3") + lms("s2", "s4") + lms("s2", "s4")) / 3)
    assert found.comparisons == 7
    assert found.compared_steps == 4


def test_last_time_is_what_had_come_by_then() -> None:
    states = ["s", "aa", "bb", "cc", "dd", "ee", "ff"]
    acts = ["u", "v", "w", "x", "y", "y"]
    found = measure([rollout(0, steps(states, [0.0] * 6, [None] * 5 + [["ff"]], acts))])
    assert baseline(found, "same action").alignment == lms("ee", "ff") == 0.0
    its = steps([*states[:-1], "ee"], [0.0] * 6, [None] * 5 + [["ee"]], acts)
    assert baseline(measure([rollout(0, its)]), "same action").alignment == 1.0


def test_by_action_type() -> None:
    its = steps(
        ["s", "a", "b", "c", "d"],
        [0.0] * 4,
        [["a"], ["x"], None, ["d"]],
        actions=["Go north", "go south", "take mug", ""],
    )
    assert measure([rollout(0, its)]).by_action == (
        ActionFidelity("go", 2, 0, 0.5),
        ActionFidelity("", 1, 0, 1.0),
        ActionFidelity("take", 1, 1, None),
    )


def test_state_groups_and_non_zero_advantages() -> None:
    good = rollout(0, steps(["a", "b", "e"], [0.0, 1.0], [["b"], ["e"]]), "solved")
    bad = rollout(1, steps(["a", "c", "e"], [0.0, 0.0], [["c"], ["e"]]))
    found = measure([good, bad], settings(alpha=0.0))
    assert (found.state_groups, found.singletons) == (3, 2)
    assert found.singleton_share == pytest.approx(2 / 3)
    assert (found.credited, found.nonzero, found.nonzero_share) == (4, 2, 0.5)
    assert not any("non-zero" in w for w in found.warnings)


def test_state_groups_are_counted_for_each_group_of_rollouts() -> None:
    its = steps(["a", "b"], [0.0], [["b"]])
    found = measure([rollout(0, its, task="t"), rollout(0, its, task="u")])
    assert (found.state_groups, found.singletons) == (2, 2)


def test_no_advantage_anywhere_is_said() -> None:
    its = steps(["a", "b"], [0.0], [["b"]])
    found = measure([rollout(0, its), rollout(1, its)])
    assert found.nonzero_share == 0.0
    assert any("none of 2 steps has a non-zero advantage" in w for w in found.warnings)


def test_cut_off_episodes_are_measured_but_not_counted_as_taught() -> None:
    its = steps(["a", "b"], [0.0], [["b"]])
    found = measure([rollout(0, its, "cut_off")])
    assert (found.steps, found.comparisons) == (1, 1)
    assert (found.credited, found.nonzero_share, found.state_groups, found.singleton_share) == (
        0,
        None,
        0,
        None,
    )
    assert not any("advantage" in w for w in found.warnings)


def test_infrastructure_errors_are_left_out() -> None:
    its = steps(["a", "b"], [0.0], [["b"]])
    assert measure([rollout(0, its, "infrastructure_error")]).steps == 0


def test_no_data_is_none_and_never_nan() -> None:
    found = measure([])
    assert (found.alignment, found.correlation, found.by_action, found.warnings) == (None, None, (), ())
    assert (found.missing_share, found.singleton_share, found.nonzero_share) == (None, None, None)
    assert [(b.alignment, b.model, b.n) for b in found.baselines] == [(None, None, 0)] * 3


def test_predictions_no_better_than_a_trivial_one_are_called_so() -> None:
    states, acts = ["abcd", "abcX", "abcX"], ["go", "look"]
    poor = rollout(0, steps(states, [0.0, 0.0], [["abcd"], ["abcX"]], acts), split="dev")
    (text,) = [w for w in measure([poor]).warnings if "no better" in w]
    assert "(0.88) are no better than 'the same observation again' (0.88, n = 2)" in text
    good = rollout(0, steps(["abcd", "efgh", "ijkl"], [0.0, 0.0], [["efgh"], ["ijkl"]]), split="dev")
    assert not any("no better" in w for w in measure([good]).warnings)


def test_a_trivial_predictor_that_seldom_answers_is_no_measure() -> None:
    states, acts = ["s", "same", "b", "c", "same"], ["go", "a", "b", "go"]
    its = steps(states, [0.0] * 4, [["same"], ["b"], ["c"], ["same"]], acts)
    found = measure([rollout(0, its, split="dev")])
    assert baseline(found, "same action") == Baseline("what followed the same action last time", 1.0, 1.0, 1)
    assert not any("no better" in w for w in found.warnings)


@pytest.mark.parametrize(("steps_first", "said"), [(2, True), (3, False)])
def test_half_of_the_answers_is_enough_to_be_a_measure(steps_first: int, said: bool) -> None:
    """Two recalled outcomes that are right, among 4 or 5 comparisons: half is a measure, 2 of 5 is not."""
    outcomes = [*"abcde"[:steps_first], "a", "b"]
    acts = [*"uvwxy"[:steps_first], "u", "v"]
    its = steps(["s", *outcomes], [0.0] * len(acts), [[text] for text in outcomes], acts)
    found = measure([rollout(0, its, split="dev")])
    assert baseline(found, "same action").n == 2
    assert any("'what followed the same action last time' (1.00, n = 2)" in w for w in found.warnings) is said


def test_the_best_trivial_predictor_is_the_measure() -> None:
    # the same observation scores 0.69 on all four (the agent 0.62), recall less on two (the agent 1.00)
    states = ["abcd", "abcX", "abcd", "abYd", "abcZ"]
    said = [["zzzz"], ["abzz"], ["abYd"], ["abcZ"]]
    found = measure([rollout(0, steps(states, [0.0] * 4, said, ["u", "v", "u", "v"]), split="dev")])
    same, recalled = baseline(found, "same observation"), baseline(found, "same action")
    assert (same.alignment, same.model, recalled.model) == (0.6875, 0.625, 1.0)
    assert recalled.alignment is not None
    assert recalled.alignment < 0.6875
    (text,) = [w for w in found.warnings if "no better" in w]
    assert "the predictions (0.62) are no better than 'the same observation again' (0.69, n = 4)" in text


def test_the_end_of_an_episode_is_remembered_as_it_was() -> None:
    one = rollout(0, steps(["s", "mid", "end"], [0.0, 0.0], [["mid"], ["end"]], ["go", "stop"]))
    two = rollout(1, steps(["s", "end"], [0.0], [["end"]], ["stop"]))
    assert baseline(measure([one, two]), "same action").alignment == 1.0


def test_correlation_of_foresight_with_success() -> None:
    rng = random.Random(3)
    its = []
    for i in range(12):
        solved = i % 2 == 0
        guess = "abcdefgh" if solved else "abcdXXXX" if rng.random() < 0.7 else "abcdefXX"
        its.append(
            rollout(i, steps(["s", "abcdefgh"], [float(solved)], [[guess]]), "solved" if solved else "failed")
        )
    found = measure(its).correlation
    assert found is not None
    assert found.n == 12
    assert found.r > 0.8
    assert found.p < 0.01


def test_correlation_is_over_compared_steps_only() -> None:
    full = steps(["s", "ab", "ab"], [0.0, 0.0], [["ab"], ["ab"]])
    half = steps(["s", "ab", "ab"], [0.0, 1.0], [["aX"], None])
    none = steps(["s", "ab"], [0.0])
    its = [rollout(0, full), rollout(1, full), rollout(2, half, "solved"), rollout(3, none, "solved")]
    found = measure(its).correlation
    assert found is not None
    assert found.n == 3
    assert found.r == pytest.approx(-1.0)  # mean R_pre 1, 1 and 0.5 (not 0.25)


def test_cuts_are_summed() -> None:
    page = "Something happens here. " * 30
    found = measure([rollout(0, steps(["s", page, "e"], [0.0, 0.0], [["x"], ["y"]]))])
    assert found.cut == 1


def test_the_scorer_of_the_settings_is_used() -> None:
    episode = rollout(0, steps(["a b", "a c"], [0.0], [["a c"]]))
    assert baseline(measure([episode], settings(scorer="tokens")), "same observation").alignment == 0.5
    assert baseline(measure([episode]), "same observation").alignment == pytest.approx(2 / 3)
