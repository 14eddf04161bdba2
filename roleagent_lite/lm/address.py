"""Reads a model string: which transport, which server, which key, and where that key came from.

Owns the forms a model string may take, default servers, variable names of keys, base URLs and proxies.
Leaves out sending anything. A key that lies in the environment is used only for a model the user named.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies_environment

import roleagent_lite.redact as redact
from roleagent_lite.config import Limits
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.lm.weights import is_embedded

Kind = Literal["embedded", "http", "provider"]

# Servers that speak OpenAI's chat dialect on this machine, with the variable that moves them.
LOCAL = {
    "ollama": ("http://127.0.0.1:11434", ("OLLAMA_API_BASE", "OLLAMA_HOST")),
    "ollama_chat": ("http://127.0.0.1:11434", ("OLLAMA_API_BASE", "OLLAMA_HOST")),
    "lm_studio": ("http://127.0.0.1:1234/v1", ("LM_STUDIO_API_BASE",)),
    "hosted_vllm": ("http://127.0.0.1:8000/v1", ("HOSTED_VLLM_API_BASE",)),
    "llamafile": ("http://127.0.0.1:8080/v1", ("LLAMAFILE_API_BASE",)),
}
# Prefixes that only say "speaks OpenAI's dialect": dropped where a base URL is given.
_GENERIC = {"openai", "openai_like", "custom_openai", "vllm", *LOCAL}

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"),
    "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "azure": ("AZURE_API_KEY",),
    "huggingface": ("HUGGINGFACE_API_KEY", "HF_TOKEN"),
    "perplexity": ("PERPLEXITYAI_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "moonshot": ("MOONSHOT_API_KEY",),
}
# Where providers list their models in OpenAI's dialect (Anthropic in its own).
BASES: Mapping[str, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "openrouter": "https://openrouter.ai/api/v1",
    "groq": "https://api.groq.com/openai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "mistral": "https://api.mistral.ai/v1",
    "xai": "https://api.x.ai/v1",
    "together_ai": "https://api.together.xyz/v1",
    "fireworks_ai": "https://api.fireworks.ai/inference/v1",
    "cerebras": "https://api.cerebras.ai/v1",
    "moonshot": "https://api.moonshot.ai/v1",
}
# Providers whose credentials are more than one variable: left to DSPy and LiteLLM.
OWN_CREDENTIALS = ("bedrock", "vertex_ai", "sagemaker", "azure_ai", "watsonx", "databricks", "snowflake")
_BARE = (("gpt-", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"), ("chatgpt", "openai"),
         ("claude", "anthropic"), ("gemini", "gemini"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Address:
    """Where a model answers. `bases`: base URLs to try in order, with their secrets (`repr` hides them).

    `base_url` is the first of them without user, password and query: what is recorded and shown.
    `key_from` names the setting or variable for messages, also where no key was found.
    """

    kind: Kind
    spec: str
    model: str
    provider: str = ""
    bases: tuple[str, ...] = field(default=(), repr=False)
    key: str | None = field(default=None, repr=False)
    key_from: str = ""
    proxy: str | None = field(default=None, repr=False)

    @property
    def base_url(self) -> str | None:
        return shown(self.bases[0]) if self.bases else None

    @property
    def key_words(self) -> str:
        """How the key is named in a message: its source and at most its last four characters."""
        if self.bases and urlsplit(self.bases[0]).username:
            return "user and password came from the URL"
        if self.key:
            return f"the key from {self.key_from} ({redact.hint(self.key)})"
        return f"no key was sent (none in {self.key_from})" if self.key_from else "no key was sent"


def parse(spec: str, limits: Limits, environ: Mapping[str, str] | None = None) -> Address:
    """The address of one model string. Raises ConfigError for an unknown form or a missing key.

    Forms: `embedded`, `embedded:PATH.gguf`, either with `+ADAPTER.gguf`; `PROVIDER/NAME`; `NAME@URL` and,
    with `limits.base_url`, `NAME` or `openai/NAME` for any server that speaks OpenAI's chat dialect; `URL`
    for a server with one model.
    """
    env = os.environ if environ is None else environ
    spec = spec.strip()
    if is_embedded(spec):
        return Address("embedded", spec, spec)
    name, url = spec, limits.base_url
    if spec.startswith(("http://", "https://")):
        name, url = "", spec
    elif "@http" in spec:
        name, _, url = spec.partition("@")
    provider, _, rest = name.partition("/")
    known = rest and (provider in KEY_VARIABLES or provider in LOCAL or provider in OWN_CREDENTIALS)
    if provider == "openai" and not url:
        url = env.get("OPENAI_BASE_URL") or env.get("OPENAI_API_BASE")
    if provider in LOCAL and rest and not url:
        default, variables = LOCAL[provider]
        url = next((env[v].strip() for v in variables if env.get(v)), default)
        if "://" not in url and not re.search(r":\d+/?$", url):  # as Ollama reads OLLAMA_HOST
            url = f"{url.rstrip('/')}:{urlsplit(default).port}"
    if url and (not known or provider in _GENERIC):
        model = rest if provider in _GENERIC and rest else name
        return _http(spec, model, url, limits, env)
    own_server = url if "@http" in spec else None  # a base URL for all is not another provider's
    return _provider(spec, name, own_server, limits, env)


def _http(spec: str, model: str, url: str, limits: Limits, env: Mapping[str, str]) -> Address:
    bases = candidates(url)
    redact.register_url(bases[0])
    variables = () if urlsplit(bases[0]).username else ("OPENAI_API_KEY",)  # one header: the URL's own wins
    key, source = _key(limits, variables, env, needed=False, spec=spec)
    if key and not variables:
        raise ConfigError(
            f"the URL {shown(bases[0])} holds a user name and limits.api_key_env names a key, but only one "
            "of them can be sent; leave one out"
        )
    return Address("http", spec, model, "openai", bases, key, source, proxy_for(bases[0], env))


def _provider(spec: str, name: str, url: str | None, limits: Limits, env: Mapping[str, str]) -> Address:
    if "/" not in name:
        name = next((f"{p}/{name}" for start, p in _BARE if name.startswith(start)), name)
    provider, _, rest = name.partition("/")
    if not rest:
        raise ConfigError(
            f"model '{spec}' names no provider; write PROVIDER/NAME (openai/gpt-4o-mini, anthropic/…, "
            f"ollama/…), NAME@URL for a server of your own, or embedded{nearest(name, ['embedded'])}"
        )
    if provider in OWN_CREDENTIALS:
        return Address("provider", spec, name, provider, proxy=proxy_for("https://" + provider, env))
    variables = KEY_VARIABLES.get(provider)
    if variables is None:  # LiteLLM knows many more; it finds their keys by itself
        variables = (f"{provider.upper()}_API_KEY",)
    key, source = _key(limits, variables, env, needed=url is None and provider in KEY_VARIABLES, spec=spec)
    bases = candidates(url)[:1] if url else ()
    redact.register_url(url)
    if bases and (urlsplit(bases[0]).username or urlsplit(bases[0]).query):
        raise ConfigError(
            f"model '{name}@{shown(bases[0])}': the URL of a named provider cannot hold a user name or a "
            "query; NAME@URL, for a server that speaks OpenAI's dialect, can"
        )
    target = bases[0] if bases else BASES.get(provider, f"https://{provider}")
    return Address("provider", spec, name, provider, bases, key, source, proxy_for(target, env))


def _key(
    limits: Limits, variables: tuple[str, ...], env: Mapping[str, str], *, needed: bool, spec: str
) -> tuple[str | None, str]:
    if limits.api_key_env:
        value = env.get(limits.api_key_env, "").strip()
        if not value:
            raise ConfigError(
                f"limits.api_key_env names {limits.api_key_env}, but that variable is not set; "
                f"export {limits.api_key_env}=… or remove the setting"
            )
        return _sound(value, limits.api_key_env), f"{limits.api_key_env} (named by limits.api_key_env)"
    for variable in variables:
        value = env.get(variable, "").strip()
        if value:
            return _sound(value, variable), variable
    if needed:
        raise ConfigError(
            f"no key for model '{spec}': set {' or '.join(variables)}, "
            "or name another variable with limits.api_key_env"
        )
    return None, " or ".join(variables)


def _sound(key: str, variable: str) -> str:
    """`key`, remembered for scrubbing. Raises ConfigError for what no header can carry, or no key has."""
    redact.register(key)
    for number, char in enumerate(key, 1):
        if not "!" <= char <= "~" or char in "\"'":
            raise ConfigError(
                f"the key in {variable} holds {char!a} at position {number} of {len(key)}, which no key "
                "has; copy it again, without quotes or line ends"
            )
    return key


def candidates(url: str) -> tuple[str, ...]:
    """Base URLs to try for what a user wrote: with `/v1` where no version is there. Never `/v1/v1`."""
    url = url.strip()
    if "://" not in url:
        url = "http://" + url
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        usable = usable and not re.search(r"\s", parts.netloc)
    except ValueError:  # brackets of IPv6, or a port
        usable = False
    if "[key]@" in url or "=[key]" in url:
        raise ConfigError(
            f"base URL '{shown(url)}' stands in the run's settings without its password or key, which is not "
            "saved; give it again: --base-url or the model's flag"
        )
    if not usable:
        bare = re.sub(r"//[^/@]*@", "//", url).partition("?")[0]
        raise ConfigError(
            f"base URL '{bare}' is not http:// or https:// with a host, and a port where it has one "
            "(an IPv6 address stands in brackets)"
        )
    path = re.sub(r"/+", "/", parts.path).rstrip("/")
    path = re.sub(r"/(chat/completions|completions|models|messages)$", "", path)
    if re.search(r"/v\d[\w.]*(/openai)?$", path):
        paths = [path]
    elif re.search(r"^/api(/(chat|generate|tags))?$", path):  # Ollama's own; the one we speak is beside it
        paths = ["/v1"] if path != "/api" else ["/api", "/api/v1", "/v1"]
    elif path:
        paths = [path, path + "/v1"]
    else:
        paths = ["/v1", ""]
    return tuple(urlunsplit((parts.scheme, parts.netloc, p, parts.query, "")) for p in paths)


def endpoint(base: str, tail: str) -> str:
    """`base` + `tail`, before any query."""
    parts = urlsplit(base)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + tail, parts.query, ""))


def credentials(url: str) -> tuple[str, dict[str, str]]:
    """`url` without user and password, and the header of basic authentication that says them (RFC 7617, in
    UTF-8: a password may hold any character); no header where the URL has neither."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, {}
    both = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return bare, {"Authorization": f"Basic {base64.b64encode(both).decode()}"}


def shown(url: str) -> str:
    """`url` without user, password, query and fragment: fit for a record or a message."""
    parts = urlsplit(re.sub(r"//[^/@]*@", "//", url))  # first: a stand-in for a password has brackets
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def proxy_for(url: str, env: Mapping[str, str] | None = None) -> str | None:
    """The http(s) proxy that `url` needs, None for none; never one for this machine itself.

    Raises ConfigError naming the variable where a proxy is needed that cannot be used (SOCKS, no scheme).
    """
    if is_loopback(url):
        return None
    if env is None or env is os.environ:
        proxies = getproxies_environment()
    else:
        proxies = {k.lower().removesuffix("_proxy"): v for k, v in env.items()
                   if k.lower().endswith("_proxy") and v}  # fmt: skip
    parts = urlsplit(url)
    if _bypassed(parts.hostname or "", proxies.get("no", "")):
        return None
    name = parts.scheme if proxies.get(parts.scheme) else "all"
    proxy = proxies.get(name)
    if not proxy:
        return None
    redact.register_url(proxy)
    if not proxy.startswith(("http://", "https://")):
        bare = shown(proxy) if "://" in proxy else proxy.rpartition("@")[2]
        raise ConfigError(
            f"{name.upper()}_PROXY is '{bare}', which cannot be used to reach {parts.hostname}; "
            "write http://HOST:PORT, or unset it"
        )
    return proxy


def _bypassed(host: str, no_proxy: str) -> bool:
    for entry in re.split(r"[,\s]+", no_proxy):
        name = entry.strip().lstrip("*").lstrip(".").lower()
        if entry.strip() == "*" or (name and (host == name or host.endswith("." + name))):
            return True
    return False
