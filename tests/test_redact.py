"""redact: keys by value and by shape, in texts, URLs and whole records."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

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


# --- every way of writing one key ---------------------------------------------------------------------

KEYS = [
    "sk-test-0123456789abcdef",
    "hunter2-hunter2",
    "q\"u\\o/te-käse🔑 +&<'x",
    "pässwörd",
    "sixsix",
    "0123456789" * 20,
]


def spellings(key: str) -> dict[str, str]:
    dumped = json.dumps(key)[1:-1]
    raw = key.encode()
    return {
        "plain": key,
        "json": dumped,
        "json, slashes escaped": dumped.replace("/", "\\/"),
        "json, capitals": re.sub(r"\\u[0-9a-f]{4}", lambda m: "\\u" + m[0][2:].upper(), dumped),
        "json, not ascii": json.dumps(key, ensure_ascii=False)[1:-1],
        "json in json": json.dumps(json.dumps(key))[3:-3],
        "json, all letters": "".join(
            f"\\u{ord(c):04x}" if ord(c) < 0x10000 else json.dumps(c)[1:-1] for c in key
        ),
        "json, cut by one escape": key[:3] + f"\\u{ord(key[3]):04x}" + json.dumps(key[4:])[1:-1],
        "percent": quote(key, safe=""),
        "percent, slashes left": quote(key),
        "form": quote_plus(key),
        "percent, small": re.sub("%..", lambda m: m[0].lower(), quote(key, safe="")),
        "html": html.escape(key),
        "python": repr(key)[1:-1],
        "bytes": repr(raw)[2:-1],
        "latin-1": raw.decode("latin-1"),
        "base64": base64.b64encode(raw).decode(),
        "basic": base64.b64encode(b"user:" + raw).decode(),
        "basic, other offset": base64.b64encode(b"me:" + raw + b"!").decode(),
        "basic, no user": base64.b64encode(b":" + raw).decode(),
        "base64 for URLs": base64.urlsafe_b64encode(b"xx" + raw).decode(),
    }


@pytest.mark.parametrize("key", KEYS)
def test_a_key_disappears_however_it_is_written(key: str) -> None:
    register(key)
    for name, text in spellings(key).items():
        left = scrub(f"<{text}>")
        assert "[key]" in left and key not in left, f"{name}: {left}"
        # base64 keeps what stands for its neighbours, and a few bits of the first and last letter
        assert len(left) <= len("<[key]>") + 12, f"{name}: {left}"
        assert not harmless(json.dumps({"body": text}, ensure_ascii=False)), name


@given(st.text(min_size=6, max_size=30), st.text(max_size=10), st.text(max_size=10))
def test_no_key_survives_its_neighbours(key: str, before: str, after: str) -> None:
    redact._secrets.clear()
    register(key)
    if key.strip() == key and mend(key) == key:
        assert key not in scrub(before + key + after).replace("[key]", "\x00")
        assert clean({"x": [before + key]}) == clean(clean({"x": [before + key]}))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("http://me:pw@host:1/v1", "http://me:[key]@host:1/v1"),
        ("postgres://u:a%2Fb@db and http://h/p?x=1", "postgres://u:[key]@db and http://h/p?x=1"),
        ("GET /v1?api_key=ab&model=x", "GET /v1?api_key=[key]&model=x"),
        ("http://h/?model=x&token=t", "http://h/?model=x&token=[key]"),
        ("Authorization: Basic dXNlcjpwdw==", "Authorization: Basic [key]"),
        ('{"x-api-key": "abc", "n": 1}', '{"x-api-key": "[key]", "n": 1}'),
        ('{\\"authorization\\": \\"Bearer ab\\"}', '{\\"authorization\\": \\"Bearer [key]\\"}'),
        ("api-key=short", "api-key=[key]"),
        ("X-Api-Key: short", "X-Api-Key: [key]"),
    ],
)
def test_short_secrets_where_they_stand(text: str, wanted: str) -> None:
    assert scrub(text) == wanted
    assert scrub(wanted) == wanted
    assert not harmless(json.dumps(text))


@pytest.mark.parametrize(
    "text", ["key=left, door=right", "a ? key : b", "mail me@host:1", "see http://h/?model=gpt", "x@y://z"]
)
def test_places_without_a_secret(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize(
    "name", ["LLM_KEY", "KEY", "SSH_KEY_PASSPHRASE", "DB_PASS", "GITHUB_PAT", "PRIVATE_KEY"]
)
def test_more_names_of_variables(name: str) -> None:
    register_environment({name: "value-of-it"})
    assert scrub("value-of-it") == "[key]"


@pytest.mark.parametrize("name", ["KEYBOARD", "MONKEY", "COMPASS_DIR", "PATH", "TOKENIZERS", "PATTERN"])
def test_names_that_only_look_so(name: str) -> None:
    register_environment({name: "value-of-it"})
    assert scrub("value-of-it") == "value-of-it"


def test_passwords_of_proxies_and_data_bases_in_the_environment() -> None:
    register_environment(
        {"HTTPS_PROXY": "http://someone:pass-word1@proxy:3128", "DATABASE": "pg://postgres@db/x"}
    )
    assert scrub("pass-word1 someone postgres") == "[key] someone postgres"


def test_a_key_with_blanks_round_it() -> None:
    register("  spaced-key-1\n")
    assert scrub("spaced-key-1") == "[key]"
    redact.register(" blanks-around-4711 ")
    assert redact.scrub("Bearer blanks-around-4711 end") == "Bearer [key] end"


def test_what_turns_letters_round_is_shown() -> None:
    assert visible("a\u202eb\u2066c\U000e0041\u2028d") == "a\\u202eb\\u2066c\\U000e0041\\u2028d"
    assert visible("مفتاح\u200f") == "مفتاح\u200f"


@given(st.text())
def test_visible_json_is_the_same_value(text: str) -> None:
    shown = redact.visible_json(json.dumps({"x": text}, ensure_ascii=False))
    assert json.loads(shown) == {"x": text}
    assert visible(shown) == shown


def test_a_setting_in_a_variable_named_like_a_secret_blots_out_no_words() -> None:
    register_environment({"MY_API_KEY": "default", "DB_PASSWORD": "Changeme", "REAL_TOKEN": "real-token-1"})
    assert scrub("the default is: changeme; real-token-1") == "the default is: changeme; [key]"
    register("default")  # named by the user as the key that is sent
    assert scrub("default") == "[key]"
