"""config: unknown settings refused with the nearest name, flags over file, saved copy reads back equal."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from roleagent_lite import config
from roleagent_lite.config import RunConfig, dump_toml, from_mapping, load, merge
from roleagent_lite.errors import ConfigError

TABLES = {
    name: field.annotation
    for name, field in RunConfig.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}


def test_at_most_twelve_knobs() -> None:
    assert len(RunConfig.model_fields) <= 12


def test_nothing_given_is_the_default() -> None:
    assert from_mapping({}) == load(None) == RunConfig()
    assert RunConfig().model == "embedded"


def test_frozen() -> None:
    with pytest.raises(ValidationError):
        RunConfig().seed = 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"modle": "x"}, "cfg: unknown setting 'modle'; did you mean 'model'?"),
        ({"evolve": {"round": 3}}, "cfg: unknown setting 'evolve.round'; did you mean 'rounds'?"),
        ({"wia": {"gama": 3}}, "cfg: unknown setting 'wia.gama'; did you mean 'gamma'?"),
        ({"budget": {"zzzz": 3}}, "cfg: unknown setting 'budget.zzzz'; known: max_calls, max_usd, price"),
    ],
)
def test_unknown_settings_get_the_nearest_name(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(values, "cfg")
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("values", "path", "found"),
    [
        ({"workers": 0}, "workers", "0"),
        ({"workers": 1025}, "workers", "1025"),
        ({"seed": "x"}, "seed", "'x'"),
        ({"budget": {"max_usd": -1}}, "budget.max_usd", "-1"),
        ({"budget": {"max_usd": float("inf")}}, "budget.max_usd", "inf"),
        ({"limits": {"timeout": 0}}, "limits.timeout", "0"),
        ({"limits": {"timeout": float("nan")}}, "limits.timeout", "nan"),
        ({"wia": {"gamma": 1.01}}, "wia.gamma", "1.01"),
        ({"wia": {"gamma": 0}}, "wia.gamma", "0"),
        ({"wia": {"horizon_share": 0}}, "wia.horizon_share", "0"),
        ({"wia": {"merge_above": 1.1}}, "wia.merge_above", "1.1"),
        ({"wia": {"predict": "twice"}}, "wia.predict", "'twice'"),
        ({"aiw": {"rho": 1.0}}, "aiw.rho", "1.0"),
        ({"evolve": {"group": 0}}, "evolve.group", "0"),
        ({"evolve": 3}, "evolve", "3"),
    ],
)
def test_values_out_of_range_are_named_with_what_was_found(
    values: dict[str, Any], path: str, found: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(values, "file.toml")
    assert str(caught.value).startswith(f"file.toml: setting '{path}' is {found}: Input should be ")


def test_the_model_of_each_role() -> None:
    some = from_mapping({"model": "a/base", "models": {"judge": "b/judge"}})
    assert [some.model_for(r) for r in ("agent", "world", "reflector", "judge")] == ["a/base"] * 3 + [
        "b/judge"
    ]
    with pytest.raises(ConfigError, match="no role 'juge'; did you mean 'judge'"):
        some.model_for("juge")


# --- files and flags ----------------------------------------------------------------------------------


def test_flags_win_over_the_file_table_by_table(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('seed = 3\nmodel = "a/b"\n[evolve]\nrounds = 2\ngroup = 5\n', encoding="utf-8")
    found = load(file, {"seed": 4, "evolve": {"rounds": 9}})
    assert (found.seed, found.model, found.evolve.rounds, found.evolve.group) == (4, "a/b", 9, 5)


def test_merge_leaves_its_arguments_alone() -> None:
    base: dict[str, Any] = {"a": 1, "t": {"x": 1, "deep": {"k": 1}}}
    over: dict[str, Any] = {"t": {"y": 2, "deep": {"l": 2}}, "b": {"z": 3}}
    assert merge(base, over) == {"a": 1, "t": {"x": 1, "y": 2, "deep": {"k": 1, "l": 2}}, "b": {"z": 3}}
    assert base == {"a": 1, "t": {"x": 1, "deep": {"k": 1}}}
    assert merge({"t": {"x": 1}}, {"t": 5}) == {"t": 5}
    assert merge({"t": 5}, {"t": {"x": 1}}) == {"t": {"x": 1}}


def test_a_bom_is_no_key(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(b"\xef\xbb\xbfseed = 3\r\n")
    assert load(file).seed == 3


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"seed = ", "is not valid TOML: "),
        (b"seed = 1\nseed = 2", "is not valid TOML: "),
        (b"\xff\xfe", "is not valid TOML: "),
    ],
)
def test_broken_files_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file} {words}")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read config file .*none\.toml: No such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"cannot read config file .*: Is a directory"):
        load(tmp_path)


def test_errors_name_their_source(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("sed = 1")
    with pytest.raises(ConfigError, match=r"c\.toml: unknown setting 'sed'; did you mean 'seed'"):
        load(file)
    with pytest.raises(ConfigError, match="command line: unknown setting 'sed'"):
        load(None, {"sed": 1})
    file.write_text("seed = 1")
    with pytest.raises(ConfigError, match="command line: unknown setting 'sed'"):
        load(file, {"sed": 1})
    file.write_text("seed = 'one'")
    assert load(file, {"seed": 1}).seed == 1, "a flag goes over what the file says"


# --- the saved copy -----------------------------------------------------------------------------------


def test_every_setting_is_in_the_saved_copy() -> None:
    text = dump_toml(RunConfig())
    for name in RunConfig.model_fields:
        assert f"[{name}]" in text or f"{name} = " in text
    for name, table in TABLES.items():
        section = text.split(f"[{name}]")[1].split("\n[")[0]
        assert table is not None
        for key in table.model_fields:
            assert f"\n{key} = " in section or f"\n# {key} = (not set)" in section


def value_of(annotation: Any, name: str) -> st.SearchStrategy[Any]:
    """Values that a setting of this kind may hold; numbers stay inside every range used."""
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if get_origin(annotation) is tuple:
        return st.lists(st.text(max_size=5), max_size=3).map(tuple)
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(50, 100)
    if annotation is float:
        return st.floats(0.001, 0.999)
    if annotation is str:
        return st.text(max_size=12)
    inner = [a for a in get_args(annotation) if a is not type(None)]
    return st.none() | value_of(inner[0], name)


def settings_of(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        nested = isinstance(kind, type) and issubclass(kind, BaseModel)
        fields[name] = settings_of(kind) if nested else value_of(kind, name)  # type: ignore[arg-type]
    return st.fixed_dictionaries({}, optional=fields)


@given(settings_of(RunConfig))
def test_what_is_saved_reads_back_equal(values: dict[str, Any]) -> None:
    some = from_mapping(values)
    assert from_mapping(tomllib.loads(dump_toml(some))) == some


@pytest.mark.parametrize("text", ["mine 🔑.jsonl", "a\x7fb", 'quo"te\\', "tab\tend\n", "\x00", "\u2028", ""])
def test_odd_texts_are_valid_toml(text: str) -> None:
    some = from_mapping({"tasks": text, "evolve": {"components": [text]}})
    assert from_mapping(tomllib.loads(dump_toml(some))) == some


def test_a_choice_is_a_name_at_the_edge_that_exists() -> None:
    from roleagent_lite.wia.advantage import NORMALISERS
    from roleagent_lite.wia.align import SCORERS
    from roleagent_lite.wia.credit import OUTCOMES
    from roleagent_lite.wia.group import STATES

    wia = config.Wia.model_fields
    assert set(get_args(wia["states"].annotation)) == set(STATES)
    assert set(get_args(wia["normalise"].annotation)) == set(NORMALISERS)
    assert set(get_args(wia["outcome"].annotation)) == set(OUTCOMES)
    assert wia["scorer"].default in SCORERS
