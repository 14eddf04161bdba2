"""The made-up world: always the same, closed, and every chain leads to its answer."""

from __future__ import annotations

import hashlib
from collections import Counter

from roleagent_lite.envs.search import made

PASSAGES, QUESTIONS = made.make()
BY_ID = {p.id: p for p in PASSAGES}


def test_the_same_everywhere() -> None:
    assert made.make() == (PASSAGES, QUESTIONS)
    assert made.make(5)[0] != PASSAGES
    text = "\n".join(p.contents for p in PASSAGES) + "\n".join(q.text for q in QUESTIONS)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "77111b97ed218f17"


def test_size_and_hops() -> None:
    assert (len(PASSAGES), len(QUESTIONS)) == (606, 540)
    assert Counter(q.hops for q in QUESTIONS) == {1: 108, 2: 180, 3: 144, 4: 108}
    assert len({q.text for q in QUESTIONS}) == len(QUESTIONS)
    assert len({p.title for p in PASSAGES}) == len(PASSAGES)


def test_each_hop_names_the_next_and_the_last_the_answer() -> None:
    for question in QUESTIONS:
        chain = [BY_ID[id] for id in question.supporting]
        for passage, searched in zip(chain, question.searches, strict=True):
            assert passage.title == f'"{searched}"'
        for passage, after in zip(chain, question.searches[1:], strict=False):
            assert after in passage.text
        assert question.answers[0] in chain[-1].text
        assert question.answers[0] not in question.text
