"""content: the four rooms, a user's file before a shipped one, and a helpful refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from roleagent_lite import content
from roleagent_lite.content import ROOMS, find, room
from roleagent_lite.errors import ConfigError

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one shipped task set in two folders."""
    package = tmp_path / "src" / "roleagent_lite"
    package.mkdir(parents=True)
    (tmp_path / "src" / "tasks" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "tasks" / "easy.jsonl").write_text("easy")
    (tmp_path / "src" / "tasks" / "deep" / "hard.jsonl").write_text("hard")
    monkeypatch.setattr(content, "_PACKAGE", package)
    return tmp_path / "src"


@pytest.mark.parametrize("name", ROOMS)
def test_every_room_of_the_checkout_opens(name: str) -> None:
    assert room(name) == ROOT / name
    assert room(name).is_dir()


def test_an_unknown_room_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no content room 'task'; did you mean 'tasks'"):
        room("task")


def test_the_wheels_rooms_come_first(house: Path) -> None:
    assert room("tasks") == house / "tasks"
    packed = house / "roleagent_lite" / "_content" / "tasks"
    packed.mkdir(parents=True)
    assert room("tasks") == packed


def test_a_missing_room_is_said(house: Path) -> None:
    with pytest.raises(ConfigError, match="'prompts' is missing from this installation; reinstall"):
        room("prompts")


def test_find_a_shipped_item_by_name_and_folder(house: Path) -> None:
    assert find("tasks", "easy", ".jsonl") == house / "tasks" / "easy.jsonl"
    assert find("tasks", "deep/hard", ".jsonl").read_text() == "hard"


def test_the_users_own_file_wins(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("easy").write_text("mine")
    assert find("tasks", "easy", ".jsonl").read_text() == "mine"
    own = tmp_path / "own.jsonl"
    own.write_text("own")
    assert find("tasks", str(own), ".jsonl") == own


def test_a_folder_is_no_file(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("easy").mkdir()
    assert find("tasks", "easy", ".jsonl") == house / "tasks" / "easy.jsonl"


@pytest.mark.parametrize("name", ["esy", "easy.jsonl"])
def test_a_wrong_name_gets_the_nearest(house: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{name}' is neither a file nor .* tasks; did you mean 'easy'"):
        find("tasks", name, ".jsonl")


@pytest.mark.parametrize("name", ["", "zzzzzzzz", "a\x00b"])
def test_a_hopeless_name_gets_the_list(house: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="known: deep/hard, easy"):
        find("tasks", name, ".jsonl")
