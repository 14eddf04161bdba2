"""Every world by its name alone: `--env NAME` plays its tasks, or one message says what it lacks."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from roleagent_lite.envs import mcp, registry
from roleagent_lite.store import Run
from roleagent_lite.tasksets import load_tasks
from tests.cli.conftest import Inside
from tests.envs.worlds import WORLDS
from tests.fake_server import FakeServer, always

Patch = pytest.MonkeyPatch
SAID = '{"action": "look around", "predictions": ["?"]}'
SMALL = ["--rounds", "1"]
for _key, _value in {"tasks_per_round": 1, "group": 2, "dev": 1, "test": 1}.items():
    SMALL += ["--set", f"evolve.{_key}={_value}"]
COMMANDS: Mapping[str, list[str]] = {"eval": ["--limit", "1"], "evolve": SMALL}


def told(inside: Inside, command: str, env: str, *more: str) -> tuple[subprocess.CompletedProcess[str], int]:
    """What a user sees of `eval` or `evolve` with `--env`, and how many requests a model got."""
    with FakeServer(always(SAID)) as fake:
        words = [command, "--env", env, *COMMANDS[command], "--model", "fake", "--base-url", fake.url]
        done = inside(*words, "--run", "r", *more)
        return done, fake.count


# --- the tasks that a world brings ---

BRING: Mapping[str, str] = {  # name -> the shipped set that `--env NAME` plays
    "household": "household-easy",
    "household:alfworld": "household-easy",
    "webshop": "webshop",
    "search": "search",
    "shell": "shell",
    "tools": "tools",
    "scienceworld": "scienceworld",
    "textworld-express": "textworld-express",
}
SEEDED = ("gym:FrozenLake-v1", "tests.cellar:Cellar", "tests.toy:Toy")  # one a seed, or tasks of their own


ELSEWHERE = ("verifiers",)  # tests/envs/test_verifiers.py


def lacking(name: str) -> list[pytest.MarkDecorator]:
    why = WORLDS[name].lacking if name in WORLDS else ""
    return [pytest.mark.skip(why)] if why else []


@pytest.mark.parametrize("name", [pytest.param(n, marks=lacking(n)) for n in (*BRING, *SEEDED)])
def test_eval_plays_a_world_by_its_name_alone(name: str, inside: Inside, tmp_path: Path) -> None:
    done, asked = told(inside, "eval", name)
    assert done.returncode == 0 and asked > 0, done.stderr
    assert re.search(r"\d of 1 ", done.stdout) and "planned at most" in done.stderr
    with Run.open(tmp_path / "runs" / "r") as run:
        (task,), (played,) = run.tasks, run.trajectories
    assert (task.env, task.split, played.task) == (name, "test", task.id) and played.steps
    if name in BRING:
        assert (task.goal, task.params) in [(t.goal, t.params) for t in load_tasks(BRING[name])]


EVOLVE = ("textworld-express", "scienceworld", "shell", "gym:FrozenLake-v1")  # the first in the first pass


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[*lacking(n), *[pytest.mark.slow] * (n != EVOLVE[0])]) for n in EVOLVE]
)
def test_evolve_plays_a_world_by_its_name_alone(name: str, inside: Inside, tmp_path: Path) -> None:
    done, asked = told(inside, "evolve", name)
    assert done.returncode == 0 and asked > 0, done.stderr
    with Run.open(tmp_path / "runs" / "r") as run:
        assert {t.split for t in run.trajectories} == {"train", "dev", "test"}


def test_the_table_names_every_world_of_ours() -> None:
    ours = set(registry._OWN) | {prefix.rstrip(":") for prefix in registry._FAMILIES}
    known = set(BRING) | {name.partition(":")[0] for name in (*SEEDED, *LACKS, *ELSEWHERE)}
    assert ours <= known, "say in BRING, SEEDED or LACKS what --env NAME does"


# --- what is lacking ---

Setting = Callable[[Patch, Path], None]


def without(*packages: str) -> Setting:
    """As on a machine where these packages are not installed."""

    def hide(patch: Patch, _: Path) -> None:
        for name in packages:
            patch.setitem(sys.modules, name, None)

    return hide


def no_java(patch: Patch, folder: Path) -> None:
    patch.setenv("PATH", str(folder))
    patch.delenv("JAVA_HOME", raising=False)


def no_cache(patch: Patch, folder: Path) -> None:
    patch.setenv("ROLEAGENT_LITE_CACHE", str(folder / "cache"))


def here(_: Patch, __: Path) -> None:
    """This machine as it is."""


def untrusted(patch: Patch, _: Path) -> None:
    patch.setattr(mcp, "_allowed", set())


def rows(asks: str = "goal", **params: object) -> Setting:
    """A task file `t.jsonl` in the current folder, with a task of each split."""

    def write(_: Patch, folder: Path) -> None:
        rest = {"params": params} if asks == "goal" else params
        lines = [json.dumps({"split": s, asks: f"Do {s}.", **rest}) for s in ("train", "dev", "test")]
        (folder / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")

    return write


@dataclass(frozen=True)
class Lack:
    """Where something is missing: `setting` makes it so; `words`: what the message has to say."""

    env: str
    setting: Setting
    words: tuple[str, ...]
    more: tuple[str, ...] = ()
    code: int = 2
    needs: str = ""  # the world whose package must be here for the rest to be seen


def nobody() -> str:
    """An address on this computer where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


DEAD = nobody()
JAVA = ("no Java was found", "apt install default-jre-headless", "https://adoptium.net", "JAVA_HOME")
PIP = "pip install 'roleagent-lite["
FILE = ("--tasks", "t.jsonl")
LAKE = "gym:FrozenLake-v1"
LACKS: Mapping[str, Lack] = {
    f"{lack.env.split('/')[0]} {number}": lack
    for number, lack in enumerate(
        (
            # an extra
            Lack("scienceworld", without("scienceworld"), (PIP + "scienceworld]'", "Java 8")),
            Lack("scienceworld", without("py4j"), (PIP + "scienceworld]'",)),
            Lack("textworld-express", without("textworld_express"), (PIP + "textworld-express]'", "Java 8")),
            Lack("shell", without("bashkit"), (PIP + "shell]'",)),
            Lack("tools", without("mpmath"), (PIP + "tools]'",), needs="tools"),
            Lack("gym:FrozenLake-v1", without("gymnasium"), (PIP + "gym]'",)),
            Lack("mcp:python3 x.py", without("mcp"), (PIP + "mcp]'",), FILE),
            Lack("household:alfworld", without("alfworld"), (PIP + "alfworld]'", "'household' plays")),
            # Java
            Lack("scienceworld", no_java, JAVA, needs="scienceworld"),
            Lack("textworld-express", no_java, JAVA, needs="textworld-express"),
            # data
            Lack("tools", no_cache, ("bfcl-eval", "fetch it (2 MB) with: roleagent-lite tasks pull bfcl")),
            Lack("webshop:nowhere", here, ("folder nowhere lacks items", "WebShop's own setup script")),
            Lack("search:nowhere.jsonl", rows("question", golden_answers=["a"]),
                 ("no corpus file nowhere.jsonl", "JSON lines or parquet with id and contents"), FILE),
            Lack("household", rows(game="nowhere.tw-pddl"),
                 ("cannot read the game file nowhere.tw-pddl",), FILE),
            # a server, a program, a name
            Lack(f"appworld:{DEAD}", rows(task_id="a_1"),
                 (DEAD, "appworld serve environment", "appworld download data"), FILE, 1),
            Lack(f"search:{DEAD}", rows(answers=["a"]),
                 (DEAD, "roleagent-lite search-server"), FILE, 1),
            Lack(f"mcp:{DEAD}/mcp", rows(), (DEAD, "nothing listens there"), FILE, 1, "mcp:"),
            Lack("mcp:no-program x", rows(), ("no program 'no-program' on PATH",), FILE, 2, "mcp:"),
            Lack("gym:FrozenLak-v1", here, ("FrozenLak", "Did you mean: `FrozenLake`"), (), 2, LAKE),
            Lack("surely_missing:World", here, ("cannot import environment module 'surely_missing'",)),
            Lack("scienceworl", here, ("did you mean 'scienceworld'",)),
            # tasks
            Lack("appworld", here, ("--tasks FILE", "task_id")),
            Lack(f"mcp:{DEAD}/mcp", here, ("--tasks FILE", "params.answers"), needs="mcp:"),
            Lack(f"search:{DEAD}", here, ("--tasks FILE", "golden_answers")),
        )
    )
}  # fmt: skip


def whether(lack: Lack) -> list[pytest.MarkDecorator]:
    return lacking(lack.needs) if lack.needs else []


@pytest.mark.parametrize("lack", [pytest.param(v, id=k, marks=whether(v)) for k, v in LACKS.items()])
def test_one_message_says_what_to_install_fetch_or_start(
    lack: Lack, inside: Inside, tmp_path: Path, monkeypatch: Patch
) -> None:
    rows(answers=["a"])(monkeypatch, tmp_path)
    lack.setting(monkeypatch, tmp_path)
    command = list(COMMANDS)[list(LACKS.values()).index(lack) % 2]
    done, asked = told(inside, command, lack.env, *lack.more)
    assert (done.returncode, done.stdout, asked) == (lack.code, "", 0), done.stderr
    assert "Traceback" not in done.stderr
    _, message = f"\n{done.stderr}".split("\nroleagent-lite: ")
    assert [word for word in lack.words if word not in message] == [], message
    assert not (tmp_path / "runs" / "r" / "report.md").exists()


def test_a_model_is_not_opened_where_the_world_lacks_something(inside: Inside, monkeypatch: Patch) -> None:
    """Else it would be downloaded first."""
    without("scienceworld")(monkeypatch, Path())
    done = inside("eval", "--env", "scienceworld", "--limit", "1")  # the embedded model
    assert done.returncode == 2 and "loading the model" not in done.stderr + done.stdout
    assert "roleagent-lite[scienceworld]" in done.stderr


def test_what_a_run_holds_is_shown_without_its_world(
    inside: Inside, tmp_path: Path, monkeypatch: Patch
) -> None:
    first, asked = told(inside, "eval", "shell")
    assert (first.returncode, asked > 0) == (0, True), first.stderr
    without("bashkit")(monkeypatch, tmp_path)
    again = inside("eval", "--run", "r", "--resume")
    assert again.returncode == 0 and again.stdout == first.stdout, again.stderr
