"""Field cases TSK: task files as people have them, through the command line against the fake server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.tasksets import load_tasks
from tests.cases.kit import Said, text, won
from tests.fake_server import FakeServer, Say
from tests.kill_runner import command

ENV = "tests.toy:Toy"


def row(number: int, **more: Any) -> str:
    task = {
        "id": f"t{number}",
        "env": ENV,
        "goal": f"Get out of hall number {number}.",
        "split": "test",
        **more,
    }
    return json.dumps({k: v for k, v in task.items() if v != "(none)"})


def played(fake: FakeServer, folder: Path, content: str | bytes, *more: str) -> Said:
    """`eval` on a task file of this very content."""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    (folder / "t.jsonl").write_bytes(data)
    words = ["eval", "--tasks", "t.jsonl", "--model", "fake", "--base-url", fake.url, "--run", "run", *more]
    return Said(*command(*words, cwd=folder), folder)


def refused(folder: Path, content: str | bytes, *words: str) -> str:
    """The one clear message about the task file; nothing was asked and no run was begun."""
    with FakeServer(won) as fake:
        said = played(fake, folder, content)
        assert fake.count == len(fake.others) == 0
    assert said.code == 2 and said.out == "" and "Traceback" not in said.err, said.err
    for word in ("t.jsonl", *words):
        assert word in said.err, f"{word!r} is missing in {said.err}"
    assert not (folder / "runs" / "run" / "tasks.jsonl").exists()
    return said.err


def test_tsk_01_bom_crlf_blank_lines_and_no_newline_at_the_end(tmp_path: Path) -> None:
    content = f"\ufeff{row(1)}\r\n\r\n{row(2)}\r\n   \r\n\r\n{row(3)}"
    with FakeServer(won) as fake:
        said = played(fake, tmp_path, content)
        goals = {line for seen in fake.requests for line in text(seen).split("\\n") if "hall number" in line}
    assert said.code == 0 and "3 of 3" in said.out, said.err
    trajectories = said.played().trajectories
    assert [t.task for t in trajectories] == ["t1", "t2", "t3"]
    assert not any(mark in repr(trajectories) + "".join(goals) for mark in ("\ufeff", "\\ufeff", "\r", "\\r"))
    stored = (said.folder / "runs" / "run" / "tasks.jsonl").read_text(encoding="utf-8")
    assert "\ufeff" not in stored and "\\r" not in stored


def test_tsk_01_files_joined_with_their_boms(tmp_path: Path) -> None:
    with FakeServer(won) as fake:
        said = played(fake, tmp_path, f"\ufeff{row(1)}\n\ufeff{row(2)}\n\ufeff\n")
    assert said.code == 0 and "2 of 2" in said.out, said.err


@pytest.mark.parametrize(
    ("encoding", "words"),
    [("utf-16", "UTF-16"), ("utf-16-le", "UTF-16"), ("utf-16-be", "UTF-16"), ("utf-32", "UTF-16"),
     ("latin-1", "not UTF-8 (Latin-1"), ("cp1252", "not UTF-8"), ("shift_jis", "not UTF-8")],
)  # fmt: skip
def test_tsk_01_another_encoding_is_named(encoding: str, words: str, tmp_path: Path) -> None:
    goal = "ひらけ" if encoding == "shift_jis" else "clé à molette"
    line = json.dumps({"env": ENV, "goal": goal, "split": "test"}, ensure_ascii=False)
    message = refused(tmp_path, f"{line}\n{line}x\n".encode(encoding), words, "save the file as UTF-8")
    assert len(message) < 900


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"[\n  {row(1)},\n  {row(2)}\n]\n", "one JSON array"),
        (f"[{row(1)}, {row(2)}]", "one JSON array"),
        (json.dumps(json.loads(row(1)), indent=2), "each task must stand on one line"),
        ("id,env,goal\nt1,tests.toy:Toy,win\n", "looks like CSV"),
        ("id;env;goal\nt1;tests.toy:Toy;win\n", "looks like CSV"),
        ("id\tenv\tgoal\nt1\ttests.toy:Toy\twin\n", "looks like CSV"),
        (f"{row(1)}\r{row(2)}\r", "CR alone"),
        (b"\x1f\x8b\x08\x00abcdef", "packed"),
        (b"PK\x03\x04xxxx", "packed"),
        (b"PAR1\x00\x00", "packed"),
        (b"\x00" * 500, "UTF-16"),
        (row(1)[:-9] + "\n", "line 1"),
    ],
    ids=["array", "array in a line", "pretty", "csv", "semicolons", "tabs", "old mac", "gzip", "zip",
         "parquet", "zeros", "cut"],
)  # fmt: skip
def test_tsk_03_another_kind_of_file_is_named(content: str | bytes, words: str, tmp_path: Path) -> None:
    assert len(refused(tmp_path, content, words)) < 2500


def test_tsk_03_bad_rows_are_listed_with_line_keys_needed_and_keys_present(tmp_path: Path) -> None:
    lacking = json.dumps({"id": "x", "env": ENV, "gaol": "y"})
    refused(
        tmp_path, f"{row(1)}\n\n[]\n\n{lacking}\n",
        "line 3: needs an object with the keys env and goal, found list",
        "line 5: needs goal; has id, env, gaol",
    )  # fmt: skip


@pytest.mark.parametrize("goal", [None, 7, 0.5, True, [], {}, "", " \t"])
def test_tsk_03_a_goal_that_is_no_text(goal: Any, tmp_path: Path) -> None:
    content = f"{row(1)}\n\n{row(2, goal=goal)}\n"
    refused(tmp_path, content, "line 3: goal must be a non-empty text", "has id, env, goal, split")


def test_tsk_05_one_id_on_two_lines_is_refused_with_both(tmp_path: Path) -> None:
    content = "\n".join([row(1), row(2), row(3), row(4, id="t1")])
    refused(tmp_path, content, "lines 1 and 4 have the same id 't1'")


@pytest.mark.parametrize(("first", "second"), [(1, "1"), ("0", 0), (-5, "-5")])
def test_tsk_05_a_number_and_its_text_are_one_id(first: Any, second: Any, tmp_path: Path) -> None:
    refused(tmp_path, f"{row(1, id=first)}\n{row(2, id=second)}\n", "lines 1 and 2 have the same id")


def test_tsk_05_a_key_twice_in_one_row_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, row(1)[:-1] + ', "goal": "another"}', "line 1", "'goal'", "twice")


def test_tsk_05_ids_are_made_up_and_stay_when_a_row_is_added(tmp_path: Path) -> None:
    lines = [row(n, id="(none)") for n in (1, 2, 3)]
    with FakeServer(won) as fake:
        said = played(fake, tmp_path, "\n".join(lines), "--limit", "3")
        asked = fake.count
        assert said.code == 0, said.err
        before = [t.task for t in said.played().trajectories]
        (tmp_path / "t.jsonl").write_text("\n".join([row(9, id="(none)"), *lines]), encoding="utf-8")
    assert asked == 6 and len(set(before)) == 3
    assert [t.id for t in load_tasks(tmp_path / "t.jsonl")][1:] == before


GOAL = 'Return {"a": 1} and {task} {0} %s ${HOME} {{x}} {action} \\n {reply_form}'


def test_tsk_07_the_model_gets_exactly_these_characters_once(tmp_path: Path) -> None:
    with FakeServer(won) as fake:
        said = played(fake, tmp_path, row(1, goal=GOAL))
        users = [
            [m["content"] for m in seen.body["messages"] if m["role"] == "user"] for seen in fake.requests
        ]
    assert said.code == 0, said.err
    assert users and all("".join(turns).count(GOAL) == 1 for turns in users)


def test_tsk_07_braces_that_an_environment_says_arrive_as_they_are(tmp_path: Path) -> None:
    odd = "{goal} {0} {observation} %d ${X}"
    (tmp_path / "odd_world.py").write_text(
        "from roleagent_lite.types import Observation, Transition\n"
        "class World:\n"
        "    def __init__(self, task): pass\n"
        f"    def observe(self): return Observation({odd!r}, ('say {{task}}', 'wait'))\n"
        "    def step(self, action):\n"
        "        assert action == 'say {task}', action\n"
        "        return Transition(self.observe(), 1.0, True)\n"
        "    def score(self): return 1.0\n",
        encoding="utf-8",
    )
    with FakeServer(lambda seen: Say('{"action": "say {task}"}')) as fake:
        said = played(fake, tmp_path, row(1, env="odd_world:World"))
        assert odd in text(fake.requests[0])
    assert said.code == 0 and "1 of 1" in said.out, said.err


def test_tsk_07_a_prompt_with_a_json_example_works(tmp_path: Path) -> None:
    own = 'Answer like {"action": "take key", "n": {0}} or {a b} {} ${X} %s.'
    (tmp_path / "mine.txt").write_text(own, encoding="utf-8")
    with FakeServer(won) as fake:
        said = played(fake, tmp_path, row(1), "--prompt", "mine.txt")
        assert own in "".join(m["content"] for m in fake.requests[0].body["messages"])
    assert said.code == 0, said.err


def test_tsk_07_a_placeholder_of_ours_in_a_users_prompt_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("Look at {observation} well.", encoding="utf-8")
    with FakeServer(won) as fake:
        said = played(fake, tmp_path, row(1), "--prompt", "mine.txt")
        assert fake.count == 0
    said.message(2, "mine.txt", "{observation}")


@pytest.mark.slow
def test_a_hundred_thousand_tasks_load_and_a_few_are_played(tmp_path: Path) -> None:
    content = "\n".join(row(n) for n in range(100_000))
    with FakeServer(won) as fake:
        said = played(fake, tmp_path, content, "--limit", "3")
    assert said.code == 0 and "3 of 3" in said.out, said.err
    bad = content.replace('"env"', '"enw"')
    message = refused_quickly(tmp_path, bad)
    assert message.count("needs env") == 20 and "99980 more" in message.replace(",", "")


def refused_quickly(folder: Path, content: str) -> str:
    (folder / "t.jsonl").write_text(content, encoding="utf-8")
    code, _, err = command("tasks", "check", "t.jsonl", cwd=folder)
    assert code == 2
    return err
