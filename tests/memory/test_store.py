"""The store on a real LanceDB folder: rows, search, the field cases VDB-*, two writers, a forked worker."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from roleagent_lite import redact
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.memory import Item, Memory
from roleagent_lite.memory import store as store_module
from tests.memory.make import Hashing, fingerprint, items


def ids(memory: Memory, query: str, k: int = 10, **more: object) -> list[str]:
    return [hit.item.id for hit in memory.search("a", query, k, **more)]  # type: ignore[arg-type]


@pytest.fixture(params=["words", "hybrid"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Memory:
    return Memory(tmp_path / "m", Hashing() if request.param == "hybrid" else None)


# --- rows ---


def test_nothing_is_opened_or_made_before_the_first_write(memory: Memory) -> None:
    assert memory.count("a") == 0
    assert memory.all("a") == []
    assert memory.get("a", "x") is None
    assert memory.delete("a", ["x"]) == 0
    assert memory.search("a", "x", 3) == []
    assert memory.rebuild() == {}
    assert memory.upsert("a", []).written == 0
    assert memory.tables() == []
    assert not list(memory.path.rglob("*.lance"))


def test_rows_come_back_as_they_were(memory: Memory) -> None:
    rows = [
        Item(
            "b",
            "naïve дом 🔑",
            {"env": "household", "n": 3, "ok": True, "x": 0.5},
            {"deep": [1, {"a": None}]},
        ),
        Item("a", "", {"env": "shop"}),
    ]
    assert memory.upsert("a", rows).written == 2
    assert memory.all("a") == [rows[1], rows[0]]
    assert memory.get("a", "b") == rows[0]
    assert Memory(memory.path, memory.embedder).get("a", "b") == rows[0]
    assert memory.tables() == ["a"]


def test_upsert_replaces_by_id_and_the_last_of_two_wins(memory: Memory) -> None:
    memory.upsert("a", items(5))
    assert (
        memory.upsert("a", [Item("t001", "old"), Item("t001", "a lamp", {"n": 9}), Item("x", "new")]).written
        == 2
    )
    assert memory.count("a") == 6
    assert memory.get("a", "t001") == Item("t001", "a lamp", {"n": 9})
    assert ids(memory, "lamp")[0] == "t001"


def test_replace_makes_the_rows_the_whole_table(memory: Memory) -> None:
    memory.upsert("a", items(5))
    assert memory.replace("a", items(2, start=4)).written == 2
    assert [i.id for i in memory.all("a")] == ["t004", "t005"]
    assert memory.replace("a", []).written == 0
    assert memory.count("a") == 0
    assert ids(memory, "apple") == []


def test_delete_and_count_with_conditions(memory: Memory) -> None:
    memory.upsert("a", items(6))
    assert memory.count("a", {"n": [1, 3, 99]}) == 2
    assert memory.count("a", {"n": []}) == 0
    assert memory.delete("a", ["t001", "t004", "none"]) == 2
    assert memory.delete("a", []) == 0
    assert memory.count("a") == 4


def test_unknown_columns_and_odd_tables_are_named(memory: Memory) -> None:
    memory.upsert("a", items(3))
    with pytest.raises(RoleAgentError, match="no column 'm'"):
        memory.search("a", "x", 3, where={"m": 1})
    with pytest.raises(RoleAgentError, match="no column 'colour'"):
        memory.upsert("a", [Item("z", "t", {"colour": "red"})])
    with pytest.raises(ConfigError, match=r"'\.\./b' cannot name"):
        memory.upsert("../b", items(1))
    assert memory.count("a") == 3


def test_keys_never_reach_the_store(memory: Memory) -> None:
    redact.register("swordfish-4711")
    memory.upsert(
        "a",
        [Item("k swordfish-4711", "say swordfish-4711", {"c": "swordfish-4711"}, {"d": "swordfish-4711"})],
    )
    assert memory.get("a", "k swordfish-4711") == Item("k [key]", "say [key]", {"c": "[key]"}, {"d": "[key]"})
    ids(memory, "swordfish-4711")
    assert not any(b"swordfish" in p.read_bytes() for p in memory.path.rglob("*") if p.is_file())


# --- search ---


def test_the_best_row_is_first_and_k_is_kept(memory: Memory) -> None:
    memory.upsert("a", items(30))
    hits = memory.search("a", "apple 17 fridge", 4)
    assert len(hits) == 4
    assert hits[0].item == items(1, start=17)[0]
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    assert memory.search("a", "apple", 0) == []


def test_ties_are_ordered_by_id_whatever_the_order_of_writing(tmp_path: Path) -> None:
    """Equal scores, equal order: for one write, for many, for rows written again."""
    rows = [Item(f"t{i}", "put the apple away" if i % 2 else "wash a cup") for i in range(40)]
    found = []
    for number, order in enumerate(([*rows], rows[::-1], rows[7:] + rows[:7])):
        for embedder in (None, Hashing()):
            one = Memory(tmp_path / f"{number}{embedder is None}", embedder)
            for start in range(0, len(order), 13 + number):
                one.upsert("a", order[start : start + 13 + number])
                one.search("a", "apple", 1)
            one.upsert("a", order[:3])
            found.append([(h.item.id, h.score) for h in one.search("a", "the apple", 12)])
    assert found[0] == found[2] == found[4]
    assert found[1] == found[3] == found[5]
    assert [i for i, _ in found[0]] == sorted(r.id for r in rows if "apple" in r.text)[:12]


def test_where_and_exclude_are_applied_before_the_cut(memory: Memory) -> None:
    memory.upsert("a", items(20))
    assert set(ids(memory, "apple", 10, where={"n": [3, 5, 7]})) == {"t003", "t005", "t007"}
    assert set(ids(memory, "apple", 10, where={"n": [3, 5, 7]}, exclude={"t005"})) == {"t003", "t007"}
    assert ids(memory, "apple 3", 1, exclude={"t003"}) != ["t003"]


def test_hybrid_fuses_ranks_of_words_and_vectors(tmp_path: Path) -> None:
    """1/(60 + rank) a list, summed: a row found by both beats one found best by one alone."""
    vectors = {"apple": [0.9, 0.1], "crimson": [1.0, 0.01], "query": [1.0, 0.0]}
    memory = Memory(tmp_path / "m", Hashing("odd", 2, vectors))
    memory.upsert("a", [Item("words", "query apple"), Item("near", "crimson"), Item("far", "green apple")])
    hits = {h.item.id: h.score for h in memory.search("a", "query", 3)}
    assert hits["near"] == pytest.approx(1 / 61)
    assert hits["words"] == pytest.approx(1 / 61 + 1 / 62)
    assert hits["far"] == pytest.approx(1 / 62)  # as near as "words": they share the rank


def test_an_empty_or_odd_query_is_no_error(memory: Memory) -> None:
    memory.upsert("a", items(3))
    for query in ("", "!!!", "the", 'a"b (c) OR AND +x -y', "'; drop table a", "\x00"):
        assert isinstance(memory.search("a", query, 3), list)


def test_words_alone_find_rows_of_a_store_with_vectors(tmp_path: Path) -> None:
    Memory(tmp_path / "m", Hashing()).upsert("a", items(9))
    plain = Memory(tmp_path / "m")
    assert ids(plain, "apple 4")[0] == "t004"
    plain.upsert("a", [Item("new", "a lamp")])
    assert ids(plain, "lamp") == ["new"]
    both = Memory(tmp_path / "m", Hashing())
    assert both.count("a") == 10
    assert ids(both, "apple 4")[0] == "t004"


def test_a_text_that_did_not_change_is_not_embedded_again(tmp_path: Path) -> None:
    embedder = Hashing()
    memory = Memory(tmp_path / "m", embedder)
    memory.upsert("a", items(4))
    memory.upsert("a", [*items(2), Item("t002", "another text", {"n": 2})])
    memory.replace("a", items(2))
    assert embedder.texts == [i.text for i in items(4)] + ["another text"]
    assert ids(memory, "apple 1")[0] == "t001"


# --- the field cases ---


def test_vdb_01_few_or_no_rows_need_no_vector_index(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = Memory(tmp_path / "m", Hashing())
    caplog.set_level(logging.INFO, "roleagent_lite.memory")
    assert memory.index("a") is False
    assert memory.search("a", "apple", 10) == []
    assert "0 rows: exact search is used" in caplog.text
    assert "empty" in caplog.text
    memory.upsert("a", [Item(f"t{n}", "apple " * n + "pear " * (5 - n)) for n in range(1, 6)])
    assert memory.index("a") is False
    assert "5 rows: exact search is used" in caplog.text
    hits = memory.search("a", "apple", 10)
    assert hits[0].item.id == "t5"
    assert len(hits) == 5


def test_vdb_01_a_large_table_gets_its_index_and_the_same_best_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "VECTOR_INDEX_FROM", 300)
    memory = Memory(tmp_path / "m", Hashing(dim=8))
    memory.upsert("a", items(300))
    before = ids(memory, "apple 250 fridge 1", 1)
    assert memory.index("a") is True
    assert ids(memory, "apple 250 fridge 1", 1) == before == ["t250"]


def test_vdb_02_text_search_on_a_fresh_store_makes_the_index(tmp_path: Path) -> None:
    rows = [
        Item("1", "Heat a café au lait in the microwave"),
        Item("2", "Положи яблоко на стол"),
        Item("3", "naïve Ångström straße"),
    ]
    fresh, built = Memory(tmp_path / "f"), Memory(tmp_path / "b")
    for memory in (fresh, built):
        memory.upsert("a", rows)
    built.index("a")
    queries = {
        "café": "1",
        "CAFE": "1",
        "microwaves": "1",
        "яблоко": "2",
        "ЯБЛОКО": "2",
        "naive": "3",
        "ångström": "3",
    }
    for query, id in queries.items():
        assert ids(fresh, query) == [id], query
        assert fresh.search("a", query, 5) == built.search("a", query, 5)
    fresh.upsert("a", [Item("4", "another café")])
    assert ids(fresh, "café") == ["4", "1"]  # the shorter text scores higher


TWO_WRITERS = """
import sys
from pathlib import Path
from roleagent_lite.memory import Item, Memory
who = sys.argv[2]
memory = Memory(Path(sys.argv[1]))
for start in range(0, 200, 10):
    memory.upsert("a", [Item(f"{who}{i}", f"apple {i}", {"who": who}) for i in range(start, start + 10)])
    if start % 50 == 0:
        assert memory.search("a", "apple", 5)
"""


def test_vdb_04_two_processes_write_at_once(tmp_path: Path) -> None:
    start = [sys.executable, "-c", TWO_WRITERS, str(tmp_path / "m")]
    both = [subprocess.Popen([*start, who], stderr=subprocess.PIPE, text=True) for who in ("x", "y")]
    ends = [p.communicate(timeout=180)[1] for p in both]
    assert [p.returncode for p in both] == [0, 0], ends
    assert "conflict" not in "".join(ends).lower()
    memory = Memory(tmp_path / "m")
    assert memory.count("a") == 400
    assert memory.count("a", {"who": "x"}) == 200


FORKED = """
import multiprocessing, sys, warnings
from pathlib import Path
from roleagent_lite.memory import Item, Memory
warnings.simplefilter("ignore")
path = Path(sys.argv[1])
mode, workers = sys.argv[2], int(sys.argv[3])

def add(n):
    try:
        Memory(path).upsert("a", [Item(f"w{n}-{i}", "apple") for i in range(10)])
    except Exception as error:
        return type(error).__name__ + ": " + str(error)
    return "added"

if __name__ == "__main__":
    Memory(path).upsert("a", [Item("parent", "apple")])
    with multiprocessing.get_context(mode).Pool(workers) as pool:
        print("|".join(pool.map_async(add, range(workers)).get(timeout=150)))
    print(Memory(path).count("a"))
"""


def test_vdb_04_pool_workers_after_the_parent_opened_the_store(tmp_path: Path) -> None:
    """Forked workers get a clear error instead of a hang; spawned ones write."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(FORKED), encoding="utf-8")
    for mode, workers, count in (("fork", 4, 1), ("spawn", 2, 21)):
        command = [sys.executable, str(script), str(tmp_path / mode), mode, str(workers)]
        end = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
        answers, rows = end.stdout.splitlines()
        assert int(rows) == count
        for answer in answers.split("|"):
            assert (
                answer == "added" if mode == "spawn" else "'spawn'" in answer and "RoleAgentError" in answer
            )


def test_vdb_06_another_embedder_is_named_and_rebuild_helps(tmp_path: Path) -> None:
    path = tmp_path / "m"
    Memory(path, Hashing("mini", 384)).upsert("a", items(7))
    ids(Memory(path, Hashing("mini", 384)), "apple")
    before = fingerprint(path)
    small = Memory(path, Hashing("tiny", 8))
    for act in (
        lambda: small.search("a", "apple", 3),
        lambda: small.upsert("a", items(1)),
        lambda: small.replace("a", items(1)),
        lambda: small.delete("a", ["t001"]),
        lambda: small.all("a"),
    ):
        with pytest.raises(RoleAgentError) as caught:
            act()
        message = str(caught.value)
        assert all(part in message for part in ("384", "8", "'mini'", "'tiny'", str(path), "rebuild"))
        assert "schema" not in message
    assert fingerprint(path) == before
    assert small.rebuild() == {"a": 7}
    assert small.all("a") == items(7)
    assert ids(small, "apple 3")
    with pytest.raises(RoleAgentError, match="8 numbers made by 'tiny'"):
        Memory(path, Hashing("mini", 384)).count("a")


def test_vdb_06_same_size_but_another_name_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Memory(tmp_path / "m", Hashing("mini")).upsert("a", items(3))
    other = Memory(tmp_path / "m", Hashing("other"))
    assert len(ids(other, "apple")) == 3
    warned = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == 1
    assert "'mini'" in warned[0].message and "'other'" in warned[0].message
    assert other.notes == [warned[0].message]
    other.rebuild()
    assert Memory(tmp_path / "m", Hashing("other")).count("a") == 3


def test_vdb_06_a_store_without_vectors_says_so_until_rebuilt(tmp_path: Path) -> None:
    Memory(tmp_path / "m").upsert("a", items(3))
    late = Memory(tmp_path / "m", Hashing())
    assert len(ids(late, "apple")) == 3
    late.upsert("a", [Item("z", "apple")])
    assert "no vectors" in late.notes[0]
    late.rebuild()
    after = Memory(tmp_path / "m", Hashing())
    assert after.search("a", "apple", 1)[0].score < 0.05  # reciprocal ranks, no longer BM25
    assert after.notes == []


def test_vdb_08_bad_vectors_are_named_and_the_rest_is_stored(tmp_path: Path) -> None:
    odd = {"two": [math.nan] * 4, "three": [], "four": [0.0] * 4}
    memory = Memory(tmp_path / "m", Hashing("odd", 4, odd))
    stored = memory.upsert("a", [Item(n, f"task {n}") for n in ("one", "two", "three", "four", "five")])
    assert stored.written == 5
    assert set(stored.unsearchable) == {"two", "three", "four"}
    assert "NaN" in stored.unsearchable["two"]
    assert "empty" in stored.unsearchable["three"]
    assert "0" in stored.unsearchable["four"]
    assert sum("not searchable by meaning" in note for note in memory.notes) == 3
    assert memory.count("a") == 5
    hits = memory.search("a", "task one", 10)
    assert {h.item.id for h in hits} == {"one", "two", "three", "four", "five"}  # the bad ones by words only
    assert all(math.isfinite(h.score) for h in hits)
    assert {h.item.id for h in memory.search("a", "nothing alike", 10)} == {"one", "five"}


def test_vdb_08_a_bad_query_vector_is_a_clear_error(tmp_path: Path) -> None:
    memory = Memory(
        tmp_path / "m", Hashing("odd", 4, {"bad": [math.nan] * 4, "short": [1.0], "zero": [0.0] * 4})
    )
    memory.upsert("a", [Item("x", "zero words")])
    with pytest.raises(RoleAgentError, match=r"'odd' gave no usable vector for the query 'bad query'.*NaN"):
        memory.search("a", "bad query", 3)
    with pytest.raises(RoleAgentError, match="1 numbers instead of 4"):
        memory.search("a", "short", 3)
    assert ids(memory, "zero") == ["x"]


def test_vdb_08_too_few_vectors_are_an_error(tmp_path: Path) -> None:
    class Short(Hashing):
        def embed(self, texts: object) -> list[list[float]]:  # type: ignore[override]
            return [[1.0] * self.dim]

    memory = Memory(tmp_path / "m", Short("short"))
    with pytest.raises(RoleAgentError, match="'short' gave 1 vectors for 3 texts"):
        memory.upsert("a", items(3))
    assert memory.count("a") == 0


@pytest.mark.parametrize(
    "odd", ["O'Brien's task", 'the "best" task', "100%", "x' OR 1=1 --", "a\\b", "a_c", ""]
)
def test_vdb_09_odd_ids_touch_only_their_row(memory: Memory, odd: str) -> None:
    memory.upsert("a", [*items(4), Item("abc", "apple"), Item(odd, "apple", {"n": 77})])
    assert memory.get("a", odd) == Item(odd, "apple", {"n": 77})
    assert odd not in ids(memory, "apple", 10, exclude=[odd])
    assert ids(memory, "apple", 10, where={"n": 77}) == [odd]
    memory.upsert("a", [Item(odd, "a pear", {"n": 77})])
    assert memory.count("a") == 6
    assert memory.delete("a", [odd]) == 1
    assert memory.count("a") == 5
    assert memory.get("a", odd) is None


def test_vdb_09_odd_values_in_a_filter(memory: Memory) -> None:
    memory.upsert("a", [Item("1", "apple", {"env": "it's"}), Item("2", "apple", {"env": "x' OR 1=1 --"})])
    assert ids(memory, "apple", where={"env": "it's"}) == ["1"]
    assert memory.count("a", {"env": "x' OR 1=1 --"}) == 1
    assert memory.count("a", {"env": "' OR ''='"}) == 0
