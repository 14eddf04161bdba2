"""Sections on success: partial runs, errors shown twice, outcomes by kind and reason."""

from __future__ import annotations

from pathlib import Path

from roleagent_lite.report import results
from roleagent_lite.report.compare import sealed
from roleagent_lite.report.gather import gather
from roleagent_lite.store import Run
from roleagent_lite.types import Outcome
from tests.report import make


def test_headline_of_a_whole_run_is_the_sealed_verdict(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        facts = gather(run)
        text = results.headline(facts, sealed(facts))
    assert "Partial" not in text
    assert "seed prompt solved 3 of 12 and the final prompt 9 of 12" in text
    assert "Choice on the dev tasks: 4 won." in text


def test_res_04_a_partial_run_is_marked_so(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r", finished=False) as run:
        facts = gather(run)
        text = results.headline(facts, sealed(facts))
    assert text.startswith("**Partial: this run is not finished.**")
    assert "Solved" not in text.splitlines()[0]


def test_res_01_half_a_record_is_reported_and_left_out(tmp_path: Path) -> None:
    make.whole_run(tmp_path / "r", finished=False).close()
    table = tmp_path / "r" / "trajectories.jsonl"
    data = table.read_bytes()
    table.write_bytes(data[:-30])
    with Run.open(tmp_path / "r") as run:
        facts = gather(run)
        text = results.headline(facts, None)
    lost = len(data.splitlines(keepends=True)[-1]) - 30
    assert f"half-written last record was left out and will be redone: trajectories ({lost} bytes)" in text


def test_headline_where_the_seed_stays_unchallenged(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        run.record(
            "final", "final", {"seed": "s", "best": "s", "final": "s", "reason": "no candidate entered"}
        )
        run.record("finished", "finished", {})
        facts = gather(run)
        text = results.headline(facts, None)
    assert "The seed prompt stays" in text and "no candidate entered" in text


def test_headline_of_an_empty_run(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        assert "Partial" in results.headline(gather(run), None)


def test_tables_name_seed_and_final_and_show_errors_twice(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        make.play(run, make.episode(make.task(0, "dev"), make.CHILD, make.BROKEN, round=1, rollout=7))
        text = results.success_tables(gather(run))
    assert (
        text.index("### Sealed test tasks") < text.index("### Dev tasks") < text.index("### Training tasks")
    )
    assert "| seed | 3 of 12: 25 %" in text and "| final | 9 of 12: 75 %" in text
    assert "| final | 4 of 4: 100 % (51-100) | 100 % | 1.00 | 1 | 4 of 5: 80 % (38-96) |" in text


def test_types_are_shown_where_there_are_two(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r") as run:
        text = results.type_table(gather(run))
    assert text.startswith("| task type | seed | final |")
    assert "| clean | 1 of 6" in text and "| put | 2 of 6" in text
    with make.new_run(tmp_path / "q") as run:
        make.play(run, make.episode(make.task(1), make.SEED), tasks=[make.task(1)])
        assert results.type_table(gather(run)) == ""


def test_net_09_outcomes_are_counted_by_kind_and_reason(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        ends = [make.SOLVED] * 3 + [
            Outcome("cut_off", "filtered"),
            Outcome("cut_off", "refused"),
            make.BROKEN,
        ]
        make.play(run, *(make.episode(make.task(i), make.SEED, e) for i, e in enumerate(ends)))
        text = results.outcome_table(gather(run))
    assert "| solved | - | 3 | counts 1 |" in text
    assert "| cut_off | filtered | 1 | reply cut, refused or filtered: counts 0 |" in text
    assert "| cut_off | refused | 1 |" in text
    assert (
        "| infrastructure_error | provider | 1 | provider or environment broke: left out of the mean |"
        in text
    )


def test_env_01_and_wm_03_invalid_actions_and_missing_predictions_are_reported(tmp_path: Path) -> None:
    steps = [make.step(), make.step(valid=False), make.step(foretold=None), make.step()]
    with make.new_run(tmp_path / "r") as run:
        make.play(run, make.episode(make.task(1), make.SEED, steps=steps))
        text = results.moves_table(gather(run))
    assert "| test | 1 of 4 (25 %) | 1 of 4 (25 %) |" in text


def test_no_share_is_given_where_no_prediction_was_asked_for(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        make.play(run, make.episode(make.task(1, "dev"), make.SEED, steps=[make.step(foretold=None)]))
        make.play(run, make.episode(make.task(1, "train"), make.SEED, steps=[make.step(foretold=None)]))
        text = results.moves_table(gather(run))
    assert "| dev | 0 of 1 (0 %) | not asked for |" in text
    assert "| train | 0 of 1 (0 %) | 1 of 1 (100 %) |" in text


def test_arms_only_where_there_are_two(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        one = make.task(1, "train")
        make.play(run, make.episode(one, make.SEED, arm="none"))
        assert results.arms_table(gather(run)) == ""
        make.play(run, make.episode(one, make.SEED, make.LOST, rollout=1, arm="memory"))
        assert "| memory | 0 of 1" in results.arms_table(gather(run))


def test_errors_and_settings_are_escaped(tmp_path: Path) -> None:
    with make.new_run(tmp_path / "r") as run:
        make.play(run, make.episode(make.task(1), make.SEED, make.BROKEN, error="E: a|b `c`"))
        facts = gather(run)
    assert results.error_lines(facts) == "- `` 1/seed0000/test1#0: E: a│b `c` ``"
    assert "| a\\|b | unknown |" in results.what_was_run(facts, [("a|b", "")])


def test_a_kept_seed_is_named_kept(tmp_path: Path) -> None:
    with make.whole_run(tmp_path / "r", adopted=False) as run:
        facts = gather(run)
    assert results.name_of(make.SEED.id, facts) == "seed (kept)"
    assert results.name_of(make.CHILD.id, facts) == "child000"
