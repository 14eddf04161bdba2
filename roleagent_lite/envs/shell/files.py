"""The machine's files as its services and commands see them: owners, rights, sizes, times.

The files themselves lie in the sandbox's memory; owners and the sizes of what stands for much larger files
are kept by the machine. Leaves out what is in a file (health.py) and what commands print (commands/files.py).
"""

from __future__ import annotations

import posixpath
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from roleagent_lite.envs.shell.machine import Disk, Machine

HIDDEN = ("/bin", "/usr/bin", "/dev", "/proc", "/sys")  # the sandbox's own
_BLOCK = 4096
MOST_TEXT = 256 * 1024  # bytes; no file that a service reads is so long
_SMALL = 512  # bytes; nothing smaller stands for a large file


# path -> (real time and size, digest, size as simulated, content)
Cache = dict[str, tuple[object, int, int, bytes]]
# path -> (file_type, rights, content; of a link: where it points)
Tree = dict[str, tuple[str, int, bytes]]


class Store(Protocol):
    """What is used of the sandbox's file system."""

    def read_file(self, path: str) -> bytes: ...
    def write_file(self, path: str, content: bytes) -> None: ...
    def mkdir(self, path: str, recursive: bool = False) -> None: ...
    def remove(self, path: str, recursive: bool = False) -> None: ...
    def stat(self, path: str) -> dict[str, Any]: ...
    def read_dir(self, path: str) -> list[dict[str, Any]]: ...
    def exists(self, path: str) -> bool: ...
    def chmod(self, path: str, mode: int) -> None: ...
    def read_link(self, path: str) -> str: ...
    def symlink(self, target: str, link: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Entry:
    path: str
    folder: bool
    link: bool
    mode: int
    size: int  # as simulated
    owner: str  # user:group


@dataclass(frozen=True, slots=True)
class Survey:
    """digest: of names, rights, owners and contents; bytes, files: how many there are; tree: all of them."""

    digest: str
    bytes: int
    files: int
    tree: Tree


class Files:
    """A look at the files, fresh for each use. Paths are absolute."""

    def __init__(self, store: Store, machine: Machine) -> None:
        self._store, self._machine = store, machine
        self._used: dict[str, int] | None = None
        self.changed = False  # by a simulated command, through here

    def raw(self, path: str) -> bytes | None:
        """The content, None where there is no such file."""
        try:
            return self._store.read_file(path)
        except (OSError, RuntimeError, ValueError):
            return None

    def text(self, path: str) -> str | None:
        """The content as text, its first MOST_TEXT bytes; None where there is no such file."""
        found = self.raw(path)
        return None if found is None else found[:MOST_TEXT].decode("utf-8", "replace")

    def write(self, path: str, text: str) -> None:
        parent = posixpath.dirname(path)
        if not self._store.exists(parent):
            self._store.mkdir(parent, recursive=True)
        self._account(path, -1)
        self._store.write_file(path, text.encode("utf-8", "replace"))
        self._account(path, 1)
        self.changed = True

    def _account(self, path: str, sign: int) -> None:
        """Keeps what was counted up to date: counting all files again takes a walk."""
        if self._used is not None:
            entry = self.entry(path)
            if entry is not None and not entry.folder:
                self._used[self.disk_of(path).mount] += sign * entry.size

    def remove(self, path: str) -> bool:
        """Whether the file or empty folder could be removed."""
        self.changed = True
        self._account(path, -1)
        try:
            self._store.remove(path)
        except (OSError, RuntimeError, ValueError):
            self._account(path, 1)
            return False
        self._machine.owners.pop(path, None)
        return True

    def exists(self, path: str) -> bool:
        return self._store.exists(path)

    def _stat(self, path: str) -> dict[str, Any] | None:
        try:
            return self._store.stat(path)
        except (OSError, RuntimeError, ValueError):
            return None

    def is_folder(self, path: str) -> bool:
        found = self._stat(path)
        return found is not None and found["file_type"] == "directory"

    def chmod(self, path: str, mode: int) -> None:
        self._store.chmod(path, mode)

    def chown(self, path: str, owner: str) -> None:
        self._machine.owners[path] = owner

    def _entry(self, path: str, found: dict[str, Any]) -> Entry:
        folder, link = found["file_type"] == "directory", found["file_type"] == "symlink"
        size = _BLOCK if folder else self._size(path, int(found["size"]))
        return Entry(path, folder, link, int(found["mode"]) & 0o7777, size, self.owner(path))

    def entry(self, path: str) -> Entry | None:
        found = self._stat(path)
        return None if found is None else self._entry(path, found)

    def owner(self, path: str) -> str:
        return self._machine.owners.get(path, "root:root")

    def _size(self, path: str, real: int) -> int:
        if real < _SMALL or not self._machine.bulk:
            return real
        head = (self.raw(path) or b"")[:200].split(b"\n", 1)[0].decode("utf-8", "replace")
        return real * self._machine.bulk.get(head, 1)

    def children(self, path: str) -> list[Entry]:
        """What lies in a folder, by name; empty where there is no such folder."""
        return [self._entry(below, found) for below, found in self._children(path)]

    def _children(self, path: str) -> list[tuple[str, dict[str, Any]]]:
        try:
            rows = self._store.read_dir(path)
        except (OSError, RuntimeError, ValueError):
            return []
        root = path.rstrip("/")
        return sorted(((f"{root}/{row['name']}", row["metadata"]) for row in rows), key=lambda pair: pair[0])

    def _walk_raw(self, top: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for path, found in self._children(top):
            if path in HIDDEN:
                continue
            yield path, found
            if found["file_type"] == "directory":
                yield from self._walk_raw(path)

    def walk(self, top: str = "/") -> Iterator[Entry]:
        """Everything below `top`, the folder itself left out; depth first, by name."""
        for entry in self.children(top):
            if entry.path in HIDDEN:
                continue
            yield entry
            if entry.folder:
                yield from self.walk(entry.path)

    def mode_for(self, user: str, entry: Entry) -> int:
        """The three bits that count for a user."""
        if user == "root":
            return 7
        owner, _, group = entry.owner.partition(":")
        shift = 6 if user == owner else 3 if user == group else 0
        return entry.mode >> shift & 7

    def refuses(self, user: str, path: str, wanted: int) -> str | None:
        """The path that keeps `user` from reading (4) or writing (2) at `path`; None = it may."""
        parts = path.strip("/").split("/")
        for n in range(1, len(parts)):
            folder = "/" + "/".join(parts[:n])
            entry = self.entry(folder)
            if entry is not None and not self.mode_for(user, entry) & 1:
                return folder
        last = self.entry(path)
        if last is not None and self.mode_for(user, last) & wanted != wanted:
            return path
        return None

    def disk_of(self, path: str) -> Disk:
        """The file system that holds a path."""
        found = self._machine.disks[0]  # of the root
        for disk in self._machine.disks[1:]:
            if path.startswith(disk.mount) and path[len(disk.mount) : len(disk.mount) + 1] in ("", "/"):
                found = disk
        return found

    def used(self) -> dict[str, int]:
        """Bytes in use by mount point; counted once, then kept up to date by what is written here."""
        if self._used is None:
            self._used = {disk.mount: disk.base for disk in self._machine.disks}
            for entry in self.walk():
                if not entry.folder:
                    self._used[self.disk_of(entry.path).mount] += entry.size
        return self._used

    def recount(self) -> None:
        """Counts anew, after the machine's disks or the weights of files were changed."""
        self._used = None

    def full(self, path: str) -> bool:
        """Whether the file system that holds `path` has no room left."""
        disk = self.disk_of(path)
        return self.used()[disk.mount] >= disk.size

    def survey(self, cache: Cache) -> Survey:
        """All files once: what changed gets the machine's clock as its time; `cache` spares reading again."""
        total = real = 0
        seen = {}
        tree: Tree = {}
        used = {disk.mount: disk.base for disk in self._machine.disks}
        for path, found in self._walk_raw("/"):
            kind, size, mode = found["file_type"], int(found["size"]), int(found["mode"]) & 0o7777
            mark, content = 0, b""
            if kind != "directory":
                key = (found["modified"], size)
                known = cache.get(path)
                if known is None or known[0] != key:
                    content = self._content(path, kind)
                    known = cache[path] = (key, zlib.crc32(content), self._size(path, size), content)
                mark, content = known[1], known[3]
                used[self.disk_of(path).mount] += known[2]
                real += size
            tree[path] = (kind, mode, content)
            total = zlib.crc32(
                f"{path}\0{mode:o}\0{self.owner(path)}\0{mark}".encode("utf-8", "replace"), total
            )
            then = self._machine.stamps.get(path)
            seen[path] = then if then and then[0] == mark else (mark, self._machine.clock)
        self._machine.stamps, self._used, self.changed = seen, used, False
        return Survey(f"{total:08x}", real, len(tree), tree)

    def _content(self, path: str, kind: str) -> bytes:
        if kind == "symlink":
            return self._store.read_link(path).encode("utf-8", "replace")
        return self.raw(path) or b""

    def put(self, tree: Tree) -> None:
        """Makes the files those of `tree`, whatever there was before."""
        there = dict(self._walk_raw("/"))
        for path in sorted(there, reverse=True):
            if path not in tree and self._store.exists(path):
                self._store.remove(path, recursive=True)
        for path in sorted(tree):
            kind, mode, content = tree[path]
            if kind == "directory":
                self._store.mkdir(path, recursive=True)
            elif kind == "symlink":
                if path in there:
                    self._store.remove(path)
                self._store.symlink(content.decode("utf-8", "replace"), path)
                continue
            else:
                self._store.write_file(path, content)
            self._store.chmod(path, mode)

    def modified(self, path: str) -> float:
        """When a file was changed last, by the machine's clock."""
        return self._machine.stamps.get(path, (0, self._machine.clock))[1]
