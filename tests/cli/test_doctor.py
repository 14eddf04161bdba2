"""`doctor` as a user runs it: what stands on the screen, the exit code, the JSON, no key anywhere."""

from __future__ import annotations

import json
from pathlib import Path

from roleagent_lite.cli import doctor
from roleagent_lite.doctor import Line
from tests.cli.conftest import Inside
from tests.cli.make import clear, cli
from tests.fake_server import FakeServer, fail

KEY = "sk-test-abcdefghijklmnop1234"


def test_words_stand_under_one_another() -> None:
    text = doctor.words(
        [
            Line("a", "ok", "fine"),
            Line("longer", "problem", "bad", "mend it"),
            Line("b", "warning", "so", "x"),
        ]
    )
    assert text.splitlines() == [
        "ok       a       fine",
        "problem  longer  bad",
        "                 -> mend it",
        "warning  b       so",
        "                 -> x",
        "",
        "1 problems, 1 warnings, 1 ok",
    ]


def test_a_healthy_machine_ends_with_0(tmp_path: Path) -> None:
    done = cli("doctor", cwd=tmp_path, env={"OPENAI_API_KEY": KEY, "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stdout
    assert "OPENAI_API_KEY is set" in done.stdout and "0 problems" in done.stdout
    assert KEY not in done.stdout + done.stderr and KEY[-4:] not in done.stdout
    assert not (tmp_path / "runs").exists() and done.stderr == ""


def test_json_and_a_problem(inside: Inside) -> None:
    done = inside("doctor", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--json")
    assert done.returncode == 1 and done.stderr == ""
    lines = json.loads(done.stdout)
    assert set(lines[0]) == {"name", "state", "found", "advice"}
    problems = [one for one in lines if one["state"] == "problem"]
    assert len(problems) == 1 and "127.0.0.1:9" in problems[0]["found"] and problems[0]["advice"]


def test_a_local_server_is_probed_at_once(inside: Inside) -> None:
    with FakeServer() as fake:
        done = inside("doctor", "--model", "fake", "--base-url", fake.url)
        assert done.returncode == 0, done.stdout
        assert fake.count == 7
    assert "JSON schema: " in done.stdout and "system role: taken" in done.stdout


def test_a_key_that_a_server_echoes_is_not_shown(inside: Inside) -> None:
    with FakeServer(lambda seen: fail(500, f"bad {seen.headers}")) as fake:
        url = fake.url.replace("http://", "http://me:hunter-2222@")
        done = inside("doctor", "--model", "fake", "--base-url", url)
    assert "hunter" not in done.stdout and "answers" in done.stdout


def test_stores_are_opened_when_asked(inside: Inside, tmp_path: Path) -> None:
    from tests.doctor.test_places import store

    store(tmp_path / "runs" / "r")
    assert "1 tables" in inside("doctor").stdout
    done = inside("doctor", "--stores")
    assert done.returncode == 0 and "catalogue: 3 rows" in done.stdout


def test_a_run_that_is_not_there(inside: Inside) -> None:
    clear(inside("doctor", "--run", "nothing"), 2, "no run 'nothing'")
