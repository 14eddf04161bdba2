"""Pages: their parts, texts and clickables."""

from __future__ import annotations

from roleagent_lite.envs.webshop import pages
from roleagent_lite.envs.webshop.pages import Part
from tests.envs.webshop.conftest import products

MUG = products()[0]


def test_an_item_page() -> None:
    parts = pages.item("a mug", MUG, False)
    assert pages.plain(parts).startswith(
        "Instruction: [SEP] a mug [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] red | white [SEP]"
    )
    assert list(pages.clickables(parts)) == [
        "back to search", "< prev", "description", "features", "reviews", "buy now", "red | white",
        "forest green", "20 oz", "15 oz",
    ]  # fmt: skip
    assert "Attributes" in pages.plain(pages.item("a mug", MUG, True))


def test_results_show_ten_and_go_on_beyond_the_end() -> None:
    hits = products()[:12]
    first, second, third = (pages.results("x", hits, page) for page in (1, 2, 3))
    assert [sum(p.what == "product" for p in page) for page in (first, second, third)] == [10, 2, 0]
    assert [pages.PREV in {p.text for p in page} for page in (first, second, third)] == [False, True, True]
    assert "Page 3 (Total results: 12)" in pages.plain(third)


def test_white_space_is_a_blank_or_nothing() -> None:
    assert [p.text for p in pages._texts("", " ", "\t ", " \n ", "a ")] == [" ", " ", "a "]
    assert pages.plain([Part("a"), Part(" "), Part("b")]) == "a [SEP]  [SEP] b"


def test_the_rich_text_marks_what_was_clicked() -> None:
    parts = [Part("Buy Now", "button"), Part("red", "option", "color"), Part("blue", "option", "color"),
             Part("B1", "product"), Part("B2", "product"), Part("text")]  # fmt: skip
    assert pages.rich(parts, {"B2"}, '/{"color": "red"}') == (
        "You have clicked red.\n[button] Buy Now [button_]\n  [clicked button] red [clicked button_]\n"
        "  [button] blue [button_]\n\n[button] B1 [button_]\n\n[clicked button] B2 [clicked button_]\ntext\n"
    )


def test_an_option_named_like_a_button_keeps_the_buttons_place() -> None:
    parts = [Part("Features", "button"), Part("Buy Now", "button"), Part("features", "option", "style")]
    found = pages.clickables(parts)
    assert list(found) == ["features", "buy now"]
    assert found["features"].what == "option"


def test_the_last_page_escapes_options() -> None:
    text = pages.plain(pages.done("B1", {"b": "<&'>", "a": "é"}, 0.5))
    assert '{"a": "\\u00e9", "b": "\\u003c\\u0026\\u0027\\u003e"}' in text
    assert "Your score (min 0.0, max 1.0) [SEP] 0.5 [SEP]" in text


def test_sub_pages() -> None:
    assert pages.plain(pages.sub_page("x", MUG, "Features")).endswith("< Prev [SEP] Ships in plain packaging")
    assert pages.plain(pages.sub_page("x", MUG, "Reviews")).endswith("< Prev")
    assert pages.plain(pages.sub_page("x", MUG, "Attributes")).endswith(MUG.product_category)
