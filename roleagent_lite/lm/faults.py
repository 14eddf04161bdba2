"""Classifies what went wrong with a call into `errors`: what may be tried again, what ends the run.

Owns the wordings by which servers say "too long", "no credit", "filtered", "no such model". Leaves out
retrying (retry) and reading good replies (dialect). Pure.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

from roleagent_lite.errors import (
    ContentFiltered,
    ContextTooLong,
    FatalModelError,
    ModelError,
    TransientModelError,
    UnsupportedRequest,
    nearest,
)
from roleagent_lite.lm.address import KEY_VARIABLES, LOCAL, Address
from roleagent_lite.redact import scrub

_TOO_LONG = re.compile(
    r"context[_ ]length|context[_ ]window|context[_ ]size|maximum context|max(imum)?[_ ]context"
    r"|exceed\w* (the )?(available |model'?s? )?(max(imum)? )?(context|token limit|input length)"
    r"|prompt (is|was) too long"
    r"|(input|prompt|message|request)\b.{0,60}\b(is|are) (longer|larger) than.{0,40}"
    r"(context|maximum|limit|allowed)"
    r"|too many (input |prompt )?tokens|input (is )?too long|prompt too long|reduce the length"
    r"|maximum prompt length|`?max_(new_)?tokens`? must be <="
    r"|(input|prompt) token count.{0,40}exceeds",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(
    r"insufficient[_ ](quota|funds|credits?|balance)|credit balance|billing[_ ](hard[_ ]limit|not[_ ]active)"
    r"|check your billing|payment[_ ]required|out of credits?|used all (your |the )?(available )?credits"
    r"|quota_exceeded_billing",
    re.IGNORECASE,
)
# Said of a spent account and, by Gemini, of a minute that is full: then it says when to come back.
_NO_QUOTA = re.compile(r"exceeded your current quota", re.IGNORECASE)
_FILTERED = re.compile(
    r"content[_ ](filter|policy|management)|responsible ?ai|safety system|data_inspection_failed|moderation"
    r"|(input|prompt|output|request) (was|is|has been) flagged|inappropriate content"
    r"|(candidate|prompt) blocked",
    re.IGNORECASE,
)
_WAIT = re.compile(
    r"(?:(?:again|retry)\s+(?:in|after)|retrydelay\W*)\s*"
    r"((?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|hours?|h|minutes?|min|m|seconds?|sec|s)\b\s*)+"
    r"|(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s\b)",
    re.IGNORECASE,
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|h|m|s)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NO_MODEL = re.compile(
    r"model[_ ]not[_ ]found|no such model|unknown model|model\b.{0,80}(not found|does(n't| not) exist)"
    r"|not_found_error model:|decommissioned|no endpoints found|(invalid|unknown) model"
    r"|deploymentnotfound|not a valid model",
    re.IGNORECASE,
)
_WRONG_KEY = re.compile(
    r"api[_ ]key[_ ](is )?(not valid|invalid)|(invalid|incorrect)[_ ]api[_ ]key", re.IGNORECASE
)
_NO_TLS = re.compile(r"plain HTTP request was sent to HTTPS|HTTP request to an HTTPS server", re.IGNORECASE)
_OVERLOADED = re.compile(
    r"overloaded|rate[_ ]?limit|server_error|temporar|try again|unavailable", re.IGNORECASE
)


# Anthropic's types of error, by the status that they come with where there is one.
_STATUS = {
    "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
    "request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504,
    "overloaded_error": 529,
}  # fmt: skip


_LOOKED_AT = 8_000  # characters of an error; what it says stands at its beginning


class Unreachable(TransientModelError):
    """No connection came about, so nothing was sent and nothing can have been billed."""


def may_be_billed(error: ModelError) -> bool:
    """Whether a request that brought no reply may have been worked on: without a status it was cut inside
    the reply, cannot be read, or timed out."""
    unsure = isinstance(error, TransientModelError) and error.status is None
    return unsure and not isinstance(error, Unreachable)


@dataclass(frozen=True, slots=True)
class Said:
    """What an error body says: its message, code and parameter, "" where it has none; `wait` in seconds."""

    message: str
    code: str = ""
    param: str = ""
    wait: float | None = None

    @property
    def all(self) -> str:
        return f"{self.code} {self.message}"


def read(body: str) -> Said:
    """The error in a body of any of the usual shapes (OpenAI, Anthropic, Ollama, FastAPI, bare text)."""
    start = body[:_LOOKED_AT]
    try:
        return replace(said(json.loads(body)), wait=wait_in(start))
    except (ValueError, RecursionError):
        return Said(plain(body), wait=wait_in(start))


def plain(text: str) -> str:
    """One line of at most 300 characters, without keys; of a web page its title, else its words."""
    text = scrub(text)[:_LOOKED_AT]
    if "<" in text and ">" in text:
        title = re.search(r"<title[^>]*>(.*?)</title", text, re.IGNORECASE | re.DOTALL)
        bare = re.sub(r"<(style|script|head)\b.*?</\1\s*>", " ", text, flags=re.IGNORECASE | re.DOTALL)
        text = title[1] if title and title[1].strip() else re.sub(r"<[^>]+>", " ", bare)
    return scrubbed(text)


def wait_in(text: str) -> float | None:
    """Seconds that a message asks to wait ("try again in 7m12.5s", Google's `retryDelay`), None if none."""
    found = _WAIT.search(text.replace('"', " "))
    if found is None:
        return None
    return sum(float(n) * _SECONDS[unit.lower()] for n, unit in _DURATION.findall(found[1]))


def said(value: Any) -> Said:
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, Mapping):
        return Said(scrubbed(str(value)))
    inner = value.get("error") or value
    if not isinstance(inner, Mapping):
        return Said(plain(str(inner)))
    if isinstance(inner.get("detail"), list):  # pydantic's; it names the field, and echoes what was sent
        rows = [row for row in inner["detail"] if isinstance(row, Mapping)]
        fields = [str(row["loc"][-1]) for row in rows if isinstance(row.get("loc"), list) and row["loc"]]
        words = "; ".join(f"{row.get('msg')} ({row.get('loc')})" for row in rows)
        return Said(scrubbed(words), "", fields[0] if fields else "")
    message = inner.get("message") or inner.get("detail") or inner.get("msg") or json.dumps(inner)[:300]
    codes = [inner.get("code"), inner.get("type"), inner.get("status")]
    more = inner.get("innererror")
    if isinstance(more, Mapping):
        codes.append(more.get("code"))
    code = " ".join(str(c)[:200] for c in codes if c is not None)
    return Said(plain(str(message)), code, str(inner.get("param") or "")[:200])


def scrubbed(text: str) -> str:
    """One line of at most 300 characters, without keys."""
    text = re.sub(r"\s+", " ", scrub(text)[:_LOOKED_AT]).strip()
    return text if len(text) <= 300 else text[:299] + "…"


def says_model(body: str) -> bool:
    """Whether a 404 is about the model rather than about the path."""
    return bool(_NO_MODEL.search(read(body).all))


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds a server asks to wait: `retry-after-ms`, `Retry-After` in seconds or as an HTTP date."""
    lower = {k.lower(): v for k, v in headers.items()}
    try:
        if "retry-after-ms" in lower:
            return max(0.0, float(lower["retry-after-ms"]) / 1000)
        value = lower.get("retry-after")
        if value is None:
            return None
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(lower["retry-after"]).timestamp()
    except (ValueError, KeyError, TypeError):
        return None
    return max(0.0, at - (time.time() if now is None else now))


def classify(status: int, headers: Mapping[str, str], body: str, address: Address, url: str) -> ModelError:
    """The error for an answer with an HTTP error status."""
    return judge(status, read(body), address, url, retry_after(headers))


def judge(status: int, error: Said, address: Address, url: str, wait: float | None = None) -> ModelError:
    """The error for what a server said. `url` without secrets; the message is scrubbed of keys."""
    where = f"{address.model or address.spec} at {url}" if url else (address.model or address.spec)
    words = error.message or "no reason given"
    wait = error.wait if wait is None and status in (429, 503, 529) else wait
    spent = _NO_CREDIT.search(error.all) or (wait is None and _NO_QUOTA.search(error.all))
    if status == 402 or (status in (400, 403, 429) and spent):
        return FatalModelError(
            f"{where}: no credit or quota left ({words}); {address.key_words}. Top up the account or use "
            "another key, then resume",
            status=status,
        )
    if status < 500 and _FILTERED.search(error.all):
        return ContentFiltered(f"{where}: the provider's content filter refused ({words})", status=status)
    if status in (401, 403) or (status == 400 and _WRONG_KEY.search(error.all)):  # 400: Gemini
        return FatalModelError(
            f"{where} refused access ({status}: {words}); {address.key_words}. "
            "Set the right key in that variable, or name another variable with limits.api_key_env",
            status=status,
        )
    if status == 407:
        return FatalModelError(
            f"the proxy on the way to {where} wants a user name and a password ({words}); write them into "
            "the variable that names it: http://USER:PASSWORD@HOST:PORT",
            status=status,
        )
    if status == 400 and _NO_TLS.search(error.all):
        return FatalModelError(
            f"{where} speaks https only ({words}); write https:// in its URL", status=status
        )
    if status in (408, 409, 425, 429) or status >= 500:
        if status >= 500 and _TOO_LONG.search(error.all):
            return ContextTooLong(
                f"{where}: the prompt does not fit the model's context ({words})", status=status
            )
        return TransientModelError(f"{where} answered {status}: {words}", status=status, retry_after=wait)
    if status == 413 or _TOO_LONG.search(error.all):
        return ContextTooLong(
            f"{where}: the prompt does not fit the model's context ({words})", status=status
        )
    if "llm provider not provided" in error.all.lower():  # LiteLLM's word for a prefix that it does not know
        prefix = address.provider or address.spec
        raised = (
            f"no provider '{prefix}' for model '{address.spec}'{nearest(prefix, [*KEY_VARIABLES, *LOCAL])}"
        )
        return FatalModelError(raised, status=404)
    if _NO_MODEL.search(error.all):
        return FatalModelError(f"{where}: no such model ({words})", status=404)
    if status == 404:
        return FatalModelError(f"nothing answers at {url} (404: {words})", status=404)
    return UnsupportedRequest(f"{where} refused the request ({status}: {words})", status=status)


def is_filtered(error: Said) -> bool:
    """Whether a provider's filter speaks, for errors that come without a status."""
    return bool(_FILTERED.search(error.all))


def in_ok_body(value: Any, address: Address, url: str) -> ModelError:
    """The error for an error object inside a 200 answer or stream (some gateways, Anthropic's overload)."""
    error = said(value)
    inner = value.get("error") if isinstance(value, Mapping) else None
    code = inner.get("code") if isinstance(inner, Mapping) else None
    kind = str(inner.get("type")) if isinstance(inner, Mapping) else ""
    status = int(str(code)) if str(code).isdecimal() else _STATUS.get(kind, 0)
    if 400 <= status <= 599:
        return judge(status, error, address, url)
    if _NO_CREDIT.search(error.code):
        return judge(402, error, address, url)
    if _OVERLOADED.search(error.all) or not error.code:
        return TransientModelError(
            f"{address.model} at {url} answered with an error: {error.message}", status=503
        )
    return judge(400, error, address, url)
