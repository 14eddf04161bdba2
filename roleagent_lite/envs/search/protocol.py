"""The Search-R1 protocol in both dialects: what a reply asks for, and how results are shown.

`search_r1` reads the first whole block of the reply after cutting it (Search-R1, arXiv 2503.09516, and its
code); `verl_agent` prefers a search and calls a reply with more than one opening tag invalid (verl-agent's
projection). Pure. Leaves out retrieval (corpus.py) and scoring (answers.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from roleagent_lite.errors import ConfigError, nearest

_BLOCK = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
_SEARCH = re.compile(r"<search>(.*?)</search>", re.DOTALL | re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_OPENING = re.compile(r"<(?:search|answer)>", re.IGNORECASE)
INVALID = (
    "My previous action was none: a query stands between <search> and </search>, and the final answer "
    "between <answer> and </answer>. Let me try again."
)


@dataclass(frozen=True, slots=True)
class Move:
    """What a reply asks for. `valid` False: it breaks the dialect's rules; it may still do something."""

    kind: Literal["search", "answer", "none"]
    content: str = ""
    valid: bool = True


@dataclass(frozen=True, slots=True)
class Passage:
    """One row of a corpus: `contents` is the title in double quotes, a line break, and the text."""

    id: str
    contents: str

    @property
    def title(self) -> str:
        return self.contents.partition("\n")[0]

    @property
    def text(self) -> str:
        return self.contents.partition("\n")[2]


def cut(reply: str) -> str:
    """Search-R1's cut: up to the first `</search>` if there is one, else up to the first `</answer>`."""
    for tag in ("</search>", "</answer>"):
        if tag in reply:
            return reply.partition(tag)[0] + tag
    return reply


def search_r1(reply: str) -> Move:
    """The first block of the cut reply. An empty query or answer is one."""
    found = _BLOCK.search(cut(reply))
    if found is None:
        return Move("none", valid=False)
    return Move("search" if found[1] == "search" else "answer", found[2].strip())


def projected(reply: str) -> str:
    """What verl-agent keeps of a reply: one block, a search before an answer; "" where there is none."""
    short = cut(reply)
    for name, pattern in (("search", _SEARCH), ("answer", _ANSWER)):
        if found := pattern.search(short):
            return f"<{name}>{found[1].strip()}</{name}>"
    return ""


def verl_agent(reply: str) -> Move:
    """The projected block; an episode ends where both answer tags stand in it, even inside a search."""
    kept = projected(reply)
    valid = bool(kept) and len(_OPENING.findall(reply)) == 1
    if "<answer>" in kept and "</answer>" in kept:
        inner = _ANSWER.search(kept)
        return Move("answer", inner[1].strip() if inner else "", valid)
    if found := _SEARCH.search(kept):
        return Move("search", found[1], valid)
    return Move("none", valid=False)


def shown_search_r1(passages: Sequence[Passage]) -> str:
    """`Doc 1(Title: "T") text`, one a line, between the information tags."""
    docs = "".join(f"Doc {n}(Title: {p.title}) {p.text}\n" for n, p in enumerate(passages, 1))
    return f"\n\n<information>{docs.strip()}</information>\n\n"


def shown_verl_agent(passages: Sequence[Passage]) -> str:
    """The same as JSON with the key `result`."""
    docs = "".join(f"Doc {n}: {p.contents}\n" for n, p in enumerate(passages, 1))
    return f"\n<information>{json.dumps({'result': docs}, ensure_ascii=False)}</information>\n"


def refused_search_r1() -> str:
    return f"\n{INVALID}\n"


def refused_verl_agent() -> str:
    return f"\n<information>{json.dumps({'result': INVALID})}</information>\n"


@dataclass(frozen=True, slots=True)
class Dialect:
    read: Callable[[str], Move]
    show: Callable[[Sequence[Passage]], str]
    refuse: Callable[[], str]


DIALECTS: Mapping[str, Dialect] = {
    "search_r1": Dialect(search_r1, shown_search_r1, refused_search_r1),
    "verl_agent": Dialect(verl_agent, shown_verl_agent, refused_verl_agent),
}


def dialect(name: str) -> Dialect:
    """The dialect of this name. Raises ConfigError."""
    if name not in DIALECTS:
        raise ConfigError(f"no dialect '{name}' of the search protocol{nearest(name, DIALECTS)}")
    return DIALECTS[name]
