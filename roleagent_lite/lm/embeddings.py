"""Vectors from a provider's or a server's `/embeddings` endpoint, through the openai SDK, its retries off.

Owns that one request and its errors as ours. Leaves out generating and what vectors are for (embed, memory).
What a provider charges for vectors is not in the ledger: a run embeds a few hundred short texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roleagent_lite.config import Limits
from roleagent_lite.errors import ConfigError, FatalModelError
from roleagent_lite.lm import faults
from roleagent_lite.lm.address import BASES, parse, shown

BATCH = 128  # texts a request; providers allow a few hundred to 2,048


def embed(
    spec: str, texts: Sequence[str], limits: Limits | None = None, environ: Mapping[str, str] | None = None
) -> list[list[float]]:
    """One vector a text, in order, as the server gave it. `spec`: a model string, e.g. `openai/NAME`.

    Raises ConfigError for a model string without an OpenAI-compatible address, ModelError's children as a
    call does (key refused, unknown model, unreachable), FatalModelError where a text got no vector.
    """
    import openai

    address = parse(spec, limits or Limits(), environ)
    base = address.bases[0] if address.bases else BASES.get(address.provider)
    if base is None or address.provider == "anthropic":
        raise ConfigError(f"'{spec}' has no /embeddings endpoint known here; name it as NAME@URL")
    vectors: list[list[float]] = []
    client = openai.DefaultHttpxClient(trust_env=False, proxy=address.proxy)
    with openai.OpenAI(
        api_key=address.key or "none", base_url=base, max_retries=0, timeout=60.0, http_client=client
    ) as sdk:
        for start in range(0, len(texts), BATCH):
            batch = list(texts[start : start + BATCH])
            try:
                reply = sdk.embeddings.create(
                    model=address.model.rpartition("/")[2], input=batch, encoding_format="float"
                )
            except openai.APIStatusError as error:
                raise faults.classify(
                    error.status_code, dict(error.response.headers), error.response.text, address, shown(base)
                ) from None
            except openai.APIError as error:
                why = faults.scrubbed(str(error.__cause__ or error))
                raise FatalModelError(
                    f"no vectors from {shown(base)} ({why}); check the URL and the network"
                ) from None
            found = {item.index: list(item.embedding or []) for item in reply.data}
            if set(found) != set(range(len(batch))):
                raise FatalModelError(f"{shown(base)} gave {len(found)} vectors for {len(batch)} texts")
            vectors += [found[i] for i in range(len(batch))]
    return vectors
