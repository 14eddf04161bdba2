"""Names of prompts: seed, final, the system that played, the start of an id; and their order."""

from __future__ import annotations

from pathlib import Path

from roleagent_lite.report.html.naming import labels, ordered
from roleagent_lite.report.write import build
from roleagent_lite.types import PromptSet
from tests.report import make
from tests.report.test_systems import evaluated, won


def test_prompts_of_an_evolution(tmp_path: Path) -> None:
    other = PromptSet("other0000000", {})
    with make.whole_run(tmp_path / "r") as run:
        assert labels(build(run)) == {make.SEED.id: "seed", make.CHILD.id: "final"}
        make.play(run, make.episode(make.task(1), other, round=0))
        report = build(run)
    assert labels(report)[other.id] == "other000"
    assert [t.prompt_set for t in ordered(report, "test")] == [make.SEED.id, make.CHILD.id, other.id]
    assert ordered(report, "none") == []


def test_prompts_of_an_evaluation_are_called_by_their_system(tmp_path: Path) -> None:
    with evaluated(tmp_path / "r", {"react": won(2), "lats": won(3)}) as run:
        assert labels(build(run)) == {"set-of-react": "react", "set-of-lats": "lats"}
