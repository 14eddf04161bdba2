"""What a token costs: the user's own price, else the table that DSPy bundles; unknown stays unknown.

Owns `Price` and where it comes from. Leaves out adding up (ledger). Never asks the network for prices.
"""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass
from urllib.parse import urlsplit

from roleagent_lite.config import Budget
from roleagent_lite.errors import ConfigError
from roleagent_lite.lm.address import Address
from roleagent_lite.types import Usage

# Hosts whose OpenAI-compatible endpoint bills by the table of that name.
_HOSTS = {
    "api.openai.com": "openai", "openrouter.ai": "openrouter", "api.groq.com": "groq",
    "api.deepseek.com": "deepseek", "api.mistral.ai": "mistral", "api.together.xyz": "together_ai",
    "api.fireworks.ai": "fireworks_ai", "api.x.ai": "xai",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per token. `cached`: input tokens read from the provider's prompt cache; None = as `input`."""

    input: float
    output: float
    cached: float | None = None

    @property
    def free(self) -> bool:
        return self.input == 0 and self.output == 0 and not self.cached

    def cost(self, usage: Usage) -> float | None:
        """Dollars of one call; None where the token counts are not known (0 for a free model)."""
        if self.free:
            return 0.0
        if usage.input is None or usage.output is None:
            return None
        cached = min(usage.cached or 0, usage.input)
        rate = self.input if self.cached is None else self.cached
        return (usage.input - cached) * self.input + cached * rate + usage.output * self.output


FREE = Price(0.0, 0.0)


def parse(text: str) -> Price:
    """ "IN/OUT" dollars per million tokens. Raises ConfigError."""
    try:
        low, high = (float(part) for part in text.replace("$", "").split("/"))
    except ValueError:
        low = high = -1.0
    if not (0 <= low < float("inf") and 0 <= high < float("inf")):
        raise ConfigError(
            f"price '{text}' is not IN/OUT in dollars per million tokens; write for example 0.15/0.60"
        )
    return Price(low / 1e6, high / 1e6)


def price_of(address: Address, budget: Budget) -> Price | None:
    """The price of a model: free if embedded, else the user's, else the table's; None = unknown."""
    if address.kind == "embedded":
        return FREE
    if budget.price is not None:
        return parse(budget.price)
    if address.kind == "http":
        provider = _HOSTS.get(urlsplit(address.bases[0]).hostname or "")
        return table(provider, address.model) if provider else None
    return table(address.provider, address.model.partition("/")[2])


def quiet() -> None:
    """Keeps DSPy's and LiteLLM's price tables local and their chatter off the screen."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # else it reads the keys of any .env it finds
    # LiteLLM builds pydantic schemas at its first calls, and has what pydantic says to them ignored by a
    # filter that it sets once, at its import. Where the filters were put back since (test runners do) and
    # warnings are errors, no call would get out.
    warnings.filterwarnings("ignore", message=".*`ReadOnly` qualifier.*", category=UserWarning)
    for name in ("dspy.clients.lm", "dspy.clients.model_metadata", "LiteLLM"):
        logging.getLogger(name).setLevel(logging.ERROR)


def table(provider: str, model: str) -> Price | None:
    """The bundled table's price of one provider's model, None where it has none."""
    quiet()
    from dspy.clients.model_metadata import model_info, rate

    info = model_info(provider, model)
    low, high = rate(info, "input_cost_per_token"), rate(info, "output_cost_per_token")
    if low is None or high is None:
        return None
    return Price(low, high, rate(info, "cache_read_input_token_cost"))
