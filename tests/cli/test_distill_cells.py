"""`distill RUN --cells`: tables, files, what is taken where nothing is named, caps, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.cli.distill_cells import _adapter
from roleagent_lite.store import Run
from roleagent_lite.types import Message, Request
from tests.cli.conftest import Inside
from tests.cli.make import clear
from tests.evolve.kitchen import run_kitchen
from tests.fake_server import Answer, FakeServer, Say, Seen
from tests.kitchen_server import module
from tests.scripted_world import rule

SOURCE: dict[str, Any] = {
    "limits": {"retries": 0},
    "evolve": {"rounds": 2, "tasks_per_round": 5, "group": 2, "dev": 20, "test": 10},
}


def serve(seen: Seen) -> Answer:
    """`small` heeds what its prompt says; `big` knows the lesson by heart."""
    body = seen.body
    messages = tuple(Message(m["role"], m["content"]) for m in body["messages"])
    if body["model"] == "big":
        messages = (Message("system", "Open the microwave before you heat something."), *messages)
    schema = body["response_format"]["json_schema"]["schema"]
    return Say(rule(Request("agent", module(seen), messages, body["temperature"], schema=schema)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    run_kitchen(folder, SOURCE, name="source")
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    shutil.copytree(made / "source", tmp_path / "runs" / "source")
    return tmp_path


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    with FakeServer(serve) as server:
        yield server


def words(fake: FakeServer, *more: str) -> list[str]:
    return ["distill", "source", "--cells", "--base", f"small@{fake.url}", "--adapter", f"big@{fake.url}",
            "--trust", *more]  # fmt: skip


def test_four_cells_from_the_command_line(here: Path, inside: Inside, fake: FakeServer) -> None:
    done = inside(*words(fake, "--price", "1/2"))
    assert done.returncode == 0, done.stderr
    out = done.stdout
    assert "base " in out and "10 of 10: 100 % (72-100)" in out and "8 of 10: 80 % (49-94)" in out
    assert "training, under the seed prompt" in out and "adapter+seed against base+seed" in out
    assert "tokens a solved task" in out and "$0.0" in out
    assert "from the sealed test of run source, under the same conditions" in out
    assert "planned at most 480 calls" in done.stderr and "runs Python code" in done.stderr
    folder = here / "runs" / "source-cells"
    text = (folder / "cells.md").read_text(encoding="utf-8")
    assert (
        text.startswith("# Four cells of run source\n")
        and "report: " + str(Path("runs") / "source-cells" / "cells.md") in out
    )
    with Run.open(folder) as run:
        assert run.status == "finished" and len(run.results) == 6
    asked = fake.count
    again = inside(*words(fake, "--price", "1/2", "--json"))
    told = json.loads(again.stdout)
    assert fake.count == asked and told["status"] == "finished"
    assert (
        told["cells"]["adapter+seed"]["solved"] == 10
        and told["cells"]["adapter+seed"]["usage"]["dollars"] > 0
    )
    assert told["pairs"][0]["success"]["wins"] == 2
    compared = inside("compare", "source-cells:adapter+seed", "source-cells:base+seed")
    assert compared.returncode == 0 and "10 tasks in common" in compared.stdout


def test_a_cap_says_how_to_go_on(here: Path, inside: Inside, fake: FakeServer) -> None:
    done = inside(*words(fake, "--max-calls", "20"))
    assert done.returncode == 3 and "the same command goes on, with a higher one" in done.stderr
    partial = (here / "runs/source-cells/cells.md").read_text(encoding="utf-8")
    assert "(partial)" in partial and "Not finished: " in partial
    listed = inside("runs")
    assert (
        "to go on with an interrupted run: give the `roleagent-lite distill RUN --cells` line"
        in listed.stdout
    )
    clear_last(inside("eval", "--resume", "--run", "source-cells"), 2, "is another job: give the")
    clear_last(inside("eval", "--replay", "source-cells", "--trust"), 2, "is another job: it is not replayed")
    clear_last(inside("eval", "--resume"), 2, "no interrupted eval in runs/")
    done = inside(*words(fake, "--max-calls", "500"))
    assert done.returncode == 0, done.stderr
    assert "(partial)" not in (here / "runs/source-cells/cells.md").read_text(encoding="utf-8")


def test_the_prompt_that_was_baked_in_is_the_short_one(here: Path, inside: Inside, fake: FakeServer) -> None:
    """Of the recipe's own export; another adapter says nothing of a prompt."""
    trained = here / "runs/source/distill/smollm2-cpu"
    (trained / "export").mkdir(parents=True)
    (trained / "export/adapter.gguf").write_bytes(b"GGUF" + bytes(20))
    short = {"act.instructions": "", "act.playbook": "", "act.demonstrations": ""}
    (trained / "prompt.json").write_text(json.dumps(short), encoding="utf-8")
    assert _adapter(None, trained) == (str(trained / "export/adapter.gguf"), trained / "prompt.json")
    assert _adapter(str(trained / "export/adapter.gguf"), trained)[1] == trained / "prompt.json"
    assert _adapter("big", trained) == ("big", None)
    (trained / "config.toml").write_text("", encoding="utf-8")
    assert _adapter(None, trained)[1] is None
    (trained / "config.toml").unlink()
    done = inside("distill", "source", "--cells", "--trust", "--base", f"small@{fake.url}")
    clear_last(done, 2, "is a file, which is played beside the embedded model")
    assert f"seed prompt: {Path('runs/source/distill/smollm2-cpu/prompt.json')}" in done.stderr


def clear_last(done: Any, code: int, *said: str) -> None:
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    assert all(one in done.stderr.splitlines()[-1] for one in said), done.stderr


def test_infrastructure_errors_end_with_their_own_code(here: Path, inside: Inside) -> None:
    """One task's server answers nothing to one of the models: a row without it, and exit code 5."""

    def broken(seen: Seen) -> Answer:
        lost = seen.body["model"] == "big" and "the spoon" in str(seen.body["messages"])
        return Say("") if lost else serve(seen)

    with FakeServer(broken) as fake:
        done = inside(*words(fake))
    assert done.returncode == 5, done.stderr
    with Run.open(here / "runs/source-cells") as run:
        rows = {r.system: r for r in run.results}
    spoons = sum("spoon" in task for task in rows["base+seed"].scores)
    assert spoons and rows["adapter+seed"].n == 10 - spoons and rows["base+seed"].n == 10
    assert f"{2 * spoons} episodes ended in infrastructure errors" in done.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "holds no exported adapter: train one, then `--export gguf-adapter`"),
        (("--adapter", "x.gguf"), "x.gguf"),
        (
            ("--adapter", "m", "--recipe", "qwen3-0.6b-8gb"),
            "which is not played as it is; name what plays it",
        ),
        (("--adapter", "embedded"), "base and adapter are both 'embedded'"),
    ],
)
def test_what_is_wrong_is_named(here: Path, inside: Inside, more: tuple[str, ...], message: str) -> None:
    clear_last(inside("distill", "source", "--cells", "--trust", *more), 2, message)
    assert not (here / "runs/source-cells").exists() or not list((here / "runs/source-cells").glob("calls*"))


def test_flags_of_the_cells_mean_nothing_without_them(here: Path, inside: Inside) -> None:
    clear(inside("distill", "source", "--teacher"), 2, "--teacher belongs to --cells")
    clear(inside("distill", "source", "--seed-prompt", "x"), 2, "--seed-prompt belongs to --cells")


def test_a_run_from_elsewhere_is_not_followed_unasked(here: Path, inside: Inside, fake: FakeServer) -> None:
    line = [word for word in words(fake) if word != "--trust"]
    clear(inside(*line), 2, "was not begun by you on this machine", "tests.scripted_world:Kitchen")
