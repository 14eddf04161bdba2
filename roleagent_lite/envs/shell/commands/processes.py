"""ps, kill, free and their like: the processes of the simulated machine alone."""

from __future__ import annotations

import re
from collections.abc import Callable

from roleagent_lite.envs.shell.commands.call import Call, Said, columns, count, read
from roleagent_lite.envs.shell.machine import Process
from roleagent_lite.envs.shell.runtime import kill
from roleagent_lite.envs.shell.stamps import at

_SORTS: dict[str, Callable[[Process], float]] = {
    "rss": lambda p: p.rss, "%mem": lambda p: p.rss, "mem": lambda p: p.rss, "pmem": lambda p: p.rss,
    "%cpu": lambda p: p.cpu, "cpu": lambda p: p.cpu, "pcpu": lambda p: p.cpu, "pid": lambda p: p.pid,
}  # fmt: skip


def _row(call: Call, process: Process) -> list[str]:
    share = f"{100 * process.rss / call.machine.memory:.1f}"
    return [
        process.user,
        str(process.pid),
        f"{process.cpu:.1f}",
        share,
        str(process.rss * 1024),
        process.command,
    ]


def ps(call: Call) -> Said:
    """The columns are always those of `ps aux`; -p, -u, -C and --sort=[-]rss|%cpu|pid choose and order."""
    options = read(call.words, valued="puCo", long_valued=("sort", "pid", "user"))
    found = sorted(call.machine.processes.values(), key=lambda p: p.pid)
    pids, user, name = options.value("p", "pid"), options.value("user"), options.value("C")
    if options.value("u") and not any("aux" in w for w in call.words):
        user = options.value("u")
    if pids is not None:
        found = [p for p in found if str(p.pid) in re.split("[ ,]", pids)]
    if user is not None:
        found = [p for p in found if p.user == user]
    if name is not None:
        found = [p for p in found if p.name == name]
    order = options.value("sort") or ""
    if order.lstrip("+-") in _SORTS:
        found.sort(key=_SORTS[order.lstrip("+-")], reverse=order.startswith("-"))
    rows = [["USER", "PID", "%CPU", "%MEM", "RSS", "COMMAND"], *(_row(call, p) for p in found)]
    return Said(columns(rows, 2), code=0 if found else 1)


def top(call: Call) -> Said:
    found = sorted(call.machine.processes.values(), key=lambda p: -p.cpu)[:15]
    head = f"top - {at(call.machine.clock):%H:%M:%S} up 40 days\n{_memory(call)}\n\n"
    return Said(
        head
        + columns([["USER", "PID", "%CPU", "%MEM", "RSS", "COMMAND"], *(_row(call, p) for p in found)], 2)
    )


def _memory(call: Call) -> str:
    machine = call.machine
    return f"MiB Mem: {machine.memory} total, {machine.free_memory} free, {machine.used_memory} used"


def free(call: Call) -> Said:
    machine = call.machine
    scale = 1 if "-m" in call.words or "-h" in call.words or "-mh" in call.words else 1024
    unit = "Mi" if any("h" in w for w in call.words) else ""
    cells = [
        f"{n * scale}{unit}"
        for n in (machine.memory, machine.used_memory, machine.free_memory, machine.free_memory)
    ]
    return Said(
        columns([["", "total", "used", "free", "available"], ["Mem:", *cells], ["Swap:", "0", "0", "0", ""]])
    )


def uptime(call: Call) -> Said:
    load = sum(p.cpu for p in call.machine.processes.values()) / 100
    return Said(
        f" {at(call.machine.clock):%H:%M:%S} up 40 days, 1 user, "
        f"load average: {load:.2f}, {load:.2f}, {load:.2f}\n"
    )


def _end(call: Call, found: list[Process]) -> None:
    for process in found:
        kill(process.pid, call.files, call.machine)


def kill_command(call: Call) -> Said:
    words = [w for w in call.words if not w.startswith("-")]
    if "-l" in call.words:
        return Said("1) HUP 2) INT 9) KILL 15) TERM\n")
    signal = next((w[1:] for w in call.words if w.startswith("-")), "15")
    errors = ""
    for word in words[:50]:
        process = (
            call.machine.processes.get(int(word))
            if word.isascii() and word.isdigit() and len(word) < 9
            else None
        )
        if process is None:
            errors += f"kill: ({word[:40]}) - No such process\n"
        elif process.pid == 1 or process.name in ("dockerd", "kubelet", "sshd"):
            errors += f"kill: ({process.pid}) - Operation not permitted: this shell depends on it\n"
        elif signal not in ("0", "HUP", "1", "SIGHUP"):
            _end(call, [process])
    return Said(
        err=errors or ("" if words else "kill: usage: kill [-SIGNAL] PID ...\n"),
        code=int(bool(errors) or not words),
    )


def _matching(call: Call, whole: bool) -> list[Process]:
    words = [w for w in call.words if not w.startswith("-")]
    if not words:
        return []
    found = sorted(call.machine.processes.values(), key=lambda p: p.pid)
    if whole:
        return [p for p in found if p.name == words[0]]
    return [
        p
        for p in found
        if words[0] in (p.command if any("f" in w for w in call.words if w[:1] == "-") else p.name)
    ]


def pgrep(call: Call) -> Said:
    found = _matching(call, whole=call.name == "pidof")
    full = any("a" in w or "l" in w for w in call.words if w.startswith("-"))
    return Said(
        "".join(f"{p.pid} {p.command}\n" if full else f"{p.pid}\n" for p in found), code=0 if found else 1
    )


def pkill(call: Call) -> Said:
    found = [p for p in _matching(call, whole=call.name == "killall") if p.user != "root" or p.port]
    found = [p for p in found if p.name not in ("dockerd", "kubelet", "sshd", "init")]
    _end(call, found)
    return Said(code=0 if found else 1)


def fuser(call: Call) -> Said:
    """`PORT/tcp`, with -k also ending what listens there."""
    ports = {count(w.split("/")[0], 0) for w in call.words if not w.startswith("-")}
    found = [p for p in call.machine.processes.values() if p.port in ports]
    out = "".join(f"{p.port}/tcp: {p.pid}\n" for p in found)
    if any("k" in w for w in call.words if w.startswith("-")):
        _end(call, [p for p in found if p.name != "sshd"])
    return Said(out, code=0 if found else 1)


COMMANDS = {
    "ps": ps, "top": top, "htop": top, "free": free, "uptime": uptime, "kill": kill_command,
    "pgrep": pgrep, "pidof": pgrep, "pkill": pkill, "killall": pkill, "fuser": fuser,
}  # fmt: skip
