"""The transport to named providers: DSPy's own client, LiteLLM where DSPy routes there.

Owns the translation of a Request into `dspy.lm15` types and back, and of DSPy's errors into ours. One
request out, one reply back: DSPy's retries, cache and history are off. Leaves out OpenAI-compatible servers
(http), which need less CPU for a call.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from roleagent_lite.errors import (
    ConfigError,
    FatalModelError,
    ModelError,
    TransientModelError,
    UnsupportedRequest,
    nearest,
)
from roleagent_lite.lm import dialect, faults
from roleagent_lite.lm.address import KEY_VARIABLES, LOCAL, OWN_CREDENTIALS, Address, is_loopback
from roleagent_lite.lm.limiter import connections
from roleagent_lite.lm.price import quiet
from roleagent_lite.lm.thinking import split
from roleagent_lite.redact import mend
from roleagent_lite.types import Reply, Request, Usage

# Providers whose counts leave something out that ours include (dspy.lm15.Usage is verbatim).
_CACHE_APART = ("anthropic",)
_REASONING_APART = ("gemini", "vertex_ai", "xai")
_POOL = 100  # connections of DSPy's own pool; who waits for one there is timed out as if the server were slow


class ProviderModel:
    """One provider's model. `note` hears once of each setting that the model does not take."""

    can_score = False

    def __init__(self, address: Address, timeout: float, note: Callable[[str], None] | None = None) -> None:
        quiet()
        import dspy

        _refuse_unknown(address)
        self.name = address.model
        self.base_url = address.base_url
        self.quirks = dialect.Quirks()
        self._address = address
        self._note = note or (lambda _: None)
        self._places = asyncio.Semaphore(connections(_POOL))
        options: dict[str, Any] = {"timeout": timeout}
        if address.key or address.bases:  # a server of one's own may need none, but DSPy insists
            options["api_key"] = address.key or "none"
        if address.bases:
            options["api_base"] = address.bases[0]
            if is_loopback(address.bases[0]):
                _exempt_this_machine()
        try:
            self._lm = dspy.LM(address.model, engine="auto", num_retries=0, cache=False, **options)
        except (ValueError, dspy.utils.exceptions.LMError) as error:
            raise ConfigError(f"model '{address.spec}' cannot be used: {error}") from None

    async def close(self) -> None:
        await self._lm.aclose()

    async def complete(self, request: Request) -> Reply:
        """One reply. Raises children of ModelError; resends only without what a 400 says the model lacks."""
        if request.choices is not None:
            raise UnsupportedRequest(f"{self.name} cannot score given choices; use the agent 'generate'")
        import dspy
        from dspy.utils.exceptions import LMError

        while True:
            sent = dialect.body(request, self.name, self.quirks)
            start = time.perf_counter()
            try:
                async with self._places:
                    with dspy.context(disable_history=True):
                        response = await self._lm.acall(request=self._typed(request))
            except LMError as error:
                ours = self._ours(error)
                said = _said(error)
                if dialect.teaches(ours, said):
                    if dialect.body(request, self.name, self.quirks) != sent:
                        continue  # another call learned it meanwhile
                    note = self.quirks.learn(said, sent)
                    if note is not None:
                        self._note(f"{self.name}: {note}")
                        continue
                raise ours from None
            return self._reply(response, time.perf_counter() - start)

    def _typed(self, request: Request) -> Any:
        from dspy import lm15

        quirks = self.quirks
        messages = request.messages if quirks.system else dialect.fold(request.messages)
        system = "\n\n".join(m.content for m in messages if m.role == "system")
        turns = tuple(
            lm15.Message(role=m.role, parts=(lm15.TextPart(mend(m.content)),))
            for m in messages
            if m.role != "system"
        )
        schema: dict[str, Any] | None = None
        if request.schema is not None and quirks.schema:
            name = re.sub(r"\W", "_", request.module) or "reply"
            schema = {"type": "json_schema", "name": name, "schema": dict(request.schema)}
        usual = quirks.max_tokens == "max_tokens"  # as DSPy calls it for that provider
        config = lm15.Config(
            max_tokens=request.max_tokens if usual else None,
            extensions=None if usual else {quirks.max_tokens: request.max_tokens},
            temperature=request.temperature if quirks.temperature else None,
            seed=request.seed if quirks.seed else None,
            response_format=schema,
        )
        return lm15.Request(model=self.name, messages=turns, system=mend(system) or None, config=config)

    def _reply(self, response: Any, seconds: float) -> Reply:
        """Read from the body as it came where it is in OpenAI's dialect, as our own transport reads it."""
        for change in response.adaptations:
            self._note(f"{self.name}: {change.field} was {change.action} ({change.reason})")
        body = response.provider_data if isinstance(response.provider_data, Mapping) else {}
        usage = self._usage(response.usage)
        if dialect.is_error(body):
            raise faults.in_ok_body(body, self._address, self.base_url or "")
        if isinstance(body.get("choices"), list):
            reply = dialect.reply(body, seconds)
            return replace(reply, usage=dialect.credible(usage, reply.text or reply.reasoning or ""))
        text, thinking, called = "", [], []
        for part in response.message.parts:
            if part.type == "text":
                text += part.text
            elif part.type == "data":  # DSPy has read the JSON of a schema with choices in it
                text += json.dumps(part.value, ensure_ascii=False)
            elif part.type == "tool_call":  # some models make one of a JSON reply, unasked
                called.append(json.dumps(dict(part.input), ensure_ascii=False))
            elif part.type == "thinking" and part.text:
                thinking.append(part.text)
        answer, inner = split(mend(text or (called[0] if len(called) == 1 else "")))
        thought = "\n".join([*thinking, *([inner] if inner else [])])
        finish = dialect.finish(body.get("stop_reason") or response.finish_reason)
        return Reply(
            answer, finish, mend(thought) or None, dialect.credible(usage, answer or thought), seconds
        )

    def _usage(self, used: Any) -> Usage:
        cached, written = used.cache_read_tokens, used.cache_write_tokens
        sent, received = used.input_tokens, used.output_tokens
        provider = self._address.provider
        if provider in _CACHE_APART and sent is not None:
            sent += (cached or 0) + (written or 0)
        if provider in _REASONING_APART and received is not None:
            received += used.reasoning_tokens or 0
        return Usage(sent, received, cached, used.reasoning_tokens)

    def _ours(self, error: Any) -> ModelError:
        """DSPy's error as ours: by status where there is one, else by what it is."""
        from dspy.utils import exceptions as theirs

        said = _said(error)
        status = error.status
        classes = (
            (theirs.LMNotConfiguredError, 401), (theirs.LMAuthError, 401), (theirs.LMBillingError, 402),
            (theirs.LMUnsupportedModelError, 404), (theirs.ContextWindowExceededError, 413),
            (theirs.LMRateLimitError, 429), (theirs.LMServerError, 500),
            (theirs.LMUnsupportedFeatureError, 400), (theirs.LMConfigurationError, 400),
        )  # fmt: skip
        exact = next((code for kind, code in classes if isinstance(error, kind)), None)
        if status is not None and 300 <= status < 400:
            return FatalModelError(
                f"{self.name} at {self.base_url} answers with a redirect; give the URL it leads to"
            )
        if status is not None and status < 300:  # an answer, and none that can be read
            return TransientModelError(f"{self.name}: stream cut, the answer cannot be read ({said.message})")
        if exact in (401, 402, 404, 413) or status is None:
            status = exact
        where = self.base_url or ""
        if status is None and isinstance(error, theirs.LMTimeoutError):
            return TransientModelError(f"{self.name}: no whole answer in time (limits.timeout)")
        if status is None and isinstance(error, theirs.LMTransportError):
            if re.search(
                r"refused|resolve|unreachable|getaddrinfo|name or service|(cannot|failed to) connect",
                said.message,
                re.IGNORECASE,
            ):
                return faults.Unreachable(f"cannot reach the server of {self.name} {where}: {said.message}")
            return TransientModelError(f"{self.name}: stream cut ({said.message})")
        if re.search(
            r"payload is not completed|server disconnected|peer closed", said.message, re.IGNORECASE
        ):
            return TransientModelError(f"{self.name}: stream cut ({said.message})")  # LiteLLM calls it a 500
        if status is None and faults.is_filtered(said):
            return faults.judge(400, said, self._address, where)
        if status is None:
            return TransientModelError(f"{self.name}: {said.message}")
        return faults.judge(status, said, self._address, where, _wait(error))


def _refuse_unknown(address: Address) -> None:
    """Raises ConfigError for a provider that neither we nor LiteLLM know, before anything is sent."""
    provider = address.provider
    if provider in KEY_VARIABLES or provider in LOCAL or provider in OWN_CREDENTIALS:
        return  # and LiteLLM, which takes seconds to import, is not asked
    import litellm

    litellm.suppress_debug_info = True  # it prints a list of providers
    try:
        litellm.get_llm_provider(address.model)
    except litellm.exceptions.BadRequestError:
        known = nearest(provider, [*KEY_VARIABLES, *LOCAL])
        raise ConfigError(f"no provider '{provider}' for model '{address.spec}'{known}") from None


def _exempt_this_machine() -> None:
    """DSPy reads proxies from the environment, for servers on this machine too; none is ever right there."""
    for name in ("NO_PROXY", "no_proxy"):
        listed = os.environ.get(name, "")
        if "127.0.0.1" not in listed:
            os.environ[name] = ",".join(filter(None, (listed, "127.0.0.1,localhost,::1")))


def _said(error: Any) -> faults.Said:
    """What the provider said, without the advice that DSPy appends for its own users."""
    words = (error.message or str(error)).partition("To fix:")[0].partition("credential came from")[0]
    words = re.sub(r"^(litellm\.)?\w+Error: (\w+Error: )?", "", words)
    return replace(faults.read(words), code=str(error.provider_code or ""))


def _wait(error: Any) -> float | None:
    """The wait the provider asked for; LiteLLM drops the header on the way and keeps it on its own error."""
    if error.retry_after is not None:
        return float(error.retry_after)
    at: BaseException | None = error
    while at is not None:
        headers = getattr(at, "litellm_response_headers", None) or getattr(
            getattr(at, "response", None), "headers", None
        )
        if headers:
            return faults.retry_after(headers)
        at = at.__cause__ or at.__context__
    return None
