"""Columns, the embedder's name in the metadata, and what is said when it does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.errors import RoleAgentError
from roleagent_lite.memory import Item
from roleagent_lite.memory.schema import check_embedder, made_by, make_schema
from tests.memory.make import Hashing


def test_columns_of_all_rows_are_there_with_their_types() -> None:
    rows = [Item("a", "t", {"n": 1}), Item("b", "t", {"env": "e", "ok": True, "x": 0.5})]
    schema = make_schema("t", rows, None)
    assert schema.names == ["id", "text", "data", "env", "n", "ok", "x"]
    assert [str(schema.field(n).type) for n in ("env", "n", "ok", "x")] == [
        "string",
        "int64",
        "bool",
        "double",
    ]
    assert made_by(schema) == ("", 0)


def test_the_embedder_is_in_the_metadata() -> None:
    schema = make_schema("t", [], Hashing("mini", 16))
    assert made_by(schema) == ("mini", 16)
    assert str(schema.field("vector").type).startswith("fixed_size_list")


@pytest.mark.parametrize(
    "columns", [{"text": "x"}, {"vector": "x"}, {"a b": 1}, {"x' OR": 1}, {"n": [1]}, {"n": None}]
)
def test_columns_that_cannot_be(columns: dict[str, Any]) -> None:
    with pytest.raises(RoleAgentError, match="cannot have a column") as caught:
        make_schema("catalogue", [Item("a", "t", columns)], None)
    assert "catalogue" in str(caught.value)


def test_what_is_said_of_another_embedder() -> None:
    schema = make_schema("t", [], Hashing("mini", 16))
    assert check_embedder(schema, Hashing("mini", 16), "t", Path("/s")) == ""
    note = check_embedder(schema, Hashing("maxi", 16), "t", Path("/s"))
    assert "'mini'" in note and "'maxi'" in note and "/s" in note
    assert "no vectors" in check_embedder(make_schema("t", [], None), Hashing(), "t", Path("/s"))
    with pytest.raises(RoleAgentError, match=r"/s.*16 numbers made by 'mini'.*'maxi' makes 8"):
        check_embedder(schema, Hashing("maxi", 8), "t", Path("/s"))
