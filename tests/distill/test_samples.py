"""samples: which reply a step is, who is compared with whom, what is left out."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from roleagent_lite.distill.samples import EXPERIENCE, Collected, collect, imitable
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from roleagent_lite.types import Message, Outcome
from roleagent_lite.wia.credit import credit_all
from tests.distill import make


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make.new_run(tmp_path / "r")


def advantages(found: Collected, task: str) -> list[float]:
    return [s.advantage for s in found.samples if s.task == task]


def test_a_step_becomes_messages_as_sent_and_reply_as_received(run: Run) -> None:
    said = '{"thought": "hm", "action": "take key"}'
    first = make.call(run, "c1", "I do not know.")
    again = (
        *make.chat(),
        Message("assistant", "I do not know."),
        Message("user", "Your reply cannot be used."),
    )
    second = make.call(run, "c2", said, again)
    make.episode(run, "a", 0, True, steps=[make.step(said, first, second, reward=1.0)])
    make.episode(run, "a", 1, False)
    sample = collect(run).samples[0]
    assert (sample.id, sample.step, sample.text) == ("1/seed0000/a#0/1", 1, said)
    assert sample.messages == again and sample.ended
    assert sample.reward == 1.0 and sample.group == "1/seed00000000/tiny/none/a"


def test_rl_01_groups_of_equal_rewards_have_advantage_exactly_0(run: Run) -> None:
    make.group(run, "a", [True] * 4)
    make.group(run, "b", [False] * 4)
    found = collect(run)
    assert [s.advantage for s in found.samples] == [0.0] * 8
    assert found.without_signal == 2 and len(found.signal) == 2


def test_rl_01_one_of_four(run: Run) -> None:
    make.group(run, "a", [True, False, False, False])
    good, *bad = advantages(collect(run), "a")
    assert good > 0 and len(set(bad)) == 1 and bad[0] < 0
    assert math.isclose(good + sum(bad), 0.0, abs_tol=1e-12)


def test_rl_01_grouped_by_task_whatever_the_order_of_rows(run: Run) -> None:
    for rollout in (1, 0):
        make.episode(run, "a", rollout, rollout == 0)
        make.episode(run, "b", rollout, rollout == 1)
    found = collect(run)
    assert [s.trajectory[-3:] for s in found.samples] == ["a#0", "a#1", "b#0", "b#1"]
    assert [s.advantage > 0 for s in found.samples] == [True, False, False, True]


def test_groups_never_cross_prompt_set_round_or_arm(run: Run) -> None:
    make.episode(run, "a", 0, True, round=1)
    make.episode(run, "a", 1, False, round=2)
    make.episode(run, "a", 2, False, arm="memory")
    found = collect(run)
    assert len(found.signal) == 3 and [s.advantage for s in found.samples] == [0.0] * 3
    assert [s.round for s in collect(run, rounds=[2]).samples] == [2]


def test_rl_03_a_dropped_member_leaves_the_others_with_plus_and_minus(run: Run) -> None:
    rows = make.group(run, "a", [True, False, False, False])
    for credit in credit_all(rows, run.config.wia):  # stored while all four counted
        run.credits.put(credit)
    make.rewrite(run, 1, score=math.nan)
    make.rewrite(run, 3, score=None)
    found = collect(make.again(run))
    plus, minus = advantages(found, "a")
    assert plus == -minus > 0 and math.isfinite(plus)
    assert math.isclose(plus, 0.5 / (math.sqrt(0.5) + 1e-6))
    assert len(found.dropped) == 2


def test_stored_credits_are_used_and_rubbish_in_them_is_named(run: Run) -> None:
    rows = make.group(run, "a", [True, False])
    for credit in credit_all(rows, run.config.wia):
        run.credits.put(credit)
    text = run.credits.path.read_text(encoding="utf-8")
    value = credit_all(rows, run.config.wia)[0].advantage[0]
    run.credits.path.write_text(
        text.replace(f'"advantage":[{value}]', '"advantage":[0.25]'), encoding="utf-8"
    )
    assert advantages(collect(make.again(run)), "a")[0] == 0.25
    run.credits.path.write_text(
        text.replace(f'"advantage":[{value}]', '"advantage":[Infinity]'), encoding="utf-8"
    )
    with pytest.raises(RoleAgentError, match=r"credits\.jsonl line 1 is damaged \(Infinity is no number\)"):
        collect(make.again(run))
    run.credits.path.write_text(text.replace(f'"advantage":[{value}]', '"advantage":[]'), encoding="utf-8")
    with pytest.raises(RoleAgentError, match="0 advantages for 1 steps"):
        collect(make.again(run))


def test_what_does_not_teach_and_other_splits_are_left_out(run: Run) -> None:
    make.group(run, "a", [True, False])
    make.episode(run, "a", 2, False, outcome=Outcome("infrastructure_error", "provider"))
    make.episode(run, "a", 3, False, outcome=Outcome("cut_off", "max_tokens"))
    make.episode(run, "b", 0, True, split="dev")
    make.episode(run, "c", 0, True, split="test")
    found = collect(run)
    assert {s.task for s in found.samples} == {"a"} and len(found.samples) == 2
    assert [d.reason for d in found.dropped] == [
        "infrastructure_error (provider) teaches nothing",
        "cut_off (max_tokens) teaches nothing",
    ]
    assert found.trajectories == 2


def test_steps_without_a_fitting_call_are_named(run: Run) -> None:
    other = make.call(run, "c1", "open door")
    steps = [make.step("look around"), make.step("take key", "gone"), make.step("take key", other)]
    make.episode(run, "a", 0, True, steps=steps)
    assert [(d.id[-1], d.reason) for d in collect(run).dropped] == [
        ("1", "no call: the action was not a model's"),
        ("2", "its calls are not in the run"),
        ("3", "none of its calls holds what the agent said"),
    ]


def test_a_scored_choice_is_the_action_that_was_drawn(run: Run) -> None:
    scores = ((-1.0, -2.0), (-0.5,), (-3.0, -0.1))
    options = (" take key", " look", " open door")
    begun = (*make.chat(), Message("assistant", "Goal: out\n>"))
    key = make.call(run, "c1", " look", begun, module="choose", choices=options, scores=scores)
    make.episode(run, "a", 0, True, steps=[make.step("open door", key)])
    (sample,) = collect(run).samples
    assert sample.text == " open door" and sample.choices == options
    assert sample.logprobs == (-3.0, -0.1) and not sample.ended


@pytest.mark.parametrize(
    ("finish", "stop", "ended"), [("stop", (), True), ("length", (), False), ("stop", ("\n>",), False)]
)
def test_the_end_of_turn_belongs_to_who_wrote_it(
    run: Run, finish: str, stop: tuple[str, ...], ended: bool
) -> None:
    key = make.call(run, "c1", "take key", finish=finish, stop=stop, token_ids=(1, 2), logprobs=(-0.1, -0.2))
    make.episode(run, "a", 0, True, steps=[make.step("take key", key)])
    (sample,) = collect(run).samples
    assert sample.ended is ended and sample.token_ids == (1, 2) and sample.logprobs == (-0.1, -0.2)


def test_thinking_inside_a_reply_is_part_of_it(run: Run) -> None:
    raw = "<think>\nThere is a key.\n</think>\n\ntake key"
    inside = make.call(run, "c1", raw)
    apart = make.call(run, "c2", "open door", reasoning="I have the key.")
    make.episode(run, "a", 0, True, steps=[make.step("take key", inside), make.step("open door", apart)])
    first, second = collect(run).samples
    assert (first.text, first.reasoning) == (raw, None)
    assert (second.text, second.reasoning) == ("open door", "I have the key.")


def test_predictions_are_ranges_of_the_reply_or_samples_of_their_own(run: Run) -> None:
    told = 'You "take" the key.'
    reply = '{"action": "take key", "predictions": ["You \\"take\\" the key.", "Nothing happens."]}'
    together = make.call(run, "c1", reply)
    acting = make.call(run, "c2", "open door")
    apart = make.call(run, "c3", '{"predictions": ["The door opens."]}', module="predict")
    steps = [
        make.step(reply, together, outcome=told, predictions=(told, "Rain.")),
        make.step("open door", acting, apart, outcome="The door opens.", predictions=("The door opens.",)),
    ]
    make.episode(run, "a", 0, True, steps=steps)
    assert [s.kind for s in collect(run).samples] == ["act", "act"]
    assert not any(s.matched for s in collect(run).samples)
    first, second, foretold = collect(run, predictions=True).samples
    ((a, b),) = first.matched
    assert reply[a:b] == 'You \\"take\\" the key.'
    assert second.matched == () and (foretold.kind, foretold.advantage) == ("predict", 0.0)
    ((a, b),) = foretold.matched
    assert foretold.text[a:b] in (foretold.text, "The door opens.")
    assert foretold.id == "1/seed0000/a#0/2/predict"


def test_experience_is_taken_out_unless_asked_for(run: Run) -> None:
    lesson = "Lesson: always take the key first."
    run.record("experience/1", EXPERIENCE, {"text": lesson})
    own = (make.chat()[0], Message("user", lesson), make.chat()[1])
    inside = (make.chat()[0], Message("user", f"Goal: get out.\n\n{lesson}\n\nYou are in a hall."))
    for rollout, messages in enumerate((own, inside, make.chat())):
        key = make.call(run, f"c{rollout}", "take key", messages)
        make.episode(run, "a", rollout, True, steps=[make.step("take key", key)], arm="memory")
    first, second, third = collect(run).samples
    assert first.messages == make.chat() and first.notes == ("experience stripped",)
    assert second.messages[1].content == "Goal: get out.\n\nYou are in a hall."
    assert third.notes == ("experience not found in its prompt",)
    assert [s.messages for s in collect(run, strip_experience=False).samples] == [own, inside, make.chat()]


def test_an_arm_without_experience_is_left_as_it_is(run: Run) -> None:
    run.record("experience/1", EXPERIENCE, {"text": "You are in a hall."})
    make.episode(run, "a", 0, True)
    (sample,) = collect(run).samples
    assert sample.messages == make.chat() and not sample.notes


def test_imitation_takes_solved_and_well_foretold_episodes(run: Run) -> None:
    for rollout, (solved, foretold) in enumerate([(True, True), (True, False), (False, True), (True, True)]):
        key = make.call(run, f"c{rollout}", "take key")
        told = "Nothing happens." if foretold else "Zzz"
        make.episode(run, "a", rollout, solved, steps=[make.step("take key", key, predictions=(told,))])
    found = collect(run)
    chosen = imitable(found, 0.5, 1)
    assert [s.trajectory[-1] for s in chosen.samples] == ["0"]
    assert sorted(d.reason for d in chosen.dropped) == [
        "1 better episodes of its task", "foretold with 0.00, 0.5 is wanted", "not solved",
    ]  # fmt: skip
    assert [s.trajectory[-1] for s in imitable(found, 0.0, 9).samples] == ["0", "1", "3"]
