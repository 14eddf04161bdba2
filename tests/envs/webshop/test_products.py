"""Products from WebShop's files: equal to the original's, and read piece by piece."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs.webshop import products as shelf
from roleagent_lite.errors import ConfigError
from tests.envs.webshop.conftest import load, products

ROW: dict[str, Any] = {
    "asin": "B000000001", "name": "Mug", "full_description": "A mug.", "small_description": ["Holds tea"],
    "pricing": "$12.50", "images": ["x"], "product_category": "A › B", "category": "garden",
    "query": " Mugs ",
    "customization_options": {"Color": [{"value": " Red/White ", "image": None}], "Size": None},
}  # fmt: skip


def test_equal_to_the_original(vectors: dict[str, Any]) -> None:
    assert len(products()) == len(vectors["derived"]) == 60
    for one, other in zip(products(), vectors["derived"], strict=True):
        assert (one.asin, one.title, one.price_tag, one.query) == (
            other["asin"], other["Title"], other["Price"], other["query"],
        )  # fmt: skip
        assert list(one.pricing) == other["pricing"]
        assert {name: list(values) for name, values in one.options.items()} == other["options"]
        assert (list(one.attributes), list(one.bullets)) == (other["Attributes"], other["BulletPoints"])


@pytest.mark.parametrize("name", ["human", "synthetic"])
def test_prices_are_drawn_as_the_original_draws_them(vectors: dict[str, Any], name: str) -> None:
    assert load(name)[0] == next(one for one in vectors["loads"] if one["id"] == name)["prices"]


def test_one_row() -> None:
    one = shelf.derive(ROW, {"B000000001": {"attributes": ["bpa free"]}})
    assert one.options == {"color": ("red | white",)}
    assert (one.query, one.pricing, one.price_tag, one.attributes) == (
        "mugs",
        (12.5,),
        "$12.5",
        ("bpa free",),
    )
    assert one.document == "mug a mug. holds tea color: red | white"
    assert shelf.derive(ROW, {}).attributes == ("DUMMY_ATTR",)


@pytest.mark.parametrize(
    ("given", "pricing", "tag"),
    [
        ("", (100.0,), "$100.0"),
        (None, (100.0,), "$100.0"),
        ("$1,299.00", (1299.0,), "$1299.0"),
        ("$20.00$35.99", (20.0, 35.99), "$20.0 to $35.99"),
        ("$1.00$2.00$3.00", (1.0, 2.0), "$1.0 to $2.0"),
    ],
)
def test_prices_in_words(given: Any, pricing: tuple[float, ...], tag: str) -> None:
    one = shelf.derive({**ROW, "pricing": given}, {})
    assert (one.pricing, one.price_tag) == (pricing, tag)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pricing": "free"}, "pricing 'free' is no price"),
        ({"pricing": "$"}, "is no price"),
        ({"customization_options": {"Color": [{"image": None}]}}, "lacks 'value'"),
        (
            {"customization_options": "red"},
            "cannot be read: customization_options must be an object, found str",
        ),
    ],
)
def test_rows_that_cannot_be_read(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match="product B000000001") as caught:
        shelf.derive(ROW | change, {})
    assert said in str(caught.value)
    with pytest.raises(ConfigError, match="lacks 'query'"):
        shelf.derive({k: v for k, v in ROW.items() if k != "query"}, {})


def test_which_rows_are_kept() -> None:
    rows = [ROW, {**ROW, "name": "again"}, {**ROW, "asin": "nan"}, {**ROW, "asin": "B0000000012"}]
    rows.append({**ROW, "asin": "B000000002"})
    assert [(p.asin, p.title) for p in shelf.read_products(rows, {})] == [
        ("B000000001", "Mug"), ("B000000002", "Mug"),
    ]  # fmt: skip
    assert len(shelf.read_products(rows, {}, limit=4)) == 1
    with pytest.raises(ConfigError, match="product number 2 is no object with an asin"):
        shelf.read_products([ROW, []], {})


@pytest.mark.parametrize("chunk", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize(
    "text",
    [
        '[{"a": "x]}{"}, 12, "y,\\"z", [1, [2]], null, -3.5e2]',
        ' \n[ {"a": "x]}{"},12 ,"y,\\"z",[1,[2]],null,-3.5e2 ] ',
        '{"a": "x]}{"}\n12\n"y,\\"z"\n[1, [2]]\nnull\n-3.5e2\n',
        '\ufeff[{"a": "x]}{"}, 12, "y,\\"z", [1, [2]], null, -3.5e2]',
    ],
)
def test_members_are_read_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, chunk: int
) -> None:
    monkeypatch.setattr(shelf, "_CHUNK", chunk)
    file = tmp_path / "items.json"
    file.write_text(text, encoding="utf-8")
    assert list(shelf.rows_in(file)) == [{"a": "x]}{"}, 12, 'y,"z', [1, [2]], None, -350.0]


def test_an_empty_list(tmp_path: Path) -> None:
    file = tmp_path / "items.json"
    file.write_text("[]")
    assert list(shelf.rows_in(file)) == []


@pytest.mark.parametrize("text", ['[{"a": 1}, {"a"', "[nonsense]", "hello", '[{"a": 1} x]'])
def test_a_broken_file_is_said(tmp_path: Path, text: str) -> None:
    file = tmp_path / "items.json"
    file.write_text(text)
    with pytest.raises(
        ConfigError, match="is no list of products in JSON: no JSON value where one should be"
    ):
        list(shelf.rows_in(file))
    with pytest.raises(ConfigError, match=r"cannot read .*none\.json"):
        list(shelf.rows_in(tmp_path / "none.json"))
    file.write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        list(shelf.rows_in(file))


def test_a_large_file_is_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held while reading is a few pieces, whatever the size of the file."""
    monkeypatch.setattr(shelf, "_CHUNK", 1 << 14)
    file = tmp_path / "items.json"
    row = json.dumps({**ROW, "full_description": "word " * 200})
    file.write_text("[" + ",\n".join([row] * 3000) + "]")
    tracemalloc.start()
    assert sum(1 for _ in shelf.rows_in(file)) == 3000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < file.stat().st_size / 10


def test_ranges_are_drawn_from_the_seed() -> None:
    one = shelf.derive({**ROW, "pricing": "$20.00$30.00"}, {})
    drawn = [shelf.draw_prices([one], random.Random(seed))[one.asin] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(20 <= price <= 30 for price in drawn)


def test_objects_by_asin(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"B1": {}}')
    assert shelf.read_object(file) == {"B1": {}}
    for text, said in (("[]", "must be an object by asin, found list"), ("{", "is no JSON")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=said):
            shelf.read_object(file)
    with pytest.raises(ConfigError, match="cannot read"):
        shelf.read_object(tmp_path / "none")
