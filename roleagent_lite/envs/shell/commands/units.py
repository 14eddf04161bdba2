"""systemctl and journalctl: the services that systemd runs, and what was written to the journal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from roleagent_lite.envs.shell.commands.call import (
    Call,
    Options,
    Said,
    columns,
    count,
    read,
    service_of,
    unit_name,
)
from roleagent_lite.envs.shell.health import limit_of, unit_files
from roleagent_lite.envs.shell.machine import Line, Machine
from roleagent_lite.envs.shell.runtime import command_of, restart, start, stop
from roleagent_lite.envs.shell.stamps import at, read_date, syslog

TIME_UNITS = ("chronyd", "chrony", "systemd-timesyncd", "ntp", "ntpd")
_SYSTEM = {"sshd": "sshd", "ssh": "sshd", "docker": "dockerd", "kubelet": "kubelet"}
_PRIORITIES = {
    "emerg": 0,
    "alert": 1,
    "crit": 2,
    "err": 3,
    "error": 3,
    "warning": 4,
    "warn": 4,
    "notice": 5,
    "info": 6,
    "debug": 7,
}
_AGO = re.compile(r"(\d{1,6}) ?(s|sec|second|m|min|minute|h|hour|d|day)s? ?(?:ago)?|-(\d{1,6})(s|m|min|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def sync(machine: Machine) -> None:
    """The time service runs and sets the clock right."""
    if not any(p.name == "chronyd" for p in machine.processes.values()):
        machine.spawn("_chrony", "/usr/sbin/chronyd", rss=4)
    if abs(machine.offset) > 1:
        machine.log(
            "chronyd", f"system clock was stepped by {-machine.offset:.0f} seconds", priority=5, pid=1
        )
    machine.offset, machine.synced = 0.0, True


def _state(call: Call, name: str) -> tuple[str, str] | None:
    """(active state, sub state) of a unit; None = there is none."""
    machine = call.machine
    service = service_of(call, name, "systemd")
    if service is not None:
        if service.pid is not None:
            return "active", "running"
        return ("failed", "failed") if service.failed else ("inactive", "dead")
    if name in TIME_UNITS or name in _SYSTEM:
        wanted = "chronyd" if name in TIME_UNITS else _SYSTEM[name]
        up = any(p.name == wanted for p in machine.processes.values())
        return ("active", "running") if up else ("inactive", "dead")
    if name in machine.units:
        return (machine.units[name], machine.units[name])
    return None


def _names(call: Call) -> list[str]:
    own = [s.name for s in call.machine.services.values() if s.runtime == "systemd"]
    return sorted([*own, *call.machine.units, "chronyd", "sshd", "docker", "kubelet"])


def lines_of(machine: Machine, unit: str, number: int) -> list[Line]:
    return [line for line in machine.journal if line.unit == unit][-number:] if number else []


def shown(machine: Machine, line: Line) -> str:
    return f"{syslog(line.time)} {machine.host} {line.unit}[{line.pid}]: {line.text}"


def _status_of(call: Call, name: str) -> Said:
    state = _state(call, name)
    if state is None:
        where = call.machine.services.get(name)
        hint = f" It runs in {where.runtime}." if where is not None else ""
        return Said(err=f"Unit {name}.service could not be found.{hint}\n", code=4)
    machine, service = call.machine, service_of(call, name, "systemd")
    dot = {"active": "●", "failed": "×"}.get(state[0], "○")
    rows = [f"{dot} {name}.service - {name} service"]
    if service is not None:
        kept = "enabled" if service.enabled else "disabled"
        rows.append(f"     Loaded: loaded ({service.unit}; {kept})")
        drops = [e.path for e in call.files.children(service.unit + ".d")]
        rows += [f"    Drop-In: {path}" for path in drops]
    since = f" since {at(service.since):%a %Y-%m-%d %H:%M:%S} UTC" if service and service.pid else ""
    result = " (Result: exit-code)" if state[0] == "failed" else ""
    rows.append(f"     Active: {state[0]} ({state[1]}){result}{since}")
    if service is not None and service.pid is not None:
        process = machine.processes[service.pid]
        rows += [
            f"   Main PID: {service.pid} ({process.name})",
            f"     Memory: {process.rss}.0M",
            f"     CGroup: {command_of(service)}",
        ]
    elif service is not None and service.restarts:
        rows.append(f"    Restarts: {service.restarts}, start request repeated too quickly")
    rows += ["", *(shown(machine, line) for line in lines_of(machine, name, 8))]
    return Said("\n".join(rows) + "\n", code=0 if state[0] == "active" else 3)


def _overview(call: Call, options: Options) -> Said:
    rows = [["UNIT", "LOAD", "ACTIVE", "SUB"]]
    for name in _names(call):
        state = _state(call, name) or ("inactive", "dead")
        if options.has("failed") and state[0] != "failed":
            continue
        if options.value("state") not in (None, *state):
            continue
        rows.append([f"{name}.service", "loaded", *state])
    return Said(f"{columns(rows)}\n{len(rows) - 1} loaded units listed.\n")


def _act(call: Call, verb: str, name: str) -> Said:
    machine, service = call.machine, service_of(call, name, "systemd")
    if service is None:
        if name in TIME_UNITS:
            if verb == "stop":
                for pid in [p.pid for p in machine.processes.values() if p.name == "chronyd"]:
                    machine.end(pid)
            else:
                sync(machine)
            return Said()
        if name in _SYSTEM:
            return (
                call.fail(f"{name}.service: not while this shell depends on it", 1)
                if verb == "stop"
                else Said()
            )
        if name in machine.units:
            machine.units[name] = "failed" if verb != "stop" else "inactive"
            return Said() if verb == "stop" else Said(err=f"Job for {name}.service failed.\n", code=1)
        where = machine.services.get(name)
        hint = f" It runs in {where.runtime}." if where is not None else ""
        return Said(err=f"Failed to {verb} {name}.service: Unit {name}.service not found.{hint}\n", code=5)
    if verb == "stop":
        stop(service, call.files, machine)
        return Said()
    problem = (
        start(service, call.files, machine) if verb == "start" else restart(service, call.files, machine)
    )
    if problem is None:
        return Said()
    return Said(
        err=f"Job for {name}.service failed because the control process exited with error code.\n"
        f'See "systemctl status {name}.service" and "journalctl -u {name}" for details.\n',
        code=1,
    )


def _keep(call: Call, verb: str, name: str) -> Said:
    service = service_of(call, name, "systemd")
    if service is None and _state(call, name) is None:
        return Said(err=f"Failed to {verb} unit: Unit file {name}.service does not exist.\n", code=1)
    if service is not None:
        service.enabled = verb == "enable"
    return Said()


def _show(call: Call, name: str) -> Said:
    state, service = _state(call, name), service_of(call, name, "systemd")
    if state is None or service is None:
        return Said(f"Id={name}.service\nActiveState={(state or ('inactive', ''))[0]}\n")
    limit = limit_of(service, call.files)
    top = "infinity" if limit is None else str(int(limit * 1024**2))
    return Said(
        f"Id={name}.service\nActiveState={state[0]}\nSubState={state[1]}\nMainPID={service.pid or 0}\n"
        f"NRestarts={service.restarts}\nUser={service.user}\nMemoryMax={top}\nFragmentPath={service.unit}\n"
    )


def _cat(call: Call, name: str) -> Said:
    service = service_of(call, name, "systemd")
    if service is None or not unit_files(service, call.files):
        return Said(err=f"No files found for {name}.service.\n", code=1)
    paths = [
        service.unit,
        *(e.path for e in call.files.children(service.unit + ".d") if e.path.endswith(".conf")),
    ]
    return Said("\n".join(f"# {path}\n{call.files.text(path) or ''}" for path in paths))


def _limits(call: Call, verb: str, words: tuple[str, ...]) -> Said:
    """`set-property UNIT MemoryMax=…` writes a drop-in, `revert UNIT` takes all of them away."""
    service = service_of(call, unit_name(words[0]), "systemd") if words else None
    if service is None:
        return call.fail("no such unit")
    if verb == "revert":
        for entry in call.files.children(service.unit + ".d"):
            call.files.remove(entry.path)
        return Said()
    body = "".join(f"{word}\n" for word in words[1:])
    call.files.write(f"{service.unit}.d/zz-property.conf", f"[Service]\n{body}")
    return Said()


def _is(call: Call, verb: str, name: str) -> Said:
    state, service = _state(call, name) or ("inactive", "dead"), service_of(call, name, "systemd")
    if verb == "is-enabled":
        word = "enabled" if service is None or service.enabled else "disabled"
        return Said(word + "\n", code=int(word != "enabled"))
    good = "active" if verb == "is-active" else "failed"
    return Said(state[0] + "\n", code=0 if state[0] == good else 3)


_VERBS: Mapping[str, Callable[[Call, str, str], Said]] = {
    "status": lambda call, verb, name: _status_of(call, name),
    "start": _act, "stop": _act, "restart": _act, "reload": _act, "try-restart": _act,
    "reload-or-restart": _act, "kill": lambda call, verb, name: _act(call, "stop", name),
    "enable": _keep, "disable": _keep, "unmask": _keep,
    "is-active": _is, "is-enabled": _is, "is-failed": _is,
    "show": lambda call, verb, name: _show(call, name), "cat": lambda call, verb, name: _cat(call, name),
}  # fmt: skip


def systemctl(call: Call) -> Said:
    options = read(call.words, valued="tpno", long_valued=("type", "state", "lines", "property", "output"))
    verb, *names = options.rest or ("list-units",)
    if verb in ("list-units", "list-unit-files", "list-timers") or (options.has("failed") and not names):
        return _overview(call, options)
    if verb in ("daemon-reload", "daemon-reexec", "reset-failed"):
        return Said()
    if verb in ("set-property", "revert"):
        return _limits(call, verb, tuple(names))
    if verb not in _VERBS:
        return call.fail(f"Unknown command verb {verb}. Known: {', '.join(sorted(_VERBS))}.")
    if not names:
        return _overview(call, options) if verb == "status" else call.fail("Too few arguments.")
    said = [_VERBS[verb](call, verb, unit_name(name)) for name in names[:20]]
    if options.has("now") and verb in ("enable", "disable"):
        said += [_act(call, "start" if verb == "enable" else "stop", unit_name(name)) for name in names[:20]]
    return Said("".join(s.out for s in said), "".join(s.err for s in said), max(s.code for s in said))


def moment(text: str, machine: Machine) -> float | None:
    """The time that --since and its like mean, by the machine's clock; None for what is no time."""
    text = text.strip().lower()
    if not text:
        return None
    if text in ("today", "yesterday"):
        return machine.clock - machine.clock % 86400 - (86400 if text == "yesterday" else 0)
    found = _AGO.fullmatch(text)
    if found:
        number, unit = int(found[1] or found[3]), (found[2] or found[4])[0]
        return machine.clock - number * _SECONDS[unit]
    return read_date(text, machine.clock) or read_date(f"{text} 00:00:00", machine.clock)


def journalctl(call: Call) -> Said:
    options = read(
        call.words,
        valued="unptSUog",
        long_valued=("unit", "lines", "priority", "since", "until", "output", "grep", "identifier"),
    )
    machine = call.machine
    found = machine.journal
    unit = options.value("u", "unit", "t", "identifier")
    if unit is not None or options.has("k", "dmesg"):
        name = unit_name(unit) if unit is not None else "kernel"
        found = [
            line for line in found if line.unit == name or (name in TIME_UNITS and line.unit == "chronyd")
        ]
    level = options.value("p", "priority")
    if level is not None:
        top = _PRIORITIES.get(level.rsplit("..", 1)[-1], count(level.rsplit("..", 1)[-1], 7))
        found = [line for line in found if line.priority <= top]
    for names, keeps in ((("S", "since"), 1), (("U", "until"), -1)):
        given = options.value(*names)
        border = None if given is None else moment(given, machine)
        if given is not None and border is None:
            return call.fail(f"Failed to parse timestamp: {given}")
        if border is not None:
            found = [line for line in found if (line.time - border) * keeps >= 0]
    pattern = options.value("g", "grep")
    if pattern is not None:
        found = [line for line in found if pattern.lower() in line.text.lower()]
    wanted = count(
        options.value("n", "lines"), 10 if options.has("f", "follow") else 1000 if options.has("e") else 10**6
    )
    found = found[-wanted:] if wanted else []
    if options.has("r", "reverse"):
        found = found[::-1]
    if not found:
        return Said("-- No entries --\n")
    return Said("".join(shown(machine, line) + "\n" for line in found))


def dmesg(call: Call) -> Said:
    return Said("".join(f"[{syslog(x.time)}] {x.text}\n" for x in call.machine.journal if x.unit == "kernel"))


COMMANDS = {"systemctl": systemctl, "journalctl": journalctl, "dmesg": dmesg}
