"""What a simulated command gets and gives, and how its words are read.

Leaves out every command itself, and how the sandbox calls them (sandbox.py).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from roleagent_lite.envs.shell.files import Files
from roleagent_lite.envs.shell.machine import Machine, Service


@dataclass(frozen=True, slots=True)
class Said:
    """What a command prints, and its exit status."""

    out: str = ""
    err: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a command. `words`: its arguments; `stdin` "" = none."""

    name: str
    words: tuple[str, ...]
    stdin: str
    cwd: str
    files: Files
    machine: Machine

    def path(self, word: str) -> str:
        """An absolute path for what was given, with . and .. taken out."""
        return "/" + posixpath.normpath(posixpath.join(self.cwd, word)).lstrip("/")

    def fail(self, text: str, code: int = 1) -> Said:
        return Said(err=f"{self.name}: {text[:400]}\n", code=code)


Command = Callable[[Call], Said]


@dataclass(frozen=True, slots=True)
class Options:
    """`flags`: letters and long names that were set; `values`: those that take one; `rest`: other words."""

    flags: frozenset[str]
    values: Mapping[str, str]
    rest: tuple[str, ...]

    def has(self, *names: str) -> bool:
        return any(name in self.flags or name in self.values for name in names)

    def value(self, *names: str) -> str | None:
        return next((self.values[name] for name in names if name in self.values), None)


def read(words: tuple[str, ...], valued: str = "", long_valued: tuple[str, ...] = ()) -> Options:
    """Options as most commands take them: -abc, -n 5, -n5, --name, --name=value; `--` ends them.

    valued: letters that take a value; long_valued: long names that do.
    """
    flags: set[str] = set()
    values: dict[str, str] = {}
    rest: list[str] = []
    todo = list(words)
    while todo:
        word = todo.pop(0)
        if word == "--":
            rest += todo
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if equals:
                values[name] = value
            elif name in long_valued and todo:
                values[name] = todo.pop(0)
            else:
                flags.add(name)
        elif word.startswith("-") and len(word) > 1 and not word[1:].isdigit():
            for n, letter in enumerate(word[1:], 1):
                if letter in valued:
                    values[letter] = word[n + 1 :] or (todo.pop(0) if todo else "")
                    break
                flags.add(letter)
        elif word.startswith("-") and word[1:].isdigit():
            values["n"] = word[1:]
        else:
            rest.append(word)
    return Options(frozenset(flags), values, tuple(rest))


def count(text: str | None, fallback: int) -> int:
    """A number of lines; `fallback` for what is none."""
    text = (text or "").lstrip("+")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else fallback


def human(size: float) -> str:
    """Bytes as 4.0K, 1.2G."""
    for unit in ("", "K", "M", "G", "T"):
        if size < 1024 or unit == "T":
            break
        size /= 1024
    if not unit:
        return str(int(size))
    return f"{size:.1f}{unit}" if size < 10 else f"{size:.0f}{unit}"


def columns(rows: list[list[str]], gap: int = 3) -> str:
    """Rows as a table, padded; the last column is not."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = [
        "".join(cell.ljust(width + gap) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def unit_name(word: str) -> str:
    return word.rsplit("/", 1)[-1].removesuffix(".service")


def service_of(call: Call, name: str, runtime: str) -> Service | None:
    found = call.machine.services.get(name)
    return found if found is not None and found.runtime == runtime else None
