"""anonymous: paths, names and private servers get stand-ins; the world's own words stay."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roleagent_lite.report.anonymous import Anonymous, home_names, machine_names


def made() -> Anonymous:
    return Anonymous({"kim", "j.doe"}, {"gpubox", "gpubox.lab.example"})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/home/kim/x/tasks.jsonl", "[path1]/tasks.jsonl"),
        ('File "/usr/lib/python3.11/json/decoder.py", line 3', 'File "[path1]/decoder.py", line 3'),
        ("PATH=/usr/bin:/opt/kim/bin", "PATH=[path1]/bin:[path2]/bin"),
        ("file:///srv/data/a.bin", "[path1]/a.bin"),
        (r"C:\Users\Kim Lee\runs\log.txt", "[path1]/log.txt"),
        (r"\\fileserver\share\x\y.txt", "[path1]/y.txt"),
        ("C:/work/x/y.txt", "[path1]/y.txt"),
        ("~/.cache/x", "~/.cache/x"),
        ("Kim said: ask KIM or j.doe", "[user] said: ask [user] or [user]"),
        ("kimono, akim, kim_run, run-kim", "kimono, akim, [user]_run, run-[user]"),
        ("on gpubox.lab.example and gpubox", "on [host] and [host]"),
        ("http://gpubox:8000/v1", "http://server1:8000/v1"),
        (
            "http://10.0.0.5/v1 http://node.local/x http://10.0.0.5/y",
            "http://server1/v1 http://server2/x http://server1/y",
        ),
        ("http://[fd00::1]:80/v1", "http://server1:80/v1"),
        ("http://127.0.0.1:1/v1 http://localhost/v1 https://api.openai.com/v1/chat",) * 2,
        ("put the mug in/on desk 1; and/or; 1/2/3; a / b; take /x",) * 2,
        ("", ""),
    ],
)
def test_texts(text: str, wanted: str) -> None:
    assert made().text(text) == wanted
    assert made().text(wanted) == wanted, "once is enough"


def test_equal_things_get_equal_stand_ins_and_are_counted() -> None:
    one = made()
    assert one.text("/a/b/x /a/c/x /a/b/y") == "[path1]/x [path2]/x [path1]/y"
    assert one.data({"/a/b/k": ["kim", 1, None, True, {"n": 0.5}]}) == {
        "[path1]/k": ["[user]", 1, None, True, {"n": 0.5}]
    }
    assert one.counts == {"paths": 4, "names": 1, "servers": 0}


def test_keys_go_as_well() -> None:
    assert made().text("sk-abcdefghijklmnopqrst at /home/kim/k") == "[key] at [path1]/k"


def test_home_folders_tell_names_of_other_machines() -> None:
    assert home_names('File "/home/alexa/x.py", C:\\Users\\Bob Li\\y, /Users/root/z, /home/9/x') == {
        "alexa",
        "Bob",
    }
    assert home_names("no folder") == set()


def test_names_of_this_machine_leave_out_common_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    monkeypatch.setattr("platform.node", lambda: "gpu7.lab.example")
    monkeypatch.setenv("HOME", "/home/zoe")
    assert machine_names() == ({"zoe"}, {"gpu7.lab.example", "gpu7"})

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert machine_names()[0] == {"zoe"}


def test_without_names_there_is_nothing_to_look_for() -> None:
    assert Anonymous((), ()).text("kim") == "kim"


@given(st.text())
def test_any_text_comes_through_and_holds_no_name(text: str) -> None:
    out = made().text(f"{text} kim /home/kim/z")
    assert " [user] [path" in out
    json.dumps(out).encode()
