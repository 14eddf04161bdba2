"""Whether an answer is right: exact match after normalisation, and Search-R1's score for format.

Owns normalise, exact match and containment (SQuAD's rules as Search-R1 has them), the extraction of an
answer from a whole response, and the state machine of `qa_em_format`. Pure.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ANSWERS = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_INFORMATION = re.compile(r"<information>(.*?)</information>", re.DOTALL)
_TAGS = re.compile(r"(</?(?:think|search|information|answer)>)")
STRUCTURE, FINAL, RETRIEVAL = 0.2, 0.1, 0.1
# State -> tag -> next state (Search-R1's qa_em_format).
_NEXT = {
    "start": {"<think>": "in_think"},
    "in_think": {"</think>": "after_think"},
    "after_think": {"<search>": "in_search", "<answer>": "in_answer"},
    "in_search": {"</search>": "after_search"},
    "after_search": {"<information>": "in_information"},
    "in_information": {"</information>": "information"},
    "information": {"<think>": "in_think"},
    "in_answer": {"</answer>": "end"},
}
_FREE = ("in_think", "in_search", "in_information", "in_answer")


def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation, without the words a, an, the; blanks as one."""
    plain = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def wanted(golden: str | Sequence[str]) -> list[str]:
    """The golden answers, normalised; one alone may come as a text."""
    return [normalise(answer) for answer in ([golden] if isinstance(golden, str) else golden)]


def exact(prediction: str, golden: str | Sequence[str]) -> bool:
    """Whether the prediction equals one of the golden answers after normalisation."""
    return normalise(prediction) in wanted(golden)


def contains(prediction: str, golden: str | Sequence[str]) -> bool:
    """Whether a golden answer stands in the prediction after normalisation."""
    said = normalise(prediction)
    return any(answer in said for answer in wanted(golden))


def last_answer(response: str) -> str | None:
    """The content of the last whole answer block; None where there is none."""
    found = _ANSWERS.findall(response)
    return found[-1].strip() if found else None


def format_fault(response: str) -> str:
    """Why the sequence think, search, information, think, ..., answer is broken; "" where it is not."""
    state = "start"
    for piece in _TAGS.split(response):
        if not piece.strip():
            continue
        if _TAGS.fullmatch(piece):
            after = _NEXT.get(state, {}).get(piece)
            if after is None:
                return f"Unexpected tag {piece} in state {state}"
            state = after
        elif state == "end":
            return "Unexpected content in state end"
        elif state not in _FREE:
            return f"Unexpected content '{piece.strip()}' between tags (state: {state})"
    return "" if state == "end" else f"Incomplete sequence, ended in state {state}"


def retrieved(response: str, golden: str | Sequence[str]) -> bool:
    """Whether a golden answer stands in what was retrieved."""
    blocks = [normalise(block) for block in _INFORMATION.findall(response)]
    return any(answer in block for block in blocks for answer in wanted(golden))


def format_score(response: str, golden: str | Sequence[str]) -> float:
    """Search-R1's reward with format, 0..1: a right answer 1, less 0.2 for broken form; a wrong one 0.2 for
    form and 0.1 more where the answer was retrieved; in broken form 0.1, and 0 where there is no answer."""
    answer = last_answer(response)
    sound = not format_fault(response)
    if answer is not None and exact(answer, golden):
        return 1.0 if sound else 1.0 - STRUCTURE
    if sound:
        return STRUCTURE + (RETRIEVAL if retrieved(response, golden) else 0.0)
    return FINAL if answer is not None else 0.0
