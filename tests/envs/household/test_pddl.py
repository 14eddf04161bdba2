"""Problems as data: brackets, declarations, facts, names; hostile input ends in a ConfigError."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.envs.household.pddl import (
    MAX_DEPTH,
    Node,
    declared,
    display_names,
    initial,
    parse_lists,
    section,
)
from roleagent_lite.errors import ConfigError

TYPES = {
    "agent1": "agent", "l1": "location", "r1": "receptacle", "o1": "object",
    "shelftype": "rtype", "muGtype": "otype",
}  # fmt: skip


def written(node: Node) -> str:
    return node if isinstance(node, str) else "(" + " ".join(map(written, node)) + ")"


def test_lists_are_lower_cased_and_comments_dropped() -> None:
    source = "(Define (Problem x) ; (a comment\n (:INIT (on A b)) ;;\n)"
    assert parse_lists(source) == ["define", ["problem", "x"], [":init", ["on", "a", "b"]]]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "found 0 expressions"),
        ("word", "needs one"),
        ("(a) (b)", "found 2 expressions"),
        ("(a", "leaves 1 brackets open"),
        ("(a))", "never opened"),
        ("(" * 5000, f"deeper than {MAX_DEPTH}"),
        ("(" * 100_000 + ")" * 100_000, f"deeper than {MAX_DEPTH}"),
    ],
)
def test_bad_brackets(source: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_lists(source)


words = st.from_regex(r"[a-z?:=_][a-z0-9_|-]{0,8}", fullmatch=True)
nodes = st.recursive(words, lambda inner: st.lists(inner, max_size=4), max_leaves=30)


@given(st.lists(nodes, max_size=5))
def test_what_is_written_is_read_back(node: list[Node]) -> None:
    assert parse_lists(written(node)) == node


@given(st.text(alphabet="() ;\nabc:-?\x00é", max_size=60))
def test_any_text_is_read_or_refused(source: str) -> None:
    try:
        assert isinstance(parse_lists(source), list)
    except ConfigError as error:
        assert "pddl_problem" in str(error)


def test_sections() -> None:
    problem = parse_lists("(define (problem x) (:init (a b)) (:goal (c)))")
    assert section(problem, ":goal") == [["c"]]
    with pytest.raises(ConfigError, match="needs one :objects section, found 0"):
        section(problem, ":objects")
    with pytest.raises(ConfigError, match="needs one :init section, found 2"):
        section(parse_lists("(define (:init) (:init))"), ":init")


def test_declarations() -> None:
    assert declared(["a", "b", "-", "t", "c", "-", "u"]) == {"a": "t", "b": "t", "c": "u"}


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        (["a", ["b"]], "brackets"),
        (["-", "t"], "without a name"),
        (["a", "-"], "without a name before or a type after"),
        (["a", "-", ["t"]], "without a name before or a type after"),
        (["a", "-", "t", "b"], "no type for 'b'"),
    ],
)
def test_bad_declarations(objects: list[Node], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        declared(objects)


def test_facts_keep_order_drop_doubles_and_costs() -> None:
    facts = initial(
        [["inreceptacle", "o1", "r1"], ["inreceptacle", "o1", "r1"], ["=", ["distance", "l1", "l1"], "3"],
         ["moveable", "o1"]],
        TYPES,
    )  # fmt: skip
    assert dict(facts) == {"inreceptacle": [("o1", "r1")], "moveable": [("o1",)]}


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("word", "not a fact"),
        ([], "not a fact"),
        ([["nested"]], "not a fact"),
        (["openable", ["r1"]], "nested fact"),
        (["openable", "r9"], "'r9', which :objects does not declare"),
        (["openable", "o1"], "needs"),
        (["openable", "r1", "r1"], "needs"),
        (["inreceptacle", "o1"], "needs"),
        (["inreceptacle", "r1", "o1"], "needs"),
        (["atlocation", "l1", "agent1"], "needs"),
    ],
)
def test_bad_facts(fact: Node, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        initial([fact], TYPES)


def test_names_give_the_highest_number_to_the_first_symbol() -> None:
    names = display_names({
        "cabinet_bar__plus_01", "cabinet_bar__minus_01", "cabinet_bar__plus_00", "sink_bar_1_bar_sinkbasin",
        "agent1", "cabinettype", "odd_minus_1_dot_5",
    })  # fmt: skip
    assert names == {
        "cabinet_bar__minus_01": "cabinet 3",
        "cabinet_bar__plus_00": "cabinet 2",
        "cabinet_bar__plus_01": "cabinet 1",
        "sink_bar_1_bar_sinkbasin": "sinkbasin 1",
        "agent1": "agent1",
        "cabinettype": "cabinettype",
        "odd_minus_1_dot_5": "odd-1.5",
    }


@given(st.sets(st.from_regex(r"(mug|cup)(_bar_[0-9a-z_]{1,6})?", fullmatch=True), max_size=20))
def test_names_of_a_class_are_numbered_without_gaps(symbols: set[str]) -> None:
    names = display_names(symbols)
    assert len(set(names.values())) == len(symbols)
    for kind in ("mug", "cup"):
        numbers = sorted(int(n.split(" ")[1]) for n in names.values() if n.startswith(kind + " "))
        assert numbers == list(range(1, len(numbers) + 1))
