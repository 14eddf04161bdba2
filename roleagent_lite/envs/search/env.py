"""The search Environment: one question, a few searches, one answer, in the Search-R1 protocol.

The name `search` means the made-up corpus, `search:FILE` a corpus of JSON lines or parquet,
`search:http://...` a server that speaks `/retrieve`. A task's `params`: `answers` (golden, a list),
`searches` (what leads there, for the plan), `dialect` search_r1 (default) or verl_agent, `metric` em
(default) or sub_em, `top_k` 3, `retrieval` text, vector or hybrid, `embedder`, `max_steps` 4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from roleagent_lite.envs import params
from roleagent_lite.envs.reach import listens
from roleagent_lite.envs.search import answers, made
from roleagent_lite.envs.search.corpus import HOW, Corpus, Remote, Retriever, look, of_file
from roleagent_lite.envs.search.protocol import DIALECTS, Passage, dialect
from roleagent_lite.errors import ConfigError, EnvironmentFault
from roleagent_lite.lm.wheels import cache_dir
from roleagent_lite.types import Observation, Task, Transition

PREFIX = "search:"
STEPS = 4
TOP_K = 3
MOST_SHOWN = 6000  # characters of one result; the original cuts at 500 tokens
WANTS = "question and golden_answers (a list); parquet will do too"
VOCABULARY = "<search>QUERY</search> or <answer>ANSWER</answer>"
METRICS: Mapping[str, Callable[[str, Sequence[str]], bool]] = {
    "em": answers.exact,
    "sub_em": answers.contains,
}


@lru_cache(maxsize=4)
def _made(how: str, embedder: str) -> Corpus:
    passages = made.make()[0]
    digest = hashlib.sha256("\0".join(p.contents for p in passages).encode()).hexdigest()[:16]
    return Corpus(lambda: passages, cache_dir() / "search" / digest, how, embedder)


def retriever(name: str, how: str = "text", embedder: str = "auto") -> Retriever:
    """What an environment's name searches in. Raises ConfigError."""
    place = name.partition(":")[2]
    if not place:
        return _made(how, embedder)
    if place.startswith(("http://", "https://")):
        return Remote(place)
    return of_file(Path(place), how, embedder)


def ready(name: str) -> None:
    """Raises ConfigError where the corpus file is missing or begins with no passage, EnvironmentFault where
    no server listens here."""
    place = name.removeprefix("search").removeprefix(":")
    if "//" in place and not listens(place):
        raise EnvironmentFault(
            f"retrieval server {place} does not answer; roleagent-lite search-server FILE starts one"
        )
    if name == PREFIX:
        raise ConfigError(
            f"environment {name} names no corpus: write {PREFIX}FILE or {PREFIX}http://...; 'search' alone "
            "is the made-up one"
        )
    if place and "//" not in place:
        of_file(Path(place))
        look(Path(place))


def limit(task: Task) -> int:
    """Steps an episode may have: params.max_steps, else 4."""
    return params.steps(task, STEPS)


def asked(task: Task) -> tuple[tuple[str, ...], str, str, int, str]:
    """Golden answers, metric, dialect, passages a search and retrieval of a task. Raises ConfigError."""
    metric, speech, how = (
        params.choice(task, key, known, known[0])
        for key, known in (("metric", list(METRICS)), ("dialect", list(DIALECTS)), ("retrieval", HOW))
    )
    params.texts(task, "searches")
    if "embedder" in task.params:
        params.text(task, "embedder")
    return (
        tuple(params.some(task, "answers")),
        metric,
        speech,
        params.whole(task, "top_k", TOP_K, least=1),
        how,
    )


@dataclass(frozen=True, slots=True)
class State:
    """An episode so far: the text shown, ids of passages seen, in order, and the answer given."""

    text: str
    seen: tuple[str, ...] = ()
    answer: str | None = None
    score: float = 0.0


class Search:
    """An Environment with `facts`, `snapshot`, `restore`, and a plan where a task says what to search for."""

    def __init__(self, name: str, task: Task) -> None:
        self._golden, metric, speech, self._top_k, how = asked(task)
        self._right, self._dialect = METRICS[metric], dialect(speech)
        self._retriever = retriever(name, how, str(task.params.get("embedder", "auto")))
        self._searches = task.params.get("searches")
        self._state = State(f"Question: {task.goal}")

    def observe(self) -> Observation:
        state = self._state
        key = hashlib.sha256(
            repr((sorted(set(state.seen)), state.text, state.answer)).encode("utf-8", "replace")
        )
        return Observation(state.text, state_key=key.hexdigest()[:16])

    def step(self, action: str) -> Transition:
        """A search shows passages, an answer ends the episode; whatever is neither is refused in words."""
        move = self._dialect.read(action)
        state = self._state
        if state.answer is not None:
            return Transition(self.observe(), 0.0, True, valid=False)
        if move.kind == "answer":
            score = float(self._right(move.content, self._golden))
            self._state = replace(
                state, text=f"You answered: {move.content}", answer=move.content, score=score
            )
            return Transition(self.observe(), score, True, move.valid)
        if move.kind == "search":
            found = [passage for passage, _ in self._retriever.search(move.content, self._top_k)]
            self._state = replace(state, text=self._shown(found), seen=(*state.seen, *(p.id for p in found)))
        else:
            self._state = replace(state, text=self._dialect.refuse())
        return Transition(self.observe(), 0.0, False, move.valid)

    def _shown(self, found: Sequence[Passage]) -> str:
        """Results in the dialect, the longest passages shortened where all together are too long."""
        room = MOST_SHOWN // max(1, len(found))
        cut = (p.contents if len(p.contents) <= room else p.contents[: room - 1] + "…" for p in found)
        return self._dialect.show([Passage(p.id, text) for p, text in zip(found, cut, strict=True)])

    def score(self) -> float:
        """1.0 where the answer is right by the task's metric, else 0.0."""
        return self._state.score

    def facts(self) -> list[str]:
        """Passages seen and the answer given, sorted."""
        state = self._state
        answered = [] if state.answer is None else [f"answered: {state.answer}"]
        return sorted([*(f"seen: {id}" for id in set(state.seen)), *answered])

    def snapshot(self) -> State:
        return self._state

    def restore(self, snapshot: State) -> None:
        self._state = snapshot

    def walkthrough(self) -> list[str]:
        """The searches that the task names, then a golden answer. Raises ConfigError where it names none."""
        if not isinstance(self._searches, list | tuple):
            raise ConfigError("this task does not say what leads to its answer (params.searches)")
        return [
            *(f"<search>{words}</search>" for words in self._searches),
            f"<answer>{self._golden[0]}</answer>",
        ]

    def close(self) -> None:
        """Nothing to release."""


def _prompted(prompt: Any) -> str | None:
    """The question in a row's `prompt` (the last message): what stands behind its last `Question:`."""
    last = prompt[-1] if isinstance(prompt, list | tuple) and prompt else None
    said = last.get("content") if isinstance(last, Mapping) else None
    _, found, question = said.rpartition("Question:") if isinstance(said, str) else ("", "", "")
    return question.strip() if found and question.strip() else None


def row(given: Mapping[str, Any]) -> dict[str, Any]:
    """A task row from a question row of the usual files: `question` with `golden_answers` (FlashRAG, say),
    or Search-R1's `reward_model.ground_truth.target`. A row that is a task already passes unchanged."""
    if "goal" in given:
        return dict(given)
    golden = given.get("golden_answers", given.get("answers", given.get("answer")))
    if golden is None and isinstance(given.get("reward_model"), Mapping):
        truth = given["reward_model"].get("ground_truth")
        golden = truth.get("target") if isinstance(truth, Mapping) else truth
    golden = [golden] if isinstance(golden, str) else golden
    question = given.get("question", _prompted(given.get("prompt")))
    if not isinstance(question, str) or not isinstance(golden, list | tuple):
        raise ConfigError(
            f"a question needs question and golden_answers; it has {', '.join(map(str, given))}"
        )
    kind = str(given.get("type") or given.get("data_source") or "question")
    found: dict[str, Any] = {"goal": question, "params": {"type": kind, "answers": [str(a) for a in golden]}}
    if given.get("id") is not None:
        found["id"] = str(given["id"])
    if given.get("split") in ("train", "dev", "test"):
        found["split"] = given["split"]
    return found


DEALT = ("train", "test", "train", "dev", "train", "train", "test", "train", "train", "test")


def made_rows() -> list[dict[str, Any]]:
    """The shipped task set `search`: every form of question has the same share of each split."""
    rows = []
    for number, question in enumerate(made.make()[1]):
        params = {
            "type": question.kind, "answers": list(question.answers), "searches": list(question.searches),
            "max_steps": question.hops + 2,
        }  # fmt: skip
        split = DEALT[number % made.EACH % len(DEALT)]
        rows.append({"env": "search", "goal": question.text, "params": params, "split": split})
    return rows
