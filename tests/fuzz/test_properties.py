"""Properties that hold for any input: of every parser, every table and every text that is escaped."""

from __future__ import annotations

import json
import re
import tempfile
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import roleagent_lite.types as nouns
from roleagent_lite import redact
from roleagent_lite.aiw.vocabulary import load_vocabulary, make_vocabulary
from roleagent_lite.ask import free_form, load_prompts, near_miss, parse_score
from roleagent_lite.ask.adapter import tidy
from roleagent_lite.ask.form import reply_form, schema, wanted
from roleagent_lite.ask.match import unwrap
from roleagent_lite.ask.objects import MAX_DEPTH, find_objects, pick
from roleagent_lite.ask.parse import read_reply
from roleagent_lite.config import Limits
from roleagent_lite.errors import ConfigError, ModelError, RoleAgentError
from roleagent_lite.evolve.propose import fault
from roleagent_lite.lm import dialect, faults
from roleagent_lite.lm.address import candidates, parse, shown
from roleagent_lite.lm.price import Price
from roleagent_lite.lm.price import parse as parse_price
from roleagent_lite.lm.thinking import split
from roleagent_lite.memory.rows import Item, quote, scrubbed, to_arrow, to_items
from roleagent_lite.memory.schema import make_schema
from roleagent_lite.report.markdown import code, fence, plain
from roleagent_lite.store import _TABLES, Event
from roleagent_lite.table import Table
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Message, Reply, Request, Usage

FEW = settings(max_examples=60)
ANY = st.text(st.characters(exclude_categories=()), max_size=40)  # lone surrogates and NUL included
WHOLE = st.text(max_size=40)
MARKS = st.text(alphabet="{}[]\"'`\\,:<>/ \n*-_.0189abAction%", max_size=60)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WHOLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WHOLE, inner, max_size=3),
    max_leaves=8,
)
MODULES = [*load_prompts("v1").modules.values(), *load_prompts("embedded").modules.values()]


# --- ask ---


@given(st.sampled_from(MODULES), ANY | MARKS | JSON.map(json.dumps))
@FEW
def test_any_reply_is_read_or_its_problem_is_said(module: Any, text: str) -> None:
    reply = tidy(Reply(text))
    parsed = read_reply(reply.text, module.outputs, {"action": ("take key", "wait")})
    json.dumps([parsed.values, reply.reasoning], ensure_ascii=False).encode("utf-8")
    assert set(parsed.values) == {o.name for o in module.outputs}
    assert parsed.problem is None or parsed.problem.strip()


@given(st.sampled_from(MODULES), st.data())
@FEW
def test_a_reply_in_the_form_asked_for_is_read_back_whole(module: Any, data: st.DataObject) -> None:
    """From the schema that a server would keep a model to, whatever the texts in it."""
    words = st.text("abc é🔑{}\"'\\`", min_size=1, max_size=20).map(str.strip).filter(bool)
    made = {
        "string": words, "integer": st.integers(-99, 99), "number": st.floats(0, 1), "list[string]":
        st.lists(words, min_size=1, max_size=3),
    }  # fmt: skip

    def value(output: Any) -> Any:
        if output.type == "list[object]":
            return [{f.name: value(f) for f in output.fields}]
        if output.type == "number" and output.low is not None:
            return data.draw(st.floats(output.low, output.high))
        return data.draw(made[output.type])

    body = {o.name: value(o) for o in module.outputs}
    assert set(schema(module.outputs, {}, {})["properties"]) == set(body)
    parsed = read_reply(json.dumps(body), module.outputs)
    assert parsed.problem is None and parsed.structured == bool(body)
    assert parsed.values == body


@given(st.sampled_from(MODULES), st.dictionaries(st.sampled_from(["predictions", "x"]), st.integers(0, 4)))
@FEW
def test_the_form_in_words_is_json_of_what_is_wanted(module: Any, counts: dict[str, int]) -> None:
    outputs = wanted(module.outputs, counts)
    assert list(json.loads(reply_form(outputs, counts))) == [o.name for o in outputs]
    assert all(counts.get(o.name) != 0 for o in outputs)


@given(st.dictionaries(WHOLE, JSON, max_size=3), st.text(alphabet="ab \n`", max_size=20))
@FEW
def test_objects_are_found_in_prose_and_in_python_s_notation(body: dict[str, Any], prose: str) -> None:
    assert find_objects(f"{prose}{json.dumps(body)}{prose}") == [body]
    plainly = {re.sub(r"\W", "", k): re.sub(r"\W", "", str(v)) for k, v in body.items()}
    assert find_objects(f"{prose}{plainly!r}{prose}") == [plainly]


@given(st.integers(1, 200))
@settings(max_examples=20)
def test_depth_has_a_bound(depth: int) -> None:
    found = find_objects('{"a":' * depth + "1" + "}" * depth)
    assert found and all(level(one) <= MAX_DEPTH for one in found)


def level(value: Any) -> int:
    return 1 + level(value["a"]) if isinstance(value, dict) else 0


@given(st.lists(st.dictionaries(WHOLE, JSON, max_size=3), max_size=3), st.lists(WHOLE, max_size=3))
@FEW
def test_pick_gives_only_names_that_were_asked_for(objects: list[Any], names: list[str]) -> None:
    found = pick(objects, names)
    assert found is None or set(found) <= set(names)


@given(ANY | MARKS, st.lists(WHOLE.filter(bool), max_size=4))
@FEW
def test_an_action_is_one_of_those_allowed_or_a_text_without_its_marks(said: str, allowed: list[str]) -> None:
    assert near_miss(said, allowed) in (None, *allowed)
    assert unwrap(said) == unwrap(said).strip() and isinstance(free_form(said), str)


@given(ANY | MARKS | st.floats() | st.integers(), st.integers(-5, 0), st.integers(1, 9))
@FEW
def test_a_score_lies_on_its_scale_or_is_none(said: Any, low: int, high: int) -> None:
    score = parse_score(said, low, high)
    assert score is None or low <= score <= high


# --- lm ---


@given(ANY | MARKS)
@FEW
def test_splitting_twice_splits_once_and_loses_no_word(text: str) -> None:
    answer, thought = split(text)
    assert thought is None or thought.strip()
    kept = re.findall(r"[a-z]{3,}", answer + " " + (thought or ""))
    assert set(kept) <= set(re.findall(r"[a-z]{3,}", text))
    if thought is None:
        assert answer == text


@given(WHOLE, MARKS)
@FEW
def test_thinking_in_tags_never_reaches_the_answer(thought: str, answer: str) -> None:
    got, thinking = split(
        f"<think>{thought.replace('<', '')}</think>{answer.replace('<', '').replace('[', '')}"
    )
    assert got == answer.replace("<", "").replace("[", "").strip()
    assert (thinking or "") == thought.replace("<", "").strip()


@given(ANY | st.tuples(st.floats(), st.floats()).map(lambda p: f"{p[0]}/{p[1]}"))
@FEW
def test_a_price_is_read_or_refused(text: str) -> None:
    try:
        price = parse_price(text)
    except ConfigError as error:
        assert "IN/OUT" in str(error)
        return
    assert 0 <= price.input < 1e302 and price.output >= 0


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1), st.floats(0, 1))
@FEW
def test_costs_grow_with_tokens_and_unknown_stays_unknown(
    sent: int, got: int, cached: int, low: float, high: float
) -> None:
    price = Price(low, high, low / 2)
    cost = price.cost(Usage(sent, got, cached))
    assert cost is not None and 0 <= cost <= sent * low + got * high + 1e-9
    assert price.cost(Usage(None, got)) is (0.0 if price.free else None) or price.free


@given(ANY | MARKS | st.sampled_from(["", "http://", "a@http://", "openai/", "embedded:"]).flatmap(
    lambda head: ANY.map(lambda rest: head + rest)))  # fmt: skip
@FEW
def test_a_model_string_is_an_address_or_refused_in_words(spec: str) -> None:
    before = set(redact._secrets)
    try:
        address = parse(spec, Limits(), {})
        assert address.spec and "@" not in (address.base_url or "").partition("://")[2].partition("/")[0]
    except ConfigError as error:
        assert str(error).strip()
    finally:
        redact._secrets.intersection_update(before)


PATHS = ["", "/", "/v1", "/v1/", "/proxy/openai/v1", "//v1//", "/a/b", "/v1/chat/completions"]


@given(st.sampled_from(PATHS), st.integers(1, 65535))
@FEW
def test_base_urls_never_double_their_version(path: str, port: int) -> None:
    for url in candidates(f"http://127.0.0.1:{port}{path}"):
        assert "/v1/v1" not in url and not url.endswith("/") and shown(url) == url


ROLES = st.sampled_from(["system", "user", "assistant"])


@given(st.lists(st.tuples(ROLES, ANY), min_size=1, max_size=5), st.booleans(), st.booleans(), st.booleans())
@FEW
def test_a_body_can_be_sent_whatever_was_said(
    turns: list[Any], temperature: bool, seed: bool, system: bool
) -> None:
    request = Request("agent", "act", tuple(Message(r, t) for r, t in turns), 0.5, seed=1)
    quirks = dialect.Quirks(temperature=temperature, seed=seed, system=system)
    body = dialect.body(request, "m", quirks)
    json.dumps(body, ensure_ascii=False).encode("utf-8")
    assert ("temperature" in body, "seed" in body) == (temperature, seed)
    assert system or "system" not in {m["role"] for m in body["messages"]}


CHOICE = st.fixed_dictionaries({"message": JSON, "finish_reason": JSON, "delta": JSON})


@given(st.dictionaries(st.sampled_from(["choices", "usage", "error", "type", "message"]), JSON, max_size=4)
       | st.fixed_dictionaries({"choices": st.lists(CHOICE, max_size=2), "usage": JSON}))  # fmt: skip
@FEW
def test_any_body_is_a_reply_or_an_error_of_ours(value: dict[str, Any]) -> None:
    faults.read(json.dumps(value))
    stream = f"data: {json.dumps(value)}\n\ndata: [DONE]\n"
    for streamed in (False, True):
        try:
            reply = dialect.reply(dialect.join_stream(stream) if streamed else value, 0.0)
        except ModelError:
            continue
        assert reply.usage.input is None or reply.usage.input >= 0
        json.dumps([reply.text, reply.reasoning], ensure_ascii=False).encode("utf-8")


@given(
    ANY | st.floats().map(str) | st.integers().map(str), st.sampled_from(["Retry-After", "retry-after-ms"])
)
@FEW
def test_a_wait_is_a_number_of_seconds_or_none(value: str, name: str) -> None:
    wait = faults.retry_after({name: value}, now=0.0)
    assert wait is None or wait >= 0 or wait != wait


@given(st.integers(0, 10**6))
@FEW
def test_a_wait_as_a_date_and_as_seconds_agree(seconds: int) -> None:
    date = format_datetime(datetime.fromtimestamp(1_700_000_000 + seconds, UTC), usegmt=True)
    assert faults.retry_after({"RETRY-AFTER": date}, now=1_700_000_000.0) == seconds
    assert faults.retry_after({"retry-after": str(seconds)}) == seconds


# --- what is written ---


@pytest.fixture
def secret() -> Any:
    before = set(redact._secrets)
    redact.register("hunter2-§x")
    yield "hunter2-§x"
    redact._secrets.intersection_update(before)


@given(before=ANY, after=ANY)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_no_registered_key_survives_and_once_is_enough(secret: str, before: str, after: str) -> None:
    once = redact.clean(before + secret + after)
    assert secret not in once and redact.clean(once) == once
    for form in (json.dumps(secret)[1:-1], secret):
        assert form not in redact.scrub(before + form + after)


NOUNS = [(name, kind, key) for name, (kind, key) in _TABLES.items()]


@pytest.mark.parametrize(("name", "kind", "key"), NOUNS, ids=[n[0] for n in NOUNS])
def test_every_noun_comes_back_from_its_table_torn_anywhere(name: str, kind: Any, key: Any) -> None:
    @given(
        st.lists(strategy(kind), min_size=1, max_size=3, unique_by=lambda r: redact.clean(key(r))), st.data()
    )
    @settings(max_examples=12)
    def holds(rows: list[Any], data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.jsonl"
            table: Table[Any] = Table(path, kind, key)
            assert all(table.put(row) for row in rows)
            first = list(table)
            table.close()
            whole = path.read_bytes()
            keep = data.draw(st.integers(0, len(whole)))
            path.write_bytes(whole[:keep])
            again: Table[Any] = Table(path, kind, key)
            assert again.torn == keep - (whole.rfind(b"\n", 0, keep) + 1)
            for row in rows:
                again.put(row)
            assert list(again) == first and path.read_bytes() == whole
            again.close()

    holds()


FINITE = st.floats(allow_nan=False, allow_infinity=False)


def strategy(kind: Any) -> st.SearchStrategy[Any]:
    """Rows of a noun with any text in every field that takes one."""
    plain_data = st.dictionaries(ANY, st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | FINITE | ANY,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(ANY, inner, max_size=2), max_leaves=4,
    ), max_size=2)  # fmt: skip
    small, texts = st.integers(0, 9), st.lists(ANY, max_size=2).map(tuple)
    usage = st.builds(nouns.Usage, st.none() | small, st.none() | small, small, small, st.none() | FINITE)
    messages = st.lists(st.builds(Message, ROLES, ANY), max_size=2).map(tuple)
    request = st.builds(
        nouns.Request, st.just("agent"), ANY, messages, FINITE, small, schema=plain_data, sample=ANY
    )
    reply = st.builds(nouns.Reply, ANY, ANY, st.none() | ANY, usage, FINITE)
    step = st.builds(nouns.Step, ANY, ANY, ANY, FINITE, st.none() | ANY, texts, ANY,
                     st.lists(st.none() | ANY, max_size=2).map(tuple), ANY, st.booleans(), texts)  # fmt: skip
    floats = st.lists(FINITE, max_size=2).map(tuple)
    rows: dict[Any, st.SearchStrategy[Any]] = {
        Event: st.builds(Event, ANY, ANY, plain_data),
        nouns.Task: st.builds(nouns.Task, ANY, ANY, ANY, small, plain_data, parent=st.none() | ANY),
        nouns.Call: st.builds(nouns.Call, ANY, ANY, st.none() | ANY, request, reply),
        nouns.Trajectory: st.builds(
            nouns.Trajectory, ANY, ANY, ANY, ANY, small, small, st.just("train"),
            st.lists(step, max_size=2).map(tuple), FINITE,
            st.builds(nouns.Outcome, st.sampled_from(["solved", "failed", "cut_off"]), ANY),
            error=st.none() | ANY,
        ),
        nouns.Credit: st.builds(
            nouns.Credit, ANY,
            st.lists(st.lists(st.none() | FINITE, max_size=2).map(tuple), max_size=2).map(tuple),
            floats, floats, floats, st.lists(small, max_size=2).map(tuple), floats, FINITE, floats,
            formula=plain_data,
        ),
        nouns.Diagnosis: st.builds(nouns.Diagnosis, ANY, ANY, ANY, small, ANY, ANY, st.none() | ANY),
        nouns.PromptSet: st.builds(
            nouns.PromptSet, ANY, st.dictionaries(ANY, ANY, max_size=2), st.none() | ANY, ANY
        ),
        nouns.Result: st.builds(
            nouns.Result, ANY, ANY,
            st.dictionaries(ANY, st.lists(st.none() | FINITE, max_size=2).map(tuple), max_size=2),
            st.none() | FINITE, st.none() | FINITE, st.none() | FINITE, small, usage,
        ),
    }  # fmt: skip
    return rows[kind]


@given(st.lists(st.tuples(ANY, ANY, JSON), max_size=4))
@FEW
def test_memory_rows_survive_arrow(rows: list[tuple[str, str, Any]]) -> None:
    made = {i.id: i for i in (scrubbed(Item(a, b, {"n": 1}, {"x": c})) for a, b, c in rows)}
    table = make_schema("t", list(made.values()), None)
    back = to_items(to_arrow(list(made.values()), {}, table).to_pylist())
    assert back == sorted(made.values(), key=lambda i: i.id)
    assert all(quote(i.id)[1:-1].replace("''", "").count("'") == 0 for i in back)


@given(ANY | MARKS, ANY | MARKS, st.integers(0, 50))
@FEW
def test_a_proposal_without_fault_keeps_the_bounds(new: str, old: str, most: int) -> None:
    why = fault(new, old, most, frozenset({"task"}))
    assert (why is None) <= (len(new) <= most and bool(new.strip()) and new.strip() != old.strip())


@given(ANY | MARKS, ANY)
@FEW
def test_a_mode_is_settled_once_for_all(said: str, keywords: str) -> None:
    vocabulary = load_vocabulary()
    mode = vocabulary.settle(said, keywords)
    assert mode in vocabulary.modes or mode.startswith("other")
    assert "\n" not in mode and len(mode) <= 60
    assert vocabulary.settle(mode, keywords) == mode or mode == "other"


@given(st.dictionaries(ANY, JSON, max_size=3) | JSON)
@FEW
def test_a_vocabulary_is_made_or_refused(modes: Any) -> None:
    try:
        assert make_vocabulary("x", modes, "here").text()
    except ConfigError as error:
        assert str(error).startswith("here")


@given(ANY | st.text(alphabet="<>&|`*_[]()!#~\\\n ab\"'", max_size=60))
@FEW
def test_markdown_pieces_hold_what_is_put_in_them(text: str) -> None:
    flat = plain(text)
    assert "\n" not in flat and not re.search(r"(?<!\\)[`*_\[\]|~]", flat.replace("\\\\", ""))
    assert "<" not in flat and ">" not in flat
    assert "\n" not in code(text) and "|" not in code(text)
    fenced = fence(text)
    ticks = re.match(r"`+", fenced)
    assert ticks is not None and fenced.endswith("\n" + ticks[0]) and fenced.count(ticks[0]) == 2


@given(st.binary(max_size=80) | JSON.map(lambda v: json.dumps(v).encode()))
@FEW
def test_any_file_is_a_prompt_file_or_refused(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("act.toml", "act.json", "act.txt"):
            path = Path(folder) / name
            path.write_bytes(data)
            try:
                load_prompts("v1").override(path)
            except RoleAgentError as error:
                assert name in str(error)


@given(
    st.binary(max_size=100)
    | st.lists(JSON, max_size=3).map(lambda rows: "\n".join(map(json.dumps, rows)).encode())
)
@FEW
def test_any_task_file_loads_or_is_refused_with_its_name(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.jsonl"
        path.write_bytes(data)
        try:
            assert load_tasks(path)
        except ConfigError as error:
            assert "t.jsonl" in str(error)
