"""The simulated APIs: loaded without a trace in the process, kept inside, the same on any day."""

from __future__ import annotations

import datetime
import decimal
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs.tools import apis, data, state
from roleagent_lite.envs.tools.calls import Call, read
from roleagent_lite.errors import MissingExtra, RoleAgentError
from tests.envs.tools.here import needs_bfcl

pytestmark = needs_bfcl
ALL = data.Entry("multi_turn_base_x", tuple(data.CLASSES), {}, (), (), {})


@pytest.fixture
def found() -> dict[str, Any]:
    """All functions of all classes, on objects as they are without a scenario."""
    return apis.owners(apis.start(ALL))


def forget() -> None:
    """Modules and beginnings are made anew."""
    apis._module.cache_clear()
    apis._first.cache_clear()


def said(found: dict[str, Any], text: str) -> list[str]:
    return apis.run(found, read(text, found))


def test_nothing_is_left_in_the_process() -> None:
    import mpmath  # noqa: F401

    path, modules = list(sys.path), set(sys.modules)
    forget()
    objects = apis.start(ALL)
    assert sorted(objects) == sorted(data.CLASSES)
    assert sys.path == path and not any("bfcl" in name for name in sys.modules)
    assert set(sys.modules) - modules <= {"_strptime"}
    assert not list((data.folder() / "bfcl_eval").rglob("*.pyc"))


def test_every_described_function_can_be_called(found: dict[str, Any]) -> None:
    for name, one in data.functions(ALL.classes).items():
        (answer,) = said(found, one.call)
        assert isinstance(answer, str) and "may not import" not in answer, name


def test_answers_in_the_originals_wording(found: dict[str, Any]) -> None:
    assert said(found, "add(a=1, b=2.5); touch('a'); cd('nowhere'); ls(1, 2, 3)") == [
        '{"result": 3.5}',
        "None",
        '{"error": "cd: \'nowhere\': No such file or directory"}',
        "Error during execution: GorillaFileSystem.ls() takes from 1 to 2 positional arguments but 4 "
        "were given",
    ]
    assert said(found, "logarithm(value=20, base=10, precision=10)") == ["{'result': mpf('1.301029995666')}"]
    assert said(found, "square_root(number=2, precision=5)") == ["{'result': Decimal('1.4142')}"]


def test_precision_of_others_is_left_alone(found: dict[str, Any]) -> None:
    import mpmath

    before = (mpmath.mp.dps, decimal.getcontext().prec)
    said(found, "square_root(number=2, precision=5); logarithm(value=20, base=10, precision=50)")
    assert (mpmath.mp.dps, decimal.getcontext().prec) == before


@pytest.mark.parametrize(
    "text",
    [
        "power(10, 10000000000)",
        "power(base=2, exponent=-9e99)",
        "square_root(2, 999999999)",
        "logarithm(2, 10, precision=1e9)",
        "round_number(1, -99999999999)",
    ],
)
def test_what_would_take_for_ever_is_not_begun(found: dict[str, Any], text: str) -> None:
    (answer,) = said(found, text)
    assert answer.startswith("Error during execution: ") and "may be at most 1000" in answer


def test_true_calls_stay_below_those_bounds() -> None:
    for variant in data.VARIANTS:
        for entry in data.entries(variant).values():
            if "MathAPI" in entry.classes:
                known = data.functions(entry.classes)
                found = [call for turn in entry.truth for text in turn for call in read(text, known)]
                assert not any(map(apis.too_much, found))


def test_long_numbers_and_endless_folders_are_answers(found: dict[str, Any]) -> None:
    assert said(found, "power(99999, 1000)")[0].startswith(
        "Error during execution: "
    )  # too long to be written
    answers = said(found, "mkdir('a'); cp('a', 'a'); find(); du()")  # a folder that holds itself
    assert answers[2:] == ["Error during execution: maximum recursion depth exceeded"] * 2


def test_the_clock_stands_still() -> None:
    clock = apis._Clock
    assert clock.today() == clock.now() == apis.NOW
    assert clock.now(datetime.UTC).tzinfo is datetime.UTC
    assert clock.strptime("2000-02-03", "%Y-%m-%d") == datetime.datetime(2000, 2, 3)
    objects = apis.start(data.entry("multi_turn_base_160"))
    found = apis.owners(objects)
    travel = objects["TravelAPI"]
    travel.user_first_name, travel.user_last_name = "A", "B"
    ages = [  # 18 on the day on which the clock stands, and a day short of it
        said(found, f"verify_traveler_information('A', 'B', '{day}', 'US1')")[0]
        for day in ("2008-03-23", "2008-03-24")
    ]
    assert ages[0] == '{"verification_status": true}' and "at least 18" in ages[1]


def test_objects_are_nobody_elses() -> None:
    entry = data.entry("multi_turn_long_context_0")
    one, other = apis.start(entry), apis.start(entry)
    before = {n: state.public(o) for n, o in other.items()}
    found = apis.owners(one)
    known = data.functions(entry.classes)
    for function in known.values():
        apis.run(found, read(function.call, known))
    for turn in entry.truth:
        apis.run(found, [call for text in turn for call in read(text, known)])
    assert {n: state.public(o) for n, o in one.items()} != before
    assert {n: state.public(o) for n, o in other.items()} == before
    assert {n: state.public(o) for n, o in apis.start(entry).items()} == before


def test_nothing_stays_in_a_functions_defaults(found: dict[str, Any]) -> None:
    """BFCL's post_tweet keeps its default list, and `mention` adds to it: seen by every later episode."""
    entry = data.entry("multi_turn_base_8")
    asked = "authenticate_twitter('{}', '{}'); post_tweet('a'); mention({}, ['@x', '@y']); post_tweet('b')"
    for _ in range(2):
        objects = apis.start(entry)
        api = objects["TwitterAPI"]
        answers = said(apis.owners(objects), asked.format(api.username, api.password, api.tweet_counter))
        assert '"mentions": []' in answers[1] and '"mentions": []' in answers[3]
        assert api.tweets[api.tweet_counter - 2]["mentions"] == ["@x", "@y"]


def test_of_equal_names_the_later_class_counts() -> None:
    class One:
        def call(self) -> int:
            return 1

        def _hidden(self) -> int:
            return 0

    class Two(One):
        def more(self) -> None: ...

    one, two = One(), Two()
    assert apis.owners({"One": one, "Two": two}) == {"call": two, "more": two}
    assert apis.owners({"Two": two, "One": one}) == {"call": one, "more": two}


def test_answers_of_odd_kinds() -> None:
    class Odd:
        def text(self) -> str:
            return "as it is"

        def pair(self) -> tuple[int, int]:
            return (1, 2)

        def keys(self) -> dict[Any, Any]:
            return {(1, 2): {3}}

        def fail(self) -> None:
            raise KeyError("x")

    calls = [Call(name, (), {}) for name in ("text", "pair", "keys", "fail")]
    assert apis.run(apis.owners({"Odd": Odd()}), calls) == [
        "as it is", "(1, 2)", "{(1, 2): {3}}", "Error during execution: 'x'",
    ]  # fmt: skip


def test_changed_files_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = tmp_path / "bfcl-eval-2026.3.23"
    shutil.copytree(data.folder(), copied)
    monkeypatch.setenv("ROLEAGENT_LITE_CACHE", str(tmp_path))
    file = copied / "bfcl_eval" / apis._FOLDER / "math_api.py"
    file.write_text("raise SystemExit('run')\n" + file.read_text())
    with pytest.raises(
        RoleAgentError, match=r"nothing of them was run\. Remove the folder .*tasks pull bfcl"
    ):
        apis.start(ALL)


def test_a_module_gets_what_is_handed_to_it_and_nothing_else() -> None:
    module = apis._module(data.place(), "gorilla_file_system")
    give = vars(module)["__builtins__"]["__import__"]
    assert give("random").__name__ == "random" and not vars(give("subprocess"))
    for name in ("os", "socket", "sys", "mpmath"):
        with pytest.raises(ImportError, match=f"may not import {name}"):
            give(name)


def test_without_mpmath_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpmath", None)
    forget()
    with pytest.raises(MissingExtra, match=r"pip install 'roleagent-lite\[tools\]'"):
        apis.start(ALL)
    forget()


def test_other_classes_do_without_mpmath(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpmath", None)
    forget()
    with warnings.catch_warnings(record=True) as seen:
        assert "GorillaFileSystem" in apis.start(data.entry("multi_turn_base_0"))
    assert seen == []
    forget()
