"""table: append-only files that survive a kill, a full disk and odd characters."""

from __future__ import annotations

import json
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
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.store import Event
from roleagent_lite.table import Table, torn_bytes
from roleagent_lite.types import Outcome, Step, Task, Trajectory

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


@pytest.mark.parametrize(
    "line",
    [b'{"v":1,"key":"b","row":{"id":"ha}', b'{"v":1,"key":"b","row":\xff}', b'{"v":1,"key":"b","row":{}}}'],
)
def test_damage_behind_a_good_beginning_is_named_when_the_record_is_read(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "t.jsonl"
    good = [b'{"v":1,"key":"%d","row":{"key":"%d","kind":"k","data":{}}}\n' % (n, n) for n in range(3)]
    file.write_bytes(b"".join(good) + line + b"\n" + good[0].replace(b"0", b"9"))
    store = Table(file, Event, lambda e: e.key)
    assert store.get("9") == Event("9", "k", {})
    with pytest.raises(RoleAgentError, match=r"t\.jsonl line 4 is damaged .*delete that line"):
        store.get("b")
    with pytest.raises(RoleAgentError, match="line 4 is damaged"):
        list(store)
    store.close()


def test_keys_with_escapes_are_found(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    names = ['quo"te', "back\\slash", "line\nend", "nul\x00", "clé 🔑", '","row":{', ""]
    store = Table(file, Event, lambda e: e.key)
    for name in names:
        assert store.put(Event(name, "k", {}))
    store.close()
    again = Table(file, Event, lambda e: e.key)
    assert again.keys() == names
    assert [event.key for event in again] == names
    again.close()


@pytest.mark.parametrize("size", [0, 1, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 3 << 16])
def test_half_a_record_of_any_length_is_measured_without_reading_the_rest(tmp_path: Path, size: int) -> None:
    file = tmp_path / "t.jsonl"
    assert torn_bytes(file) == 0
    file.write_bytes(b"x" * size)
    assert torn_bytes(file) == size
    file.write_bytes(b"whole\n" + b"x" * size)
    assert torn_bytes(file) == size


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
from roleagent_lite.store import Event; from roleagent_lite.table import Table
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


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused(tmp_path: Path, value: float) -> None:
    store = table(tmp_path / "t.jsonl")
    with pytest.raises(RoleAgentError, match="record '0/abcdefgh/t#0' holds a number that is not finite"):
        store.put(replace(trajectory(0), score=value))
    assert store.put(trajectory(0))
    store.close()


@pytest.mark.parametrize("value", ["1e999", "-1e400", "NaN", "Infinity"])
def test_a_number_that_is_none_is_damage(value: str, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text(f'{{"v":1,"key":"k","row":{{"key":"k","kind":"x","data":{{"n":{value}}}}}}}\n')
    table: Table[Event] = Table(file, Event, lambda e: e.key)
    with pytest.raises(RoleAgentError, match="line 1 is damaged"):
        table.get("k")
    table.close()


def test_a_line_without_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roleagent_lite.table.MAX_LINE", 1000)
    file = tmp_path / "t.jsonl"
    good = '{"v":1,"key":"k","row":{"key":"k","kind":"x","data":{}}}\n'
    file.write_text(good + "x" * 5000)
    with pytest.raises(RoleAgentError, match=r"line 2 is damaged .longer than 1000 bytes"):
        Table(file, Event, lambda e: e.key)
    file.write_text(good + "x" * 500)
    table: Table[Event] = Table(file, Event, lambda e: e.key)
    assert (len(table), table.torn) == (1, 500)
    table.close()


def test_half_a_record_is_cut_off_when_asked_and_still_told(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    store = table(file)
    store.put(trajectory(0))
    store.close()
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:50])
    again = table(file)
    again.mend()
    again.mend()
    assert file.read_bytes() == whole and again.torn == 50
    assert again.put(trajectory(1))
    again.close()
    assert [line["key"] for line in lines(file)] == [trajectory(0).id, trajectory(1).id]
    table(tmp_path / "none.jsonl").mend()
    assert not (tmp_path / "none.jsonl").exists()
