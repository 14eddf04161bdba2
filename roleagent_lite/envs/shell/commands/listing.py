"""ls, stat, du, df, rm, chmod, chown: files with the owners, sizes and times of the simulated machine."""

from __future__ import annotations

import math
import posixpath
import random
import re
from collections.abc import Callable
from functools import partial

from roleagent_lite.envs.shell.commands.call import Call, Options, Said, columns, count, human, read
from roleagent_lite.envs.shell.files import HIDDEN, Entry
from roleagent_lite.envs.shell.stamps import at, iso

_TEMPORARY = "abcdefghijklmnopqrstuvwxyz0123456789"


def rights(entry: Entry) -> str:
    kind = "d" if entry.folder else "l" if entry.link else "-"
    return kind + "".join("rwx"[n % 3] if entry.mode >> (8 - n) & 1 else "-" for n in range(9))


def _name(entry: Entry, shown: str | None = None) -> str:
    return shown if shown is not None else posixpath.basename(entry.path)


def _order(call: Call, entries: list[Entry], options: Options) -> list[Entry]:
    if options.has("S"):
        entries = sorted(entries, key=lambda e: -e.size)
    elif options.has("t"):
        entries = sorted(entries, key=lambda e: -call.files.modified(e.path))
    return entries[::-1] if options.has("r") else entries


def _lines(call: Call, entries: list[tuple[Entry, str]], options: Options) -> str:
    if not entries:
        return ""
    if not options.has("l", "n", "o", "g"):
        return "".join(f"{name}\n" for _, name in entries)
    rows = []
    for entry, name in entries:
        user, _, group = entry.owner.partition(":")
        size = human(entry.size) if options.has("h") else str(entry.size)
        rows.append(
            [
                rights(entry),
                "1",
                user,
                group,
                size,
                f"{at(call.files.modified(entry.path)):%b %d %H:%M}",
                name,
            ]
        )
    return columns(rows, 1)


def ls(call: Call) -> Said:
    words = tuple(
        w.replace("1", "") if w[:1] == "-" and w[:2] != "--" else w for w in call.words if w != "-1"
    )
    options = read(words, long_valued=("sort", "time-style"))
    out, errors = [], ""
    places = [call.path(word) for word in options.rest] or [call.cwd]
    for word, path in zip(options.rest or (".",), places, strict=True):
        entry = call.files.entry(path)
        if entry is None:
            errors += f"ls: cannot access '{word[:200]}': No such file or directory\n"
        elif not entry.folder or options.has("d", "directory"):
            out.append(_lines(call, [(entry, word)], options))
        else:
            folders = (
                [path, *(e.path for e in call.files.walk(path) if e.folder)] if options.has("R") else [path]
            )
            for folder in folders:
                head = f"{folder}:\n" if len(places) > 1 or options.has("R") else ""
                children = _order(call, call.files.children(folder), options)
                named = [
                    (e, _name(e)) for e in children if options.has("a", "A") or not _name(e).startswith(".")
                ]
                out.append(head + _lines(call, named, options))
    return Said(
        "\n".join(out) if options.has("R") or len(places) > 1 else "".join(out), errors, 2 if errors else 0
    )


def _cell(cells: dict[str, str], found: re.Match[str]) -> str:
    return cells[found[0]]


def stat(call: Call) -> Said:
    options = read(call.words, valued="c", long_valued=("format", "printf"))
    form, out, errors = options.value("c", "format", "printf"), "", ""
    for word in options.rest:
        entry = call.files.entry(call.path(word))
        if entry is None:
            errors += f"stat: cannot statx '{word[:200]}': No such file or directory\n"
            continue
        user, _, group = entry.owner.partition(":")
        then = call.files.modified(entry.path)
        cells = {"%a": f"{entry.mode:o}", "%A": rights(entry), "%U": user, "%G": group, "%n": word,
                 "%s": str(entry.size), "%y": iso(then), "%Y": str(int(then))}  # fmt: skip
        if form is not None:
            out += re.sub(r"%[aAUGsnyY]", partial(_cell, cells), form[:200]) + "\n"
        else:
            out += (
                f"  File: {word}\n  Size: {entry.size}\n"
                f"Access: ({entry.mode:04o}/{rights(entry)})  Uid: {user}  Gid: {group}\n"
                f"Modify: {cells['%y']}\n"
            )
    return Said(out, errors, 1 if errors else 0)


def df(call: Call) -> Said:
    options = read(call.words)
    used = call.files.used()
    places = {call.files.disk_of(call.path(word)).mount for word in options.rest}
    if options.has("i"):
        return Said(
            columns(
                [
                    ["Filesystem", "IUse%", "Mounted on"],
                    *([d.device, "4%", d.mount] for d in call.machine.disks),
                ]
            )
        )
    scale: Callable[[int], str] = human if options.has("h", "H") else lambda n: str(n // 1024)
    rows = [["Filesystem", "Size", "Used", "Avail", "Use%", "Mounted on"]]
    for disk in call.machine.disks:
        if places and disk.mount not in places:
            continue
        taken = min(used[disk.mount], disk.size)
        share = f"{math.ceil(100 * taken / disk.size)}%"
        rows.append(
            [disk.device, scale(disk.size), scale(taken), scale(disk.size - taken), share, disk.mount]
        )
    return Said(columns(rows))


def du(call: Call) -> Said:
    options = read(call.words, valued="d", long_valued=("max-depth", "exclude", "threshold"))
    scale: Callable[[int], str] = human if options.has("h") else lambda n: str(math.ceil(n / 1024))
    depth = 0 if options.has("s") else count(options.value("d", "max-depth"), 99)
    out, errors = "", ""
    for word in options.rest or (".",):
        top = call.path(word)
        entry = call.files.entry(top)
        if entry is None:
            errors += f"du: cannot access '{word[:200]}': No such file or directory\n"
            continue
        totals = {top: entry.size}
        for child in call.files.walk(top) if entry.folder else ():
            totals[child.path] = totals.get(child.path, 0) + child.size
            parent = child.path
            while parent != top:
                parent = posixpath.dirname(parent)
                totals[parent] = totals.get(parent, 0) + child.size
        folders = {e.path for e in call.files.walk(top) if e.folder} | {top}
        for path in sorted(totals, reverse=True):
            below = path[len(top.rstrip("/")) :].count("/") if path != top else 0
            if below <= depth and (path in folders or options.has("a")):
                out += f"{scale(totals[path])}\t{path}\n"
    return Said(out, errors, 1 if errors else 0)


def _symbolic(mode: int, text: str, folder: bool) -> int | None:
    """`mode` changed as u+rw,g=r,o-x say; None for what says nothing."""
    shifts, bits = {"u": 6, "g": 3, "o": 0}, {"r": 4, "w": 2, "x": 1}
    for part in text.split(","):
        found = re.fullmatch(r"([ugoa]{0,4})([+=-])([rwxXst]{0,6})", part)
        if found is None:
            return None
        value = sum(bits.get(letter, 0) for letter in set(found[3]) - {"X"})
        if "X" in found[3] and (folder or mode & 0o111):
            value |= 1
        who = set(found[1] or "a")
        for shift in {shifts[w] for w in (who - {"a"}) | (set("ugo") if "a" in who else set())}:
            old = mode >> shift & 7
            new = old | value if found[2] == "+" else old & ~value if found[2] == "-" else value
            mode = mode & ~(7 << shift) | new << shift
    return mode


def _targets(call: Call, words: tuple[str, ...], deep: bool) -> tuple[list[Entry], str]:
    found, errors = [], ""
    for word in words:
        entry = call.files.entry(call.path(word))
        if entry is None:
            errors += f"{call.name}: cannot access '{word[:200]}': No such file or directory\n"
            continue
        found += [entry, *(call.files.walk(entry.path) if deep and entry.folder else ())]
    return found, errors


def chmod(call: Call) -> Said:
    deep = bool({"-R", "--recursive", "-Rv", "-vR"} & set(call.words))
    words = [w for w in call.words if w not in ("-R", "--recursive", "-v", "-f", "-c", "-Rv", "-vR")]
    if len(words) < 2:
        return call.fail("missing operand")
    entries, errors = _targets(call, tuple(words[1:]), deep)
    for entry in entries:
        octal = re.fullmatch(r"[0-7]{1,5}", words[0])
        mode = int(words[0], 8) & 0o7777 if octal else _symbolic(entry.mode, words[0], entry.folder)
        if mode is None:
            return call.fail(f"invalid mode: '{words[0][:40]}'")
        call.files.chmod(entry.path, mode)
    return Said(err=errors, code=int(bool(errors)))


def chown(call: Call) -> Said:
    options = read(call.words, long_valued=("reference", "from"))
    model = options.value("reference")
    wanted = call.files.owner(call.path(model)) if model else (options.rest[0] if options.rest else "")
    names = options.rest if model else options.rest[1:]
    if not names or not re.fullmatch(r"[A-Za-z0-9_-]{0,40}([:.][A-Za-z0-9_-]{0,40})?", wanted):
        return call.fail("missing operand" if not names else f"invalid user: '{wanted[:40]}'")
    user, _, group = wanted.replace(".", ":").partition(":")
    if call.name == "chgrp":
        user, group = "", user
    known = {row.split(":")[0] for row in (call.files.text("/etc/passwd") or "root:").splitlines()}
    if user and user not in known:
        return call.fail(f"invalid user: '{user}'")
    entries, errors = _targets(call, names, options.has("R", "recursive"))
    for entry in entries:
        old_user, _, old_group = entry.owner.partition(":")
        call.files.chown(
            entry.path, f"{user or old_user}:{group or (user if wanted.endswith(':') else old_group)}"
        )
    return Said(err=errors, code=int(bool(errors)))


def rm(call: Call) -> Said:
    """As usual, but never the root or the sandbox's own folders: nothing could run after that."""
    options = read(call.words)
    deep, force, errors = options.has("r", "R", "recursive"), options.has("f", "force"), ""
    for word in options.rest:
        path = call.path(word)
        entry = call.files.entry(path)
        if entry is None:
            errors += "" if force else f"rm: cannot remove '{word[:200]}': No such file or directory\n"
        elif path == "/" or any(
            f"{own}/".startswith(f"{path}/") or path.startswith(f"{own}/") for own in HIDDEN
        ):
            errors += f"rm: it is dangerous to operate on '{word[:200]}'; nothing removed\n"
        elif entry.folder and not deep:
            errors += f"rm: cannot remove '{word[:200]}': Is a directory\n"
        else:
            for below in [*call.files.walk(path)][::-1] if entry.folder else ():
                call.files.remove(below.path)
            if not call.files.remove(path):
                errors += f"rm: cannot remove '{word[:200]}'\n"
    if not options.rest and not force:
        errors = "rm: missing operand\n"
    return Said(err=errors, code=int(bool(errors)))


def mktemp(call: Call) -> Said:
    """A new empty file or folder whose name is drawn from the machine's seed."""
    name = "".join(random.Random(call.machine.draw_pid()).choices(_TEMPORARY, k=10))
    path = f"/tmp/tmp.{name}"
    call.files.write(f"{path}/.keep" if "-d" in call.words else path, "")
    return Said(path + "\n")


def shuf(call: Call) -> Said:
    """Lines in an order that is drawn from the machine's seed."""
    options = read(call.words, valued="in", long_valued=("input-range", "head-count"))
    low, _, high = (options.value("i", "input-range") or "").partition("-")
    if low.isdigit() and high.isdigit():
        lines = [str(n) for n in range(int(low[:6]), min(int(high[:6]), int(low[:6]) + 9999) + 1)]
    else:
        text = call.files.text(call.path(options.rest[0])) if options.rest else call.stdin
        lines = (text or "").splitlines()
    random.Random(call.machine.draw_pid()).shuffle(lines)
    return Said("".join(f"{line}\n" for line in lines[: count(options.value("n", "head-count"), len(lines))]))


COMMANDS = {
    "ls": ls, "stat": stat, "df": df, "du": du, "chmod": chmod, "chown": chown, "chgrp": chown, "rm": rm,
    "mktemp": mktemp, "shuf": shuf,
}  # fmt: skip
