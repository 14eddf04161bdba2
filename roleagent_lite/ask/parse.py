"""What a reply says, as values of the outputs' types, or what is wrong with it.

Owns tolerant reading and the wording of a problem. Leaves out the re-ask (asker) and thinking tags, which
are cut off before. A value that is missing though not required is None; nothing is invented.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from roleagent_lite.ask.match import near_miss
from roleagent_lite.ask.objects import find_objects, pick
from roleagent_lite.ask.prompts import Output
from roleagent_lite.redact import mend

# Bounded, and only where a number begins: else a long row of digits is tried from each of them.
_NUMBER = r"(?<![\d.])[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:e[+-]?\d{1,4})?"
_LARGEST = 10**15  # no count and no step number is larger
_FRACTION = re.compile(rf"({_NUMBER})\s*(?:/|out\s+of)\s*({_NUMBER})(?![\d.]*\s*%)", re.IGNORECASE)
_PERCENT = re.compile(rf"({_NUMBER})\s*(?:%|percent\b)", re.IGNORECASE)
_LABELLED = re.compile(
    r"(?:score|rating|grade)\W{0,4}(?:is|of|=|:)?\W{0,4}(?=[-+.\d]|nan|inf)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """`problem` None = usable. `structured`: the values come from a complete JSON object."""

    values: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    structured: bool = False


def parse_score(said: Any, low: float = 0.0, high: float = 1.0) -> float | None:
    """A judge's score on the scale low..high; None if there is none or it lies outside (never clamped).

    A fraction ("8/10", "7 out of 10") and a percentage are parts of the scale. In prose only a number behind
    "score", "rating" or "grade" counts, the last such; a text that is one number alone counts as it is.
    """
    if isinstance(said, bool) or said is None:
        return None
    if isinstance(said, int) and abs(said) > _LARGEST:
        return None
    if isinstance(said, int | float):
        return _on_scale(float(said), low, high)
    text = str(said).strip()
    labels = list(_LABELLED.finditer(text))
    tail = text[labels[-1].end() :] if labels else text
    for pattern in (_FRACTION, _PERCENT):
        hit = pattern.match(tail.lstrip("*_` ")) if labels else _only(pattern, tail)
        if hit:
            whole_part = float(hit[2]) if pattern is _FRACTION else 100.0
            part = float(hit[1]) / whole_part if whole_part > 0 else math.nan
            return _on_scale(low + part * (high - low), low, high)
    plain = re.match(rf"{_NUMBER}", tail, re.IGNORECASE) if labels else re.fullmatch(rf"({_NUMBER})\.?", tail)
    return _on_scale(float(plain[0].rstrip(".") or "nan"), low, high) if plain else None


def _only(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The one match in a text without a label; two different ones decide nothing."""
    hits = list(pattern.finditer(text))
    return hits[0] if len({h[0] for h in hits}) == 1 else None


def _on_scale(value: float, low: float, high: float) -> float | None:
    return value if math.isfinite(value) and low <= value <= high else None


def _as_text(value: Any) -> str | None:
    if isinstance(value, str):
        return value.replace("\r\n", "\n").strip() or None
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, list) and len(value) == 1:
        return _as_text(value[0])
    if isinstance(value, dict) and len(value) == 1:
        return _as_text(next(iter(value.values())))
    return None


def _as_int(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value) if abs(value) <= _LARGEST and value == int(value) else None
    found = re.findall(r"(?<!\d)-?\d{1,15}(?!\d)", value) if isinstance(value, str) else []
    return int(found[0]) if len(found) == 1 or (found and str(value).strip().startswith(found[0])) else None


def _as_texts(value: Any) -> list[str | None] | None:
    if isinstance(value, dict):  # {"1": "...", "2": "..."} or {"h1": ...}
        value = list(value.values())
    items = value if isinstance(value, list) else [value]
    texts = [_item_text(item) for item in items]
    return texts if any(texts) else None


def _item_text(item: Any) -> str | None:
    """One list item; of an object ({"step": 1, "text": "..."}) its longest text."""
    if isinstance(item, dict):
        strings = [v for v in item.values() if isinstance(v, str)]
        item = max(strings, key=len, default=None)
    return _as_text(item)


def _as_objects(
    value: Any, fields: Sequence[Output], enums: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    items = value if isinstance(value, list) else [value]
    out = []
    for item in items:
        if not isinstance(item, dict):
            continue
        named = pick([item], [f.name for f in fields]) or {}
        row = {f.name: _typed(named.get(f.name), f, enums) for f in fields}
        if all(row[f.name] is not None for f in fields if f.required):
            out.append(row)
    return out


def _typed(value: Any, output: Output, enums: Mapping[str, Sequence[str]]) -> Any:
    if value is None:
        return None
    if output.type == "integer":
        return _as_int(value)
    if output.type == "number":
        if output.low is not None and output.high is not None:
            return parse_score(value, output.low, output.high)
        return parse_score(value, -math.inf, math.inf) if not isinstance(value, str) else _number(value)
    if output.type == "list[string]":
        texts = [None if _echo(text, output) else text for text in _as_texts(value) or []]
        return texts if any(texts) else None
    if output.type == "list[object]":
        return _as_objects(value, output.fields, enums)
    text = _as_text(value)
    if _echo(text, output):
        return None
    if text is not None and output.enum is not None and enums.get(output.enum):
        return near_miss(text, enums[output.enum]) or text
    return text


def _echo(text: str | None, output: Output) -> bool:
    """Whether the model gave back the hint of the reply form in place of a value, as small models do."""
    return bool(text and output.description) and str(text).startswith(f"<{output.description}")


def _number(text: str) -> float | None:
    found = re.fullmatch(_NUMBER, text.strip(), re.IGNORECASE)
    return float(found[0]) if found else None


def _without_json(text: str, outputs: Sequence[Output], enums: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Values of a reply that is no JSON: labelled lines, a bare admissible value, a bare score."""
    values: dict[str, Any] = {}
    for output in outputs:
        label = output.name.replace("_", "[ _]").rstrip("s") + "s?"
        hit = re.search(
            rf"^[ \t>*#-]{{0,40}}{label}\*{{0,3}}\s{{0,9}}:\s{{0,9}}\*{{0,3}}\s{{0,9}}(\S.*)$",
            text,
            re.IGNORECASE | re.MULTILINE,
        )
        if hit and output.type not in ("list[object]", "number"):
            values[output.name] = hit[1].strip()
    required = [o for o in outputs if o.required and o.name not in values]
    if len(required) == 1:
        one = required[0]
        if one.type == "number":
            values[one.name] = text
        elif one.enum is not None and enums.get(one.enum):
            meant = near_miss(text, enums[one.enum])
            values |= {one.name: meant} if meant is not None else {}
    return values


def read_reply(
    text: str,
    outputs: Sequence[Output],
    enums: Mapping[str, Sequence[str]] | None = None,
    shown: Sequence[str] = (),
) -> Parsed:
    """The values of `outputs` in `text` (without thinking), or the problem in words for the re-ask.

    Fences, prose around the JSON, JSON in a list, trailing commas, Python's notation, near-miss keys and
    values are accepted. `enums`: allowed values by enum name; a value outside is kept as it was written.
    `shown`: texts that the model was shown; an object that it only repeats from there, out of an observation,
    counts only if it wrote none of its own.
    """
    enums = enums or {}
    text = mend(text)
    objects = find_objects(text)
    names = [o.name for o in outputs]
    named = pick(_own(objects, shown), names) or pick(objects, names)
    structured = named is not None
    if named is None:
        lists = [o for o in outputs if o.type == "list[object]"]
        if objects and len(lists) == 1:  # the bare list, without the object around it
            named, structured = {lists[0].name: objects}, True
        else:
            named = _without_json(text, outputs, enums)
    values = {o.name: _typed(named.get(o.name), o, enums) for o in outputs}
    lacking = [o for o in outputs if o.required and not _given(values[o.name], named.get(o.name))]
    if not lacking:
        return Parsed(values, None, structured)
    if not named:
        problem = "it holds no JSON object of the form asked for"
    elif lacking[0].name not in named:
        problem = f"the field '{lacking[0].name}' is missing"
    else:
        found = str(named[lacking[0].name])[:80]
        problem = f"the field '{lacking[0].name}' is {found!r}, which is no {_words(lacking[0])}"
    return Parsed(values, problem, structured)


def _own(objects: Sequence[dict[str, Any]], shown: Sequence[str]) -> list[dict[str, Any]]:
    """The objects of a reply that don't stand in a text that was shown."""
    if len(objects) < 2:
        return list(objects)
    repeated = [found for text in shown if "{" in text for found in find_objects(text)]
    return [o for o in objects if o not in repeated]


def _given(value: Any, raw: Any) -> bool:
    """Whether a required value is there; an empty list counts only if the model wrote one."""
    return value is not None and (value != [] or raw == [])


def _words(output: Output) -> str:
    if output.low is not None and output.high is not None:
        return f"number from {output.low:g} to {output.high:g}"
    return {"string": "text", "list[string]": "list of texts", "list[object]": "list of objects"}.get(
        output.type, output.type
    )
