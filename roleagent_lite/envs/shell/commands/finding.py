"""find: by name, kind, size, owner, rights and time, as the simulated machine has them."""

from __future__ import annotations

import fnmatch
import math
import posixpath
import re
from collections.abc import Callable

from roleagent_lite.envs.shell.commands.call import Call, Said, count
from roleagent_lite.envs.shell.commands.listing import rights
from roleagent_lite.envs.shell.files import Entry
from roleagent_lite.envs.shell.stamps import iso

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


def find(call: Call) -> Said:
    """Paths, then tests that all must hold (`!` turns one round), then -print, -ls or -delete."""
    words = list(call.words)
    tops = []
    while words and not words[0].startswith(("-", "!", "(")):
        tops.append(words.pop(0))
    tests: list[tuple[str, str, bool]] = []
    least, most, action, turned = 0, 99, "-print", False
    while words:
        word = words.pop(0)
        if word in ("!", "-not"):
            turned = True
        elif word in ("-maxdepth", "-mindepth") and words:
            most, least = (
                (count(words.pop(0), 99), least) if word == "-maxdepth" else (most, count(words.pop(0), 0))
            )
        elif word in _TESTS and words:
            tests.append((word, words.pop(0), turned))
            turned = False
        elif word in ("-print", "-ls", "-delete", "-print0"):
            action = word
        elif word not in ("-xdev", "-mount", "-a", "-and", "-depth"):
            return call.fail(f"'{word[:40]}' is not available here; pipe the paths into xargs")
    out, errors = "", ""
    for top in tops or ["."]:
        root = call.path(top)
        entry = call.files.entry(root)
        if entry is None:
            errors += f"find: '{top[:200]}': No such file or directory\n"
            continue
        reached = [entry, *(call.files.walk(root) if entry.folder else ())]
        for found in reached[::-1] if action == "-delete" else reached:
            depth = found.path[len(root.rstrip("/")) :].count("/") if found.path != root else 0
            if least <= depth <= most and all(
                _TESTS[name](call, found, text) != no for name, text, no in tests
            ):
                shown = (
                    top.rstrip("/") + found.path[len(root.rstrip("/")) :]
                    if top.startswith(".") or not top.startswith("/")
                    else found.path
                )
                if action == "-delete":
                    if found.path == "/" or not call.files.remove(found.path):
                        errors += f"find: cannot delete '{shown}'\n"
                elif action == "-ls":
                    then, owner = iso(call.files.modified(found.path)), found.owner.replace(":", " ")
                    out += f"{rights(found)} {owner} {found.size} {then} {shown}\n"
                else:
                    out += shown + ("\0" if action == "-print0" else "\n")
    return Said(out, errors, 1 if errors else 0)


COMMANDS = {"find": find}
