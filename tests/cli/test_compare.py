"""`compare` on the command line: table, warnings, verdicts, the tasks that differ, JSON."""

from __future__ import annotations

import json
from pathlib import Path

from roleagent_lite.types import Outcome, Task
from tests.cli.conftest import Inside
from tests.cli.make import clear
from tests.evals.make import LOST, SOLVED, Told, told


def first(n: int, *, but: int = 99) -> Told:
    def ends(task: Task, rollout: int) -> Outcome:
        return SOLVED if int(task.id[1:]) < n and int(task.id[1:]) != but else LOST

    return Told(f"first{n}", ends)


def test_two_systems_of_one_run(inside: Inside, tmp_path: Path) -> None:
    told(tmp_path, "runs/r", first(2), first(11), n=12)
    done = inside("compare", "r")
    assert done.returncode == 0 and done.stderr == ""
    assert "12 tasks in common" in done.stdout and "warning" not in done.stdout
    assert "r:first11  11 of 12  92 % (65-99 %)" in done.stdout
    assert "9 won, 0 lost, 3 tied" in done.stdout and "more than noise" in done.stdout
    assert "better by r:first11 than by r:first2:" in done.stdout
    assert "0/first2__/t5#0" in done.stdout and "0/first11_/t5#0" in done.stdout
    assert "roleagent-lite show RUN TRAJECTORY" in done.stdout


def test_the_list_of_tasks_has_a_limit_that_is_told(inside: Inside, tmp_path: Path) -> None:
    told(tmp_path, "runs/r", first(2), first(11), n=12)
    few = inside("compare", "r", "--tasks", "2").stdout
    assert "and 7 more (--tasks 9 lists them)" in few and few.count("#0") == 4
    assert "better by" not in inside("compare", "r", "--tasks", "0").stdout


def test_evl_01_two_runs_within_noise_show_their_spread(inside: Inside, tmp_path: Path) -> None:
    told(tmp_path, "runs/one", first(6), n=12)
    told(tmp_path, "runs/two", first(6, but=3), n=12)
    said = inside("compare", "one", "two").stdout
    assert "within noise" in said and "solved more" not in said and "solved fewer" not in said
    assert "run-to-run spread: the same system (first6) in 2 runs: 50 %, 42 %" in said


def test_unequal_conditions_come_first(inside: Inside, tmp_path: Path) -> None:
    told(tmp_path, "runs/one", first(6), n=12)
    told(tmp_path, "runs/two", first(6), n=6, file="u.jsonl")
    said = inside("compare", "one", "two").stdout
    assert said.startswith("warning: only 6 tasks are common to all: one:first6 played 12")
    assert "calls, tokens, dollars and time are over all that each played" in said.splitlines()[0]
    assert "warning: task files differ" in said


def test_json_has_every_number(inside: Inside, tmp_path: Path) -> None:
    told(tmp_path, "runs/r", first(2), first(11), n=12)
    data = json.loads(inside("compare", "r:first2", "r:first11", "--json").stdout)
    assert data["pairs"][0]["success"]["wins"] == 9 and len(data["pairs"][0]["gained"]) == 9
    assert data["sides"][1]["rate"]["mean"] == 11 / 12 and data["sides"][0]["tokens_a_solved"] == 0


def test_a_wrong_word_is_named(inside: Inside, tmp_path: Path) -> None:
    told(tmp_path, "runs/r", first(2), first(11), n=12)
    clear(inside("compare", "r:frist2", "r"), 2, "did you mean 'first2'")
    clear(inside("compare", "x", "r"), 2, "no run 'x'")
    clear(inside("compare", "r", "r:first2"), 2, "say which")
    assert inside("compare").returncode == 2


def test_it_can_be_written_as_a_page(inside: Inside, tmp_path: Path) -> None:
    told(tmp_path, "runs/r", first(2), first(11), n=12)
    done = inside("compare", "r", "--html", "page.html")
    assert done.returncode == 0 and "written to page.html" in done.stdout
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'href="./runs/r/report.html#t=0%2Ffirst2__%2Ft5%230"' in page
    assert json.loads(inside("compare", "r", "--html", "page.html", "--json").stdout)["html"] == "page.html"
    lost = inside("compare", "r", "--html", "nowhere/page.html")
    assert lost.returncode != 0 and "cannot write nowhere/page.html" in lost.stderr
