"""Corpora: files, the index, retrieval by words and by meaning, a server's answers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from roleagent_lite.envs.search import answers
from roleagent_lite.envs.search.corpus import Corpus, Remote, look, of_file, passage_from, read_corpus
from roleagent_lite.envs.search.protocol import Passage
from roleagent_lite.envs.search.server import make_server
from roleagent_lite.errors import ConfigError, EnvironmentFault
from tests.envs.search.recorded import passages, recorded
from tests.fake_server import FakeServer, Raw


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(passages, tmp_path_factory.mktemp("index"))


def test_the_passage_that_answers_is_found(corpus: Corpus) -> None:
    """At least as often in the first five as the recorded BM25, on questions of one hop."""
    asked = [q for q in recorded()["questions"] if q["hops"] == 1]
    ours = sum(q["supporting"][0] in [p.id for p, _ in corpus.search(q["question"], 5)] for q in asked)
    theirs = sum(q["supporting"][0] in [hit["id"] for hit in q["bm25_top5"]] for q in asked)
    assert ours >= theirs > 0


def test_contents_come_back_as_they_were(corpus: Corpus) -> None:
    by_id = {p.id: p for p in passages()}
    found = corpus.search("Which river?", 10)
    assert len(found) == 10
    assert all(by_id[p.id] == p for p, _ in found)
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)


def test_nothing_to_look_for(corpus: Corpus) -> None:
    assert corpus.search("", 3) == corpus.search(" ?! ", 3) == ()
    assert corpus.search("xyzzyplugh", 3) == ()


class Letters:
    """Embeds a text by its letters: a stand-in that needs no model."""

    name = "letters"
    dim = 26

    def embed(self, texts: Any) -> list[list[float]]:
        return [[float(text.lower().count(chr(97 + k))) for k in range(26)] for text in texts]


def test_by_meaning_and_by_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roleagent_lite.envs.search.corpus.make_embedder", lambda name: Letters())
    rows = [
        Passage("1", '"Zoo"\nzzz zzz zebra'),
        Passage("2", '"Aa"\naaa banana'),
        Passage("3", '"Oo"\ngoo zoom'),
    ]
    vector = Corpus(lambda: rows, tmp_path / "i", "vector", "x")
    assert vector.search("zzzzz", 1)[0][0].id == "1"  # no word of it is there
    both = Corpus(lambda: rows, tmp_path / "i", "hybrid", "x")
    assert both.search("banana", 1)[0][0].id == "2"
    assert {p.id for p, _ in both.search("zebra", 3)} == {"1", "2", "3"}
    assert (tmp_path / "i-x").is_dir() and not (tmp_path / "i").exists()


def test_without_an_embedder_only_words_can_be_found(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="retrieval 'hybrid' needs an embedder; 'none' gives none"):
        Corpus(passages, tmp_path, "hybrid", "none").search("x", 1)
    with pytest.raises(ConfigError, match="did you mean 'text'"):
        Corpus(passages, tmp_path, "txt")


def test_an_index_that_was_broken_off_is_built_again(tmp_path: Path) -> None:
    def half() -> Any:
        yield from passages()[:3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Corpus(half, tmp_path).search("town", 3)
    assert len(Corpus(passages, tmp_path).search("town", 5)) == 5
    Corpus(half, tmp_path).search("town", 3)  # whole: not built again


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_files(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"corpus.{suffix}"
    rows = [{"id": p.id, "contents": p.contents} for p in passages()]
    if suffix == "parquet":
        arrow = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        pyarrow.parquet.write_table(arrow.Table.from_pylist(rows), file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert list(read_corpus(file)) == passages()
    assert of_file(file) is of_file(file)


def test_rows_in_other_shapes() -> None:
    assert passage_from({"id": 7, "title": "T", "text": "x"}, "") == Passage("7", '"T"\nx')
    with pytest.raises(ConfigError, match=r"c line 3: a passage needs id and contents .*it has id, body"):
        passage_from({"id": 1, "body": "x"}, "c line 3")
    with pytest.raises(ConfigError, match="it has list"):
        passage_from([], "c line 3")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no corpus file"):
        of_file(tmp_path / "none.jsonl")
    broken = tmp_path / "x.parquet"
    broken.write_text("no parquet")
    with pytest.raises(ConfigError, match="cannot read the parquet file"):
        list(read_corpus(broken))


def test_a_server_is_asked_as_search_r1_asks(corpus: Corpus) -> None:
    with make_server(corpus) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        remote = Remote(f"http://127.0.0.1:{server.server_port}/retrieve")
        assert list(remote.search("Which river?", 4)) == list(corpus.search("Which river?", 4))
        server.shutdown()
    with pytest.raises(EnvironmentFault, match=r"retrieval server .*refused"):
        remote.search("x", 1)


@pytest.mark.parametrize("body", [{"results": []}, {"result": []}, {"result": [[{"score": 1}]]}, []])
def test_another_shape_is_said(body: Any) -> None:
    with FakeServer(lambda seen: Raw(200, body)) as fake, pytest.raises(EnvironmentFault, match="expected"):
        Remote(f"{fake.url}/v1/chat/completions").search("x", 1)


HOTPOTQA = os.environ.get("ROLEAGENT_LITE_HOTPOTQA", "")


@pytest.mark.skipif(not HOTPOTQA, reason="set ROLEAGENT_LITE_HOTPOTQA to a folder of corpus and questions")
def test_answers_are_found_as_often_as_by_bm25(tmp_path: Path) -> None:
    folder = Path(HOTPOTQA)
    corpus = Corpus(lambda: read_corpus(folder / "corpus.jsonl"), tmp_path)
    asked = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    found = 0
    for question in asked:
        texts = [answers.normalise(p.contents) for p, _ in corpus.search(question["question"], 3)]
        found += any(
            answer in text for text in texts for answer in answers.wanted(question["golden_answers"])
        )
    assert found / len(asked) >= 0.57


TWICE = [{"id": "1", "contents": "a"}, {"id": "2", "contents": "b"}, {"id": 1, "contents": "c"}]


def test_passages_that_share_an_id_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "twice.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in TWICE))
    for _ in range(2):  # a build that failed is not taken for a whole one
        with pytest.raises(ConfigError, match="1 of 3 passages have the id of another"):
            of_file(path).search("b", 1)


def test_a_null_id_is_named() -> None:
    with pytest.raises(ConfigError, match=r"it has id \(null\), contents"):
        passage_from({"id": None, "contents": "x"}, "here")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "holds no passage"),
        (b"\n \n", "holds no passage"),
        (b'\n{"question": "Where?"}\n', "line 2: a passage needs id and contents .*it has question"),
        (b"\xff\xfe\x00", "no JSON lines in UTF-8"),
        (b"id,contents\n1,x\n", "no JSON lines in UTF-8"),
    ],
)
def test_a_file_that_is_no_corpus_is_told_by_its_first_line(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=said):
        look(path)
    path.write_bytes(b'\xef\xbb\xbf{"id": 1, "contents": "x"}\n[]\n')
    look(path)  # the rest is read when the index is built
