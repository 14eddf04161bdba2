"""store: append-only tables that survive a kill, a full disk, odd characters and a second process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roleagent_lite import redact
from roleagent_lite.config import RunConfig, from_mapping
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.store import Event, Run, Table
from roleagent_lite.types import Call, Message, Outcome, Reply, Request, Step, Task, Trajectory

ANY = st.text(st.characters(exclude_categories=()), max_size=40)  # lone surrogates and NUL included


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(redact, "_secrets", set())
    yield


def trajectory(number: int, text: str = "You see a key.") -> Trajectory:
    steps = tuple(
        Step(observation=f"{text} {i}", action="take key", outcome=text, predictions=(text, None))
        for i in range(3)
    )
    return Trajectory(
        id=f"0/abcdefgh/t#{number}", task="t", prompt_set="abcdefgh", model="m", round=0, rollout=number,
        split="train", steps=steps, score=1.0, outcome=Outcome("solved"),
    )  # fmt: skip


def table(path: Path) -> Table[Trajectory]:
    return Table(path, Trajectory, lambda t: t.id)


def lines(path: Path) -> list[Any]:
    """Every line parsed; fails on half a line."""
    data = path.read_bytes()
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


# --- one table ----------------------------------------------------------------------------------------


def test_rows_come_back_equal_and_in_order(tmp_path: Path) -> None:
    file = tmp_path / "sub" / "t.jsonl"
    rows = [trajectory(i) for i in range(5)]
    store = table(file)
    assert [store.put(r) for r in rows] == [True] * 5
    assert list(store) == rows
    store.close()
    again = table(file)
    assert list(again) == rows
    assert again.keys() == [r.id for r in rows]
    assert (len(again), again.torn) == (5, 0)
    assert rows[2].id in again
    assert "other" not in again
    assert again.get(rows[3].id) == rows[3]
    assert again.get("other") is None
    again.close()


def test_each_line_has_schema_key_and_row(tmp_path: Path) -> None:
    store = table(tmp_path / "t.jsonl")
    store.put(trajectory(0))
    store.close()
    (row,) = lines(tmp_path / "t.jsonl")
    assert (row["v"], row["key"], row["row"]["score"]) == (1, "0/abcdefgh/t#0", 1.0)


def test_a_second_put_of_a_key_changes_nothing(tmp_path: Path) -> None:
    store = table(tmp_path / "t.jsonl")
    assert store.put(trajectory(0))
    before = (tmp_path / "t.jsonl").read_bytes()
    assert not store.put(replace(trajectory(0), score=0.0))
    assert (tmp_path / "t.jsonl").read_bytes() == before
    store.close()


def test_reading_creates_no_file(tmp_path: Path) -> None:
    store = table(tmp_path / "t.jsonl")
    assert (list(store), store.get("x"), len(store)) == ([], None, 0)
    assert not (tmp_path / "t.jsonl").exists()


def test_writing_goes_on_after_close(tmp_path: Path) -> None:
    store = table(tmp_path / "t.jsonl")
    for number in range(3):
        store.put(trajectory(number))
        store.close()
    assert len(lines(tmp_path / "t.jsonl")) == 3
    assert store.get(trajectory(1).id) == trajectory(1)
    store.close()


def test_threads_do_not_tear_rows(tmp_path: Path) -> None:
    store = table(tmp_path / "t.jsonl")
    wrong: list[object] = []

    def work(start: int) -> None:
        for number in range(start, start + 40):
            store.put(trajectory(number % 60))
            if store.get(trajectory(number % 60).id) != trajectory(number % 60):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i * 20,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sorted(row["key"] for row in lines(tmp_path / "t.jsonl")) == sorted(
        trajectory(i).id for i in range(60)
    )
    store.close()


# --- a kill -------------------------------------------------------------------------------------------


def cut_and_resume(file: Path, keep: int, rows: list[Trajectory]) -> Table[Trajectory]:
    """The file cut to `keep` bytes, then the same program again."""
    with file.open("rb+") as out:
        out.truncate(keep)
    store = table(file)
    torn = store.torn
    for row in rows:
        store.put(row)
    assert list(store) == rows
    store.close()
    assert [line["key"] for line in lines(file)] == [r.id for r in rows]
    fresh = table(file)
    assert fresh.torn == 0
    fresh.close()
    store.torn = torn
    return store


def test_res_01_the_last_30_bytes_are_cut(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    rows = [trajectory(i) for i in range(4)]
    store = table(file)
    for row in rows:
        store.put(row)
    store.close()
    size, last = file.stat().st_size, len(file.read_bytes().splitlines(keepends=True)[-1])
    assert cut_and_resume(file, size - 30, rows).torn == last - 30


def test_res_01_cut_in_the_middle_of_a_character(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    rows = [trajectory(i, "clé 🔑") for i in range(3)]
    store = table(file)
    for row in rows:
        store.put(row)
    store.close()
    data = file.read_bytes()
    for inside in (1, 2, 3):
        file.write_bytes(data)
        at = data.rindex("🔑".encode()) + inside
        cut_and_resume(file, at, rows)


def test_res_01_cut_at_every_byte_of_the_last_two_records(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    rows = [Event(f"k{i}", "é", {"text": "🔑", "n": i}) for i in range(3)]

    def events() -> Table[Event]:
        return Table(file, Event, lambda e: e.key)

    store = events()
    for row in rows:
        store.put(row)
    store.close()
    data = file.read_bytes()
    first = data.index(b"\n") + 1
    for keep in range(first, len(data) + 1):
        file.write_bytes(data[:keep])
        again = events()
        assert again.torn == keep - (data.rfind(b"\n", 0, keep) + 1)
        written = [again.put(row) for row in rows]
        assert written.count(True) == 3 - data[:keep].count(b"\n")
        again.close()
        assert file.read_bytes() == data


def test_res_01_closing_and_writing_again_cuts_only_once(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    store = table(file)
    store.put(trajectory(0))
    store.close()
    with file.open("ab") as out:
        out.write(b'{"v":1,"key":"half')
    store = table(file)
    for number in (1, 2, 3):
        store.put(trajectory(number))
        store.close()
    assert [line["key"] for line in lines(file)] == [trajectory(i).id for i in range(4)]


def test_reading_does_not_cut(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    store = table(file)
    store.put(trajectory(0))
    store.close()
    with file.open("ab") as out:
        out.write(b'{"v":1,"key":"being written')
    before = file.read_bytes()
    reader = table(file)
    assert list(reader) == [trajectory(0)]
    assert reader.torn == 27
    reader.close()
    assert file.read_bytes() == before


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"{}", b'{"v":1}', b"null", b"\xff\xfe", b'{"key":"k"}'])
def test_damage_in_the_middle_is_named_and_not_skipped(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "t.jsonl"
    store = table(file)
    store.put(trajectory(0))
    store.close()
    good = file.read_bytes()
    file.write_bytes(good + line + b"\n" + good)
    with pytest.raises(RoleAgentError, match=r"t\.jsonl line 2 is damaged .*delete that line"):
        table(file)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text('{"v":2,"key":"a","row":{}}\n')
    with pytest.raises(ConfigError, match="line 1 has schema 2, this version reads 1"):
        table(file)


def test_a_record_of_another_shape_is_named(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text('{"v":1,"key":"a","row":{"id":"a"}}\n')
    store = table(file)
    with pytest.raises(RoleAgentError, match="a record is not of this version's shape"):
        store.get("a")
    store.close()


# --- a full disk --------------------------------------------------------------------------------------


def test_res_05_dev_full(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.symlink_to("/dev/full")
    store = table(file)
    with pytest.raises(
        RoleAgentError, match=rf"cannot write {file}: No space left.*free some space and resume"
    ):
        store.put(trajectory(0))
    assert len(store) == 0
    assert trajectory(0).id not in store
    store.close()


FILL = """
import resource, sys
from pathlib import Path
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.store import Event, Table
file, limit = Path(sys.argv[1]), int(sys.argv[2])
table = Table(file, Event, lambda e: e.key)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
for number in range(100):
    try:
        table.put(Event(f"k{number}", "fill", {"text": "x" * 100}))
    except RoleAgentError as error:
        print(number, error)
        break
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print([table.put(Event(f"k{n}", "fill", {"text": "x" * 100})) for n in (number, number + 1)])
"""


def test_res_05_a_file_size_limit(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    found = subprocess.run(
        [sys.executable, "-c", FILL, str(file), "1000"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert found[0].startswith(f"5 cannot write {file}: ")
    assert "what was finished is kept, free some space and resume" in found[0]
    assert found[1] == "[True, True]"  # the same process goes on when space is back
    assert [line["key"] for line in lines(file)] == [f"k{i}" for i in range(7)]


def test_res_05_nothing_fits_at_all(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    subprocess.run([sys.executable, "-c", FILL, str(file), "0"], capture_output=True, check=True)
    assert [line["key"] for line in lines(file)] == ["k0", "k1"]


class Stuck:
    """A file of which the disk takes half a record and then does not even let go of that."""

    def __init__(self, real: Any) -> None:
        self.real, self.stuck = real, True

    def write(self, data: bytes) -> int:
        return int(self.real.write(data[: len(data) // 2] if self.stuck else data))

    def truncate(self, size: int) -> int:
        if self.stuck:
            raise OSError(5, "Input/output error")
        return int(self.real.truncate(size))

    def seek(self, *where: int) -> int:
        return int(self.real.seek(*where))

    def close(self) -> None:
        self.real.close()


def test_res_05_half_a_record_that_cannot_be_taken_back_is_cut_later(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    store = table(file)
    store.put(trajectory(0))
    disk = Stuck(store._out)
    store._out = disk  # type: ignore[assignment]
    with pytest.raises(RoleAgentError, match="bytes fit"):
        store.put(trajectory(1))
    with pytest.raises(RoleAgentError, match="Input/output error"):
        store.put(trajectory(2))  # never written behind the half record
    disk.stuck = False
    assert store.put(trajectory(1))
    store.close()
    assert [line["key"] for line in lines(file)] == [trajectory(0).id, trajectory(1).id]


def test_res_05_a_run_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RoleAgentError, match=r"cannot write run directory .*/file/run: "):
        Run.create(tmp_path / "file" / "run", RunConfig())


def test_res_05_a_config_that_cannot_be_written_leaves_no_empty_one(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from roleagent_lite.config import RunConfig; from roleagent_lite.store import Run\n"
        "from roleagent_lite.errors import RoleAgentError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "try: Run.create(Path(sys.argv[1]), RunConfig())\n"
        "except RoleAgentError as error: print(error)"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "run")]
    found = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "cannot write " in found.stdout
    assert "config.toml" in found.stdout
    assert not (tmp_path / "run" / "config.toml").exists()
    Run.create(tmp_path / "run", RunConfig()).close()
    assert Run.open(tmp_path / "run").config == RunConfig()


def test_the_file_size_limit_of_this_process_is_untouched() -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


# --- odd characters and keys --------------------------------------------------------------------------


def test_rep_10_surrogates_emoji_and_nul(tmp_path: Path) -> None:
    text = "pair \ud83d\udd11, half \ud83d, emoji 🔑, مفتاح, nul \x00, line \u2028 end\r\n"
    store = table(tmp_path / "t.jsonl")
    store.put(trajectory(0, text))
    found = store.get(trajectory(0).id)
    store.close()
    assert found is not None
    assert found.steps[0].outcome == "pair 🔑, half \ufffd, emoji 🔑, مفتاح, nul \x00, line \u2028 end\r\n"
    again = table(tmp_path / "t.jsonl")
    assert list(again) == [found]
    again.close()


def test_rep_10_a_key_with_half_a_character_is_found_again(tmp_path: Path) -> None:
    odd = replace(trajectory(0), id="0/x/\ud83d#0")
    store = table(tmp_path / "t.jsonl")
    assert store.put(odd)
    store.close()
    again = table(tmp_path / "t.jsonl")
    assert odd.id in again
    assert not again.put(odd)
    assert again.get(odd.id) == replace(odd, id="0/x/\ufffd#0")
    again.close()


@given(st.lists(st.tuples(ANY, ANY), max_size=6))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_survives_the_table(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    file = tmp_path / "any.jsonl"
    file.unlink(missing_ok=True)
    store = Table(file, Task, lambda t: t.id)
    wanted: dict[str, Task] = {}
    for key, text in pairs:
        task = Task(key, "toy", text, params={"text": [text]})
        key, whole = redact.clean([key, text])
        mended = Task(key, "toy", whole, params={"text": [whole]})
        assert store.put(task) is (mended.id not in wanted)
        wanted.setdefault(mended.id, mended)
    assert list(store) == list(wanted.values())
    store.close()
    again = Table(file, Task, lambda t: t.id)
    assert list(again) == list(wanted.values())
    again.close()


@given(st.binary(max_size=200))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_of_anything_is_opened_or_refused_in_words(tmp_path: Path, junk: bytes) -> None:
    file = tmp_path / "junk.jsonl"
    file.write_bytes(junk)
    try:
        store = table(file)
    except RoleAgentError as error:
        assert "junk.jsonl line" in str(error)
    else:
        assert store.torn == len(junk)
    assert file.read_bytes() == junk


def test_acc_07_no_key_reaches_a_file(tmp_path: Path) -> None:
    secrets = ["flag-key-123456", 'quo"ted-key\\1', "urlpass99", "100000"]
    for secret in secrets:
        redact.register(secret)
    config = from_mapping({"limits": {"base_url": "http://u:urlpass99@127.0.0.1/v1"}})
    shapes = "sk-live-abcdefghijklmnop\tAIzaabcdefghijklmnopqrstuvwxyz01234"
    echoed = f"401: Authorization: Bearer flag-key-123456\n{shapes}"
    request = Request("agent", "act", (Message("user", 'quo"ted-key\\1'),), max_tokens=100000)
    with Run.create(tmp_path / "run", config) as run:
        run.calls.put(Call("c", "m", "http://u:urlpass99@h", request, Reply(echoed)))
        run.trajectories.put(replace(trajectory(0), error=echoed))
        run.record("urlpass99", "note", {"urlpass99": [echoed]})
    for file in (tmp_path / "run").iterdir():
        text = file.read_text(encoding="utf-8")
        for secret in ["flag-key", "urlpass99", "sk-live", "AIza", "ted-key"]:
            assert secret not in text, file
    with Run.open(tmp_path / "run") as run:
        found = run.calls.get("c")
        assert found is not None
        assert found.request.max_tokens == 100000
        assert found.request.messages[0].content == "[key]"
        assert found.reply.text == "401: Authorization: Bearer [key]\n[key]\t[key]"
    with Run.create(tmp_path / "run", config):  # the same settings resume
        pass


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused(tmp_path: Path, value: float) -> None:
    store = table(tmp_path / "t.jsonl")
    with pytest.raises(RoleAgentError, match="record '0/abcdefgh/t#0' holds a number that is not finite"):
        store.put(replace(trajectory(0), score=value))
    assert store.put(trajectory(0))
    store.close()


# --- the run ------------------------------------------------------------------------------------------


def test_a_run_is_created_saved_and_opened(tmp_path: Path) -> None:
    config = from_mapping({"seed": 7, "tasks": "mine 🔑.jsonl"})
    with Run.create(tmp_path / "r1", config) as run:
        assert (run.name, run.status, run.torn) == ("r1", "new", {})
        assert run.record("draw/0", "draw", {"p": [0.5, 0.5]})
        assert not run.record("draw/0", "draw", {"p": [1.0]})
        run.trajectories.put(trajectory(0))
        assert run.status == "interrupted"
        run.record("finished", "finished", {})
        assert run.status == "finished"
    with Run.open(tmp_path / "r1") as run:
        assert run.config == config
        assert run.status == "finished"
        assert run.events.get("draw/0") == Event("draw/0", "draw", {"p": [0.5, 0.5]})
        assert list(run.trajectories) == [trajectory(0)]


def test_a_dispatched_episode_makes_a_run_interrupted(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", RunConfig()) as run:
        run.dispatched.put(Event("t#0", "dispatched", {}))
        assert run.status == "interrupted"


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no run at .*nowhere .no config.toml there.*roleagent-lite runs"):
        Run.open(tmp_path / "nowhere")


def test_torn_tables_are_reported_by_name(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", RunConfig()) as run:
        run.trajectories.put(trajectory(0))
    with (tmp_path / "r" / "trajectories.jsonl").open("ab") as out:
        out.write(b'{"v":')
    with Run.create(tmp_path / "r", RunConfig()) as run:
        assert run.torn == {"trajectories": 5}


def test_other_settings_are_refused_with_the_difference(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", from_mapping({"model": "a/b", "evolve": {"temperature": 0.9}})) as run:
        run.dispatched.put(Event("k", "call", {}))
    other = from_mapping({"model": "c/d", "seed": 1, "evolve": {"temperature": 0.5}})
    with pytest.raises(ConfigError) as caught:
        Run.create(tmp_path / "r", other)
    text = str(caught.value)
    for part in (
        "model: 'a/b' then, 'c/d' now",
        "seed: 0 then, 1 now",
        "evolve.temperature: 0.9 then, 0.5 now",
    ):
        assert part in text
    assert "evolve.rounds" not in text
    Run.create(tmp_path / "r", from_mapping({"model": "a/b"})).close()  # a refusal keeps no lock


def test_workers_budget_and_limits_may_change_on_resume(tmp_path: Path) -> None:
    Run.create(tmp_path / "r", RunConfig()).close()
    limits = {"replay": True, "timeout": 3.0, "rpm": 5, "tpm": 5, "retries": 0, "api_key_env": "X"}
    budget = {"max_usd": 1.0, "max_calls": 3, "price": "1/1"}
    changed = {"workers": 2, "budget": budget, "limits": limits}
    with Run.create(tmp_path / "r", from_mapping(changed)) as run:
        assert run.config.workers == 2


@pytest.mark.parametrize(("name", "value"), [("base_url", "http://127.0.0.1:9/v1"), ("max_tokens", 99)])
def test_res_03_what_is_part_of_a_call_s_key_may_not_change(tmp_path: Path, name: str, value: object) -> None:
    with Run.create(tmp_path / "r", RunConfig()) as run:
        run.dispatched.put(Event("k", "call", {}))
    with pytest.raises(ConfigError, match=rf"limits\.{name}: .* then, .*{value}.* now"):
        Run.create(tmp_path / "r", from_mapping({"limits": {name: value}}))


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", RunConfig()):
        with pytest.raises(ConfigError, match="is being written by another process"):
            Run.create(tmp_path / "r", RunConfig())
        with Run.open(tmp_path / "r") as reader:
            assert reader.status == "new"
    Run.create(tmp_path / "r", RunConfig()).close()


def test_a_killed_writer_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from roleagent_lite.config import RunConfig; from roleagent_lite.store import Run\n"
        "run = Run.create(Path(sys.argv[1]), RunConfig())\n"
        "run.record('a', 'note', {})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    found = subprocess.run([sys.executable, "-c", code, str(tmp_path / "r")], check=False)
    assert found.returncode == -9
    with Run.create(tmp_path / "r", RunConfig()) as run:
        assert "a" in run.events


def test_nothing_in_a_run_is_a_pickle(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", RunConfig()) as run:
        run.record("a", "note", {})
    assert {p.suffix for p in (tmp_path / "r").iterdir()} <= {".jsonl", ".toml", ""}
    assert (tmp_path / "r" / "lock").stat().st_size == 0


def test_a_start_that_failed_keeps_no_name(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", from_mapping({"model": "opnai/x"})) as run:
        run.record("start", "start", {"models": "opnai/x"})
    with Run.create(tmp_path / "r", from_mapping({"model": "openai/x"})) as run:
        assert run.config.model == "openai/x" and len(run.events) == 0
        run.dispatched.put(Event("k", "call", {}))
    with pytest.raises(ConfigError, match="model: 'openai/x' then"):
        Run.create(tmp_path / "r", from_mapping({"model": "openai/y"}))
