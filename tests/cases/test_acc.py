"""Field cases ACC: tokens, money, what is asked again and what is kept secret, through the whole product."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite import redact
from roleagent_lite.types import Message
from tests.cases import kit
from tests.cases.kit import DIALECTS, command_line, evaluate, mostly_slow, won
from tests.cli.make import cli
from tests.fake_server import Answer, FakeServer, Raw, Say, Seen, fail
from tests.kill_runner import command
from tests.lm.kit import ask, config_for, pool

SOLVED = ("solved", "")

# --- ACC-01 ---

UNCOUNTED: dict[str, Any] = {
    "absent": None,
    "null": "null",
    "a null count": {"prompt_tokens": None},
    "one count": {"prompt_tokens": 7},
    "an empty object": {},
    "zeros": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    "counts as text": {"prompt_tokens": "7", "completion_tokens": "2"},
    "below zero": {"prompt_tokens": -1, "completion_tokens": -1},
    "a list": [],
}


def uncounted(usage: Any, after: int = 1) -> Any:
    """Good play; the requests after the first `after` come back with that usage."""

    def script(seen: Seen) -> Answer:
        said = won(seen)
        assert isinstance(said, Say)
        return said if seen.number < after else replace(said, usage=usage)

    return script


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("shape", UNCOUNTED)
def test_acc_01_a_reply_without_counts_is_used_and_counted_as_unknown(
    shape: str, dialect: str, tmp_path: Path
) -> None:
    if dialect != "openai" and shape in ("counts as text", "below zero", "a list"):
        pytest.skip("DSPy's client refuses a reply with counts of another type")
    with FakeServer(uncounted(UNCOUNTED[shape])) as fake:
        played = evaluate(fake, tmp_path, tasks=2, dialect=dialect, budget={"price": "100/1000"})
    assert played.ends == [SOLVED] * 2 and fake.count == 4
    usage = [(c.reply.usage.input, c.reply.usage.output) for c in played.calls]
    assert usage[0] == (100, 10)
    assert all(got in ((None, None), (7, None)) for got in usage[1:])
    assert "(unknown for 3 calls)" in played.report
    more = 21 if shape == "one count" else 0
    assert f"| {100 + more} (unknown for 3 calls) |" in played.report
    assert "$0.02 (unknown for 3 calls)" in played.report, "the first call alone is in the sum"


def test_acc_01_nothing_known_at_all_on_the_command_line(tmp_path: Path) -> None:
    with FakeServer(uncounted(None, after=0)) as fake:
        said = command_line(fake, tmp_path, tasks=2)
    assert said.code == 0, said.err
    assert "4 calls" in said.out and "tokens unknown for 4 calls" in said.out
    assert "dollars unknown" in said.out and "$0" not in said.out
    (spend,) = json.loads((tmp_path / "runs" / "run" / "report.json").read_text())["spend"]
    assert (spend["calls"], spend["unknown_tokens"], spend["unknown_dollars"]) == (4, 4, 4)
    assert "| 4 | unknown | unknown | unknown | unknown |" in said.played().report


def test_acc_01_a_cap_holds_although_the_server_does_not_count(tmp_path: Path) -> None:
    with FakeServer(uncounted(None, after=0)) as fake:
        said = command_line(
            fake, tmp_path, "--price", "100/1000", "--max-usd", "0.2", "--workers", "1", tasks=20
        )
    said.message(3, "--max-usd 0.2 reached")
    assert 1 < fake.count < 20, "what is not counted is guessed for the cap"


# --- ACC-03 ---


@pytest.mark.parametrize("dialect", mostly_slow(DIALECTS))
def test_acc_03_five_cents_are_three_requests(dialect: str, tmp_path: Path) -> None:
    price = ("--price", "100/1000", "--workers", "1")  # two cents a call
    with FakeServer(won) as fake:
        model = ("--model", DIALECTS[dialect].format(url=fake.url))
        said = command_line(fake, tmp_path, *price, "--max-usd", "0.05", model=model, tasks=4)
        said.message(3, "--max-usd 0.05 reached", "$0.0600 spent in 3 calls", "resume")
        assert fake.count == 3
        played = said.played()
        assert played.ends == [SOLVED], "the finished task is kept, the one in progress is not scored"
        assert "(partial)" in played.report and "--max-usd 0.05 reached" in played.report
        assert "1 of 1" in played.report
        assert "In progress, stopped: cost cap: 1 (" in played.report and "t2#0" in played.report
        again = command_line(fake, tmp_path, *price, "--max-usd", "5", model=model, tasks=4)
        assert again.code == 0 and fake.count == 8
    assert again.played().ends == [SOLVED] * 4
    assert "In progress" not in again.played().report


def test_acc_03_four_workers_pass_the_cap_by_a_call_each_at_most_and_it_is_shown(tmp_path: Path) -> None:
    with FakeServer(won, latency=0.02) as fake:
        said = command_line(
            fake, tmp_path, "--price", "100/1000", "--workers", "4", "--max-usd", "0.05", tasks=20
        )
    message = said.message(3, "--max-usd 0.05 reached")
    assert 3 <= fake.count <= 3 + 3
    assert f"{fake.count}" in message or "more in flight" in message
    spent = json.loads((tmp_path / "runs" / "run" / "report.json").read_text())["spend"]
    assert sum(s["calls"] for s in spent) == fake.count
    assert sum(s["dollars"] for s in spent) == pytest.approx(0.02 * fake.count)
    assert all(kind == "solved" for kind, _ in said.played().ends)


# --- ACC-05 ---


async def test_acc_05_whatever_decides_a_reply_asks_anew(tmp_path: Path) -> None:
    base = ask(temperature=0.0, max_tokens=16, seed=1)
    system, user = base.messages
    others = [
        replace(base, temperature=0.7),
        replace(base, max_tokens=400),
        replace(base, seed=2),
        replace(base, messages=(Message("system", system.content.replace("act", "acT")), user)),
        replace(base, messages=(system, Message("user", user.content + " "))),
        replace(base, schema={"type": "object"}),
    ]
    with FakeServer(lambda seen: Say(f"reply {seen.number}")) as fake:
        first = []
        async with pool(config_for(fake), tmp_path) as models:
            for request in (base, *others):
                first.append((await models["agent"].complete(request)).text)
        assert fake.count == len(set(first)) == len(others) + 1
        again = []
        async with pool(config_for(fake), tmp_path) as models:
            for request in (*reversed(others), base):
                again.append((await models["agent"].complete(request)).text)
        assert fake.count == len(others) + 1, "an identical call was sent again"
    assert again == first[::-1]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_acc_05_five_samples_are_five_replies_and_come_again_in_order(
    dialect: str, tmp_path: Path
) -> None:
    with FakeServer(lambda seen: Say(f"reply {seen.number}")) as fake:
        config = config_for(fake, model=DIALECTS[dialect].format(url=fake.url))
        runs = []
        for _ in range(2):
            async with pool(config, tmp_path) as models:
                runs.append([(await models["agent"].complete(ask(temperature=1.0))).text for _ in range(5)])
        assert fake.count == 5, "DSPy has a cache of its own, or the second run bought again"
    assert runs[0] == runs[1] == [f"reply {n}" for n in range(5)]


def test_acc_05_a_second_run_of_the_program_sends_nothing_and_another_setting_is_refused(
    tmp_path: Path,
) -> None:
    with FakeServer(won) as fake:
        first = command_line(fake, tmp_path, tasks=3)
        again = command_line(fake, tmp_path, tasks=3)
        assert (first.code, again.code, fake.count) == (0, 0, 6)
        assert again.out == first.out
        said = command_line(fake, tmp_path, "--set", "limits.max_tokens=400", tasks=3)
        said.message(2, "limits.max_tokens", "1024 then, 400 now")
        other = command_line(fake, tmp_path, "--set", "limits.max_tokens=400", tasks=3, run="other")
        assert other.code == 0 and fake.count == 12
    assert not any((tmp_path / "runs" / "run").rglob("*.sqlite*")), "another cache stands beside the record"


# --- ACC-07 ---

SECRET = "sk-canary-5f3b9a7c1d2e4f60aaQ9"


def echo(status: int = 500) -> Any:
    """Breaks, and tells in several ways what it was sent."""

    def script(seen: Seen) -> Answer:
        sent = {k: v for k, v in seen.headers.items() if k in ("authorization", "x-api-key")}
        words = f"cannot work for {json.dumps(sent)} at {seen.path}"
        return (
            fail(status, words, "internal", x_echo=json.dumps(sent))
            if seen.number % 2
            else Raw(status, f"<html><body>{words}</body></html>", kind="text/html")
        )

    return script


def hidden(secret: str, folder: Path, *shown: str) -> None:
    """Nothing under `folder` and nothing on the screen holds the secret, plain or in base64."""
    text = "\n".join([kit.everything(folder), *shown])
    for form in (secret, secret[6:-4], base64.b64encode(secret.encode()).decode()[4:-8]):
        assert form not in text, text[max(0, text.find(form) - 200) :][:500]


@pytest.mark.parametrize("dialect", mostly_slow(DIALECTS))
def test_acc_07_a_key_from_a_variable_is_nowhere(dialect: str, tmp_path: Path) -> None:
    variable = {"openai": "OPENAI_API_KEY", "groq": "GROQ_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}[dialect]
    kit.tasks_file(tmp_path / "t.jsonl", 2)
    with FakeServer(echo()) as fake:
        words = ("--debug", "eval", "--tasks", "t.jsonl", "--model", DIALECTS[dialect].format(url=fake.url))
        done = cli(*words, "--run", "run", cwd=tmp_path, env={variable: SECRET, "PYTHONWARNINGS": "always"})
        assert any(SECRET in str(seen.headers) for seen in fake.requests)
    assert done.returncode == 5, done.stderr
    assert "cannot work for" in kit.everything(tmp_path)
    hidden(SECRET, tmp_path, done.stdout, done.stderr)


@pytest.mark.parametrize("status", mostly_slow([400, 401, 429, 500]))
def test_acc_07_a_key_that_a_flag_names_is_nowhere(status: int, tmp_path: Path) -> None:
    with FakeServer(echo(status)) as fake:
        said = command_line(
            fake, tmp_path, "--debug", "--api-key-env", "MY_OWN_ONE", tasks=2, env={"MY_OWN_ONE": SECRET}
        )
        assert any(SECRET in str(seen.headers) for seen in fake.requests)
    assert said.code in (4, 5)
    hidden(SECRET, tmp_path, said.out, said.err)


PLACES = {
    "password": "http://me:{secret}@{host}/v1",
    "password, quoted": "http://me:{secret}%2F%40@{host}/v1",
    "user": "http://{secret}@{host}/v1",
    "query": "http://{host}/v1?api_key={secret}",
    "query, another name": "http://{host}/v1?sig={secret}&api-version=2",
}


@pytest.mark.parametrize("how", mostly_slow(["--base-url", "--model", "--set"]))
@pytest.mark.parametrize("place", mostly_slow(PLACES))
def test_acc_07_a_key_inside_a_url_is_nowhere(place: str, how: str, tmp_path: Path) -> None:
    with FakeServer(echo()) as fake:
        url = PLACES[place].format(secret=SECRET, host=f"127.0.0.1:{fake.port}")
        model = {
            "--base-url": ("--model", "fake", "--base-url", url),
            "--model": ("--model", f"fake@{url}"),
            "--set": ("--model", "fake", "--set", f"limits.base_url={url}"),
        }[how]
        said = command_line(fake, tmp_path, "--debug", model=model, tasks=2)
        auth = [base64.b64decode(s.headers.get("authorization", "")[6:]).decode() for s in fake.requests]
        assert fake.count and all(
            SECRET in seen.path + sent for seen, sent in zip(fake.requests, auth, strict=True)
        )
    assert said.code in (4, 5), said.err
    hidden(SECRET, tmp_path, said.out, said.err)


def test_acc_07_a_key_that_a_model_or_a_world_repeats_is_nowhere(tmp_path: Path) -> None:
    def parrot(seen: Seen) -> Answer:
        said = won(seen)
        assert isinstance(said, Say)
        return Say(json.dumps({"thought": f"the key is {SECRET}", **json.loads(said.text or "{}")}),
                   reasoning=f"Bearer {SECRET}")  # fmt: skip

    with FakeServer(parrot) as fake:
        said = command_line(fake, tmp_path, "--debug", env={"OPENAI_API_KEY": SECRET})
    assert said.code == 0, said.err
    hidden(SECRET, tmp_path, said.out, said.err)
    for words in (("show", "run"), ("show", "run", "t1#0", "--full"), ("show", "run", "t1#0", "--json")):
        shown = kit.Said(*command(*words, cwd=tmp_path, OPENAI_API_KEY=SECRET), tmp_path)
        assert shown.code == 0
        hidden(SECRET, tmp_path, shown.out, shown.err)


def test_acc_07_a_library_caller_s_error_hides_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    before = set(redact._secrets)
    try:
        with FakeServer(echo()) as fake:
            played = evaluate(fake, tmp_path)
        assert "cannot work for" in str(played.trajectories[0].error)
        hidden(SECRET, tmp_path, str(played.trajectories))
    finally:
        redact._secrets.clear()
        redact._secrets.update(before)
