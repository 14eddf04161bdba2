"""Mutations of texts, seeded: spans cut, doubled, moved, spliced from another text, repeated until they are
long; and what has broken parsers before put in anywhere."""

from __future__ import annotations

import random
from collections.abc import Sequence

LONG = 100_000  # characters; a reply that runs on
TOKENS = (
    "{", "}", "[", "]", '"', "'", "`", "```", "```json\n", "\\", "\\u", "\\ud83d", "\\udd11", "\\u0000", ":",
    ",", "\n", "\r\n", "\r", "\t", " ", "\x00", "\ud83d", "\ufeff", "\u2028", "\u0085", "é", "🔑", "<think>",
    "</think>", "<", ">", "</", "[THINK]", "◁think▷", "<|channel|>final<|message|>", "<action>", "</action>",
    "Action:", "action", "**", "Observation:", "Score: ", "8/10", "85%", "NaN", "Infinity", "-1", "1e999",
    "9" * 400, "9" * 5000, "0." + "0" * 400, "٣", "²", "null", "true", "None", "True", '{"a":', "[[", "((",
    '"action": "take key"', '"predictions": [', "%", "#", "${HOME}", "{0}", "{task}", "%s", "\\\\", "data: ",
    "[DONE]", "\x1b[31m", "/*", "//", "<!--", "&#x3c;", "\u202e",
)  # fmt: skip


def mutated(draw: random.Random, seeds: Sequence[str]) -> str:
    """One seed after one to eight mutations; now and then some 100,000 characters long."""
    text = draw.choice(seeds)
    for _ in range(draw.randint(1, 8)):
        text = draw.choice(_WAYS)(draw, text, seeds)
    if draw.random() < 0.03:
        text = _stretched(draw, text)
    return text[:LONG]


def _span(draw: random.Random, text: str, most: int = 60) -> tuple[int, int]:
    start = draw.randint(0, len(text))
    return start, min(len(text), start + draw.randint(0, most))


def _cut(draw: random.Random, text: str, seeds: Sequence[str]) -> str:
    start, end = _span(draw, text)
    return text[:start] + text[end:]


def _truncated(draw: random.Random, text: str, seeds: Sequence[str]) -> str:
    return text[: draw.randint(0, len(text))]


def _doubled(draw: random.Random, text: str, seeds: Sequence[str]) -> str:
    start, end = _span(draw, text)
    return text[:end] + text[start:end] * draw.choice((1, 2, 30)) + text[end:]


def _put(draw: random.Random, text: str, seeds: Sequence[str]) -> str:
    at = draw.randint(0, len(text))
    return text[:at] + draw.choice(TOKENS) * draw.choice((1, 1, 1, 2, 9)) + text[at:]


def _changed(draw: random.Random, text: str, seeds: Sequence[str]) -> str:
    if not text:
        return text
    at = draw.randrange(len(text))
    return text[:at] + draw.choice((chr(draw.randrange(128)), chr(draw.randrange(0x10000)))) + text[at + 1 :]


def _spliced(draw: random.Random, text: str, seeds: Sequence[str]) -> str:
    other = draw.choice(seeds)
    start, end = _span(draw, other, 200)
    at = draw.randint(0, len(text))
    return text[:at] + other[start:end] + text[at:]


def _wrapped(draw: random.Random, text: str, seeds: Sequence[str]) -> str:
    before, after = draw.choice(
        (("[", "]"), ('{"a":', "}"), ("```\n", "\n```"), ("<think>", "</think>"), ('"', '"'), ("(", ")"))
    )
    times = draw.choice((1, 1, 3, 400, 900))
    return before * times + text + after * times


_WAYS = (_cut, _truncated, _doubled, _put, _put, _changed, _spliced, _wrapped)


def _stretched(draw: random.Random, text: str) -> str:
    """Some piece repeated to the full length: what backtracking and nesting are slow on."""
    start, end = _span(draw, text, 12)
    piece = (
        draw.choice((text[start:end], draw.choice(TOKENS), draw.choice(TOKENS) + draw.choice(TOKENS))) or "{"
    )
    at = draw.randint(0, len(text))
    return text[:at] + piece * (LONG // len(piece)) + text[at:]
