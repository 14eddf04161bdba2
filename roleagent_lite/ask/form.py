"""The form of a reply: as a JSON schema for servers that can hold a model to it, and in words for the prompt.

Owns both, from the outputs of a prompt file. `counts` fixes the length of a list output; 0 leaves the
output out altogether (no prediction asked for).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from roleagent_lite.ask.prompts import Output

MAX_ENUM = 200  # values; beyond that a grammar costs more than a wrong action
_LETTERS_PER_WORD = 7  # bound of a constrained string: English has 5 letters and a space, names are longer


def wanted(outputs: Sequence[Output], counts: Mapping[str, int] | None) -> tuple[Output, ...]:
    """The outputs that are asked for."""
    return tuple(o for o in outputs if (counts or {}).get(o.name) != 0)


def schema(
    outputs: Sequence[Output], enums: Mapping[str, Sequence[str]], counts: Mapping[str, int]
) -> dict[str, Any]:
    """A JSON schema object; properties in the order of the outputs, all required, nothing else allowed.

    `maxLength` and `minItems`/`maxItems` bound what a grammar may produce; a transport whose server refuses
    these keywords drops them.
    """
    return {
        "type": "object",
        "properties": {o.name: _property(o, enums, counts) for o in outputs},
        "required": [o.name for o in outputs],
        "additionalProperties": False,
    }


def _property(
    output: Output, enums: Mapping[str, Sequence[str]], counts: Mapping[str, int]
) -> dict[str, Any]:
    if output.type == "list[object]":
        return {"type": "array", "items": schema(output.fields, enums, {})}
    if output.type == "list[string]":
        bounds = (
            {"minItems": counts[output.name], "maxItems": counts[output.name]}
            if output.name in counts
            else {}
        )
        return {"type": "array", "items": _text(output, enums)} | bounds
    if output.type == "string":
        return _text(output, enums)
    return {"type": output.type}


def _text(output: Output, enums: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    allowed = list(dict.fromkeys(enums.get(output.enum, ()))) if output.enum and not output.open else []
    if 0 < len(allowed) <= MAX_ENUM:
        return {"type": "string", "enum": allowed}
    if output.max_words is not None:
        return {"type": "string", "maxLength": output.max_words * _LETTERS_PER_WORD}
    return {"type": "string"}


def reply_form(outputs: Sequence[Output], counts: Mapping[str, int] | None = None) -> str:
    """The JSON object asked for, with a description in place of each value."""
    body = {o.name: _shown(o, (counts or {}).get(o.name)) for o in outputs}
    return json.dumps(body, ensure_ascii=False)


def _shown(output: Output, count: int | None) -> Any:
    words = [output.description or output.name.replace("_", " ")]
    if output.max_words is not None:
        words.append(f"at most {output.max_words} words")
    if output.low is not None and output.high is not None:
        words.append(f"a number from {output.low:g} to {output.high:g}")
    elif output.type in ("integer", "number"):
        words.append("a whole number" if output.type == "integer" else "a number")
    if not output.required:
        words.append("may be empty")
    hint = f"<{'; '.join(words)}>"
    if output.type == "list[object]":
        return [{f.name: _shown(f, None) for f in output.fields}, "..."]
    if output.type == "list[string]":
        if count is None:
            return [hint, "..."]
        return [hint] + [f"<the same, {h} steps on>" for h in range(2, count + 1)]
    return hint
