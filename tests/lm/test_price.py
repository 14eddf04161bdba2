"""Prices: the user's own, the bundled table's, free, or unknown; never a guess."""

from __future__ import annotations

import os
import warnings

import pytest

from roleagent_lite.config import Budget, Limits
from roleagent_lite.errors import ConfigError
from roleagent_lite.lm.address import parse as address
from roleagent_lite.lm.price import FREE, Price, parse, price_of, quiet, table
from roleagent_lite.types import Usage

ENV = {"OPENAI_API_KEY": "sk-test-0123456789abcdef", "ANTHROPIC_API_KEY": "sk-test-0123456789abcdef"}


def test_cost_by_kind_of_token() -> None:
    price = Price(1e-6, 10e-6, 0.1e-6)
    assert price.cost(Usage(1000, 100)) == pytest.approx(0.002)
    assert price.cost(Usage(1000, 100, cached=900)) == pytest.approx(100e-6 + 90e-6 + 1000e-6)
    assert price.cost(Usage(100, 0, cached=900)) == pytest.approx(100 * 0.1e-6)  # a server that miscounts
    assert Price(1e-6, 0).cost(Usage(1000, 100, cached=900)) == pytest.approx(0.001)


def test_acc_01_unknown_tokens_have_no_cost_unless_all_is_free() -> None:
    assert Price(1e-6, 1e-6).cost(Usage(None, 5)) is None
    assert Price(1e-6, 1e-6).cost(Usage(5, None)) is None
    assert FREE.cost(Usage()) == 0.0


def test_the_user_s_own_price() -> None:
    assert parse("0.15/0.60") == Price(0.15e-6, 0.6e-6)
    assert parse("$3 / $15") == Price(3e-6, 15e-6)
    assert parse("0/0").free
    for wrong in ("", "3", "a/b", "-1/2", "1/2/3", "nan/1", "inf/1"):
        with pytest.raises(ConfigError, match="is not IN/OUT"):
            parse(wrong)


def test_where_a_price_comes_from() -> None:
    limits, budget = Limits(), Budget()
    assert price_of(address("embedded", limits, ENV), Budget(price="1/1")) is FREE
    known = price_of(address("openai/gpt-4o-mini", limits, ENV), budget)
    assert known is not None and 0 < known.input < known.output
    assert known.cached is not None and known.cached < known.input
    assert price_of(address("openai/gpt-4o-mini", limits, ENV), Budget(price="1/2")) == Price(1e-6, 2e-6)
    assert price_of(address("openai/no-such-model", limits, ENV), budget) is None
    local = address("openai/gpt-4o-mini", Limits(base_url="http://127.0.0.1:1"), ENV)
    assert price_of(local, budget) is None  # a local server may call itself anything
    real = address("gpt-4o-mini@https://api.openai.com/v1", limits, ENV)
    assert price_of(real, budget) == known


def test_the_table_is_read_without_the_network() -> None:
    assert table("openai", "gpt-4o-mini") is not None
    assert table("openai", "x") is None
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"


def test_quiet_lets_litellm_build_its_types_where_warnings_are_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LITELLM_MODE", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet()
        warnings.warn(
            "Item 'index' on TypedDict class 'C' is using the `ReadOnly` qualifier. ...", stacklevel=1
        )
        with pytest.raises(UserWarning):
            warnings.warn("another one", stacklevel=1)
    assert os.environ["LITELLM_MODE"] == "PRODUCTION", "LiteLLM would load any .env it finds"
