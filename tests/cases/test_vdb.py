"""Field cases VDB: neighbours of the cases in tests/memory/test_store.py, and a store as a run has it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.memory import Item, Memory
from roleagent_lite.memory.health import health
from tests.cases.test_res import READ_ONLY
from tests.cli.make import environment
from tests.fake_server import FakeServer
from tests.kill_runner import command
from tests.kitchen_server import config_file, serve
from tests.memory.make import Hashing, fingerprint, items

NFC, NFD = (unicodedata.normalize(form, "café № 5") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    "odd",
    [NFC, NFD, "x" * 10_000, "'" * 500, "a\nb\r\n\tc", "nul \x00 inside", "🔑" * 200, "--", "/*", "%_%",
     "\\'", "x'; DROP TABLE a; --", "NULL", "true", "1", " lead and trail ", "\u202eabc", "{id}", "?"],
    ids=lambda text: repr(text)[:20],
)  # fmt: skip
def test_vdb_09_any_text_is_an_id_of_its_own(odd: str, tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m")
    memory.upsert("a", [*items(3), Item(odd, "apple", {"n": 77})])
    assert memory.get("a", odd) == Item(odd, "apple", {"n": 77})
    assert [i.id for i in memory.all("a") if i.columns.get("n") == 77] == [odd]
    assert odd not in [h.item.id for h in memory.search("a", "apple", 10, exclude=[odd])]
    assert memory.count("a", {"n": 77}) == 1
    assert memory.delete("a", [odd]) == 1
    assert memory.count("a") == 3


def test_vdb_09_two_ways_to_write_a_letter_are_two_ids_and_both_are_found(tmp_path: Path) -> None:
    assert NFC != NFD
    memory = Memory(tmp_path / "m")
    memory.upsert("a", [Item(NFC, "one"), Item(NFD, "two")])
    assert memory.count("a") == 2
    assert memory.delete("a", [NFD]) == 1 and memory.get("a", NFC) is not None


def test_vdb_02_words_with_accents_are_found_however_they_are_written(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m")
    memory.upsert("a", [Item("1", NFC), Item("2", "положи яблоко"), Item("3", "Straße"), Item("4", "naïve")])
    for query, id in (("café", "1"), ("яблоко", "2"), ("ЯБЛОКО", "2"), ("naive", "4"), ("Naïve", "4")):
        assert [h.item.id for h in memory.search("a", query, 5)] == [id], query


def test_a_store_that_is_copied_while_it_is_open(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m", Hashing())
    memory.upsert("a", items(5))
    memory.search("a", "apple", 1)
    shutil.copytree(tmp_path / "m", tmp_path / "copy")
    memory.upsert("a", items(5, start=5))
    copy = Memory(tmp_path / "copy", Hashing())
    assert copy.count("a") == 5 and copy.search("a", "apple 3", 1)[0].item.id == "t003"
    copy.upsert("a", [Item("new", "a lamp")])
    assert memory.count("a") == 10 and memory.get("a", "new") is None


def test_a_damaged_store_is_named_with_the_way_out(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m")
    memory.upsert("a", items(5))
    for file in (tmp_path / "m" / "a.lance" / "_versions").iterdir():
        file.write_bytes(b"")
    for act in (
        lambda: Memory(tmp_path / "m").count("a"),
        lambda: Memory(tmp_path / "m").search("a", "apple", 1),
        lambda: Memory(tmp_path / "m").upsert("a", items(1)),
    ):
        with pytest.raises(RoleAgentError, match=rf"memory store {tmp_path}/m: .*delete that folder"):
            act()
    assert health(tmp_path / "m")[0].error


def test_vdb_04_a_write_while_another_holds_the_lock_waits_and_loses_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from roleagent_lite.memory import Item, Memory\n"
        "m = Memory(Path(sys.argv[1]))\n"
        "with m._lock():\n"
        "    print('held', flush=True); sys.stdin.readline()\n"
    )
    Memory(tmp_path / "m").upsert("a", items(2))
    start = [sys.executable, "-c", code, str(tmp_path / "m")]
    with subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        adding = (
            "import sys; from pathlib import Path; from roleagent_lite.memory import Item, Memory\n"
            "Memory(Path(sys.argv[1])).upsert('a', [Item('late', 'apple')])"
        )
        with subprocess.Popen([sys.executable, "-c", adding, str(tmp_path / "m")]) as late:
            with pytest.raises(subprocess.TimeoutExpired):
                late.wait(0.5)
            holder.stdin.write("\n")
            holder.stdin.close()
            assert late.wait(60) == 0
    assert Memory(tmp_path / "m").count("a") == 3


SEARCH = (
    "import sys; from pathlib import Path; from roleagent_lite.memory import Item, Memory\n"
    "from roleagent_lite.errors import RoleAgentError\n"
    "m = Memory(Path(sys.argv[1]))\n"
    "print(m.count('a'), m.get('a', 't001').id)\n"
    "try: m.upsert('a', [Item('x', 'y')])\n"
    "except RoleAgentError as error: print(error)\n"
)


def test_a_read_only_store_is_read_and_a_write_is_refused_in_words(tmp_path: Path) -> None:
    Memory(tmp_path / "m").upsert("a", items(5))
    (tmp_path / "s.py").write_text(SEARCH, encoding="utf-8")
    before = fingerprint(tmp_path / "m")
    inner = f"{sys.executable} {tmp_path}/s.py {tmp_path}/m"
    command_line = ["unshare", "-Urm", "sh", "-c", READ_ONLY.format(tmp_path / "m", inner)]
    done = subprocess.run(command_line, env=environment(), capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip("no mounts of one's own here")
    assert done.stdout.startswith("5 t001\n"), done.stderr
    assert f"memory store {tmp_path}/m: " in done.stdout and "permissions" in done.stdout
    assert fingerprint(tmp_path / "m") == before


def test_vdb_01_a_run_of_a_few_tasks_searches_without_an_index_and_leaves_a_healthy_store(
    tmp_path: Path,
) -> None:
    config_file(tmp_path, {"aiw": {"retrieve": "vector", "embedder": "none"}})
    with FakeServer(serve) as fake:
        words = ["evolve", "--config", "kitchen.toml", "--model", "fake", "--base-url", fake.url]
        code, _, err = command(*words, "--run", "run", cwd=tmp_path)
    assert code == 0 and "k-means" not in err.lower(), err
    (table,) = health(tmp_path / "runs" / "run" / "memory")
    assert (table.error, table.twice) == ("", 0) and table.rows > 0
    code, out, _ = command("doctor", "--run", "run", cwd=tmp_path)
    assert code == 0 and "store of run" in out and f"{table.rows} rows" in out
