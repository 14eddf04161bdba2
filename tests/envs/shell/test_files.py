"""Owners, rights, sizes, times; a survey and putting it back."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.files import Cache, Files
from roleagent_lite.envs.shell.machine import GIB, Disk, Machine
from tests.envs.shell.bench import Memory


@pytest.fixture
def store() -> Memory:
    return Memory()


@pytest.fixture
def machine() -> Machine:
    found = Machine("h", "10.0.0.1", 1000.0)
    found.disks = [Disk("/dev/a", "/", 10 * GIB, GIB), Disk("/dev/b", "/var", 2 * GIB, 0)]
    return found


@pytest.fixture
def files(store: Memory, machine: Machine) -> Files:
    return Files(store, machine)


def test_reading_and_writing(files: Files) -> None:
    files.write("/etc/app/app.conf", "a = é\ud800\n")
    assert files.text("/etc/app/app.conf") == "a = é?\n"
    assert [files.raw("/nothing"), files.text("/etc"), files.entry("/nothing")] == [None] * 3
    assert (
        files.is_folder("/etc/app")
        and not files.is_folder("/etc/app/app.conf")
        and not files.is_folder("/no")
    )
    assert [e.path for e in files.walk()] == ["/etc", "/etc/app", "/etc/app/app.conf"]
    assert files.children("/nothing") == files.children("/etc/app/app.conf") == []


def test_a_folder_that_is_not_empty_stays(files: Files) -> None:
    files.write("/a/b", "x")
    files.chown("/a/b", "x:x")
    assert not files.remove("/a") and files.remove("/a/b") and files.remove("/a") and not files.remove("/a")
    files.write("/a/b", "x")
    assert files.owner("/a/b") == "root:root"  # a new file is root's


@pytest.mark.parametrize(
    ("user", "mode", "owner", "bits"),
    [
        ("root", 0o000, "app:app", 7),
        ("app", 0o640, "app:app", 6),
        ("app", 0o640, "root:app", 4),
        ("app", 0o640, "root:root", 0),
        ("app", 0o604, "root:root", 4),
        ("app", 0o077, "app:app", 0),
    ],
)
def test_the_bits_that_count(files: Files, user: str, mode: int, owner: str, bits: int) -> None:
    files.write("/f", "x")
    files.chmod("/f", mode)
    files.chown("/f", owner)
    entry = files.entry("/f")
    assert entry is not None and files.mode_for(user, entry) == bits


def test_what_refuses_is_the_file_or_a_folder_above(files: Files) -> None:
    files.write("/a/b/c", "x")
    assert files.refuses("app", "/a/b/c", 4) is None
    assert files.refuses("app", "/a/b/c", 2) == "/a/b/c"
    files.chmod("/a", 0o700)
    assert files.refuses("app", "/a/b/c", 4) == "/a"
    assert files.refuses("root", "/a/b/c", 6) is None
    files.chown("/a", "app:app")
    assert files.refuses("app", "/a/b/c", 4) is None
    assert files.refuses("app", "/a/none", 4) is None  # what is not there is refused elsewhere


def test_sizes_of_what_stands_for_large_files_follow_the_content(files: Files, machine: Machine) -> None:
    machine.bulk["# trace 1"] = 1000
    files.write("/var/big", "# trace 1\n" + "x" * 990)
    entry = files.entry("/var/big")
    assert entry is not None and entry.size == 1000 * 1000
    assert files.used() == {"/": GIB, "/var": 1000_000}
    files.write("/tmp/copy", files.text("/var/big") or "")
    assert files.used()["/"] == GIB + 1000_000
    files.write("/var/big", "")
    assert files.used()["/var"] == 0


def test_what_is_written_and_removed_is_counted_at_once(files: Files, store: Memory) -> None:
    files.write("/var/a", "12345")
    before = files.used()["/var"]
    reads = store.reads
    files.write("/var/a", "1")
    files.write("/var/b/c", "123")
    assert not files.remove("/var/b") and files.used()["/var"] == before - 4 + 3
    files.remove("/var/a")
    assert files.used()["/var"] == before - 5 + 3 and store.reads == reads
    files.recount()
    assert files.used()["/var"] == before - 5 + 3


def test_a_disk_is_full_at_its_size(files: Files, machine: Machine) -> None:
    machine.disks[1].base = 2 * GIB - 5
    files.recount()
    assert not files.full("/var/lib")
    files.write("/var/x", "12345")
    assert files.full("/var/lib") and files.full("/var") and not files.full("/variety")
    assert files.disk_of("/var").mount == "/var" and files.disk_of("/variety").mount == "/"


def test_a_survey_sees_every_change_and_reads_each_file_once(
    files: Files, store: Memory, machine: Machine
) -> None:
    cache: Cache = {}
    for n in range(20):
        files.write(f"/d/f{n}", f"{n}")
    first = files.survey(cache)
    assert (first.files, first.bytes, files.changed) == (21, 30, False)
    reads = store.reads
    assert files.survey(cache) == first and store.reads == reads
    seen = {first.digest}
    for change in (
        lambda: files.write("/d/f1", "one"),
        lambda: files.chmod("/d/f2", 0o600),
        lambda: files.chown("/d/f3", "x:x"),
        lambda: files.remove("/d/f4"),
        lambda: files.write("/new", ""),
        lambda: store.mkdir("/dir"),
    ):
        change()
        seen.add(files.survey(cache).digest)
    assert len(seen) == 7


def test_times_are_the_machines(files: Files, machine: Machine) -> None:
    cache: Cache = {}
    files.write("/a", "1")
    files.write("/b", "1")
    files.survey(cache)
    machine.now += 500
    machine.offset = 7000
    files.write("/a", "2")
    files.survey(cache)
    assert (files.modified("/a"), files.modified("/b"), files.modified("/none")) == (8500.0, 1000.0, 8500.0)


def test_a_tree_is_put_back_over_whatever_there_is(files: Files, store: Memory) -> None:
    files.write("/a/b/c", "1")
    files.write("/a/d", "2")
    files.chmod("/a/d", 0o600)
    kept = files.survey({})
    files.write("/a/b/c", "changed")
    files.write("/z/y/x", "new")
    files.remove("/a/d")
    files.put(kept.tree)
    again = files.survey({})
    assert (again.tree, again.digest) == (kept.tree, kept.digest) and not files.exists("/z")


def test_the_sandboxs_own_folders_are_left_out(files: Files, store: Memory) -> None:
    for path in ("/bin/ls", "/usr/bin/cat", "/proc/1", "/dev/null"):
        files.write(path, "x")
    assert [e.path for e in files.walk()] == ["/usr"]
    assert list(files.survey({}).tree) == ["/usr"]
