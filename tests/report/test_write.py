"""The files: same run, same report; the old report survives a full disk; no key in any of them."""

from __future__ import annotations

import json
import re
import shutil
import tracemalloc
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roleagent_lite import redact
from roleagent_lite.config import from_mapping
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.report import write
from roleagent_lite.report.write import build, render, write_report
from roleagent_lite.types import Outcome, Split
from tests.report import make


@pytest.fixture
def done(tmp_path: Path) -> Path:
    make.whole_run(tmp_path / "first", config=from_mapping({"tasks": "household-easy"})).close()
    return tmp_path / "first"


def test_every_section_is_there_in_order(done: Path) -> None:
    text = write_report(done).read_text()
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "What was run",
        "Success",
        "By task type (sealed tasks)",
        "How episodes ended",
        "Foresight (World-In-Agent)",
        "Failure modes by round (Agent-In-World)",
        "Curriculum",
        "Candidates",
        "The prompt",
        "What it cost",
        "Time",
        "What this model can and cannot do",
    ]
    assert text.startswith("# Run first\n\nOn the 12 sealed test tasks")
    assert "Training rows are over the tasks that each prompt happened to be drawn for" in text


def test_pictures_are_valid_and_linked(done: Path) -> None:
    text = write_report(done).read_text()
    svgs = sorted(p.name for p in done.glob("*.svg"))
    assert svgs == ["curriculum.svg", "foresight.svg", "success.svg"]
    for name in svgs:
        assert f"({name})" in text
        ET.parse(done / name)
    assert list(done.glob("*.part")) == []


def test_json_holds_the_same_numbers(done: Path) -> None:
    text = write_report(done).read_text()
    data = json.loads((done / "report.json").read_text())
    assert data["status"] == "finished" and data["sealed"]["wins"] == 6
    assert data["sealed"]["words"].split(":")[0] in text
    seed = next(s for s in data["systems"] if s["split"] == "test" and s["prompt_set"] == make.SEED.id)
    assert (seed["success"]["k"], seed["success"]["n"], seed["by_type"]["put"]["k"]) == (3, 12, 2)
    assert data["spend"][1]["unknown_dollars"] == 1
    assert data["curriculum"][0]["parent"]["k"] == 2
    assert data["config"]["tasks"] == "household-easy"


def test_a_copied_run_gives_the_same_report(done: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "first"
    shutil.copytree(done, copy)
    assert write_report(copy).read_text() == write_report(done).read_text()


def test_res_04_partial_runs_are_marked_in_title_and_json(tmp_path: Path) -> None:
    make.whole_run(tmp_path / "r", finished=False).close()
    assert write_report(tmp_path / "r").read_text().startswith("# Run r (partial)\n")
    assert json.loads((tmp_path / "r" / "report.json").read_text())["status"] == "partial"


def test_an_empty_run_and_an_evaluation_have_reports(tmp_path: Path) -> None:
    make.new_run(tmp_path / "empty").close()
    assert "No episode has been played yet" in write_report(tmp_path / "empty").read_text()
    with make.new_run(tmp_path / "eval") as run:
        make.play(run, make.episode(make.task(1), make.SEED), tasks=[make.task(1)])
        run.record("finished", "finished", {})
    text = write_report(tmp_path / "eval").read_text()
    assert "Training rows" not in text
    assert "| rounds |" not in text and "success.svg" not in text
    assert "Solved 1 of 1" in text and "No episode carries predictions" in text


def test_a_damaged_event_is_unknown_not_a_crash(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        run.record("round/1", "round", {})
        run.record("candidate/x", "candidate", {})
        run.record("session/1", "session", {})
    text = write_report(tmp_path / "r").read_text()
    assert "unknown" in text


def test_acc_07_a_key_in_a_text_never_reaches_a_file(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        secret = "very-secret-value-123"
        # Written before the key was known, so the store could not remove it.
        make.play(run, make.episode(make.task(1), make.SEED, make.BROKEN, error=f"401 for {secret}"))
    redact.register(secret)
    try:
        write_report(tmp_path / "r")
    finally:
        redact._secrets.discard(secret)
    assert all(secret not in p.read_text() for p in (tmp_path / "r").glob("report.*"))


def test_res_05_the_old_report_survives_a_full_disk(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write_report(done).read_text()

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(RoleAgentError, match=r"cannot write .*success\.svg: No space left"):
        write_report(done)
    assert (done / "report.md").read_text() == before


def test_no_run_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run at"):
        write_report(tmp_path / "nothing")


def test_words_of_a_model_cannot_break_the_report(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        run.record(
            "candidate/9/x", "candidate", {"round": 9, "parent": "a", "reason": "<script>|\n## Fake\n```"}
        )
        text = render(build(run))
    assert "<script>" not in text and "\n## Fake" not in text


def test_role_models_are_listed_apart_where_they_differ(tmp_path: Path) -> None:
    config = from_mapping({"model": "openai/a", "models": {"reflector": "anthropic/b"}, "tasks": "t"})
    with make.new_run(tmp_path / "r", config) as run:
        rows = dict(write.settings_rows(build(run)))
    assert rows["model, reflector"] == "anthropic/b" and rows["model, agent"] == "openai/a"
    assert "model, all roles" not in rows


# --- whatever happened, the numbers add up ------------------------------------------------------------

ENDS = st.sampled_from(
    [
        make.SOLVED,
        make.LOST,
        make.BROKEN,
        Outcome("failed", "loop"),
        Outcome("bad_format", "no JSON"),
        Outcome("cut_off", "filtered"),
    ]
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ends=st.lists(st.tuples(st.sampled_from(["train", "dev", "test"]), ENDS, st.booleans()), max_size=30),
    words=st.text(max_size=60),
)
def test_counts_add_up_whatever_happened(
    ends: list[tuple[Split, Outcome, bool]], words: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with make.new_run(tmp_path_factory.mktemp("r") / "run") as run:
        for i, (split, end, child) in enumerate(ends):
            one = make.task(i, split, "ab"[i % 2])
            make.play(run, make.episode(one, make.CHILD if child else make.SEED, end), tasks=[one])
        run.record("candidate/1/x", "candidate", {"round": 1, "parent": "p", "child": None, "reason": words})
        report = build(run)
        data, text = report.as_data(), render(report)
    counted = sum(s["success"]["n"] + s["errors"] for s in data["systems"])
    assert counted == len(ends) == sum(o["n"] for split in data["outcomes"].values() for o in split)
    for system in data["systems"]:
        types = system["by_type"].values()
        assert system["success"]["n"] == sum(t["n"] for t in types)
        assert system["success"]["k"] == sum(t["k"] for t in types)
        assert system["success_with_errors_as_0"]["k"] == system["success"]["k"]
    solved = sum(end.kind == "solved" for _, end, _ in ends)
    assert solved == sum(s["success"]["k"] for s in data["systems"])
    json.dumps(data, allow_nan=False)
    # Every table is a table: whatever the words, rows have as many cells as their head.
    for rows in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        cells = [len(re.findall(r"(?<!\\)\|", row)) for row in rows.splitlines()]
        assert len(set(cells)) == 1, rows


def test_a_long_run_keeps_only_tallies_in_memory(tmp_path: Path) -> None:
    observation = "x" * 20_000
    with make.new_run(tmp_path / "r") as run:
        for i in range(150):
            step = replace(make.step(), observation=observation, outcome=observation)
            make.play(run, make.episode(make.task(i), make.SEED, steps=[step] * 5))
        tracemalloc.start()
        try:
            build(run)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 12_000_000, f"{peak:,} bytes for a table of 30 MB"
