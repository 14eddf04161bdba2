"""Fuzz of the task loader and of the files around it: refused in words or read, never a crash or a hang."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite import config
from roleagent_lite.aiw.vocabulary import load_vocabulary
from roleagent_lite.ask import load_prompts
from roleagent_lite.content import room
from roleagent_lite.envs.household.game import game_from_row
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Run
from roleagent_lite.table import Table
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Task
from tests.fuzz.watch import SECONDS, watch


def lines(name: str, count: int) -> str:
    with (room("tasks") / name).open(encoding="utf-8") as file:
        return "".join(line for line, _ in zip(file, range(count), strict=False))


SHIPPED = lines("household-easy.jsonl", 2)
TASKS = (
    '{"id":"t1","env":"toy","goal":"win","seed":3,"params":{"a":[1]},"split":"dev","parent":"t0"}\n',
    '\ufeff{"env":"toy","goal":"one"}\r\n\r\n{"env":"toy","goal":"two","split":"test"}\r\n   \n',
    '{"env":"toy","goal":"Return {\\"a\\": 1} and {task} {0} %s ${HOME}"}\n{"env":"toy","goal":"\\ud83d"}\n',
    '[{"env":"toy","goal":"x"},\n{"env":"toy","goal":"y"}]\n',
    "env,goal\ntoy,win\n",
    SHIPPED,
)
TOML = (
    'model = "a/b"\nworkers = 4\n[wia]\ngamma = 0.9\n[evolve]\ncomponents = ["act.instructions"]\n',
    '[modes]\nwrong_order = "things in the wrong order"\nother_thing = "x"\n',
    'name = "act"\nrole = "agent"\ndescription = "d"\n[inputs]\ntask = "t"\n'
    '[outputs.action]\ntype = "string"\n'
    '[texts]\nx = "y {z}"\n[template]\nsystem = "s {x}"\nuser = "u {task} {reply_form}"\n',
    '"act.instructions" = "Be quick."\n"act.playbook" = """\n- a\n- b\n"""\n',
)
FOLDER = Path(tempfile.gettempdir())


def quietly(act: Callable[[], Any]) -> Any:
    """A clear error of ours is an answer."""
    try:
        return act()
    except RoleAgentError as error:
        assert str(error).strip()
        return None


def taskfile(text: str) -> None:
    path = FOLDER / "fuzz.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    tasks = quietly(lambda: load_tasks(path)) or []
    assert len({t.id for t in tasks}) == len(tasks)
    table = FOLDER / "fuzz.table.jsonl"
    table.unlink(missing_ok=True)
    out: Table[Task] = Table(table, Task, lambda t: t.id)
    for task in tasks:  # what was read can be stored and comes back the same
        assert out.put(task)
        assert out.get(task.id) is not None
    out.close()


def game(text: str) -> None:
    try:
        params = json.loads(text).get("params", {})
    except (ValueError, RecursionError, AttributeError):
        return
    if isinstance(params, dict):
        quietly(lambda: game_from_row("put it away", params))


def toml(text: str) -> None:
    path = FOLDER / "act.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    for act in (lambda: config.load(path), lambda: load_vocabulary(str(path)), lambda: load_prompts(path)):
        quietly(act)


def rundir(text: str) -> None:
    run = FOLDER / "fuzz-run"
    run.mkdir(exist_ok=True)
    (run / "config.toml").write_text(config.dump_toml(config.RunConfig()), encoding="utf-8")
    (run / "tasks.jsonl").write_bytes(text.encode("utf-8", "surrogatepass"))
    quietly(lambda: read_tasks(run))


def read_tasks(path: Path) -> list[Task]:
    with Run.open(path) as run:
        return list(run.tasks)


ROW = '{"v":1,"key":"t1","row":{"id":"t1","env":"toy","goal":"win","seed":0,"params":{},"split":"train"}}\n'


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("target", "seeds", "share"),
    [
        (taskfile, TASKS, 0.15),
        (game, [line for line in SHIPPED.splitlines() if line], 0.05),
        (toml, TOML, 0.05),
        (rundir, [ROW, ROW * 3], 0.05),
    ],
    ids=["tasks", "game", "toml", "run"],
)
def test_no_crash_and_no_hang(
    target: Any, seeds: Any, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "FOLDER", tmp_path)
    assert watch(target, seeds, share * SECONDS, tmp_path / "text") > 0
