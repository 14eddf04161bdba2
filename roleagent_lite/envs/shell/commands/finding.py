"""find: by name, kind, size, owner, rights and time, as the simulated machine has them."""

from __future__ import annotations

import fnmatch
import math
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from roleagent_lite.envs.shell.commands import listing
from roleagent_lite.envs.shell.commands.call import Call, Said, count
from roleagent_lite.envs.shell.files import Entry
from roleagent_lite.envs.shell.stamps import iso

_EXEC = ("cat", "chmod", "chown", "du", "ls", "rm", "stat")
_SIZES = {"c": 1, "b": 512, "k": 1024, "M": 1024**2, "G": 1024**3, "": 512}


def _number(text: str, value: float) -> bool:
    """+N, -N or N as find means them."""
    found = re.fullmatch(r"([+-]?)(\d{1,12})", text)
    if found is None:
        return False
    return (
        value > int(found[2])
        if found[1] == "+"
        else value < int(found[2])
        if found[1] == "-"
        else value == int(found[2])
    )


def _size_test(text: str, entry: Entry) -> bool:
    found = re.fullmatch(r"([+-]?\d{1,12})([cbkMG]?)", text)
    return found is not None and _number(found[1], math.ceil(entry.size / _SIZES[found[2]]))


def _mode_test(text: str, entry: Entry) -> bool:
    bits = text.lstrip("-/")
    if not re.fullmatch(r"[0-7]{1,4}", bits):
        return False
    wanted = int(bits, 8)
    return (
        entry.mode & wanted == wanted
        if text[0] == "-"
        else bool(entry.mode & wanted)
        if text[0] == "/"
        else entry.mode == wanted
    )


_TESTS: dict[str, Callable[[Call, Entry, str], bool]] = {
    "-name": lambda call, e, t: fnmatch.fnmatchcase(posixpath.basename(e.path), t),
    "-iname": lambda call, e, t: fnmatch.fnmatchcase(posixpath.basename(e.path).lower(), t.lower()),
    "-path": lambda call, e, t: fnmatch.fnmatchcase(e.path, t),
    "-type": lambda call, e, t: {"f": not e.folder and not e.link, "d": e.folder, "l": e.link}.get(t, False),
    "-size": lambda call, e, t: _size_test(t, e),
    "-user": lambda call, e, t: e.owner.partition(":")[0] == t,
    "-group": lambda call, e, t: e.owner.partition(":")[2] == t,
    "-perm": lambda call, e, t: _mode_test(t, e),
    "-mmin": lambda call, e, t: _number(t, (call.machine.clock - call.files.modified(e.path)) // 60),
    "-mtime": lambda call, e, t: _number(t, (call.machine.clock - call.files.modified(e.path)) // 86400),
    "-newer": lambda call, e, t: call.files.modified(e.path) > call.files.modified(call.path(t)),
}


@dataclass(slots=True)
class _Wanted:
    """What is looked for, and what becomes of it. tests: (name, value, turned round); command: of -exec."""

    tests: list[tuple[str, str, bool]] = field(default_factory=list)
    least: int = 0
    most: int = 99
    action: str = "-print"
    command: tuple[str, ...] = ()
    problem: str = ""


def _read(words: list[str]) -> _Wanted:
    """Tests that all must hold (`!` turns one round), then -print, -print0, -ls, -delete or -exec."""
    wanted, turned = _Wanted(), False
    while words:
        word = words.pop(0)
        if word in ("!", "-not"):
            turned = True
        elif word == "-maxdepth" and words:
            wanted.most = count(words.pop(0), 99)
        elif word == "-mindepth" and words:
            wanted.least = count(words.pop(0), 0)
        elif word in _TESTS and words:
            wanted.tests.append((word, words.pop(0), turned))
            turned = False
        elif word == "-exec":
            end = next((n for n, other in enumerate(words) if other in (";", "+")), len(words))
            wanted.action, wanted.command = word, tuple(words[:end])
            del words[: end + 1]
            if not wanted.command or wanted.command[0] not in _EXEC:
                wanted.problem = f"-exec takes {', '.join(_EXEC)} here; pipe the paths into xargs for others"
        elif word in ("-print", "-ls", "-delete", "-print0"):
            wanted.action = word
        elif word not in ("-xdev", "-mount", "-a", "-and", "-depth"):
            wanted.problem = f"'{word[:40]}' is not available here; pipe the paths into xargs"
    return wanted


def _exec(call: Call, command: tuple[str, ...], path: str) -> Said:
    words = tuple(word.replace("{}", path) for word in command[1:])
    if command[0] == "cat":
        return Said("".join(call.files.text(call.path(word)) or "" for word in words))
    return listing.COMMANDS[command[0]](replace(call, name=command[0], words=words))


def _act(call: Call, wanted: _Wanted, found: Entry, shown: str) -> Said:
    """What becomes of one that was found."""
    if wanted.action == "-delete":
        gone = found.path != "/" and call.files.remove(found.path)
        return Said() if gone else Said(err=f"find: cannot delete '{shown}'\n", code=1)
    if wanted.action == "-exec":
        return _exec(call, wanted.command, shown)
    if wanted.action == "-ls":
        then, owner = iso(call.files.modified(found.path)), found.owner.replace(":", " ")
        return Said(f"{listing.rights(found)} {owner} {found.size} {then} {shown}\n")
    return Said(shown + ("\0" if wanted.action == "-print0" else "\n"))


def _found(call: Call, wanted: _Wanted, top: str) -> Iterator[tuple[Entry, str]]:
    """Entries at and below a place for which all tests hold, and their paths as they were asked for."""
    root = call.path(top)
    entry = call.files.entry(root)
    assert entry is not None
    reached = [entry, *(call.files.walk(root) if entry.folder else ())]
    for one in reached[::-1] if wanted.action == "-delete" else reached:
        below = one.path[len(root.rstrip("/")) :] if one.path != root else ""
        if wanted.least <= below.count("/") <= wanted.most and all(
            _TESTS[name](call, one, text) != turned for name, text, turned in wanted.tests
        ):
            yield one, one.path if top.startswith("/") else top.rstrip("/") + below


def find(call: Call) -> Said:
    """Paths, then tests and an action."""
    words = list(call.words)
    tops = []
    while words and not words[0].startswith(("-", "!", "(")):
        tops.append(words.pop(0))
    wanted = _read(words)
    if wanted.problem:
        return call.fail(wanted.problem)
    said = []
    for top in tops or ["."]:
        if call.files.entry(call.path(top)) is None:
            said.append(Said(err=f"find: '{top[:200]}': No such file or directory\n", code=1))
            continue
        said += [_act(call, wanted, found, shown) for found, shown in _found(call, wanted, top)]
    return Said("".join(s.out for s in said), "".join(s.err for s in said), int(any(s.code for s in said)))


COMMANDS = {"find": find}
