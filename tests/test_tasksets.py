"""tasksets: odd files that are fine, bad rows named by physical line, ids that never clash or shift."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import MAX_LINE, choose, content_id, file_hash, load_tasks, read_rows, split_of
from roleagent_lite.types import Task

ROW = {"env": "toy", "goal": "win"}
FIXTURE = [HealthCheck.function_scoped_fixture]


def written(tmp_path: Path, content: str | bytes) -> Path:
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    return file


def rows(*values: Any) -> str:
    return "\n".join(json.dumps(v) for v in values)


def refusal(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_tasks(file)
    return str(caught.value)


def test_a_full_row_and_a_short_one(tmp_path: Path) -> None:
    full = {
        "id": "t1", "env": "toy", "goal": "win", "seed": 3, "params": {"a": [1]}, "split": "dev",
        "parent": "t0", "validated": False,
    }  # fmt: skip
    first, second = load_tasks(written(tmp_path, rows(full, ROW)))
    assert first == Task("t1", "toy", "win", 3, {"a": [1]}, "dev", "t0", False)
    assert second == Task(content_id(ROW), "toy", "win")


def test_tsk_01_bom_crlf_blank_lines_and_no_end(tmp_path: Path) -> None:
    lines = [json.dumps({**ROW, "id": f"t{i}", "goal": f"goal {i}"}) for i in (1, 2, 3)]
    text = f"\ufeff{lines[0]}\r\n\r\n{lines[1]}\r\n   \t \r\n\r\n{lines[2]}"
    tasks = load_tasks(written(tmp_path, text))
    assert [t.id for t in tasks] == ["t1", "t2", "t3"]
    assert [t.goal for t in tasks] == ["goal 1", "goal 2", "goal 3"]
    assert "\r" not in repr(tasks)
    assert "\ufeff" not in repr(tasks)


def test_tsk_01_odd_spaces_and_line_separators(tmp_path: Path) -> None:
    text = "\u00a0\u3000\n" + json.dumps({**ROW, "goal": "a\u2028b\u0085c"}, ensure_ascii=False) + "\n\n"
    (task,) = load_tasks(written(tmp_path, text))
    assert task.goal == "a\u2028b\u0085c"


def test_tsk_03_bad_rows_are_listed_with_their_physical_lines(tmp_path: Path) -> None:
    good = json.dumps(ROW)
    text = refusal(written(tmp_path, f'{good}\n\n[]\n\n{{"env": "toy", "gaol": "x"}}\n'))
    assert "tasks.jsonl cannot be used" in text
    assert "line 3: needs an object with the keys env and goal, found list" in text
    assert "line 5: needs goal; has env, gaol" in text
    assert "line 1" not in text


def test_tsk_03_broken_json_and_bad_rows_in_one_message(tmp_path: Path) -> None:
    text = refusal(written(tmp_path, b'{"env": \n{}\n{"env":"toy","goal":"\xff"}\n{"env":"toy","goal":"x"}'))
    listed = [line.strip().split(":")[0] for line in text.splitlines()[1:]]
    assert listed == ["line 1", "line 2", "line 3"]
    assert "line 2: needs env, goal; has no keys" in text


@pytest.mark.parametrize("goal", [None, 3, "", "  ", ["a"], True])
@pytest.mark.parametrize("key", ["env", "goal"])
def test_tsk_03_env_and_goal_must_be_texts(tmp_path: Path, key: str, goal: Any) -> None:
    text = refusal(written(tmp_path, rows(ROW, {**ROW, key: goal})))
    assert f"line 2: {key} must be a non-empty text, found {goal!r}; has env, goal" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": "1"}, "seed must be a whole number, found '1'"),
        ({"seed": 1.5}, "seed must be a whole number, found 1.5"),
        ({"seed": True}, "seed must be a whole number, found True"),
        ({"seed": None}, "seed must be a whole number, found None"),
        ({"params": []}, "params must be an object, found []"),
        ({"split": "valid"}, "split is 'valid'; known: train, dev, test"),
        ({"split": ["dev"]}, "split must be one of train, dev, test, found ['dev']"),
        ({"id": {}}, "id must be a text or a whole number, found {}"),
        ({"id": True}, "id must be a text or a whole number, found True"),
        ({"id": 1.0}, "id must be a text or a whole number, found 1.0"),
        ({"parent": 3}, "parent must be a text, found 3"),
        ({"validated": "no"}, "validated must be true or false, found 'no'"),
        ({"gaol": 1, "x": 2}, "has unknown keys gaol, x; known: id, env, goal, seed, params, split"),
        ({"goal": ["x"] * 99}, "goal must be a non-empty text, found ['x', 'x',"),
    ],
)
def test_wrong_kinds_are_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    text = refusal(written(tmp_path, rows({**ROW, **change})))
    assert f"line 1: {words}" in text
    assert len(text) < 600


@pytest.mark.parametrize(
    "line", ["null", "3", '"text"', "[[[", "{'env': 1}", '{"env":"toy","goal":"x"} extra']
)
def test_other_lines_are_refused(tmp_path: Path, line: str) -> None:
    assert "line 1: " in refusal(written(tmp_path, line))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_not_json_are_refused(tmp_path: Path, number: str) -> None:
    line = f'{{"env":"toy","goal":"x","params":{{"p":{number}}}}}'
    assert f"line 1: {number} is not JSON" in refusal(written(tmp_path, line))


def test_deep_and_endless_lines_are_refused(tmp_path: Path) -> None:
    deep = '{"env":"toy","goal":"x","params":' + '{"a":' * 100_000 + "1" + "}" * 100_001
    assert "line 1: nested too deeply" in refusal(written(tmp_path, deep))
    assert f"line 1: longer than {MAX_LINE} bytes" in refusal(written(tmp_path, "x" * (MAX_LINE + 1)))


def test_only_twenty_bad_lines_are_listed(tmp_path: Path) -> None:
    text = refusal(written(tmp_path, "[]\n" * 33))
    assert text.count("found list") == 20
    assert text.endswith("and 13 more")


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    assert "holds no tasks; each line is an object with at least env and goal" in refusal(
        written(tmp_path, content)
    )


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is neither a file nor one of the shipped tasks"):
        load_tasks(tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match=r"cannot read task file .*none.jsonl: No such file"):
        read_rows(tmp_path / "none.jsonl")


# --- ids ----------------------------------------------------------------------------------------------


def test_tsk_03_what_a_world_refuses_stands_with_its_line_too(tmp_path: Path) -> None:
    def check(task: Task) -> None:
        if task.params.get("n") == 3:
            raise ConfigError(f"params.n of {task.goal} is 3")

    file = tmp_path / "t.jsonl"
    lines = ['{"env": "e", "goal": "a"}', "", '{"env": "e", "goal": "b", "params": {"n": 3}}', "[]"]
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_tasks(file, check=check)
    said = str(caught.value).splitlines()
    assert said[1:] == ["  line 3: params.n of b is 3", "  line 4: " + said[2].partition(": ")[2]]
    file.write_text("\n".join(lines[:3]), encoding="utf-8")
    assert [task.goal for task in load_tasks(file)] == ["a", "b"]


def test_tsk_05_an_id_given_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    file = written(
        tmp_path, rows({**ROW, "id": "t1"}, ROW, {**ROW, "id": "t2"}, {"env": "toy", "goal": "x", "id": "t1"})
    )
    text = refusal(file)
    assert "lines 1 and 4 have the same id 't1'; give each task its own id" in text


def test_tsk_05_a_number_and_its_text_are_one_id(tmp_path: Path) -> None:
    assert "lines 1 and 2 have the same id '1'" in refusal(
        written(tmp_path, rows({**ROW, "id": 1}, {**ROW, "id": "1", "goal": "other"}))
    )
    assert "lines 1 and 2 have the same id '0'; give each task its own" in refusal(
        written(tmp_path, rows({**ROW, "id": "0"}, {**ROW, "id": 0}))
    )
    assert [t.id for t in load_tasks(written(tmp_path, rows({**ROW, "id": 0}, {**ROW, "id": 10})))] == [
        "0",
        "10",
    ]


def test_tsk_05_made_up_ids_stay_when_rows_are_added(tmp_path: Path) -> None:
    some = [{**ROW, "goal": f"goal {i}"} for i in range(3)]
    before = [t.id for t in load_tasks(written(tmp_path, rows(*some)))]
    after = [t.id for t in load_tasks(written(tmp_path, rows({**ROW, "goal": "new"}, *reversed(some))))]
    assert after[1:] == before[::-1]
    assert len(set(before)) == 3


def test_tsk_05_the_same_task_twice_without_ids(tmp_path: Path) -> None:
    text = refusal(written(tmp_path, rows(ROW, {**ROW, "id": ""})))
    assert "lines 1 and 2 have the same id" in text
    assert "they are the same task: remove one, or give them ids" in text


@pytest.mark.parametrize("change", [{"env": "b"}, {"goal": "b"}, {"seed": 1}, {"params": {"a": 1}}])
def test_the_content_id_is_of_what_the_task_is(change: dict[str, Any]) -> None:
    assert content_id({**ROW, **change}) != content_id(ROW)
    assert content_id({**ROW, "split": "dev", "id": "x", "parent": "p"}) == content_id(ROW)
    assert content_id({"goal": "win", "env": "toy"}) == content_id(ROW)


def test_the_content_id_does_not_change_between_versions() -> None:
    assert (
        content_id(ROW)
        == "t"
        + hashlib.sha256(b'{"env": "toy", "goal": "win", "params": null, "seed": null}').hexdigest()[:12]
    )


# --- splits, hashes, characters -----------------------------------------------------------------------


def test_splits(tmp_path: Path) -> None:
    file = written(tmp_path, rows(*[{**ROW, "goal": s, "split": s} for s in ("dev", "train", "test")]))
    assert [t.split for t in load_tasks(file)] == ["dev", "train", "test"]
    assert [t.goal for t in load_tasks(file, "dev")] == ["dev"]
    assert [t.goal for t in split_of(load_tasks(file), "test")] == ["test"]


def test_file_hash(tmp_path: Path) -> None:
    file = written(tmp_path, rows(ROW))
    assert file_hash(file) == hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    before = file_hash(str(file))
    file.write_bytes(file.read_bytes() + b"\n")
    assert file_hash(file) != before


def test_rep_10_half_characters_in_a_task_file(tmp_path: Path) -> None:
    file = written(tmp_path, '{"env":"toy","goal":"\\ud83d\\udd11 \\ud83d","params":{"\\ud83d":["\\udd11"]}}')
    (task,) = load_tasks(file)
    assert task.goal == "🔑 \ufffd"
    assert task.params == {"\ufffd": ["\ufffd"]}


def test_braces_and_percents_are_only_text(tmp_path: Path) -> None:
    goal = 'Return {"a": 1} and {task} {0} %s ${HOME}'
    assert load_tasks(written(tmp_path, rows({**ROW, "goal": goal})))[0].goal == goal


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TASK = st.fixed_dictionaries(
    {"env": st.text(min_size=1).filter(str.strip), "goal": st.text(min_size=1).filter(str.strip)},
    optional={
        "seed": st.integers(-5, 5),
        "params": st.dictionaries(st.text(max_size=5), JSON, max_size=3),
        "split": st.sampled_from(["train", "dev", "test"]),
    },
)


@given(
    st.lists(TASK, min_size=1, max_size=5, unique_by=content_id), st.booleans(), st.booleans(), st.booleans()
)
@settings(suppress_health_check=FIXTURE)
def test_any_good_file_loads_whole(
    tmp_path: Path, some: list[Any], bom: bool, crlf: bool, plain: bool
) -> None:
    end = "\r\n" if crlf else "\n"
    text = ("\ufeff" if bom else "") + (end + end).join(json.dumps(r, ensure_ascii=plain) for r in some)
    tasks = load_tasks(written(tmp_path, text))
    assert [(t.env, t.goal) for t in tasks] == [(r["env"], r["goal"]) for r in some]
    assert [t.params for t in tasks] == [r.get("params", {}) for r in some]
    assert len({t.id for t in tasks}) == len(some)


@given(st.binary(max_size=120) | JSON.map(lambda v: json.dumps(v).encode()))
@settings(suppress_health_check=FIXTURE)
def test_any_other_file_is_refused_in_words(tmp_path: Path, junk: bytes) -> None:
    assert "tasks.jsonl" in refusal(written(tmp_path, junk))


# --- as many as are wanted ---


def test_choose_keeps_file_order_and_does_not_depend_on_it() -> None:
    tasks = [Task(f"t{n}", "toy", "g") for n in range(40)]
    chosen = choose(tasks, 10)
    assert len(chosen) == 10
    assert list(chosen) == [t for t in tasks if t in chosen]
    assert {t.id for t in choose(tasks[::-1], 10)} == {t.id for t in chosen}
    assert choose(tasks, None) == choose(tasks, 99) == tuple(tasks)


def test_every_family_is_chosen_as_often_as_every_other() -> None:
    tasks = [
        Task(f"{family}{n}", "toy", "g", params={"type": family}) for family in "abcdef" for n in range(10)
    ]
    assert Counter(t.id[0] for t in choose(tasks, 12)) == dict.fromkeys("abcdef", 2)
    few = [t for t in tasks if t.id[0] != "a" or t.id == "a0"]
    counts = Counter(t.id[0] for t in choose(few, 13))
    assert counts["a"] == 1 and sorted(counts.values()) == [1, 2, 2, 2, 3, 3]
