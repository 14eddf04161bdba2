"""Keys never reach a file, a log or a screen.

Owns the list of secrets known to this process and the one function that removes them. Everything that
writes (store, log file, report, screen) passes its text through `scrub`, or whole records through `clean`.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import unquote, urlsplit

# TOKEN as a word: MAX_TOKENS and TOKENIZERS_PARALLELISM hold no secret. KEY, PASS, PAT as whole words only.
_NAME = re.compile(
    r"API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|TOKEN(?![A-Z])|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL"
    r"|(?:^|_)(?:KEY|PASS|PAT)(?:$|_)",
    re.IGNORECASE,
)
# Shapes that are keys wherever they come from: a provider may echo one that we never registered.
_SHAPES = re.compile(
    r"\b(sk-(?:ant-|proj-|or-)?[A-Za-z0-9_\-]{16,}|gsk_[A-Za-z0-9]{20,}|AIza[0-9A-Za-z_\-]{30,}"
    r"|hf_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|ghp_[A-Za-z0-9]{30,}"
    r"|eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,})"
    r"|(?<=[Bb]earer )[A-Za-z0-9._\-]{8,}"
)
# The same without a word's edge before it, which JSON's escapes may hide.
_LOOSE = re.compile(_SHAPES.pattern.replace(r"\b", ""))
# No shape without one of these.
_HEADS = ("sk-", "gsk_", "AIza", "hf_", "earer ", "xai-", "ghp_", "eyJ")
# Places where a secret of any length stands: a password in a URL, a query value or a header named so.
_PASSWORD = re.compile(r"(://[^\s/@:\"'<>]*:)[^\s/@\"'<>]+(?=@)")
_QUERY = re.compile(
    r"([?&](?:api[_-]?key|access[_-]?token|auth|key|password|secret|sig|signature|token)=)[^\s&#\"'<>]+",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"((?:authorization|api-key)[\\\"']*\s*[:=]\s*[\\\"']*(?:(?:basic|bearer|token) +)?)[^\s\\\"',;{}]+",
    re.IGNORECASE,
)
# What could steer a terminal or turn the order of letters: all controls but the tab and the line's end, the
# separators that count as line ends, bidirectional overrides and invisible tags.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
# Values of variables named like secrets that are settings: to blot them out would blot out ordinary words.
_SETTINGS = {"default", "enabled", "disabled", "required", "optional", "password", "secret", "keyring"}
_SETTINGS |= {"example", "environment", "changeme", "placeholder", "unlimited", "unknown", "undefined"}
_MIN = 6  # shorter values ("none", "test") would blot out ordinary words
_UNICODE = "\\u00"  # a text without it escapes no letter and no digit
_secrets: set[str] = set()


@dataclass(frozen=True, slots=True)
class _Known:
    """How one secret may be written. `base64`: in base64 of a text that holds it, at each of three offsets.
    `core`: its longest run of letters and digits, which no escaping but JSON's \\u00 changes. `escaped`: as
    it is, and every mixture of JSON, percent, HTML and Python escapes, nested ones too."""

    base64: tuple[str, ...]
    core: str
    escaped: re.Pattern[str]

    def may_be_in(self, text: str) -> bool:
        return self.core in text or any(form in text for form in self.base64)

    def hide(self, text: str) -> str:
        for form in self.base64:
            if form in text:
                text = text.replace(form, "[key]")
        return self.escaped.sub("[key]", text) if self.core in text or _UNICODE in text else text


@lru_cache(maxsize=256)
def _known(secret: str) -> _Known:
    raw = secret.encode("utf-8", "replace")
    forms: set[str] = set()
    for shift in range(3) if len(raw) >= _MIN else ():
        whole = base64.b64encode(bytes(shift) + raw)
        cut = whole[(0, 2, 3)[shift] : len(whole) - (0, 3, 2)[(shift + len(raw)) % 3]].decode()
        if len(cut) >= _MIN:
            forms |= {cut, cut.replace("+", "-").replace("/", "_")}
    core = max(re.findall(r"[A-Za-z0-9]+", secret), key=len, default="")
    escaped = re.compile("".join(map(_spellings, secret)))
    return _Known(tuple(sorted(forms, key=len, reverse=True)), core, escaped)


def _spellings(char: str) -> str:
    """A pattern of the ways in which one character of a secret may be written."""
    units = char.encode("utf-16-be", "surrogatepass")
    ways = ["".join(rf"\\+u(?i:{units[i]:02x}{units[i + 1]:02x})" for i in range(0, len(units), 2))]
    if not char.isascii() or not char.isalnum():
        data = char.encode("utf-8", "surrogatepass")
        ways += ["".join(f"%(?i:{b:02x})" for b in data), "".join(rf"\\+x(?i:{b:02x})" for b in data)]
        ways += [rf"\\+x(?i:{ord(char):02x})", f"&#0*{ord(char)};", f"&#(?i:x0*{ord(char):x});"]
        ways += [re.escape(escape(char))] if escape(char) != char else []
        ways += [re.escape(data.decode("latin-1"))] if not char.isascii() else []
        ways += [r"\+"] if char == " " else []
        ways += [rf"\\+{short}" for c, short in zip("\n\r\t\b\f", "nrtbf", strict=True) if c == char]
    plain = r"\\+" if char == "\\" else (r"\\*" if not char.isalnum() else "") + re.escape(char)
    return f"(?:{'|'.join([*ways, plain])})"


def register(secret: str | None) -> None:
    """Remember a key given by flag, file or URL; its escaped, quoted and base64 forms count too."""
    form = (secret or "").strip()  # blanks around it are no secret, and would be taken along
    if len(form) >= _MIN:
        _secrets.add(form)


def register_environment(environ: Mapping[str, str] | None = None) -> None:
    """Remember the values of all variables whose name says that they hold a secret, and passwords in URLs."""
    for name, value in (os.environ if environ is None else environ).items():
        if _NAME.search(name) and value.strip().lower() not in _SETTINGS:
            register(value)
        if _PASSWORD.search(value):  # a proxy, a data base
            register_url(value)


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
    if parts.password:  # as the header of basic authentication has it
        both = f"{unquote(parts.username or '')}:{unquote(parts.password)}"
        register(base64.b64encode(both.encode("utf-8", "replace")).decode())


def mend(text: str) -> str:
    """`text` that can be encoded: the halves of a surrogate pair become one character, a lone half U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def scrub(text: str) -> str:
    """`text` with `[key]` for every known secret, key-shaped string, password in a URL or header."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = _known(secret).hide(text)
    if any(head in text for head in _HEADS):
        text = _SHAPES.sub("[key]", text)
    for place in _places(text):
        text = place.sub(r"\1[key]", text)
    return text


def _places(text: str) -> list[re.Pattern[str]]:
    """The patterns that may find something in `text`: a quick look, for most texts have none."""
    found = [_PASSWORD] if "://" in text and "@" in text else []
    found += [_QUERY] if "=" in text and ("?" in text or "&" in text) else []
    found += [_HEADER] if "uthorization" in text or "pi-" in text or "PI-" in text else []
    return found


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
    if shaped or any(place.search(text) for place in _places(text)):
        return False
    if _secrets and (_UNICODE in text or any(_known(secret).may_be_in(text) for secret in _secrets)):
        return False
    return text.isascii() or mend(text) == text


def visible(text: str) -> str:
    """`text` for a screen or a report: what could steer a terminal or turn letters round as `\\x1b`."""
    return _CONTROLS.sub(lambda found: _escape(found[0]), text)


def one_line(text: str) -> str:
    """The same for what stands within a line, a name say: line ends and tabs are escaped as well."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_json(text: str) -> str:
    """The same for a JSON document, which stays the same value: what JSON leaves raw becomes `\\u009b`."""
    return _CONTROLS.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _escape(char: str) -> str:
    number = ord(char)
    return (
        f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
    )


def hint(secret: str) -> str:
    """At most the last four characters, for messages that must tell two keys apart."""
    return "…" + secret[-4:] if len(secret) >= 12 else "…"
