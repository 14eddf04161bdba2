"""Published numbers: all tables of the file are whole, named by source, and a wrong name is named."""

from __future__ import annotations

import pytest

from roleagent_lite.errors import ConfigError
from roleagent_lite.report.reference import known, references, warning


def test_every_table_has_source_protocol_and_figures_in_percent() -> None:
    for one in references(known()):
        assert one.source.startswith("arXiv ") and one.protocol and one.title
        for row in one.rows:
            figures = [f for f in (row.success, row.score) if f is not None]
            assert figures and all(0 < f <= 100 for f in figures), row


def test_some_figures_of_the_paper() -> None:
    tables = {one.name: {(r.method, r.model): r for r in one.rows} for one in references(known())}
    assert tables["alfworld"]["Reflexion", "7B"].success == 42.7
    assert tables["alfworld"]["Role-Agent (trained)", "1.5B"].success == 90.9
    shop = tables["webshop"]["GiGPO (trained)", "7B"]
    assert (shop.score, shop.success) == (84.4, 72.8)
    parts = tables["role-agent-ablation"]
    both = [tables[name]["Role-Agent (trained)", "1.5B"].success or 0 for name in ("alfworld", "webshop")]
    assert parts["full", "1.5B"].success == pytest.approx(sum(both) / 2)
    assert tables["search-qa"]["Role-Agent (trained)", "3B"].success == 45.8


def test_the_warning_says_that_it_is_no_comparison() -> None:
    assert "Other models, other protocols" in warning() and "none enters a mean" in warning()


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no published table 'alfwrld'.*did you mean 'alfworld'"):
        references(["alfwrld"])
    assert references([]) == []
