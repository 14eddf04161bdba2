"""How the words of a command are read."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.commands.call import Call, columns, count, human, read, service_of, unit_name
from tests.envs.shell.bench import Bench


def call(bench: Bench, cwd: str = "/var/log") -> Call:
    return Call("x", (), "", cwd, bench.files, bench.machine)


@pytest.mark.parametrize(
    ("words", "flags", "values", "rest"),
    [
        ("-la /etc", "la", {}, ["/etc"]),
        ("-n 5 a", "", {"n": "5"}, ["a"]),
        ("-n5", "", {"n": "5"}, []),
        ("-5 a", "", {"n": "5"}, ["a"]),
        ("-fn 3", "f", {"n": "3"}, []),
        ("--lines=7 --all", ["all"], {"lines": "7"}, []),
        ("--lines 7", "", {"lines": "7"}, []),
        ("a -- -n b", "", {}, ["a", "-n", "b"]),
        ("-n", "", {"n": ""}, []),
        ("- a", "", {}, ["-", "a"]),
        ("--lines", ["lines"], {}, []),
    ],
)
def test_options(words: str, flags: str | list[str], values: dict[str, str], rest: list[str]) -> None:
    found = read(tuple(words.split()), valued="n", long_valued=("lines",))
    assert (set(found.flags), dict(found.values), list(found.rest)) == (set(flags), values, rest)


def test_asking_for_options() -> None:
    found = read(("-a", "-n", "3"), valued="n")
    assert found.has("a") and found.has("n") and not found.has("b")
    assert found.value("lines", "n") == "3" and found.value("lines") is None


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("a", "/var/log/a"),
        ("../lib", "/var/lib"),
        ("/etc//x/./y", "/etc/x/y"),
        ("../../../../etc", "/etc"),
        ("/", "/"),
        (".", "/var/log"),
        ("//x", "/x"),
    ],
)
def test_paths(bench: Bench, word: str, path: str) -> None:
    assert call(bench).path(word) == path


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("+5", 5), (None, 9), ("", 9), ("x", 9), ("-1", 9), ("٣", 9), ("99999999", 9)],
)
def test_counts(text: str | None, number: int) -> None:
    assert count(text, 9) == number


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0"), (1023, "1023"), (1024, "1.0K"), (20 * 1024, "20K"), (3 * 1024**3, "3.0G"), (5e16, "45475T")],
)
def test_sizes(size: float, text: str) -> None:
    assert human(size) == text


def test_tables_names_and_failures(bench: Bench) -> None:
    assert columns([["a", "b"], ["long", "c"]], 1) == "a    b\nlong c\n"
    assert unit_name("a.service") == unit_name("/etc/a.service") == unit_name("a") == "a"
    victim = bench.victim.name
    assert (
        service_of(call(bench), victim, "systemd") is bench.victim
        and service_of(call(bench), victim, "docker") is None
    )
    said = call(bench).fail("y" * 1000, 3)
    assert said.code == 3 and said.err.startswith("x: yyy") and len(said.err) < 410
