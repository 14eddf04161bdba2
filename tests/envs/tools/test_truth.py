"""Equal to BFCL: answers and states as recorded, verdicts as its own checker gives in a second process."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from typing import Any

import pytest

from roleagent_lite.envs.tools import apis, calls, data, env, state, truth
from tests.envs.tools.here import needs_bfcl, recorded

CHECKER = """
import json, sys
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call
for number, line in enumerate(sys.stdin):
    given = json.loads(line)
    entry, said = given["entry"], given["said"]
    verdict = multi_turn_checker(said, entry["truth"], entry, "", f"m{number}")
    answers = [
        execute_multi_turn_func_call(
            step, entry["initial_config"], entry["involved_classes"], f"a{number}", entry["id"],
            long_context="long_context" in entry["id"])[0]
        for turn in said for step in turn]
    print(json.dumps([verdict["valid"], sum(answers, [])]))
"""


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@needs_bfcl
@pytest.mark.parametrize("number", range(10))
def test_answers_and_states_as_recorded(number: int) -> None:
    case = recorded()["entries"][number]
    entry = data.entry(case["id"])
    assert list(entry.classes) == case["involved_classes"] and len(entry.truth) == len(case["turns"])
    objects = apis.start(entry)
    known = apis.owners(objects)
    for said, expected in zip(entry.truth, case["turns"], strict=True):
        assert state.digest(list(said)) == expected["calls_sha256"]
        answers = [a for text in said for a in apis.run(known, calls.read(text, known))]
        assert [sha(answer) for answer in answers] == expected["results_sha256"]
        assert [e is None or e == a for e, a in zip(expected["results"], answers, strict=True)].count(0) == 0
        assert {n: state.digest(state.public(o)) for n, o in objects.items()} == expected["state_sha256"]
    assert {n: state.digest(state.public(o)) for n, o in objects.items()} == case["final_state_sha256"]
    assert {n: sorted(state.public(o)) for n, o in objects.items()} == {
        n: sorted(names) for n, names in case["final_state_attributes"].items()
    }


def _spoilt(entry: data.Entry, rng: random.Random) -> list[list[list[str]]]:
    """The true calls of an entry, each a step, with a few left out, doubled, moved or added."""
    said = [[[call] for call in turn] for turn in entry.truth]
    names = list(data.functions(entry.classes).values())
    for _ in range(rng.choice([0, 1, 1, 2])):
        turn = rng.choice(said)
        what = rng.randrange(6)
        if what == 0 and turn:
            turn.pop(rng.randrange(len(turn)))
        elif what == 1 and turn:
            turn.insert(0, turn[-1])
        elif what == 2:
            turn.insert(rng.randint(0, len(turn)), [rng.choice(names).call])
        elif what == 3 and len(turn) > 1:
            rng.shuffle(turn)
        elif what == 4 and turn:
            turn[:] = [[call for step in turn for call in step]]  # all in one action
        elif what == 5:
            turn.clear()
    return said


def _ours(entry: data.Entry, said: list[list[list[str]]]) -> tuple[bool, list[str]]:
    """The verdict, and the answers to all calls: BFCL goes on to the end, whatever failed before."""
    objects = apis.start(entry)
    known = apis.owners(objects)
    answers: list[str] = []
    verdict = True
    for true, turn in zip(truth.turns(entry), said, strict=True):
        for step in turn:
            answers += apis.run(known, [call for text in step for call in calls.read(text, known)])
        verdict = verdict and not truth.missed(true, objects, answers, called=any(turn))
    return verdict, answers


def _originals(cases: list[tuple[data.Entry, list[list[list[str]]]]]) -> list[Any]:
    lines = [
        json.dumps(
            {
                "said": said,
                "entry": {
                    "id": entry.id,
                    "initial_config": entry.config,
                    "involved_classes": entry.classes,
                    "truth": entry.truth,
                },
            }
        )
        for entry, said in cases
    ]
    done = subprocess.run(
        [sys.executable, "-c", CHECKER],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(data.folder()), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


@needs_bfcl
def test_verdicts_and_answers_are_those_of_the_original() -> None:
    rng = random.Random(7)
    cases: list[tuple[data.Entry, list[list[list[str]]]]] = []
    for variant in data.VARIANTS:
        cases += [(entry, _spoilt(entry, rng)) for entry in data.entries(variant).values()]
    theirs = _originals(cases)
    assert len(theirs) == len(cases)
    verdicts = []
    for (entry, said), (valid, answers) in zip(cases, theirs, strict=True):
        ours, own_answers = _ours(entry, said)
        assert ours == valid, f"{entry.id}: {said}"
        assert own_answers == answers, entry.id
        verdicts.append(valid)
    assert 200 < sum(verdicts) < 600  # both kinds were looked at


@needs_bfcl
def test_what_is_missed_is_said_without_the_values() -> None:
    entry = data.entry("multi_turn_base_0")
    first, second = truth.turns(entry)[:2]
    objects = apis.start(entry)
    known = apis.owners(objects)
    assert truth.missed(first, objects, [], called=False) == "nothing was called"
    answers = apis.run(known, calls.read("ls()", known))
    assert (
        truth.missed(first, objects, answers, called=True) == "GorillaFileSystem is not as it should be: root"
    )
    for text in entry.truth[0]:
        answers += apis.run(known, calls.read(text, known))
    assert truth.missed(first, objects, answers, called=True) == ""
    words = truth.missed(second, objects, answers, called=True)
    assert words == f"{len(entry.truth[1])} of {len(entry.truth[1])} answers that were needed never came"


def test_a_turn_with_nothing_to_do_passes_unlooked_at() -> None:
    nothing = truth.Turn({}, ())
    assert truth.missed(nothing, {}, [], called=False) == truth.missed(nothing, {}, ["x"], called=True) == ""


def test_answers_count_as_often_as_they_are_needed() -> None:
    twice = truth.Turn({}, ("a", "a", "b"))
    assert truth.missed(twice, {}, ["b", "x", "a"], called=True).startswith("1 of 3")
    assert truth.missed(twice, {}, ["a", "b", "a"], called=True) == ""


@pytest.mark.parametrize(
    ("checked", "scores"),
    [
        ([True, True], [0.0, 0.5, 1.0]),
        ([True, False, True], [0.0, 0.5, 0.5, 1.0]),
        ([False, True], [0.0, 0.0, 1.0]),
        ([True, True, False], [0.0, 0.5, 0.5, 1.0]),  # full marks at the very end only
        ([True, False], [0.0, 0.0, 1.0]),
    ],
)
def test_the_share_of_turns(checked: list[bool], scores: list[float]) -> None:
    assert [truth.share(checked, passed) for passed in range(len(checked) + 1)] == scores


@needs_bfcl
def test_every_entry_has_a_turn_to_check() -> None:
    for variant in data.VARIANTS:
        for entry in data.entries(variant).values():
            assert any(entry.truth) and len(entry.truth) == len(entry.messages)


@needs_bfcl
def test_no_true_call_fails_and_each_can_be_answered_whole() -> None:
    seen = set()
    for variant in data.VARIANTS:
        for entry in data.entries(variant).values():
            for turn in truth.turns(entry):
                assert not any(a.startswith("Error during execution") for a in turn.answers), entry.id
                seen |= {len(a) for a in turn.answers}
    assert max(seen) <= env.MOST_SHOWN
