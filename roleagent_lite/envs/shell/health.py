"""Whether a service can start and whether it serves, computed from files and state.

Nothing here knows which fault was put in: a service is well once its files, its port, its lock, its disk, its
upstream, its certificate and the clock are as it needs them, by whatever way they came to be so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from roleagent_lite.envs.shell.files import Files
from roleagent_lite.envs.shell.machine import Machine, Service
from roleagent_lite.envs.shell.settings import Settings, mebibytes, read_settings, schema_of, unit_value
from roleagent_lite.envs.shell.stamps import long_date, read_cert

SKEW = 60  # seconds that clocks may differ by
TIGHT = 64  # MiB that must be free
LIMIT_KEY = "MemoryMax"
HOSTS = "/etc/hosts"
ZONE = "/etc/dns/svc.internal.zone"


@dataclass(frozen=True, slots=True)
class Problem:
    """`text` is what the service writes to its log; `status` what it answers while it lasts."""

    text: str
    status: int = 503


def unit_files(service: Service, files: Files) -> list[str]:
    """Texts of the unit file and its drop-ins, in the order in which they count; empty without a unit."""
    unit = files.text(service.unit)
    if unit is None:
        return []
    drops = [e for e in files.children(service.unit + ".d") if e.path.endswith(".conf")]
    return [unit, *(files.text(e.path) or "" for e in drops)]


def limit_of(service: Service, files: Files) -> float | None:
    """MiB that the service's runtime allows it."""
    if service.runtime != "systemd":
        return service.limit
    text = unit_value(unit_files(service, files), LIMIT_KEY)
    return None if text is None else mebibytes(text)


def user_of(service: Service, files: Files) -> str:
    if service.runtime != "systemd":
        return service.user
    return unit_value(unit_files(service, files), "User") or "root"


@lru_cache(maxsize=512)
def _read(text: str, name: str, needs: str | None, tls: bool) -> Settings:
    return read_settings(text, Service(name, "systemd", "", 0, needs, tls))


def settings_of(service: Service, files: Files) -> Settings:
    return _read(files.text(service.config) or "", service.name, service.needs, service.tls)


def _refused(service: Service, files: Files, path: str, wanted: int, what: str) -> str | None:
    user = user_of(service, files)
    place = files.refuses(user, path, wanted)
    if place is None:
        return None
    where = "" if place == path else f" (at {place})"
    return f"cannot {what} {path}: Permission denied{where} (running as {user})"


def _config(service: Service, files: Files) -> str | None:
    if service.runtime == "systemd" and not unit_files(service, files):
        return f"unit file {service.unit} does not exist"
    if files.text(service.config) is None:
        return f"cannot open {service.config}: No such file or directory"
    refused = _refused(service, files, service.config, 4, "open")
    problem = settings_of(service, files).problem
    return refused or (f"configuration error in {service.config}, {problem}" if problem else None)


def _data(service: Service, files: Files) -> str | None:
    data = settings_of(service, files).values.get("data_dir", service.data)
    store = f"{data}/store.db"
    if not (files.text(store) or "").startswith(f"store {service.name}\n"):
        return f"data file {store} is missing or damaged"
    return _refused(service, files, data, 6, "write to") or _refused(service, files, store, 6, "write to")


def _lock(service: Service, files: Files) -> str | None:
    lock = settings_of(service, files).values.get("lock_file", service.lock)
    held = files.text(lock)
    if held is None or (service.pid and held.strip() == str(service.pid)):
        return None
    return f"cannot lock {lock}: already held by process {held.strip()[:20] or '(none named)'}"


def _schema(service: Service, files: Files) -> str | None:
    if service.schema is None:
        return None
    version, dirty = schema_of(files.text(f"{service.data}/schema") or "")
    if dirty:
        return f"database schema is dirty at version {version}: a migration failed half-way"
    if version < service.schema:
        return f"database schema is at version {version}, this release needs {service.schema}"
    return None


def _port(service: Service, files: Files, machine: Machine) -> str | None:
    port = settings_of(service, files).port(service.port)
    holder = machine.listener(port)
    if holder is None or holder.pid == service.pid:
        return None
    return f"cannot listen on port {port}: Address already in use"


def _room(service: Service, files: Files) -> str | None:
    data = settings_of(service, files).values.get("data_dir", service.data)
    if files.full(data):
        return f"write {data}/store.db.wal: No space left on device"
    return None


def _limit(service: Service, files: Files) -> str | None:
    limit = limit_of(service, files)
    if limit is None or limit >= service.memory:
        return None
    return (
        f"killed while loading: needs {service.memory} MiB, memory limit is {limit:.0f} MiB (out of memory)"
    )


def start_problem(service: Service, files: Files, machine: Machine) -> str | None:
    """Why the service cannot start, in the words of its log; None = it can."""
    if service.helper:
        return None
    return (
        _config(service, files)
        or _data(service, files)
        or _lock(service, files)
        or _schema(service, files)
        or _port(service, files, machine)
        or _room(service, files)
        or _limit(service, files)
    )


def _certificate(service: Service, files: Files, machine: Machine) -> Problem | None:
    if not service.tls:
        return None
    path = settings_of(service, files).values.get("tls_cert", service.cert)
    cert = read_cert(files.text(path) or "")
    if cert is None:
        return Problem(f"tls: cannot read a certificate from {path}", 495)
    if not cert.begins <= machine.now <= cert.ends:
        return Problem(
            f"tls: handshake failed: certificate has expired ({path}, notAfter {long_date(cert.ends)})", 495
        )
    return None


def address_of(name: str, files: Files, machine: Machine) -> str | None:
    """What the machine takes for the address of a name; None = it knows none."""
    return machine.resolve(name, files.text(HOSTS) or "", files.text(ZONE) or "")


def _upstream(service: Service, files: Files, machine: Machine) -> Problem | None:
    if service.needs is None:
        return None
    host, _, port = settings_of(service, files).values.get("upstream", "").rpartition(":")
    address = address_of(host, files, machine)
    if address is None:
        return Problem(f"upstream {host}: name or service not known", 502)
    if not machine.ours(address):
        return Problem(f"upstream {host}:{port}: connect to {address}:{port} timed out", 504)
    peer = next((s for s in machine.services.values() if s.listens and str(s.listens) == port), None)
    if peer is None:
        return Problem(f"upstream {host}:{port}: connect to {address}:{port}: connection refused", 502)
    if peer.name != service.needs:
        return Problem(f"upstream {host}:{port}: unexpected answer (is this {service.needs}?)", 502)
    if abs(machine.offset) > SKEW:
        how = "in the future" if machine.offset > 0 else "too long ago"
        return Problem(f"upstream {host}:{port} refused our token: it was issued {how}", 401)
    if (sick := run_problem(peer, files, machine)) is not None:
        return Problem(f"upstream {host}:{port} answered {sick.status}", 502)
    return None


def run_problem(service: Service, files: Files, machine: Machine) -> Problem | None:
    """Why a running service does not serve; None = it does."""
    if service.helper:
        return None
    room = _room(service, files)
    if room is not None:
        return Problem(room, 507)
    if machine.free_memory < TIGHT:
        return Problem(f"cannot allocate memory ({machine.free_memory} MiB free of {machine.memory})", 503)
    return _certificate(service, files, machine) or _upstream(service, files, machine)


def trouble(service: Service, files: Files, machine: Machine) -> str | None:
    """What keeps a service from serving, running or not; None = it is well."""
    if service.pid is None:
        return f"not running: {service.said or 'stopped'}"
    problem = run_problem(service, files, machine)
    return problem.text if problem else None


def well(files: Files, machine: Machine) -> bool:
    """Whether every service that is meant to run serves."""
    return all(trouble(s, files, machine) is None for s in machine.services.values() if s.wanted)
