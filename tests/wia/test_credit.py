"""credit: the whole verdict against the recorded vectors, and the rules on who is compared with whom."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from roleagent_lite.config import Wia
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from roleagent_lite.types import Credit, Kind, Trajectory
from roleagent_lite.wia.credit import NO_GROUP, credit_all, credit_group
from tests.wia.make import load, of_case, rollout, settings, steps

CASES: list[Any] = load("wia.json")["cases"]


def close(value: Any) -> Any:
    return pytest.approx(value, abs=1.01e-5)  # the files round to five digits


def assert_equals(credit: Credit, expected: Any) -> None:
    for row, wanted in zip(credit.alignment, expected["alignment"], strict=True):
        assert [v is None for v in row] == [v is None for v in wanted]
        assert [v for v in row if v is not None] == close([v for v in wanted if v is not None])
    assert list(credit.task_return) == close(expected["returns"])
    assert list(credit.predictive) == close(expected["predictive"])
    assert list(credit.reward) == close(expected["shaped"])
    assert list(credit.state_group) == expected["state_group"]
    assert list(credit.state_advantage) == close(expected["state_advantage"])
    assert credit.episode_advantage == close(expected["episode_advantage"])
    assert list(credit.advantage) == close(expected["advantage"])


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"case{c['id']}")
def test_equals_the_vectors(case: Any) -> None:
    group, wia = of_case(case)
    credits = {c.trajectory: c for c in credit_group(group, wia)}
    for trajectory, given in zip(group, case["trajectories"], strict=True):
        if given["expected"] is None:
            assert trajectory.id not in credits
        else:
            assert_equals(credits[trajectory.id], given["expected"])


@pytest.mark.parametrize("case", CASES[:12], ids=lambda c: f"case{c['id']}")
def test_order_of_arrival_changes_nothing(case: Any) -> None:
    group, wia = of_case(case)
    shuffled = list(group)
    random.Random(7).shuffle(shuffled)
    again = credit_group(shuffled, wia)
    assert [c.trajectory for c in again] == [t.id for t in shuffled if t.outcome.scored]
    assert sorted(again, key=lambda c: c.trajectory) == sorted(
        credit_group(group, wia), key=lambda c: c.trajectory
    )


def two(kind: Kind = "failed", **changes: Any) -> list[Trajectory]:
    """A solved rollout and one of the given kind, both from state "a" over "b"."""
    good = rollout(0, steps(["a", "b", "end"], [0.0, 1.0]), kind="solved", score=1.0)
    bad = rollout(1, steps(["a", "b", "lost"], [0.0, 0.0]), kind=kind, **changes)
    return [good, bad]


def test_solved_against_failed_by_hand() -> None:
    good, bad = credit_group(two(), settings(gamma=0.5))
    # A^S: rewards 0.5 and 0 in state a, 1 and 0 in state b; two values v, 0 give +-(v/2)/(v/sqrt 2 + eps)
    assert good.reward == (0.5, 1.0)
    assert bad.reward == (0.0, 0.0)
    assert good.state_advantage == pytest.approx(
        (0.25 / (0.125**0.5 + 1e-6), 0.5 / (0.5**0.5 + 1e-6)), abs=1e-12
    )
    assert good.episode_advantage == pytest.approx(0.5 / (0.5**0.5 + 1e-6), abs=1e-12)
    assert bad.episode_advantage == -good.episode_advantage
    assert good.advantage == tuple(a + good.episode_advantage for a in good.state_advantage)
    assert good.state_group == bad.state_group == (0, 1)


def test_alpha_weighs_the_episode() -> None:
    plain = credit_group(two(), settings(alpha=0.0))[0]
    assert plain.advantage == plain.state_advantage
    assert plain.episode_advantage > 0
    double = credit_group(two(), settings(alpha=2.0))[0]
    assert double.advantage[0] == pytest.approx(plain.advantage[0] + 2 * plain.episode_advantage)


def test_bad_format_teaches() -> None:
    good, bad = credit_group(two("bad_format"), settings())
    assert good.episode_advantage > 0 > bad.episode_advantage
    assert bad.state_group == (0, 1)


def test_cut_off_is_measured_but_compared_with_nobody() -> None:
    group = two("cut_off")
    group[1] = replace(group[1], steps=steps(["a", "b", "lost"], [0.0, 0.5], [["b"], ["lost"]]))
    good, cut = credit_group(group, settings(gamma=1.0))
    assert cut.alignment == ((1.0,), (1.0,))
    assert cut.task_return == (0.5, 0.5)
    assert cut.reward == (1.0, 1.0)
    assert cut.state_group == (NO_GROUP, NO_GROUP) == (-1, -1)
    assert cut.state_advantage == cut.advantage == (0.0, 0.0)
    assert cut.episode_advantage == 0.0
    assert good.state_group == (0, 1)
    assert good.advantage == (0.0, 0.0)  # the solved rollout is a group of one


def test_infrastructure_errors_get_no_credit_and_change_no_other() -> None:
    group = two()
    broken = rollout(2, steps(["a", "b"], [0.0]), kind="infrastructure_error")
    assert credit_group([*group, broken], settings()) == credit_group(group, settings())


def test_a_group_of_one_and_equal_outcomes_are_exactly_zero() -> None:
    assert credit_group(two()[:1], settings())[0].advantage == (0.0, 0.0)
    same = [rollout(i, steps(["a", "b"], [0.1]), score=0.1) for i in range(3)]
    for credit in credit_group(same, settings(outcome="score")):
        assert credit.advantage == (0.0,)
        assert credit.episode_advantage == 0.0


def test_no_rollouts_and_no_steps() -> None:
    assert credit_group([], settings()) == []
    empty = rollout(1, (), kind="bad_format")
    good, none = credit_group([two()[0], empty], settings())
    assert none.alignment == ()
    assert none.advantage == none.cut == ()
    assert good.episode_advantage > 0 > none.episode_advantage


def test_outcome_solved_ignores_the_score_and_score_ignores_solved() -> None:
    group = two(score=1.0)
    assert credit_group(group, settings())[0].episode_advantage > 0
    assert credit_group(group, settings(outcome="score"))[0].episode_advantage == 0.0


def test_horizon_follows_the_step_limit() -> None:
    its = steps(["a", "b", "c", "d"], [0.0, 0.0, 1.0], [["b", "c", "d", "x"]] * 3)
    far = credit_group([rollout(0, its, max_steps=50)], settings())[0]
    assert far.alignment[0] == (1.0, 1.0, 1.0)
    assert far.formula["horizon"] == 3
    near = credit_group([rollout(0, its, max_steps=15)], settings())[0]
    assert near.alignment == ((1.0,), (0.0,), (0.0,))


def test_states_by_key_where_the_environment_gives_keys() -> None:
    keyed = [
        rollout(0, steps(["same", "same", "end"], [0.0, 1.0], keys=["k1", "k2"]), kind="solved"),
        rollout(1, steps(["other", "same", "end"], [0.0, 0.0], keys=["k2", "k1"])),
    ]
    first, second = credit_group(keyed, settings())
    assert (first.state_group, second.state_group) == ((0, 1), (1, 0))
    assert first.formula["states"] == "key"
    by_text = credit_group(keyed, settings(states="text"))
    assert [c.state_group for c in by_text] == [(0, 0), (1, 0)]
    assert by_text[0].formula["states"] == "text"


def test_a_missing_key_falls_back_to_text_and_says_so() -> None:
    group = [
        rollout(0, steps(["same", "same", "end"], [0.0, 1.0], keys=["k1", None]), kind="solved"),
        rollout(1, steps(["same", "end"], [0.0], keys=["k3"])),
    ]
    credits = credit_group(group, settings())
    assert [c.state_group for c in credits] == [(0, 0), (0,)]
    assert credits[0].formula["states"] == "text"


def test_a_keyless_infrastructure_error_does_not_cost_the_keys() -> None:
    keyed = [
        rollout(0, steps(["x", "y"], [1.0], keys=["k"]), kind="solved"),
        rollout(1, steps(["x", "y"], [0.0], keys=["other"])),
        rollout(2, steps(["x", "y"], [0.0]), kind="infrastructure_error"),
    ]
    assert [c.formula["states"] for c in credit_group(keyed, settings())] == ["key", "key"]


def test_the_formula_names_what_a_recomputation_needs() -> None:
    wia = settings(gamma=0.9, alpha=0.5, scorer="tokens", normalise="mean", outcome="score", merge_above=0.8)
    formula = credit_group(two(), wia)[0].formula
    assert formula == {
        "name": "R_task * (1 + R_pre); A = A_S + alpha * A_E",
        "scorer": "tokens",
        "horizon": 1,
        "gamma": 0.9,
        "alpha": 0.5,
        "states": "text",
        "merge_above": 0.8,
        "normalise": "mean",
        "outcome": "score",
        "epsilon": 1e-6,
        "long": 400,
        "words": 60,
    }


def test_foresight_scales_credit_of_a_success_and_nothing_of_a_failure() -> None:
    seen = steps(["a", "b"], [1.0], [["b"]])
    blind = steps(["a", "b"], [1.0], [[None]])
    lost = steps(["a", "b"], [0.0], [["b"]])
    group = [rollout(0, seen, "solved"), rollout(1, blind, "solved"), rollout(2, lost)]
    assert [c.reward for c in credit_group(group, settings())] == [(2.0,), (1.0,), (0.0,)]


def test_predict_off_leaves_plain_returns() -> None:
    credit = credit_group(two(), settings(predict="off", gamma=1.0))[0]
    assert credit.alignment == ((None,), (None,))
    assert credit.reward == credit.task_return == (1.0, 1.0)


def test_rollouts_of_several_groups_are_refused() -> None:
    group = [rollout(0, (), task="t"), rollout(0, (), task="u"), rollout(0, (), task="v")]
    with pytest.raises(ValueError, match=r"of 3 groups in one: 0/abcdefgh/m/none/t, 0/abcdefgh/m/none/u, …"):
        credit_group(group, settings())
    with pytest.raises(ValueError, match="of 2 groups in one"):
        credit_group(group[:2], settings())


def test_a_trajectory_given_twice_is_refused() -> None:
    one = rollout(0, ())
    with pytest.raises(ValueError, match=r"twice in group 0/abcdefgh/m/none/t"):
        credit_group([one, one], settings())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_reward_that_is_no_number_is_named(value: float) -> None:
    group = [two()[0], rollout(1, steps(["a", "b", "c"], [0.0, value]))]
    with pytest.raises(RoleAgentError, match=r"abcdefgh/t#1, step 2: reward is -?(nan|inf)"):
        credit_group(group, settings())


def test_credit_all_never_compares_across_groups() -> None:
    won = steps(["a", "b"], [1.0])
    lost = steps(["a", "b"], [0.0])
    mixed = [
        rollout(0, won, "solved", task="t"),
        rollout(0, lost, task="u"),
        rollout(1, won, "solved", task="t"),
        rollout(1, lost, task="u"),
        rollout(0, lost, "infrastructure_error", task="v"),
        rollout(0, won, "solved", round=1),
        rollout(1, lost, round=1),
    ]
    credits = credit_all(mixed, settings())
    assert [c.trajectory for c in credits] == [t.id for t in mixed if t.task != "v"]
    assert [c.advantage[0] for c in credits[:4]] == [0.0] * 4
    assert credits[4].advantage[0] > 0 > credits[5].advantage[0]
    assert credit_all([], settings()) == []


@pytest.mark.parametrize("field", ["prompt_set", "model", "arm", "round"])
def test_each_part_of_the_group_separates(field: str) -> None:
    base = rollout(0, steps(["a", "b"], [1.0]), "solved")
    change: dict[str, Any] = {field: 9 if field == "round" else "other"}
    other = replace(rollout(1, steps(["a", "b"], [0.0])), **change)
    assert [c.episode_advantage for c in credit_all([base, other], settings())] == [0.0, 0.0]


def test_a_credit_survives_the_run_directory(tmp_path: Any) -> None:
    from roleagent_lite.config import RunConfig

    group, wia = of_case(CASES[0])
    credits = credit_group(group, wia)
    with Run.create(tmp_path / "run", RunConfig()) as run:
        for credit in credits:
            assert run.credits.put(credit)
    with Run.open(tmp_path / "run") as run:
        assert list(run.credits) == credits


def test_the_default_settings_are_the_papers() -> None:
    wia = Wia()
    assert (wia.gamma, wia.alpha, wia.horizon_share, wia.merge_above) == (0.95, 1.0, 0.05, 0.9)
    assert (wia.scorer, wia.states, wia.normalise, wia.outcome) == ("lms", "key", "mean_std", "solved")
