"""ls, stat, du, df, rm, chmod, chown, mktemp, shuf."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.commands.listing import (
    chmod,
    chown,
    df,
    du,
    ls,
    mktemp,
    rights,
    rm,
    shuf,
    stat,
)
from roleagent_lite.envs.shell.files import Cache
from roleagent_lite.envs.shell.machine import GIB
from tests.envs.shell.bench import Bench


@pytest.fixture
def desk(bench: Bench) -> Bench:
    bench.files.write("/desk/b.txt", "12345")
    bench.files.write("/desk/a.txt", "1")
    bench.files.write("/desk/.hidden", "")
    bench.files.write("/desk/box/c.txt", "x" * 5000)
    bench.files.chown("/desk/a.txt", f"{bench.victim.user}:root")
    bench.files.chmod("/desk/a.txt", 0o640)
    return bench


def test_names_in_order_hidden_ones_when_asked(desk: Bench) -> None:
    assert (
        desk.out(ls, "/desk")
        == "a.txt\nb.txt\nbox\n"
        == desk.out(ls, "", cwd="/desk")
        == desk.out(ls, "-1 .", cwd="/desk")
    )
    assert desk.out(ls, "-a /desk").split() == [".hidden", "a.txt", "b.txt", "box"]
    assert desk.out(ls, "-S /desk").split() == ["box", "b.txt", "a.txt"] == desk.out(ls, "-r /desk").split()
    assert desk.out(ls, "-d /desk") == "/desk\n" and desk.out(ls, "/desk/a.txt") == "/desk/a.txt\n"
    assert desk.out(ls, "-R /desk").split() == ["/desk:", "a.txt", "b.txt", "box", "/desk/box:", "c.txt"]
    assert desk.out(ls, "/desk /desk/box").split() == [
        "/desk:",
        "a.txt",
        "b.txt",
        "box",
        "/desk/box:",
        "c.txt",
    ]


def test_long_lines_show_rights_owner_size_time(desk: Bench) -> None:
    row = desk.out(ls, "-l /desk/a.txt").split()
    assert row[:5] == ["-rw-r-----", "1", desk.victim.user, "root", "1"] and row[-1] == "/desk/a.txt"
    assert desk.out(ls, "-ld /desk").startswith("drwxr-xr-x 1 root root 4096 ")
    assert "4.9K" in desk.out(ls, "-lh /desk/box")


def test_what_is_not_there_is_said_and_the_rest_shown(desk: Bench) -> None:
    said = desk.call(ls, "/nothing /desk/a.txt")
    assert said.code == 2 and "cannot access '/nothing'" in said.err and "/desk/a.txt" in said.out


def test_newest_first(desk: Bench) -> None:
    cache: Cache = {}
    desk.files.survey(cache)
    desk.machine.now += 99
    desk.files.write("/desk/a.txt", "2")
    desk.files.survey(cache)
    assert desk.out(ls, "-t /desk").split()[0] == "a.txt" and desk.out(ls, "-tr /desk").split()[-1] == "a.txt"


def test_stat_in_words_and_by_format(desk: Bench) -> None:
    text = desk.out(stat, "/desk/a.txt")
    assert "Size: 1" in text and f"(0640/-rw-r-----)  Uid: {desk.victim.user}" in text
    assert (
        desk.out(stat, "-c %a_%U:%G_%s_%n_%z /desk/a.txt")
        == f"640 {desk.victim.user}:root 1 /desk/a.txt %z\n"
    )
    assert desk.call(stat, "/nothing").code == 1
    entry = desk.files.entry("/desk")
    assert entry is not None and rights(entry) == "drwxr-xr-x"


def test_disks(desk: Bench) -> None:
    rows = [line.split() for line in desk.out(df, "-h").splitlines()[1:]]
    assert [row[-1] for row in rows] == ["/", "/boot", "/var"] and rows[2][1] == "20G"
    assert desk.out(df, "-h /var/log").count("\n") == 2 and desk.out(df, "-i").count("4%") == 3
    desk.machine.disks[2].base = 30 * GIB
    row = desk.out(df, "/var").splitlines()[1].split()
    assert row[1:5] == [str(20 * 1024**2), str(20 * 1024**2), "0", "100%"]


def test_sizes_below_a_folder(desk: Bench) -> None:
    desk.machine.bulk["# trace"] = 10**6
    desk.files.write("/desk/box/big", "# trace\n" + "x" * 992)
    assert desk.out(du, "-sh /desk").startswith("954M\t/desk")
    assert desk.out(du, "-sh /desk/box/big") == "954M\t/desk/box/big\n"
    assert {line.split("\t")[1] for line in desk.out(du, "-a /desk").splitlines()} == {
        "/desk",
        "/desk/a.txt",
        "/desk/b.txt",
        "/desk/.hidden",
        "/desk/box",
        "/desk/box/c.txt",
        "/desk/box/big",
    }
    assert [line.split("\t")[1] for line in desk.out(du, "-d 0 /desk").splitlines()] == ["/desk"]
    assert [line.split("\t")[1] for line in desk.out(du, "--max-depth=1 /desk").splitlines()] == [
        "/desk/box",
        "/desk",
    ]
    assert desk.call(du, "/nothing").code == 1


@pytest.mark.parametrize(
    ("mode", "result"),
    [
        ("600", 0o600),
        ("0755", 0o755),
        ("u+x", 0o740),
        ("g-r", 0o600),
        ("o=r", 0o644),
        ("a+r", 0o644),
        ("+x", 0o751),
        ("u=rw,go=", 0o600),
        ("ug+rwX", 0o660),
        ("go+rX", 0o644),
    ],
)
def test_rights_by_number_and_by_letter(desk: Bench, mode: str, result: int) -> None:
    desk.out(chmod, f"{mode} /desk/a.txt")
    entry = desk.files.entry("/desk/a.txt")
    assert entry is not None and entry.mode == result


def test_rights_of_all_below(desk: Bench) -> None:
    desk.out(chmod, "-R a+rX /desk")
    assert [e.mode for e in desk.files.walk("/desk")] == [0o644, 0o644, 0o644, 0o755, 0o644]
    for line in ("999x /desk", "u+q /desk", "600", "600 /nothing", ""):
        assert desk.call(chmod, line).code == 1


def test_owners(desk: Bench) -> None:
    user = desk.victim.user
    for wanted, owner in (
        (f"{user}:{user}", f"{user}:{user}"),
        ("root", f"root:{user}"),
        (f"{user}:", f"{user}:{user}"),
        (":root", f"{user}:root"),
        (f"{user}.{user}", f"{user}:{user}"),
    ):
        desk.out(chown, f"{wanted} /desk/b.txt")
        assert desk.files.owner("/desk/b.txt") == owner
    desk.out(chown, "root /desk/b.txt", name="chgrp")
    assert desk.files.owner("/desk/b.txt") == f"{user}:root"
    desk.out(chown, f"-R {user}:{user} /desk")
    assert {e.owner for e in desk.files.walk("/desk")} == {f"{user}:{user}"}
    desk.out(chown, "--reference=/etc /desk/b.txt")
    assert desk.files.owner("/desk/b.txt") == "root:root"
    for line in ("nosuch /desk", "root", "root /nothing", "a;b /desk", ""):
        assert desk.call(chown, line).code == 1


def test_removing(desk: Bench) -> None:
    assert "Is a directory" in desk.call(rm, "/desk/box").err and desk.files.exists("/desk/box/c.txt")
    assert (
        desk.call(rm, "/nothing").code == 1
        and desk.call(rm, "-f /nothing").code == 0 == desk.call(rm, "-f").code
    )
    desk.out(rm, "-rf /desk/box a.txt", cwd="/desk")
    assert [e.path for e in desk.files.walk("/desk")] == ["/desk/.hidden", "/desk/b.txt"]
    desk.out(rm, "-r /desk")
    assert not desk.files.exists("/desk")


@pytest.mark.parametrize("path", ["/", "/usr", "/bin", "/usr/bin/ls", "/proc/1", "/dev/..", "//"])
def test_the_ground_is_not_removed(desk: Bench, path: str) -> None:
    for folder in ("/usr/bin", "/proc/1", "/dev", "/bin"):
        desk.files.write(f"{folder}/ls", "x")
    before = len(desk.store.nodes)
    said = desk.call(rm, f"-rf --no-preserve-root {path}")
    assert said.code == 1 and "dangerous" in said.err and len(desk.store.nodes) == before


def test_new_names_and_orders_are_drawn_from_the_seed() -> None:
    one, other, third = Bench(3), Bench(3), Bench(4)
    name = one.out(mktemp, "").strip()
    assert (
        one.files.text(name) == "" and other.out(mktemp, "").strip() == name != third.out(mktemp, "").strip()
    )
    assert one.out(mktemp, "").strip() != name and one.files.is_folder(one.out(mktemp, "-d").strip())
    order = one.out(shuf, "-i 1-20").split()
    assert sorted(map(int, order)) == list(range(1, 21)) and order != sorted(order, key=int)
    assert len(one.out(shuf, "-n 2", stdin="a\nb\nc\n").split()) == 2 and one.out(shuf, "/nothing") == ""
    assert len(one.out(shuf, "-i 1-999999999").split()) == 10_000
