"""redact: keys by value and by shape, in texts, URLs and whole records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite import redact
from roleagent_lite.redact import (
    clean,
    harmless,
    hint,
    mend,
    register,
    register_environment,
    register_url,
    scrub,
    visible,
)


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(redact, "_secrets", set())
    yield


def test_a_registered_secret_disappears_everywhere() -> None:
    register("hunter2-hunter2")
    assert scrub("key=hunter2-hunter2, again hunter2-hunter2.") == "key=[key], again [key]."
    assert scrub("hunter2") == "hunter2"


def test_its_escaped_and_quoted_forms_disappear_too() -> None:
    secret = 'a"b/c d\n+e'
    register(secret)
    assert scrub(json.dumps({"k": secret})) == '{"k": "[key]"}'
    assert scrub("http://h/?q=a%22b%2Fc%20d%0A%2Be") == "http://h/?q=[key]"


def test_the_longest_secret_goes_first() -> None:
    register("secret")
    register("secret-longer")
    assert scrub("secret-longer secret") == "[key] [key]"


@pytest.mark.parametrize("short", [None, "", "none", "token", "12345"])
def test_short_values_are_no_secrets(short: str | None) -> None:
    register(short)
    assert scrub("none token 12345") == "none token 12345"


def test_six_characters_are_enough() -> None:
    register("abcdef")
    assert scrub("abcdef") == "[key]"


@pytest.mark.parametrize(
    "key",
    [
        "sk-abcdefghijklmnop",
        "sk-ant-api03-abcdefghijklmnop_qr",
        "sk-proj-abcdefghijklmnop",
        "gsk_abcdefghijklmnopqrst",
        "AIzaabcdefghijklmnopqrstuvwxyz01234",
        "hf_abcdefghijklmnopqrst",
    ],
)
def test_key_shapes_disappear_though_never_registered(key: str) -> None:
    assert scrub(f"Incorrect API key provided: {key}.") == "Incorrect API key provided: [key]."
    assert scrub(f"x\n{key}\n") == "x\n[key]\n"


def test_bearer_headers() -> None:
    assert scrub("Authorization: Bearer abc.def-123_4") == "Authorization: Bearer [key]"
    assert scrub("authorization: bearer abcdefgh") == "authorization: bearer [key]"


@pytest.mark.parametrize(
    "text",
    ["task-desk-lamp-examine-object", "sk-short", "bearer of news", "hf_", "", "disk-0123456789abcdefgh"],
)
def test_ordinary_words_stay(text: str) -> None:
    assert scrub(text) == text


def test_environment_variables_named_like_secrets() -> None:
    names = [
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "TOKEN_ID",
        "my_secret",
        "DB_PASSWORD",
        "AWS_ACCESS_KEY_ID",
        "GCP_CREDENTIALS",
    ]
    register_environment({name: f"value-of-{name}" for name in names})
    for name in names:
        assert scrub(f"<value-of-{name}>") == "<[key]>", name


def test_environment_variables_that_hold_no_secret() -> None:
    register_environment(
        {"MAX_TOKENS": "100000", "TOKENIZERS_PARALLELISM": "disabled", "HOME": "/home/someone"}
    )
    assert scrub("100000 disabled /home/someone") == "100000 disabled /home/someone"


def test_the_process_environment_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "value-in-the-environment")
    register_environment()
    assert scrub("value-in-the-environment") == "[key]"


def test_secrets_in_a_url() -> None:
    register_url(
        "http://someuser:pass%2Fword1@host:80/v1?api_key=querykey1&model=gpt-name&access_token=t%2Bken12"
    )
    text = scrub("someuser pass%2Fword1 pass/word1 querykey1 gpt-name t%2Bken12 t+ken12")
    assert text == "someuser [key] [key] [key] gpt-name [key] [key]"


def test_a_user_name_that_stands_alone_is_the_key() -> None:
    register_url("https://keyasuser@host/v1")
    assert scrub("keyasuser") == "[key]"


@pytest.mark.parametrize("url", [None, "", "not a url", "http://[broken", "http://host/v1?x"])
def test_urls_without_secrets(url: str | None) -> None:
    register_url(url)
    assert scrub("host not a url broken") == "host not a url broken"


# --- whole records ------------------------------------------------------------------------------------


def test_clean_reaches_every_text() -> None:
    register("thesecret")
    dirty = {"a thesecret": ["thesecret", {"b": ("x thesecret", 1, None, True, 0.5)}], "n": 100000}
    assert clean(dirty) == {"a [key]": ["[key]", {"b": ["x [key]", 1, None, True, 0.5]}], "n": 100000}


def test_clean_leaves_numbers_whole() -> None:
    register("100000")
    assert clean({"tokens": 100000, "text": "100000"}) == {"tokens": 100000, "text": "[key]"}


def test_clean_sees_a_key_after_a_line_end() -> None:
    assert clean({"body": "denied\nsk-abcdefghijklmnop"}) == {"body": "denied\n[key]"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("\ud83d\udd11", "🔑"),
        ("a\ud83d", "a\ufffd"),
        ("\ud83da", "\ufffda"),
        ("\udd11\ud83d", "\ufffd\ufffd"),
        ("🔑 مفتاح \x00", "🔑 مفتاح \x00"),
    ],
)
def test_rep_10_mend(text: str, wanted: str) -> None:
    assert mend(text) == wanted


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_clean_is_done_after_one_pass_and_can_be_written(value: Any) -> None:
    once = clean(value)
    assert clean(once) == once
    json.dumps(once, ensure_ascii=False).encode("utf-8")


@given(st.text())
def test_mend_leaves_good_text(text: str) -> None:
    assert mend(text) == text


def test_hint_shows_at_most_four_characters() -> None:
    assert hint("sk-abcdefgh1234") == "…1234"
    assert hint("abcdefghijkl") == "…ijkl"
    assert hint("short") == "…"
    assert hint("") == "…"


_texts = st.one_of(
    st.text(max_size=20),
    st.text(alphabet='ab\n"\\é\ud83d\udd11 -', max_size=12),
    st.sampled_from(
        ["sk-0123456789abcdefgh", "x\nsk-0123456789abcdefgh", "Bearer abcdefgh.1", 'a"b\\é-secret']
    ),
)
_plain = st.recursive(
    _texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3)
)


@given(_plain)
def test_what_looks_harmless_as_a_whole_needs_no_cleaning(value: Any) -> None:
    redact._secrets.clear()
    register('a"b\\é-secret')
    if harmless(json.dumps(value, ensure_ascii=False)):
        assert clean(value) == value


def test_harmless_is_not_blind_and_not_afraid_of_everything() -> None:
    register("hunter2-hunter2")
    assert harmless('{"goal": "put a desk-lamp on the desk-top, task-17; é 🔑"}')
    for text in (
        "hunter2-hunter2",
        "\\nsk-0123456789abcdefgh",
        "Bearer abcdefgh",
        "half \ud83d",
        "\ud83d\udd11",
    ):
        assert not harmless(text)


def test_what_could_steer_a_terminal_is_shown_not_sent() -> None:
    assert visible("\x1b[31mred\x1b]0;t\x07 a\tb\nc\r\x00\x9b é🔑") == (
        "\\x1b[31mred\\x1b]0;t\\x07 a\tb\nc\\x0d\\x00\\x9b é🔑"
    )
