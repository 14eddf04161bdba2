"""Keys never reach a file, a log or a screen.

Owns the list of secrets known to this process and the one function that removes them. Everything that
writes (store, log file, report, screen) passes its text through `scrub`, or whole records through `clean`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

# TOKEN as a word: MAX_TOKENS and TOKENIZERS_PARALLELISM hold no secret.
_NAME = re.compile(r"API_?KEY|ACCESS_?KEY|TOKEN(?![A-Z])|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
# Shapes that are keys wherever they come from: a provider may echo one that we never registered.
_SHAPES = re.compile(
    r"\b(sk-(?:ant-|proj-|or-)?[A-Za-z0-9_\-]{16,}|gsk_[A-Za-z0-9]{20,}|AIza[0-9A-Za-z_\-]{30,}|hf_[A-Za-z0-9]{20,})"
    r"|(?<=[Bb]earer )[A-Za-z0-9._\-]{8,}"
)
# The same without a word's edge before it, which JSON's escapes may hide.
_LOOSE = re.compile(_SHAPES.pattern.replace(r"\b", ""))
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but the tab and the line's end
_HEADS = ("sk-", "gsk_", "AIza", "hf_", "earer ")  # no shape without one of these
_MIN = 6  # shorter values ("none", "test") would blot out ordinary words
_secrets: set[str] = set()


def register(secret: str | None) -> None:
    """Remember a key given by flag, file or URL; its JSON-escaped and URL-quoted forms count too."""
    if secret and len(secret) >= _MIN:
        escaped = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
        _secrets.update({secret, *escaped, quote(secret, safe="")})


def register_environment(environ: Mapping[str, str] | None = None) -> None:
    """Remember the values of all variables whose name says that they hold a secret."""
    for name, value in (os.environ if environ is None else environ).items():
        if _NAME.search(name):
            register(value)


def register_url(url: str | None) -> None:
    """Remember what may be secret in a URL: password, user name if it stands alone, query values named so.

    A model string with a URL in it (`NAME@URL`) will do as well.
    """
    if not url:
        return
    _, at, rest = url.partition("@http")
    if at and not url.startswith("http"):
        url = "http" + rest
    try:
        parts = urlsplit(url)
    except ValueError:  # no URL at all; whoever uses it will say so
        return
    secrets = [parts.password or parts.username]
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if re.search(r"key|token|secret|sig", name, re.IGNORECASE):
            secrets.append(value)
    for secret in secrets:
        register(secret)
        register(unquote(secret or ""))


def mend(text: str) -> str:
    """`text` that can be encoded: the halves of a surrogate pair become one character, a lone half U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def scrub(text: str) -> str:
    """`text` with every known secret and every key-shaped string replaced by `[key]`."""
    for secret in sorted(_secrets, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, "[key]")
    return _SHAPES.sub("[key]", text)


def clean(value: Any) -> Any:
    """Plain data (dicts, lists, tuples, scalars) with every text in it, names included, mended and scrubbed.

    On the texts themselves, not on their JSON: an escaped line end before a key would hide its shape, and a
    secret made of digits must not break a number.
    """
    if isinstance(value, str):
        return scrub(mend(value))
    if isinstance(value, Mapping):
        return {clean(k): clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean(v) for v in value]
    return value


def harmless(text: str) -> bool:
    """Whether the JSON `text` (not ASCII-escaped) surely holds nothing that `clean` would change.

    A quick look at the whole instead of at each text in it; when in doubt it says no.
    """
    shaped = any(head in text for head in _HEADS) and _LOOSE.search(text)
    if shaped or any(secret in text for secret in _secrets):
        return False
    return text.isascii() or mend(text) == text


def visible(text: str) -> str:
    """`text` for a screen or a report: control characters, which could steer a terminal, as `\\x1b`."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def hint(secret: str) -> str:
    """At most the last four characters, for messages that must tell two keys apart."""
    return "…" + secret[-4:] if len(secret) >= 12 else "…"
