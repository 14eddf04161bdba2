"""The transport to servers that speak OpenAI's chat dialect, over aiohttp.

Owns the connection pool, the search for the right base path, what the server was found not to take, and the
deadline of one request. One request out, one reply back: no retry, no money, no record (retry, ledger,
recorder). Its own transport because 64 rollouts at once leave about 2.8 ms of one core to a call.
"""

from __future__ import annotations

import asyncio
import errno
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from roleagent_lite.errors import (
    ConfigError,
    FatalModelError,
    ModelError,
    TransientModelError,
    UnsupportedRequest,
    nearest,
)
from roleagent_lite.lm import dialect, faults
from roleagent_lite.lm.address import Address, credentials, endpoint, shown
from roleagent_lite.lm.limiter import connections
from roleagent_lite.types import Reply, Request

if TYPE_CHECKING:
    import aiohttp

MAX_BODY = 64 << 20  # bytes of an answer; real ones have some thousands
_PAGE = "text/html"
_HOPS = 4
_CUT_FROM, _CUT_BY = 8_000, 12  # characters of a prompt, and of it a counted token, that say it was cut


class HttpModel:
    """One model on one OpenAI-compatible server. `note` hears once of each thing the server does not take."""

    can_score = False

    def __init__(self, address: Address, timeout: float, note: Callable[[str], None] | None = None) -> None:
        self.name = address.model
        self.base_url = address.base_url
        self.quirks = dialect.Quirks()
        self._address = address
        self._timeout = timeout
        self._note = note or (lambda _: None)
        self._bases = list(address.bases)
        self._session: aiohttp.ClientSession | None = None
        self._doubted = False
        self._places = asyncio.Semaphore(connections())

    @classmethod
    async def open(
        cls, address: Address, timeout: float, note: Callable[[str], None] | None = None
    ) -> HttpModel:
        """Ready to send; asks the server for its model's name where the address has none."""
        model = cls(address, timeout, note)
        if not model.name:
            names = await model.models()
            if len(names) != 1:
                known = ", ".join(names[:20]) or "none"
                await model.close()
                raise ConfigError(f"{model.base_url} serves {known}; write NAME@{model.base_url}")
            model.name = names[0]
        return model

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            if self._address.key:
                headers["Authorization"] = f"Bearer {self._address.key}"
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
                timeout=aiohttp.ClientTimeout(total=self._timeout),
                headers=headers,
                trust_env=False,  # proxies are read by `address`, which never uses one for this machine
                proxy=self._address.proxy,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def complete(self, request: Request) -> Reply:
        """One reply. Raises children of ModelError; resends only without what a 400 says the server lacks."""
        if request.choices is not None:
            raise UnsupportedRequest(f"{self.name} cannot score given choices; use the agent 'generate'")
        while True:
            sent = dialect.body(request, self.name, self.quirks)
            start = time.perf_counter()
            status, headers, text, url = await self._send("POST", "/chat/completions", sent)
            if status < 300:
                reply = self._read(text, headers.get("Content-Type", ""), url, time.perf_counter() - start)
                self._doubt(request, reply)
                return reply
            error = faults.classify(status, headers, text, self._address, shown(url))
            said = faults.read(text)
            if dialect.teaches(error, said):
                if dialect.body(request, self.name, self.quirks) != sent:
                    continue  # another call learned it meanwhile
                note = self.quirks.learn(said, sent)
                if note is not None:
                    self._note(f"{self.name}: {note}")
                    continue
            if error.status == 404 and error.fatal:
                raise await self._unknown_model(error)
            raise error

    def _read(self, text: str, kind: str, url: str, seconds: float) -> Reply:
        text = text.lstrip()
        if text.startswith(("data:", "event:", ":")):  # a stream, whatever its content type says
            value: Any = dialect.join_stream(text)
        else:
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                if _PAGE in kind:
                    raise FatalModelError(
                        f"{shown(url)} answers with a web page, not with a model; check limits.base_url"
                    ) from None
                raise TransientModelError(f"{shown(url)}: stream cut, the body is not whole JSON") from None
        if isinstance(value, dict) and dialect.is_error(value):
            raise faults.in_ok_body(value, self._address, shown(url))
        if not isinstance(value, dict):
            raise TransientModelError(f"{shown(url)} answered something that is not an object")
        return dialect.reply(value, seconds)

    def _doubt(self, request: Request, reply: Reply) -> None:
        """Notes, once, a count of tokens far too low for the prompt: some servers cut it in silence."""
        sent, counted = sum(len(m.content) for m in request.messages), reply.usage.input
        if counted and sent >= _CUT_FROM and sent > counted * _CUT_BY and not self._doubted:
            self._doubted = True
            self._note(
                f"{self.name}: the server counted {counted:,} input tokens for a prompt of {sent:,} "
                "characters: it may have cut the prompt without a word (Ollama does so at its num_ctx; "
                "raise OLLAMA_CONTEXT_LENGTH)"
            )

    async def _send(self, method: str, tail: str, body: Any = None) -> tuple[int, Any, str, str]:
        """(status, headers, text, URL): from the first base path that exists, which is then kept."""
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        tried: list[str] = []
        for base in list(self._bases):
            url = endpoint(base, tail)
            status, headers, text = await self._followed(method, url, data)
            if status not in (404, 405) or faults.says_model(text):
                if self._bases[0] != base or len(self._bases) > 1:
                    self._bases = [base]
                return status, headers, text, url
            tried.append(shown(url))
        raise FatalModelError(
            f"nothing answers at {' or '.join(tried)} ({status}); an OpenAI-compatible base URL "
            "usually ends in /v1",
            status=404,
        )

    async def _followed(self, method: str, url: str, data: bytes | None) -> tuple[int, Any, str]:
        """The answer behind redirects on the same host. aiohttp would turn a POST into a GET, and send the
        body to any host."""
        at = url
        for _ in range(_HOPS):
            status, headers, text = await self._once(method, at, data)
            if status not in (301, 302, 303, 307, 308):
                return status, headers, text
            to = urljoin(at, headers.get("Location", ""))
            then, now = urlsplit(at), urlsplit(to)
            safer = (then.scheme, now.scheme, now.hostname) == ("http", "https", then.hostname)
            if not safer and (now.scheme, now.hostname, now.port) != (then.scheme, then.hostname, then.port):
                break
            at = to
        raise FatalModelError(
            f"{shown(url)} answers with a redirect to {shown(to)}; if that is the server meant, set "
            "limits.base_url to it"
        )

    async def _once(self, method: str, url: str, data: bytes | None) -> tuple[int, Any, str]:
        import aiohttp

        where = shown(url)
        bare, login = credentials(url)
        try:
            # Who waits for a place waits outside of the deadline, which aiohttp's own limit would count in.
            async with (
                self._places,
                self._open().request(
                    method, bare, data=data, headers=login, allow_redirects=False
                ) as response,
            ):
                raw = bytearray()
                async for piece in response.content.iter_chunked(1 << 16):
                    raw += piece  # unpacked by now: what a server compresses counts at its full length
                    if len(raw) > MAX_BODY:
                        raise TransientModelError(
                            f"{where}: the answer has over {MAX_BODY >> 20} MB; not used"
                        )
                return response.status, response.headers, raw.decode("utf-8-sig", errors="replace")
        except aiohttp.ClientConnectorCertificateError as error:
            raise FatalModelError(
                f"{where}: its certificate is not trusted ({error.certificate_error})"
            ) from None
        except (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError) as error:
            reason = error.os_error.strerror or str(error.os_error)
            if error.os_error.errno in (errno.EMFILE, errno.ENFILE):
                raise FatalModelError(
                    f"no file left for a connection to {where} ({reason}); resume with fewer --workers, or "
                    "after `ulimit -n 4096`"
                ) from None
            raise faults.Unreachable(f"cannot reach the server {where} ({reason})") from None
        except aiohttp.ClientHttpProxyError as error:
            if error.status == 407:
                raise faults.judge(407, faults.Said(error.message), self._address, where) from None
            raised = f"the proxy does not open the way to {where} ({error.status} {error.message})"
            kind = FatalModelError if error.status < 500 else TransientModelError
            raise kind(raised, status=error.status) from None
        except aiohttp.ClientPayloadError:
            raise TransientModelError(f"{where}: stream cut, the connection ended inside the reply") from None
        except TimeoutError:
            raise TransientModelError(
                f"{where}: no whole answer within {self._timeout:g} s (limits.timeout)"
            ) from None
        except aiohttp.InvalidURL:
            raise ConfigError(f"'{where}' is not a usable URL") from None
        except (aiohttp.ClientError, ConnectionError) as error:
            raise TransientModelError(f"{where}: stream cut ({type(error).__name__})") from None

    async def _unknown_model(self, error: ModelError) -> ModelError:
        try:
            names = await self.models()
        except ModelError:
            return error
        return FatalModelError(f"{error}{nearest(self.name, names)}", status=404)

    async def models(self) -> list[str]:
        """Names of the models that the server lists. Raises ModelError where it lists none."""
        status, headers, text, url = await self._send("GET", "/models")
        if status >= 300:
            raise faults.classify(status, headers, text, self._address, shown(url))
        try:
            rows = json.loads(text)["data"]
            return [str(row["id"]) for row in rows]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise FatalModelError(f"{shown(url)} does not list models") from None
