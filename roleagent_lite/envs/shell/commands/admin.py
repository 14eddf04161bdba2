"""date and the time service, certctl (certificates), dbctl (migrations)."""

from __future__ import annotations

import random
import re
import uuid
from collections import Counter

from roleagent_lite.envs.shell.commands.call import Call, Said, read
from roleagent_lite.envs.shell.commands.units import sync
from roleagent_lite.envs.shell.health import settings_of
from roleagent_lite.envs.shell.machine import Service
from roleagent_lite.envs.shell.settings import schema_of
from roleagent_lite.envs.shell.stamps import DAY, at, iso, long_date, read_cert, read_date, write_cert

_UNIQUE = re.compile(
    r"CREATE\s{1,9}UNIQUE\s{1,9}INDEX\s{1,9}\S{1,80}\s{1,9}ON\s{1,9}(\w{1,60})\s{0,9}\((\w{1,60})\)",
    re.IGNORECASE,
)
_RELATIVE = re.compile(r"([+-]?\d{1,7}) ?(sec|second|min|minute|hour|day|week)s?( ago)?")
_STEP = {"sec": 1, "second": 1, "min": 60, "minute": 60, "hour": 3600, "day": DAY, "week": 7 * DAY}


def _wanted(call: Call, text: str) -> float | None:
    if text.strip() in ("now", ""):
        return call.machine.clock
    found = _RELATIVE.fullmatch(text.strip())
    if found:
        return call.machine.clock + int(found[1]) * _STEP[found[2]] * (-1 if found[3] else 1)
    return read_date(text, call.machine.clock)


def date(call: Call) -> Said:
    options = read(call.words, valued="dsrI", long_valued=("date", "set", "reference"))
    machine, seconds = call.machine, call.machine.clock
    given = options.value("d", "date")
    new = options.value("s", "set")
    if given is not None or new is not None:
        found = _wanted(call, given if given is not None else new or "")
        if found is None:
            return call.fail(f"invalid date '{given if given is not None else new}'")
        seconds = found
    if options.value("r", "reference") is not None:
        seconds = call.files.modified(call.path(options.value("r", "reference") or ""))
    if new is not None:
        machine.offset = seconds - machine.now
    form = next((w[1:] for w in options.rest if w.startswith("+")), None)
    moment = at(seconds)
    if form is None:
        return Said(
            (moment.isoformat() if options.has("I", "iso-8601") else f"{moment:%a %b %d %H:%M:%S UTC %Y}")
            + "\n"
        )
    form = form[:200].replace("%s", str(int(seconds))).replace("%N", "000000000").replace("%3N", "000")
    return Said(
        re.sub(r"%([aAbBdFHIjmMpSTuUwWyYzZDeRc])", lambda m: moment.strftime(m[0]), form).replace("%n", "\n")
        + "\n"
    )


def timedatectl(call: Call) -> Said:
    machine = call.machine
    if call.words[:1] == ("set-ntp",) and call.words[1:2] in (("true",), ("1",), ("yes",), ("on",)):
        sync(machine)
        return Said()
    if call.words[:1] == ("set-time",):
        return date(Call("date", ("-s", " ".join(call.words[1:])), "", call.cwd, call.files, machine))
    runs = any(p.name == "chronyd" for p in machine.processes.values())
    return Said(
        f"               Local time: {iso(machine.clock)} UTC\n"
        f"           Universal time: {iso(machine.clock)} UTC\n"
        f"System clock synchronized: {'yes' if machine.synced else 'no'}\n"
        f"              NTP service: {'active' if runs else 'inactive'}\n"
    )


def chronyc(call: Call) -> Said:
    machine = call.machine
    if not any(p.name == "chronyd" for p in machine.processes.values()):
        return Said("506 Cannot talk to daemon\n", code=1)
    if call.words[:1] in (("makestep",), ("burst",), ("waitsync",), ("online",)) or call.words[:2] == (
        "-a",
        "makestep",
    ):
        sync(machine)
        return Said("200 OK\n")
    return Said(
        "Reference ID    : ntp.svc.internal\nSystem time     : "
        f"{abs(machine.offset):.6f} seconds {'fast' if machine.offset > 0 else 'slow'} of NTP time\n"
    )


def ntpdate(call: Call) -> Said:
    """`-q` and `w32tm`-like queries show the offset; without it the clock is set."""
    offset = call.machine.offset
    if "-q" not in call.words:
        sync(call.machine)
    return Said(f"server ntp.svc.internal, stratum 2, offset {-offset:.3f}\n")


def sleep(call: Call) -> Said:
    """Time passes on the simulated clock alone."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([smhd]?)", call.words[0]) if call.words else None
    if found is None:
        return call.fail("invalid time interval")
    call.machine.now += min(float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": DAY}[found[2]], DAY)
    return Said()


def _named(call: Call, word: str) -> Service | None:
    name = word.removesuffix(".svc.internal").rsplit("/", 1)[-1]
    if name in call.machine.services:
        return call.machine.services[name]
    return next((s for s in call.machine.services.values() if s.tls and call.path(word) == s.cert), None)


def certctl(call: Call) -> Said:
    """`list`, `show NAME`, `renew NAME`: the certificates of the services, issued inside the company."""
    verb, *names = call.words or ("help",)
    machine = call.machine
    holders = sorted((s for s in machine.services.values() if s.tls), key=lambda s: s.name)
    if verb == "list":
        lines = []
        for holder in holders:
            cert = read_cert(call.files.text(holder.cert) or "")
            lines.append(
                f"{holder.name} {holder.cert} "
                + (f"notAfter {long_date(cert.ends)}" if cert else "unreadable")
            )
        return Said("\n".join(lines) + "\n")
    if verb not in ("show", "renew") or not names:
        return call.fail("use: certctl list | show NAME | renew NAME")
    service = _named(call, names[0])
    if service is None or not service.tls:
        return call.fail(f"no certificate for '{names[0]}'; known: {', '.join(s.name for s in holders)}")
    path = settings_of(service, call.files).values.get("tls_cert", service.cert)
    if verb == "show":
        return Said(call.files.text(path) or "")
    call.files.write(path, write_cert(service.address, machine.now - 3600, machine.now + 90 * DAY))
    machine.log(service.name, f"tls: certificate {path} renewed and loaded", priority=5)
    return Said(f"renewed {path}, valid until {long_date(machine.now + 90 * DAY)}\n")


def _broken_rule(call: Call, service: Service, text: str) -> str | None:
    """Why a migration does not go through, in the database's words; None = it does."""
    for table, column in _UNIQUE.findall(re.sub(r"--.*", "", text)):
        rows = [
            row.split(",")
            for row in (call.files.text(f"{service.data}/tables/{table}.csv") or "").splitlines()
            if row.strip()
        ]
        if not rows or column not in rows[0]:
            return f"no such column: {table}.{column}"
        place = rows[0].index(column)
        values = [row[place] if place < len(row) else "" for row in rows[1:]]
        twins = sorted(value for value, number in Counter(values).items() if number > 1)
        if twins:
            where = f"{table}.{column} ({service.data}/tables/{table}.csv)"
            return f"CREATE UNIQUE INDEX failed: duplicate value '{twins[0]}' in {where}"
    return None


def dbctl(call: Call) -> Said:
    """`status NAME`, `migrate NAME`, `force NAME VERSION` (calls a version clean, runs nothing)."""
    verb, *names = call.words or ("help",)
    service = _named(call, names[0]) if names else None
    if verb not in ("status", "migrate", "force") or not names:
        return call.fail("use: dbctl status NAME | migrate NAME | force NAME VERSION")
    if service is None or service.schema is None:
        return call.fail(f"no database of '{names[0]}'")
    place = f"{service.data}/schema"
    version, dirty = schema_of(call.files.text(place) or "")
    if verb == "status":
        return Said(
            f"{service.name}: version {version}{' (dirty)' if dirty else ''}, "
            f"release needs {service.schema}\n"
        )
    if verb == "force":
        if (
            len(names) < 2
            or not names[1].isascii()
            or not names[1].isdigit()
            or int(names[1][:8]) >= service.schema
        ):
            return call.fail(f"force takes a version below {service.schema}")
        call.files.write(place, f"version={int(names[1][:8])}\ndirty=false\n")
        return Said(f"{service.name}: version {int(names[1][:8])}, clean\n")
    for entry in call.files.children(f"/opt/{service.name}/migrations"):
        name = entry.path.rsplit("/", 1)[-1]
        number = int(name[:4]) if name[:4].isascii() and name[:4].isdigit() else 0
        if number <= version:
            continue
        problem = _broken_rule(call, service, call.files.text(entry.path) or "")
        if problem is not None:
            call.files.write(place, f"version={version}\ndirty=true\n")
            return call.fail(f"migration {name}: {problem}")
        version = number
    call.files.write(place, f"version={version}\ndirty=false\n")
    return Said(f"{service.name}: at version {version}\n")


def uuidgen(call: Call) -> Said:
    """An identifier that is drawn from the machine's seed."""
    drawn = random.Random(call.machine.draw_pid()).getrandbits(128)
    return Said(f"{uuid.UUID(int=drawn, version=4)}\n")


def identity(call: Call) -> Said:
    """id [NAME]: root, or an account of /etc/passwd."""
    name = next((w for w in call.words if not w.startswith("-")), "root")
    rows = (call.files.text("/etc/passwd") or "").splitlines()
    row = next((r.split(":") for r in rows if r.split(":")[0] == name and r.count(":") >= 3), None)
    if row is None:
        return call.fail(f"'{name}': no such user")
    if "-u" in call.words:
        return Said(f"{row[2]}\n")
    return Said(f"uid={row[2]}({name}) gid={row[3]}({name}) groups={row[3]}({name})\n")


def hostnamectl(call: Call) -> Said:
    return Said(f"Static hostname: {call.machine.host}\nOperating System: Linux\n")


def which(call: Call) -> Said:
    """Where a command lies; the simulated ones are taken to lie in /usr/bin."""
    known = {
        name: call.files.exists(f"/usr/bin/{name}") or name in call.machine.simulated for name in call.words
    }
    out = "".join(f"/usr/bin/{name}\n" for name, there in known.items() if there)
    return Said(out, code=int(not known or not all(known.values())))


def editor(call: Call) -> Said:
    return call.fail("there is no terminal here; change files with sed -i, tee or a here-document")


def tar(call: Call) -> Said:
    """bashkit's own writes files in the order of chance, with the times of the real clock."""
    return call.fail("not available here; use cp -r, mv or gzip")


def history(call: Call) -> Said:
    return Said("".join(f"{n:5}  {line}\n" for n, line in enumerate(call.machine.typed, 1)))


COMMANDS = {
    "date": date, "timedatectl": timedatectl, "chronyc": chronyc, "ntpdate": ntpdate, "sntp": ntpdate,
    "sleep": sleep, "typed-lines": history, "uuidgen": uuidgen, "id": identity, "hostnamectl": hostnamectl,
    "which": which, "vi": editor, "vim": editor, "nano": editor, "emacs": editor, "tar": tar,
    "certctl": certctl, "dbctl": dbctl,
}  # fmt: skip
