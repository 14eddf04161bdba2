"""A schema as a grammar that ends: lengths for what is open, and the check that it was followed.

Owns what is added to a schema before llama.cpp holds a reply to it. Leaves out asking (embedded.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from roleagent_lite.errors import UnsupportedRequest

Json = Mapping[str, Any]
_LEAST = 4  # characters of an open string


def bounded(schema: Json, max_tokens: int) -> dict[str, Any]:
    """`schema` with a length for every string and list that has none, so that a reply ends in time.

    A small model in an open string runs on to the token limit, and cut JSON is lost; or it closes the string
    at once, and an empty value has to be asked for again. So: at least a few characters, at most two a token,
    shared evenly among the strings; lists without a limit may have four items.
    """
    share = max(16, 2 * max_tokens // max(1, _strings(schema)))

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, Mapping):
            return node
        out = {k: v if k in ("enum", "const") else walk(v) for k, v in node.items()}
        if out.get("type") == "string" and not {"enum", "const", "maxLength", "pattern"} & set(out):
            out["maxLength"] = max(share, int(out.get("minLength", 0)))
        if out.get("type") == "string" and "maxLength" in out:
            out.setdefault("minLength", min(_LEAST, out["maxLength"]))
        if out.get("type") == "array":
            out.setdefault("maxItems", max(4, int(out.get("minItems", 0))))
        return out

    walked: dict[str, Any] = walk(schema)
    return walked


def _strings(node: Any) -> int:
    """How many open strings a reply to this schema may hold."""
    if isinstance(node, list):
        return sum(_strings(item) for item in node)
    if not isinstance(node, Mapping):
        return 0
    if node.get("type") == "array":
        return int(node.get("maxItems", 4)) * _strings(node.get("items", {}))
    own = node.get("type") == "string" and "enum" not in node and "const" not in node
    return int(own) + sum(_strings(v) for k, v in node.items() if k not in ("enum", "const"))


def grammar(schema: Json) -> str:
    """The grammar of `schema` (llguidance) without line breaks between values: fewer tokens a reply."""
    spacing = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return "%llguidance {}\nstart: %json " + json.dumps({**schema, "x-guidance": spacing})


def held(text: str) -> None:
    """Raises UnsupportedRequest where a finished reply is no JSON: llama.cpp drops a grammar that it cannot
    read without a word."""
    try:
        json.loads(text)
    except ValueError:
        raise UnsupportedRequest(f"llama.cpp did not hold the reply to the schema: {text[:80]!r}") from None
