"""Which keys lie in the environment, whether a key works, and which models it opens.

Owns listing and checking through the openai and anthropic SDKs, their retries off. Leaves out generating:
nothing here costs money, and a key that is found is only named, never used unasked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from roleagent_lite.config import Limits
from roleagent_lite.errors import ConfigError, FatalModelError, ModelError, nearest
from roleagent_lite.lm import faults
from roleagent_lite.lm.address import BASES, KEY_VARIABLES, LOCAL, Address, parse, shown


def found_keys(environ: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """(provider, variable) for each known key variable that is set. Values are never returned."""
    env = os.environ if environ is None else environ
    return [
        (provider, name)
        for provider, names in KEY_VARIABLES.items()
        for name in names
        if env.get(name, "").strip()
    ]


def key_line(environ: Mapping[str, str] | None = None) -> str | None:
    """One line on how to use the key that was found, None where there is none."""
    found = found_keys(environ)
    if not found:
        return None
    provider, variable = found[0]
    more = f" (also {', '.join(v for _, v in found[1:])})" if len(found) > 1 else ""
    return (
        f"{variable} is set{more} but is not used: --model {provider}/NAME would spend from it; "
        f"`roleagent-lite models {provider}` lists names"
    )


def list_models(
    provider: str, limits: Limits | None = None, environ: Mapping[str, str] | None = None
) -> list[str]:
    """Names of the models that a provider, or the server at a URL, offers to this key; sorted.

    `provider`: openai, anthropic, another known provider, a local server's prefix, or a URL. With
    `limits.base_url` the names come from there. Raises ConfigError (unknown provider, no key) and
    FatalModelError (key refused, server not reached).
    """
    limits = limits or Limits()
    if provider.startswith(("http://", "https://")):
        limits, provider = limits.model_copy(update={"base_url": provider}), "openai"
    if provider not in KEY_VARIABLES and provider not in LOCAL:
        raise ConfigError(f"no provider '{provider}' here{nearest(provider, [*KEY_VARIABLES, *LOCAL])}")
    if provider == "anthropic":
        spec = f"anthropic/*@{limits.base_url}" if limits.base_url else "anthropic/*"
        address = parse(spec, limits, environ)
        return _asked(address, list(address.bases) or [""], _anthropic)
    address = parse(f"{provider}/*", limits, environ)
    bases = list(address.bases) or [BASES[p] for p in (provider,) if p in BASES]
    if not bases:
        raise ConfigError(f"where {provider} lists its models is not known here; give its URL instead")
    return _asked(address, bases, _openai)


def check_key(provider: str, limits: Limits | None = None, environ: Mapping[str, str] | None = None) -> str:
    """One line that says that the key works and how many models it opens. Raises as `list_models`."""
    names = list_models(provider, limits, environ)
    return f"{provider}: the key works, {len(names)} models"


def _asked(address: Address, bases: list[str], ask: Callable[[Address, str], list[str]]) -> list[str]:
    error: ModelError | None = None
    for base in bases:
        try:
            return sorted(ask(address, base))
        except ModelError as failed:
            error = failed
            if failed.status != 404:
                break
    assert error is not None
    raise error


def _openai(address: Address, base: str) -> list[str]:
    import openai

    client = openai.DefaultHttpxClient(trust_env=False, proxy=address.proxy)
    with openai.OpenAI(api_key=address.key or "none", base_url=base, max_retries=0, timeout=20.0,
                       http_client=client) as sdk:  # fmt: skip
        return _listed(address, base, lambda: [m.id for m in sdk.models.list()], openai)


def _anthropic(address: Address, base: str) -> list[str]:
    import anthropic

    client = anthropic.DefaultHttpxClient(trust_env=False, proxy=address.proxy)
    root = base.removesuffix("/v1") or None  # this SDK adds the version itself
    with anthropic.Anthropic(api_key=address.key or "none", base_url=root, max_retries=0, timeout=20.0,
                             http_client=client) as sdk:  # fmt: skip
        return _listed(address, base, lambda: [m.id for m in sdk.models.list(limit=1000)], anthropic)


def _listed(address: Address, base: str, names: Callable[[], list[str]], sdk: Any) -> list[str]:
    """The names, with the SDK's errors as ours (both SDKs name their errors alike)."""
    where = shown(base) if base else address.provider
    try:
        return names()
    except sdk.APIStatusError as error:
        raise faults.classify(
            error.status_code, dict(error.response.headers), error.response.text, address, where
        ) from None
    except sdk.APIConnectionError as error:
        raise FatalModelError(
            f"cannot reach {where} ({faults.scrubbed(str(error.__cause__ or error))}); "
            "check the URL and the network"
        ) from None
    except (sdk.APIError, TypeError, AttributeError) as error:
        raise FatalModelError(f"{where} does not list models ({faults.scrubbed(str(error))})") from None
