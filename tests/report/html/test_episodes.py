"""Episodes in the page: all are listed, those that matter first have their steps, nothing ends a script."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite import redact
from roleagent_lite.report.html import episodes
from roleagent_lite.report.html.episodes import Episodes, record, safe_json, step_record
from roleagent_lite.store import Run
from roleagent_lite.types import Diagnosis, Split, Step
from tests.report import make

HOSTILE = "</script><!--<script>alert(1)</script>\u2028\u202e\x00"
BLOCK = re.compile(r'<script type="application/octet-stream" id="(\w+)">([A-Za-z0-9+/=]*)</script>\n')


def unpacked(text: str) -> dict[str, Any]:
    """The blocks of a page by id, read as its script reads them."""
    return {k: json.loads(gzip.decompress(base64.b64decode(v))) for k, v in BLOCK.findall(text)}


def written(run: Run, most: int = episodes.MOST_BYTES) -> tuple[dict[str, Any], str]:
    found = Episodes(run, {make.SEED.id: "seed"}, most)
    text = "".join(found.blocks()) + found.listing()
    assert BLOCK.sub("", text) == "", "nothing but blocks"
    return unpacked(text), text


def steps_of(data: dict[str, Any], row: list[Any]) -> Any:
    return data[f"c{row[12]}"][row[13]] if row[12] >= 0 else None


def test_every_episode_is_listed_and_points_to_its_steps(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        data, _ = written(run)
        ids = [t.id for t in run.trajectories]
        errors = {t.id: t.outcome.kind for t in run.trajectories}
    rows = data["list"]["rows"]
    assert [r[0] for r in rows] == sorted(ids)  # whichever ended first: 1 worker and 8 give one page
    for row in rows:
        found = steps_of(data, row)
        assert found["id"] == row[0] and len(found["steps"]) == row[7]
        assert data["list"]["ends"][row[6]][0] == errors[row[0]]
    assert data["list"]["words"] == f"The steps of all {len(ids)} episodes are in this page."
    assert data["list"]["prompts"][0] == [make.SEED.id, "seed"]
    assert data["list"]["tasks"][0] == ["train0", "put", 2, "goal 0"]
    diagnosed = [r for r in rows if r[11] >= 0]
    assert len(diagnosed) == 4 and data["list"]["modes"] == ["navigation_loop"]


def test_a_step_says_all_that_was_seen_said_and_judged(tmp_path: Path) -> None:
    first = replace(make.step("look"), reward=0.5, predictions=("The box is open.", None))
    second = replace(make.step(valid=False), observation="The box is open.", said='{"action": "open box"}')
    with make.new_run(tmp_path / "r") as run:
        group = [make.episode(make.task(1), make.SEED, rollout=r, steps=[first, second]) for r in range(2)]
        credits = make.credit(run, group)
    one, two = (step_record(group[0].steps, t, credits[0]) for t in range(2))
    assert one["a"] == "look" and one["o"] == "You see a box." and one["y"] == "hm" and one["r"] == 0.5
    assert one["m"] == ["open box", "look"] and one["p"] == ["The box is open.", None] and "x" not in one
    assert one["q"] == [1.0] and len(one["c"]) == 5 and one["c"][0] == round(credits[0].reward[0], 4)
    assert "w" not in one, "what the model wrote is what was done"
    assert two["x"] == 1 and two["w"] == '{"action": "open box"}' and "r" not in two
    assert "o" not in two, "it saw what the step before had brought"


def test_a_long_page_is_compared_by_its_new_part(tmp_path: Path) -> None:
    page = "Same old line. " * 40 + "A new door."
    step = Step("Same old line.", "look", page, predictions=("A new door.",))
    assert step_record((step,), 0, None)["g"] == {"1": "A new door."}
    assert "g" not in step_record((replace(step, outcome="short"),), 0, None)


def test_very_long_texts_are_cut_and_say_so() -> None:
    step = Step("o" * 50_000, "a", "z")
    assert step_record((step,), 0, None)["o"] == "o" * 20_000 + "… [30,000 more characters]"
    many = step_record((replace(step, admissible=tuple(map(str, range(620)))),), 0, None)
    assert len(many["m"]) == 500 and many["n"] == 120


def test_error_diagnosis_and_advantage_travel_with_the_episode(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        broken = make.episode(make.task(1), make.SEED, make.BROKEN, error="Traceback: gone")
        (credit,) = make.credit(run, [make.episode(make.task(2), make.SEED)])
    verdict = Diagnosis(broken.id, "loop", "went round", 2, "Stop.", "door", shared_from="0/x/y#0")
    data = record(broken, credit, verdict)
    assert data["error"] == "Traceback: gone" and data["shared"] == "0/x/y#0" and data["max"] == 8
    assert data["diagnosis"] == ["loop", "went round", "Stop.", "door", 2] and data["advantage"] == 0.0


def many(run: Run, counts: dict[tuple[Split, int, bool], int]) -> None:
    """Episodes by (split, round, solved), each hard to pack."""
    number = 0
    for (split, round, solved), n in counts.items():
        for _ in range(n):
            number += 1
            noise = " ".join(f"{(number * 7919 + i * 104729) % 1000003:x}" for i in range(900))
            step = replace(make.step(), observation=noise, outcome=noise[::-1])
            end = make.SOLVED if solved else make.LOST
            make.play(run, make.episode(make.task(number, split), make.SEED, end, round=round, steps=[step]))


def test_under_a_cap_the_sealed_failures_come_first_and_the_rest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episodes, "BLOCK", 20_000)
    plan: dict[tuple[Split, int, bool], int] = {
        ("train", 1, False): 6, ("train", 2, True): 6, ("dev", 0, True): 4,
        ("test", 9, True): 6, ("test", 9, False): 6,
    }  # fmt: skip
    with make.new_run(tmp_path / "r") as run:
        many(run, plan)
        whole, text = written(run)
        most = int(len(text) * 0.55)
        data, text = written(run, most)
    rows = data["list"]["rows"]
    inside = [(r[2], data["list"]["ends"][r[6]][0] == "solved") for r in rows if r[12] >= 0]
    assert 0 < len(inside) < len(rows) == 28
    assert sum(len(b) for b in re.findall(r'id="c\d+">.*', text)) <= most
    assert inside.count((0, False)) == 6 and inside.count((0, True)) == 6, "all sealed ones"
    assert inside.count((2, False)) == 0, "old training failures go last"
    assert all(steps_of(data, r)["id"] == r[0] for r in rows if r[12] >= 0)
    words = data["list"]["words"]
    assert f"the steps of {len(inside)} are in this page" in words and "6 train (not solved)" in words
    assert "roleagent-lite show r EPISODE" in words
    assert all(r[12] >= 0 for r in whole["list"]["rows"])


def test_the_line_to_paste_is_quoted() -> None:
    kept = episodes.Kept()
    kept.total["test", False] = 1
    assert "roleagent-lite show 'a b;c' EPISODE" in kept.words("a b;c")


def test_the_order_is_as_the_rule_says() -> None:
    def of(split: Split, round: int, solved: bool) -> tuple[int, int, bool]:
        end = make.SOLVED if solved else make.BROKEN
        return episodes.order(make.episode(make.task(1, split), make.SEED, end, round=round))

    said = [
        of("test", 9, False), of("test", 9, True),
        of("dev", 0, False), of("dev", 3, False), of("dev", 1, True),
        of("train", 5, False), of("train", 5, True), of("train", 4, False),
    ]  # fmt: skip
    assert said == sorted(said)


def test_rounds_are_numbers() -> None:
    ids = ["10/a/t#0", "9/b/t#0", "x", "9/a/t#1"]
    assert sorted(ids, key=episodes.by_round) == ["x", "9/a/t#1", "9/b/t#0", "10/a/t#0"]


def test_hostile_texts_neither_end_a_script_nor_turn_its_direction(tmp_path: Path) -> None:
    step = Step(
        HOSTILE,
        HOSTILE,
        HOSTILE,
        admissible=(HOSTILE,),
        thought=HOSTILE,
        predictions=(HOSTILE,),
        said="x" + HOSTILE,
    )
    with make.new_run(tmp_path / "r") as run:
        odd = replace(make.task(1), id=HOSTILE, goal=HOSTILE)
        make.play(run, make.episode(odd, make.SEED, steps=[step]), tasks=[odd])
        data, text = written(run)
    assert text.count("</script>") == text.count("<script type=") == 2, "one end for each of the two blocks"
    shown = data["c0"][0]["steps"][0]
    assert {shown[k] for k in "oazy"} == {"</script><!--<script>alert(1)</script>\\u2028\\u202e\\x00"}
    assert data["list"]["tasks"][0][0] == shown["a"]


def test_plain_texts_take_the_short_way_and_odd_ones_are_made_visible() -> None:
    plain = {"a": 'said "hi"\n\tthere \\o/ \U0001f511 مفتاح', "n": [1, None]}
    assert json.loads(safe_json(plain)) == plain
    assert json.loads(safe_json(["\x1b[0m", {"k": "\u202e"}, "\ud83d"])) == [
        "\\x1b[0m",
        {"k": "\\u202e"},
        "\ufffd",
    ]
    with pytest.raises(ValueError, match="JSON compliant"):
        safe_json([float("nan")])


def test_acc_07_a_key_never_reaches_a_block(tmp_path: Path) -> None:
    secret = "very-secret-value-456"
    with make.new_run(tmp_path / "r") as run:
        make.play(run, make.episode(make.task(1), make.SEED, make.BROKEN, error=f"401 for {secret}"))
        redact.register(secret)
        try:
            data, _ = written(run)
        finally:
            redact._secrets.discard(secret)
    assert data["c0"][0]["error"] == "401 for [key]"


def test_no_episode_gives_an_empty_list(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        data, _ = written(run)
    assert data == {"list": data["list"]} and data["list"]["rows"] == [] and data["list"]["words"] == ""
