"""Plain data of objects: public only, cycles, equality as the original's, keys that are the same anywhere."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from roleagent_lite.envs.tools import state


class File:
    def __init__(self, name: str, text: str) -> None:
        self.name, self.content, self._last_modified = name, text, random.random()


class Folder:
    def __init__(self, name: str, parent: Folder | None = None) -> None:
        self.name, self.parent = name, parent
        self.contents: dict[str, Any] = {}

    def sub(self, name: str) -> Folder:
        self.contents[name] = Folder(name, self)
        return self.contents[name]  # type: ignore[no-any-return]


class Api:
    def __init__(self, seed: int = 1) -> None:
        self.root = Folder("home")
        self.root.contents["a.txt"] = File("a.txt", "grüße")
        self.balance, self.seen = 10.0, {2, 1}
        self.ids: dict[Any, Any] = {7: "x"}
        self._current_dir = self.root.sub("docs")
        self._random = random.Random(seed)
        self._api_description = "x"


def test_public_attributes_only_and_no_parents() -> None:
    assert state.public(Api()) == {
        "root": {
            "__class__": "Folder",
            "name": "home",
            "contents": {
                "a.txt": {"__class__": "File", "name": "a.txt", "content": "grüße"},
                "docs": {"__class__": "Folder", "name": "docs", "contents": {}},
            },
        },
        "balance": 10.0,
        "ids": {7: "x"},
        "seen": {1, 2},
    }


def test_canonical_json() -> None:
    value = {"b": (1, [2]), 3: {2, 10}, "a": "é", "c": frozenset()}
    text = state.as_json({k: v for k, v in value.items() if k != "c"})
    assert text == '{"3":[10,2],"a":"é","b":[1,[2]]}' and json.loads(text)["a"] == "é"
    assert len(state.digest(value["b"])) == 64
    assert state.digest("\ud800")  # half a character is no reason to stop


def test_keys_of_mappings_are_not_confused_when_compared() -> None:
    one, other = Api(), Api()
    other.ids = {"7": "x"}
    assert state.public(one) != state.public(other)
    other.ids, other.balance = {7: "x"}, 10  # as Python compares them
    assert state.public(one) == state.public(other)


def test_a_folder_in_itself() -> None:
    api, other = Api(), Api()
    for one in (api, other):
        one.root.contents["loop"] = one.root
        one._current_dir.contents["up"] = one.root
    found = state.public(api)["root"]["contents"]
    assert found["loop"] == {"__cycle__": 2} and found["docs"]["contents"]["up"] == {"__cycle__": 4}
    assert state.key({"Api": api}, 0) == state.key({"Api": other}, 0)
    assert any("__cycle__" in fact for fact in state.facts({"Api": api}))


def test_where_one_stands_and_what_is_drawn_next_are_part_of_the_key() -> None:
    keys = []
    for change in (
        lambda api: None,
        lambda api: setattr(api, "_current_dir", api.root),
        lambda api: api._random.random(),
        lambda api: setattr(api, "balance", 11.0),
        lambda api: setattr(api.root.contents["a.txt"], "content", ""),
    ):
        api = Api()
        change(api)
        keys.append(state.key({"Api": api}, 0))
    assert len(set(keys)) == len(keys)
    assert state.key({"Api": Api()}, 0) == keys[0] != state.key({"Api": Api()}, 1)
    assert state.key({"Api": Api()}, {1: 0, "a": {2, 1}}) == state.key({"Api": Api()}, {"a": {1, 2}, 1: 0})
    api = Api()
    api._api_description = "other words"
    assert state.key({"Api": api}, 0) == keys[0]
    assert keys[0] == KEY  # the same in every process, on every machine


KEY = "aa09ef826ef30438"


def test_facts() -> None:
    assert state.facts({"Api": Api()}) == [
        "Api stands in: /home/docs",
        "Api.balance: 10.0",
        'Api.ids.7: "x"',
        'Api.root.__class__: "Folder"',
        'Api.root.contents.a.txt.__class__: "File"',
        'Api.root.contents.a.txt.content: "grüße"',
        'Api.root.contents.a.txt.name: "a.txt"',
        'Api.root.contents.docs.__class__: "Folder"',
        "Api.root.contents.docs.contents: {}",
        'Api.root.contents.docs.name: "docs"',
        'Api.root.name: "home"',
        "Api.seen: [1,2]",
    ]
    assert state.standing(object()) == ""


def test_what_is_too_deep_or_too_much_is_refused() -> None:
    api = Api()
    place = api.root
    for _ in range(state.MOST_DEPTH):
        place = place.sub("x")
    with pytest.raises(state.TooDeep, match="levels"):
        state.public(api)
    api = Api()
    for _ in range(25):  # 2 ** 25 ways to the same folder
        inner = api.root
        api.root = Folder("home")
        api.root.contents = {"a": inner, "b": inner}
    with pytest.raises(state.TooDeep, match="parts"):
        state.public(api)


def test_other_values() -> None:
    api = Api()
    api.ids = {1: complex(1, 2), 2: b"x", 3: None}
    assert state.public(api)["ids"] == {1: "(1+2j)", 2: "b'x'", 3: None}
