"""The embedded model: llama.cpp in this process, replies constrained to a schema, choices scored exactly.

The only door to xllamacpp. Owns loading, the one worker thread of each model file, generation and scoring
by token-id grammars. Leaves out where weights come from (lm/weights.py), retries, caps and the record.

A seed does not reproduce a reply here once a cached prompt prefix is in play: only the record does.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from roleagent_lite.errors import ConfigError, ContextTooLong, ModelError, UnsupportedRequest
from roleagent_lite.lm.bounds import bounded, grammar, held
from roleagent_lite.lm.weights import check_adapter, check_gguf, resolve_model, split_adapter
from roleagent_lite.lm.wheels import sha256_of
from roleagent_lite.types import Listener, Message, Progress, Reply, Request, Usage

CONTEXT = 4096  # tokens of prompt and reply for the shipped model
OWN_CONTEXT = 8192  # the same for a file of the user's
_SMALL = 500 << 20  # bytes; below this one thread decodes faster than two (they wait on each other)
_TOP = 40  # alternatives asked for at each scored token; siblings found among them cost no request
_CACHE_MIB = 512  # memory for prompt states of other episodes, so that alternating prompts stay cached

Json = Mapping[str, Any]
Post = Callable[[str, Json], Json]


class Server(Protocol):
    """What we use of xllamacpp.Server (its other half is HTTP on the loopback: see `_loopback`)."""

    def handle_completions(self, body: Any) -> Any: ...
    def handle_chat_completions(self, body: Any) -> Any: ...


class Engine:
    """One loaded model file: a server, its one worker thread, and what may be asked of it there."""

    def __init__(self, server: Server, post: Post) -> None:
        self._server = server
        self._post = post
        self._tokens: dict[str, tuple[int, ...]] = {}
        self.worker = ThreadPoolExecutor(1, thread_name_prefix="embedded")

    def generate(self, request: Request) -> Reply:
        """A reply to `request.messages`, held to `request.schema` where there is one."""
        body: dict[str, Any] = {"temperature": request.temperature, "max_tokens": request.max_tokens}
        if request.seed is not None:
            body["seed"] = request.seed
        if request.stop:
            body["stop"] = list(request.stop)
        if request.schema is not None:
            body["grammar"] = grammar(bounded(request.schema, request.max_tokens))
        begun = bool(request.messages) and request.messages[-1].role == "assistant"
        if begun:  # the chat form would give the beginning back as part of the reply
            answer = _checked(
                self._server.handle_completions, body | {"prompt": self.prompt_ids(request.messages)}
            )
        else:
            answer = _checked(
                self._server.handle_chat_completions, body | {"messages": _plain(request.messages)}
            )
        choice = answer["choices"][0]
        message = choice if begun else choice["message"]
        text = message.get("text" if begun else "content") or ""
        finish = choice.get("finish_reason") or "stop"
        if request.schema is not None and finish == "stop":
            held(text)
        return Reply(
            text=text,
            finish=finish,
            reasoning=message.get("reasoning_content") or None,
            usage=_usage(answer),
        )

    def score(self, request: Request) -> Reply:
        """The log-probability (nats) of each token of each choice as the next words of the chat.

        Exact: the values are those of the model's own distribution, untouched by grammar or temperature.
        Choices that share their first tokens share the work; a token that shows up among the best `_TOP`
        beside a sibling's is read off there. `text` is the choice with the highest mean.
        """
        choices = request.choices or ()
        ids = [self.tokenize(choice) for choice in choices]
        if not ids or not all(ids):
            raise ModelError("choices to score must be one or more non-empty texts")
        prompt = self.prompt_ids(request.messages)
        # One token first, so that every choice is scored on the same cached prompt: a prompt that is still
        # being read in a batch gives its last position a value up to 0.2 nats off.
        first = _checked(
            self._server.handle_completions, {"prompt": prompt, "max_tokens": 1, "temperature": 0}
        )
        known: dict[tuple[int, ...], dict[int, float]] = {}
        asked = 0
        for choice in sorted(ids):
            asked += self._learn(prompt, choice, known)
        scores = tuple(tuple(known[c[:k]][c[k]] for k in range(len(c))) for c in ids)
        best = max(range(len(ids)), key=lambda k: sum(scores[k]) / len(scores[k]))
        usage = _usage(first)
        return Reply(
            text=choices[best],
            usage=Usage(input=usage.input, output=asked, cached=usage.cached, dollars=0.0),
            scores=scores,
        )

    def _learn(
        self, prompt: list[int], ids: tuple[int, ...], known: dict[tuple[int, ...], dict[int, float]]
    ) -> int:
        """Fills `known` (first tokens -> next token -> log-probability) along `ids`; tokens asked for."""
        start = 0
        while start < len(ids) and ids[start] in known.get(ids[:start], {}):
            start += 1
        rest = ids[start:]
        if not rest:
            return 0
        body = {
            "prompt": [*prompt, *ids[:start]],
            "grammar": "root ::= " + " ".join(f"<[{i}]>" for i in rest),
            "max_tokens": len(rest),
            "n_probs": _TOP,
            "logprobs": 1,
            "temperature": 0,
        }
        answer = _checked(self._server.handle_completions, body)
        content = answer["choices"][0]["logprobs"]["content"]
        if [token["id"] for token in content] != list(rest):
            raise ModelError("llama.cpp did not score the tokens it was asked for; the model file may be odd")
        for k, token in enumerate(content, start):
            seen = known.setdefault(ids[:k], {})
            seen.update({top["id"]: top["logprob"] for top in token["top_logprobs"]})
            seen[token["id"]] = token["logprob"]
        return len(rest)

    def greedy(self, ids: Sequence[int], count: int) -> list[tuple[int, float | None]]:
        """The next `count` tokens at temperature 0 behind the prompt `ids`, each with its log-probability
        (nats); fewer where the model ends its turn. None: llama.cpp tells none inside a character."""
        body = {"prompt": list(ids), "n_predict": count, "temperature": 0, "n_probs": 1}
        answer = self._post("/completion", body | {"cache_prompt": False, "return_tokens": True})
        told = list(answer.get("completion_probabilities") or ())
        out: list[tuple[int, float | None]] = []
        for token in answer["tokens"]:
            known = bool(told) and told[0]["id"] == token
            out.append((int(token), float(told.pop(0)["logprob"]) if known else None))
        return out

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Token ids of a piece of a reply, as plain text. Kept, since actions come again and again."""
        ids = self._tokens.get(text)
        if ids is None:
            answer = self._post("/tokenize", {"content": text, "add_special": False, "parse_special": False})
            ids = self._tokens[text] = tuple(answer["tokens"])
        return ids

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """The chat in the model's own template; a last assistant message is left open to be continued."""
        return self.tokenize_prompt(self.render(messages))

    def render(self, messages: Sequence[Message]) -> str:
        """The text of a prompt in the model's own template."""
        return str(self._post("/apply-template", {"messages": _plain(messages)})["prompt"])

    def tokenize_prompt(self, text: str) -> list[int]:
        """Token ids of a rendered prompt: control tokens are read as such."""
        answer = self._post("/tokenize", {"content": text, "add_special": True, "parse_special": True})
        return list(answer["tokens"])

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of token ids, control tokens shown."""
        return str(self._post("/detokenize", {"tokens": list(ids)})["content"])


class EmbeddedModel:
    """A `types.Model` that runs here. Costs nothing; answers one request at a time, in order of arrival."""

    can_score = True
    base_url: str | None = None

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = name
        self._engine = engine

    @property
    def engine(self) -> Engine:
        """What stands behind it, for who needs its tokenizer."""
        return self._engine

    @classmethod
    def open(cls, spec: str = "embedded", listener: Listener | None = None) -> EmbeddedModel:
        """The model that `spec` names (see `weights.resolve_model`, and `weights.split_adapter` for a LoRA
        adapter beside it), fetched and loaded if need be.

        Blocks while it downloads; the listener then hears Progress("download"). Files stay loaded for the
        life of the process and are shared by all who open them. Raises ConfigError, RoleAgentError.
        """
        base, adapter = split_adapter(spec)
        path = resolve_model(base, listener)
        context = CONTEXT if base == "embedded" else OWN_CONTEXT
        beside = ""
        if adapter is not None:  # the digest tells one training's adapter from the next of that name
            beside = f"+{adapter.stem}-{sha256_of(check_adapter(adapter))[:8]}"
        return cls(f"embedded:{path.stem}{beside}", load(path, context, listener, adapter))

    async def complete(self, request: Request) -> Reply:
        """A reply; with `request.choices` their scores instead.

        Raises ContextTooLong, UnsupportedRequest (a schema llama.cpp cannot follow), ModelError.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._engine.worker, self._timed, request)

    def _timed(self, request: Request) -> Reply:
        started = time.perf_counter()
        reply = (self._engine.generate if request.choices is None else self._engine.score)(request)
        return Reply(
            text=reply.text,
            finish=reply.finish,
            reasoning=reply.reasoning,
            usage=reply.usage,
            seconds=time.perf_counter() - started,
            scores=reply.scores,
        )


_engines: dict[tuple[Any, ...], Engine] = {}
_loading = threading.Lock()


def load(path: Path, context: int, listener: Listener | None = None, adapter: Path | None = None) -> Engine:
    """The engine for one GGUF file and the LoRA adapter beside it, loaded once a process while the files
    stay what they are. `context`: tokens of prompt and reply.

    Raises ConfigError where a file is missing or none that llama.cpp can read.
    """
    path = check_gguf(path).resolve()
    if adapter is not None:
        adapter = check_adapter(adapter).resolve()
    files = [file for file in (path, adapter) if file is not None]
    key = tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    with _loading:
        if key not in _engines:
            if listener is not None:
                listener(Progress("load", note=" with ".join(file.name for file in files)))
            _engines[key] = start(path, context, adapter)
        return _engines[key]


def start(path: Path, context: int, adapter: Path | None = None) -> Engine:
    """As `load`, but an engine of its own, gone when it is dropped."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before OpenMP starts: spinning stalls two cores
    import xllamacpp

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.verbosity = -1
    params.n_ctx = context
    params.n_parallel = 1  # more slots are no faster here, and break repeatability
    params.cpuparams.n_threads = 1 if path.stat().st_size < _SMALL else min(cores, 8)
    params.cpuparams_batch.n_threads = min(cores, 8)
    params.cache_ram_mib = _CACHE_MIB
    if adapter is not None:  # llama.cpp takes adapters at the start only
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(adapter), 1.0)]
    key = secrets.token_hex(16)
    params.hostnames = ["127.0.0.1"]
    params.api_keys = [key]  # the server also listens on the loopback: not for other users of the machine
    try:
        server = xllamacpp.Server(params)
    except RuntimeError:
        what = (
            "the file is damaged or of an unknown kind"
            if adapter is None
            else f"one of the two is damaged, or the adapter {adapter.name} was made for another model"
        )
        raise ConfigError(f"llama.cpp cannot load {path}: {what}") from None
    # A server that has answered nothing must never be deleted (it can deadlock): let it answer once now.
    server.handle_completions({"prompt": "a", "max_tokens": 1})
    return Engine(server, _loopback(server.listening_address, key))


def _loopback(address: str, key: str) -> Post:
    """POST to the server's own HTTP side, past any proxy setting (http.client reads none)."""
    host = address.split("//", 1)[-1]

    def post(path: str, body: Json) -> Json:
        connection = http.client.HTTPConnection(host, timeout=60)
        try:
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ModelError(f"the embedded model's server does not answer: {error}") from None
        finally:
            connection.close()
        if response.status != 200:
            raise ModelError(f"the embedded model refused {path}: {data[:200]!r}", status=response.status)
        parsed: Json = json.loads(data)
        return parsed

    return post


def _plain(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": m.role, "content": m.content} for m in messages]


def _checked(handle: Callable[[Any], Any], body: Json) -> Json:
    """A server's answer; its two ways of saying no become errors of ours."""
    try:
        answer: Json = handle(body)
    except (ValueError, RuntimeError) as error:
        raise UnsupportedRequest(f"llama.cpp refuses the request: {str(error)[:300]}") from None
    fault = answer.get("error")
    if fault is None:
        return answer
    message = str(fault.get("message", fault))[:300]
    if fault.get("type") == "exceed_context_size_error":
        raise ContextTooLong(f"the prompt does not fit the embedded model: {message}")
    raise ModelError(f"the embedded model failed: {message}", status=fault.get("code"))


def _usage(answer: Json) -> Usage:
    usage = answer.get("usage") or {}
    details = usage.get("prompt_tokens_details") or {}
    return Usage(
        input=usage.get("prompt_tokens"),
        output=usage.get("completion_tokens"),
        cached=details.get("cached_tokens"),
        dollars=0.0,
    )
