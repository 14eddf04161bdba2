"""Checks of keys, proxies and a model's endpoint.

Owns the lines about them. Leaves out finding keys and addresses (lm) and the probing calls (lm/probe.py). A
key is named by its variable and never shown.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from urllib.request import getproxies_environment

from roleagent_lite.config import Limits
from roleagent_lite.doctor.line import Line, ok, problem, warning
from roleagent_lite.errors import RoleAgentError
from roleagent_lite.lm import weights
from roleagent_lite.lm.address import Address, is_loopback, parse, shown
from roleagent_lite.lm.catalog import found_keys
from roleagent_lite.lm.probe import CALLS, TOKENS, Feature, features, listed
from roleagent_lite.redact import register_url, scrub


def _odd(value: str) -> str:
    """What is wrong with the text of a key, without showing any of it; "" if nothing is."""
    if value != value.strip():
        return "it begins or ends with white space"
    if value[0] in "'\"" or value[-1] in "'\"":
        return "it stands in quotes"
    if not value.isascii() or not value.isprintable() or " " in value:
        return "it holds characters that no key has"
    return "" if len(value) >= 8 else "it is shorter than any key"


def keys(environ: Mapping[str, str] | None = None) -> list[Line]:
    """One line for each key variable that is set: which, and whether its text can be a key at all."""
    env = os.environ if environ is None else environ
    found = found_keys(env)
    if not found:
        return [ok("keys", "none is set; the embedded model and servers of your own need none")]
    lines = []
    for provider, variable in found:
        wrong = _odd(env[variable])
        if wrong:
            lines.append(warning("key", f"{variable} is set, but {wrong}", f"export {variable} anew"))
        else:
            lines.append(ok("key", f"{variable} is set (for {provider}/NAME)"))
    return lines


def proxies(environ: Mapping[str, str] | None = None) -> list[Line]:
    """One line for each proxy variable; user and password in it are not shown."""
    if environ is None:
        found = getproxies_environment()
    else:
        found = {
            k.lower().removesuffix("_proxy"): v for k, v in environ.items() if k.lower().endswith("_proxy")
        }
    lines = []
    for name in ("http", "https", "all"):
        value = found.get(name)
        if not value:
            continue
        register_url(value)
        variable = f"{name.upper()}_PROXY"
        bare = shown(value) if "://" in value else value.rpartition("@")[2]
        if value.startswith(("http://", "https://")):
            lines.append(ok("proxy", f"{variable} is {bare}; it is used for remote servers only"))
        else:
            lines.append(
                warning(
                    "proxy",
                    f"{variable} is {bare}, which is not http://HOST:PORT",
                    "write http://HOST:PORT, or unset it: a remote server cannot be reached through it",
                )
            )
    return lines or [ok("proxy", "none is set")]


def embedded() -> Line:
    """Whether the embedded model lies in the cache."""
    if weights.is_pulled("embedded"):
        return ok("embedded model", "its weights are in the cache")
    megabytes = weights.PINS["embedded"].megabytes
    return ok(
        "embedded model", f"not fetched yet ({megabytes} MB at the first use)", "roleagent-lite models pull"
    )


def _line(name: str, feature: Feature) -> Line:
    words = f"{feature.name}: {feature.words}"
    if feature.works is False:
        return warning(name, words, feature.advice or "nothing to do: runs go on without it")
    return ok(name, words)


def endpoint(spec: str | None, base_url: str | None, key_env: str | None, probe: bool) -> list[Line]:
    """Lines on the model that was named: reachable, known there, and what it takes.

    Probing sends a few tiny calls: on this machine at once, elsewhere only with `probe`, for they are paid.
    """
    if spec is None and base_url is None:
        return [
            ok("model", "none was named", "--model and --base-url check a model and what its server takes")
        ]
    register_url(base_url)
    register_url(spec)
    limits = Limits(base_url=base_url, api_key_env=key_env, timeout=20.0)
    name = "model"
    try:
        address = parse(spec if spec is not None else str(base_url), limits)
        if address.kind == "embedded":
            return [_embedded(address)]
        local = bool(address.bases) and is_loopback(address.bases[0])
        lines = [_reached(address, limits)]
        if not (probe or local):
            lines.append(
                ok(name, f"not probed: that takes {CALLS} calls of at most {TOKENS} tokens", "add --probe")
            )
            return lines
        return lines + [_line(name, one) for one in asyncio.run(features(address, limits.timeout))]
    except RoleAgentError as error:
        return [
            problem(
                name, scrub(str(error)), "mend what is named; `roleagent-lite models PROVIDER` lists names"
            )
        ]


def _embedded(address: Address) -> Line:
    if address.spec == "embedded":
        return embedded()
    if address.spec.startswith("embedded:hf:"):
        return ok("model", f"{address.spec} is fetched from the model hub at the first use")
    path = weights.resolve_model(address.spec)
    return ok("model", f"{path} is a GGUF file of {path.stat().st_size / 1e6:.0f} MB")


def _reached(address: Address, limits: Limits) -> Line:
    """Whether the server answers and knows the model. Listing models costs nothing."""
    where = address.base_url or address.provider
    names = asyncio.run(listed(address, limits))
    model = address.model.partition("/")[2] if address.kind == "provider" else address.model
    if model and names and model not in names:
        return warning(
            "model",
            f"{where} answers, but does not list '{model}' among {len(names)} models",
            f"it lists {', '.join(names[:10])}",
        )
    return ok("model", f"{where} answers and lists {len(names)} models; {address.key_words}")
