"""find."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.commands.finding import find
from roleagent_lite.envs.shell.files import Cache
from tests.envs.shell.bench import Bench


@pytest.fixture
def desk(bench: Bench) -> Bench:
    for name, text in (("a.txt", "x"), ("B.log", "y" * 3000), ("box/c.txt", "z"), ("box/deep/d.log", "")):
        bench.files.write(f"/desk/{name}", text)
    bench.files.chown("/desk/a.txt", "app:app")
    bench.files.chmod("/desk/a.txt", 0o600)
    bench.files.survey({})
    return bench


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/desk -type f", "B.log a.txt box/c.txt box/deep/d.log"),
        ("/desk -type d", " box box/deep"),
        ("/desk -name *.txt", "a.txt box/c.txt"),
        ("/desk -iname b*", "B.log box"),
        ("/desk -path */deep/*", "box/deep/d.log"),
        ("/desk -maxdepth 1 -type f", "B.log a.txt"),
        ("/desk -mindepth 2 -type f", "box/c.txt box/deep/d.log"),
        ("/desk -user app", "a.txt"),
        ("/desk -group root -name *.txt", "box/c.txt"),
        ("/desk -perm 600", "a.txt"),
        ("/desk -type f -perm -004", "B.log box/c.txt box/deep/d.log"),
        ("/desk -type f -perm /002", ""),
        ("/desk -type f -size +1k", "B.log"),
        ("/desk -type f -size -2c", "a.txt box/c.txt box/deep/d.log"),
        ("/desk -type f -size 3000c", "B.log"),
        ("/desk ! -name *.txt -type f", "B.log box/deep/d.log"),
        ("/desk -xdev -name d.log -print", "box/deep/d.log"),
        ("/desk/a.txt", "a.txt"),
        ("/desk -size big", ""),
        ("/desk -perm x", ""),
        ("/desk -mmin x", ""),
        ("/desk -type s", ""),
    ],
)
def test_tests(desk: Bench, line: str, found: str) -> None:
    wanted = [f"/desk/{name}".rstrip("/") for name in found.split(" ")] if found else []
    assert sorted(desk.out(find, line).split()) == sorted(wanted)


def test_paths_are_shown_as_they_were_asked_for(desk: Bench) -> None:
    assert (
        desk.out(find, ". -name c.txt", cwd="/desk")
        == "./box/c.txt\n"
        == desk.out(find, "-name c.txt", cwd="/desk")
    )
    assert desk.out(find, "box -name c.txt", cwd="/desk") == "box/c.txt\n"
    assert desk.out(find, "/desk -name c.txt -print0") == "/desk/box/c.txt\0"
    assert "-rw------- app app 1 " in desk.out(find, "/desk -name a.txt -ls")


def test_by_time(desk: Bench) -> None:
    cache: Cache = {}
    desk.files.survey(cache)
    desk.machine.now += 3 * 86400
    desk.files.write("/desk/new", "n")
    desk.files.survey(cache)
    assert (
        desk.out(find, "/desk -type f -mmin -5")
        == "/desk/new\n"
        == desk.out(find, "/desk -newer /desk/a.txt -type f")
    )
    assert (
        len(desk.out(find, "/desk -type f -mtime +1").split()) == 4 and desk.out(find, "/desk -mtime 9") == ""
    )


def test_deleting_goes_from_the_bottom_up(desk: Bench) -> None:
    assert desk.out(find, "/desk/box -delete") == "" and not desk.files.exists("/desk/box")
    said = desk.call(find, "/desk -name *.log -delete")
    assert said.code == 0 and [e.path for e in desk.files.walk("/desk")] == ["/desk/a.txt"]
    assert "cannot delete '/'" in desk.call(find, "/ -maxdepth 0 -delete").err


def test_what_does_not_go_is_said(desk: Bench) -> None:
    assert desk.call(find, "/nothing").code == 1
    for line in ("/desk -exec awk {} ;", "/desk -exec", "/desk -newermt x", "/desk ( -name a )"):
        said = desk.call(find, line)
        assert said.code == 1 and "xargs" in said.err and desk.files.exists("/desk/a.txt")


def test_some_commands_can_be_given_what_was_found(desk: Bench) -> None:
    assert desk.out(find, "/desk -name *.txt -exec cat {} ;") == "xz"
    assert desk.out(find, ". -name *.txt -exec ls -l {} +", cwd="/desk").count("-rw") == 2
    desk.out(find, "/desk -type f -exec chmod 640 {} ;")
    assert {e.mode for e in desk.files.walk("/desk") if not e.folder} == {0o640}
    desk.out(find, "box -name *.txt -exec rm -f {} ;", cwd="/desk")
    assert not desk.files.exists("/desk/box/c.txt") and desk.files.exists("/desk/a.txt")
