"""What tests of the shell world share: files in a dict, a machine in good order, one command."""

from __future__ import annotations

from typing import Any

from roleagent_lite.envs.shell import world
from roleagent_lite.envs.shell.commands.call import Call, Command, Said
from roleagent_lite.envs.shell.files import Files
from roleagent_lite.envs.shell.machine import Runtime, Service
from roleagent_lite.envs.shell.settings import unit_text
from roleagent_lite.envs.shell.world import World


class Memory:
    """A file system in a dict, for tests that need no bash: what files.Store asks for."""

    def __init__(self) -> None:
        self.nodes: dict[str, bytes | None] = {"/": None}  # None = a folder
        self.modes: dict[str, int] = {}
        self.writes: dict[str, int] = {}
        self.reads = 0

    def read_file(self, path: str) -> bytes:
        self.reads += 1
        found = self.nodes.get(path)
        if found is None:
            raise OSError(f"no file {path}")
        return found

    def write_file(self, path: str, content: bytes) -> None:
        if path.rsplit("/", 1)[0] not in ("", *self.nodes):
            raise OSError("no folder")
        self.nodes[path] = content
        self.writes[path] = self.writes.get(path, 0) + 1

    def mkdir(self, path: str, recursive: bool = False) -> None:
        parts = path.strip("/").split("/")
        for n in range(1, len(parts) + 1):
            self.nodes.setdefault("/" + "/".join(parts[:n]), None)

    def symlink(self, target: str, link: str) -> None:
        raise OSError("no links here")

    def read_link(self, path: str) -> str:
        raise OSError("no links here")

    def remove(self, path: str, recursive: bool = False) -> None:
        if any(other.startswith(f"{path}/") for other in self.nodes) or path not in self.nodes:
            raise OSError("cannot remove")
        del self.nodes[path]

    def stat(self, path: str) -> dict[str, Any]:
        if path not in self.nodes:
            raise OSError(f"nothing at {path}")
        content = self.nodes[path]
        kind, mode = ("directory", 0o755) if content is None else ("file", 0o644)
        size = len(content or b"")
        return {
            "file_type": kind,
            "size": size,
            "mode": self.modes.get(path, mode),
            "modified": self.writes.get(path),
        }

    def read_dir(self, path: str) -> list[dict[str, Any]]:
        root = path.rstrip("/") + "/"
        if self.nodes.get(path, b"") is not None:
            raise OSError(f"no folder {path}")
        below = [p for p in self.nodes if p.startswith(root) and p != path and "/" not in p[len(root) :]]
        return [{"name": p[len(root) :], "metadata": self.stat(p)} for p in below]

    def exists(self, path: str) -> bool:
        return path in self.nodes

    def chmod(self, path: str, mode: int) -> None:
        self.modes[path] = mode


class Bench:
    """A drawn machine with everything running, its files in memory."""

    def __init__(self, seed: int = 1, runtime: Runtime | None = "systemd") -> None:
        self.world: World = world.draw(seed)
        self.machine = self.world.machine
        if runtime is not None:
            for service in self.machine.services.values():
                service.runtime = runtime
                service.limit = None if runtime == "systemd" else 1024
                if runtime == "systemd":
                    self.world.files[service.unit] = unit_text(service)
        self.store = Memory()
        self.files = Files(self.store, self.machine)
        for path, text in self.world.files.items():
            self.files.write(path, text)
        for path, mode in self.world.modes.items():
            self.files.chmod(path, mode)
        world.begin(self.world, self.files)

    @property
    def victim(self) -> Service:
        return self.world.service(self.world.victim)

    @property
    def peer(self) -> Service:
        return self.world.service(self.world.peer)

    @property
    def front(self) -> Service:
        return self.world.service(self.world.front)

    @property
    def helper(self) -> Service:
        return self.world.service(self.world.helper)

    def edit(self, path: str, old: str, new: str) -> None:
        text = self.files.text(path)
        assert text is not None and old in text
        self.files.write(path, text.replace(old, new))

    def call(
        self, command: Command, line: str, *, name: str = "", stdin: str = "", cwd: str = "/root"
    ) -> Said:
        """One use of a command; the words of `line` are split at blanks, _ stands for a blank in a word."""
        words = tuple(word.replace("_", " ") for word in line.split())
        label = name or command.__name__
        return command(Call(label, words, stdin, cwd, Files(self.store, self.machine), self.machine))

    def out(self, command: Command, line: str, **how: str) -> str:
        said = self.call(command, line, **how)
        assert said.code == 0, said
        return said.out
