"""Draws a machine in good order from a seed: names, ports, files, a past in its logs.

Owns what a world holds before anything is broken. Leaves out the faults (faults.py) and what misleads
(herrings.py).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from roleagent_lite.envs.shell.files import Files
from roleagent_lite.envs.shell.health import ZONE
from roleagent_lite.envs.shell.machine import GIB, Disk, Line, Machine, Runtime, Service
from roleagent_lite.envs.shell.runtime import start
from roleagent_lite.envs.shell.settings import unit_text, write_settings
from roleagent_lite.envs.shell.stamps import DAY, iso, write_cert

NAMES = (
    "orders-api", "billing", "ledger", "search-indexer", "mailer", "inventory", "checkout", "profiles",
    "thumbnailer", "webhooks", "session-store", "catalog", "geo-lookup", "notifier", "audit-trail", "pricing",
    "scheduler", "image-proxy", "feature-flags", "quota", "recommender", "tax-rules", "shipping", "reviews",
)  # fmt: skip
HELPERS = ("report-exporter", "feed-sync", "log-shipper", "thumb-cache", "stats-roller", "mirror-agent")
HOSTS = ("web", "app", "node", "edge", "core", "prod")
RUNTIMES: tuple[Runtime, ...] = ("systemd", "systemd", "docker", "kubernetes")
TABLES = ("accounts", "items", "contacts", "vouchers")
COLUMNS = {"accounts": "email", "items": "sku", "contacts": "phone", "vouchers": "code"}
_SYSTEM = (
    ("root", "/sbin/init", 12), ("root", "/usr/sbin/sshd -D", 9), ("root", "/usr/bin/dockerd", 88),
    ("root", "/usr/bin/kubelet", 96), ("_chrony", "/usr/sbin/chronyd", 4),
)  # fmt: skip
START = 1_760_000_000  # of all drawn dates, seconds since 1970
_REQUESTS = (
    "GET /v1/items 200 12ms",
    "POST /v1/items 201 31ms",
    "GET /health 200 1ms",
    "GET /v1/items?page=2 200 17ms",
)


@dataclass(slots=True)
class World:
    """A machine, its files as texts, and who plays which part: `front` calls `victim`, `victim` calls `peer`;
    `bystander` stands alone, `helper` works in the background. `modes`: rights that are not 0644 or 0755."""

    machine: Machine
    rng: random.Random
    files: dict[str, str]
    modes: dict[str, int]
    front: str
    victim: str
    peer: str
    bystander: str
    helper: str
    herrings: list[str] = field(default_factory=list)

    def service(self, name: str) -> Service:
        return self.machine.services[name]

    def set(self, path: str, old: str, new: str) -> None:
        """Replaces a part of a file that is surely there."""
        assert old in self.files[path], (path, old)
        self.files[path] = self.files[path].replace(old, new)


def _services(rng: random.Random) -> tuple[list[Service], list[str]]:
    names = [*rng.sample(NAMES, 4), rng.choice(HELPERS)]
    _, victim, peer, _, helper = names
    ports = rng.sample(range(7000, 9900), 4)
    runtimes = [rng.choice(RUNTIMES) for _ in names]
    needs = (victim, peer, None, None)
    found = []
    for name, runtime, port, need in zip(names[:4], runtimes, ports, needs, strict=False):
        found.append(Service(name, runtime, name.split("-")[0], port, need, memory=rng.randrange(90, 320)))
    found[0].tls = found[1].tls = True
    found[1].schema = rng.randrange(18, 70)
    found.append(Service(helper, runtimes[4], "batch", 0, memory=rng.randrange(40, 120), helper=True))
    for service in found:
        if service.runtime != "systemd":
            service.limit = 1024
    return found, names


def _disks(rng: random.Random) -> list[Disk]:
    return [
        Disk("/dev/vda1", "/", 40 * GIB, rng.randrange(9, 17) * GIB),
        Disk("/dev/vda15", "/boot", GIB // 2, rng.randrange(90, 150) * 1024**2),
        Disk("/dev/vdb", "/var", 20 * GIB, rng.randrange(4, 9) * GIB),
    ]


def _migration(rng: random.Random, service: Service) -> dict[str, str]:
    """The migration that the release needs, the table it works on, and the version that is in place."""
    assert service.schema is not None
    table = rng.choice(TABLES)
    column = COLUMNS[table]
    values = rng.sample(range(10_000, 99_999), 9)
    rows = "".join(f"{100 + n},{column}-{value},active\n" for n, value in enumerate(values))
    return {
        f"/opt/{service.name}/migrations/{service.schema:04d}_unique_{table}_{column}.sql": (
            f"-- {service.name}: one row a {column}\n"
            f"CREATE UNIQUE INDEX {table}_{column} ON {table} ({column});\n"
        ),
        f"{service.data}/tables/{table}.csv": f"id,{column},state\n{rows}",
        f"{service.data}/schema": f"version={service.schema}\ndirty=false\n",
    }


def _files_of(world: World, service: Service) -> None:
    rng, machine, files = world.rng, world.machine, world.files
    owner = f"{service.user}:{service.user}"
    if service.runtime == "systemd":
        files[service.unit] = unit_text(service)
    files[f"/opt/{service.name}/release"] = (
        f"version={rng.randint(1, 5)}.{rng.randint(0, 30)}.{rng.randint(0, 9)}\n"
    )
    if service.helper:
        return
    peer = machine.services.get(service.needs or "")
    files[service.config] = write_settings(service, f"{peer.address}:{peer.port}" if peer else None)
    files[f"{service.data}/store.db"] = f"store {service.name}\n" + "".join(
        f"{rng.getrandbits(64):016x}\n" for _ in range(20)
    )
    if service.tls:
        begins = machine.now - rng.randint(20, 60) * DAY
        files[service.cert] = write_cert(service.address, begins, machine.now + rng.randint(40, 300) * DAY)
    if service.schema is not None:
        files |= _migration(rng, service)
    files[service.log] = "".join(
        f"{iso(machine.now - 60 * n)} INFO {rng.choice(_REQUESTS)}\n" for n in range(40, 0, -1)
    )
    for path in (
        service.data,
        service.config,
        f"/var/log/{service.name}",
        service.log,
        f"{service.data}/store.db",
    ):
        machine.owners[path] = owner
    world.modes[service.config] = 0o640
    world.modes[service.data] = 0o750


def _accounts(services: list[Service]) -> str:
    rows = ["root:x:0:0:root:/root:/bin/bash", "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin"]
    users = sorted({s.user for s in services})
    rows += [f"{u}:x:{990 - n}:{990 - n}:{u}:/var/lib/{u}:/usr/sbin/nologin" for n, u in enumerate(users)]
    return "\n".join(rows) + "\n"


def draw(seed: int) -> World:
    """The world of a seed, not yet started and with nothing wrong in it."""
    rng = random.Random(f"shell {seed}")
    services, (front, victim, peer, bystander, helper) = _services(rng)
    host = f"{rng.choice(HOSTS)}-{rng.randint(1, 40)}"
    ip = f"10.{rng.randint(10, 90)}.{rng.randint(0, 250)}.{rng.randint(10, 240)}"
    machine = Machine(
        host, ip, START + rng.randrange(0, 300 * DAY), seed=seed, next_pid=rng.randrange(900, 3000)
    )
    machine.services = {s.name: s for s in rng.sample(services, len(services))}
    machine.disks = _disks(rng)
    world = World(machine, rng, {}, {}, front, victim, peer, bystander, helper)
    world.files |= {
        "/etc/passwd": _accounts(services),
        "/etc/hostname": f"{host}\n",
        "/etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {host}\n",
        "/etc/resolv.conf": f"nameserver {ip.rsplit('.', 1)[0]}.2\nsearch svc.internal\n",
        "/etc/chrony/chrony.conf": "pool ntp.svc.internal iburst\nmakestep 1.0 3\n",
        ZONE: "; svc.internal, answered by the name server on this host\n"
        + "".join(f"{name} 300 IN A {ip}\n" for name in sorted(s.address for s in services if not s.helper)),
        "/root/README": f"Services of {host}: settings in /etc/NAME/NAME.conf, data in /var/lib/NAME, logs "
        "by journalctl -u NAME, docker logs NAME or kubectl logs NAME.\n",
        "/var/log/syslog": "",
        "/tmp/.keep": "",
    }
    for service in services:
        _files_of(world, service)
    for user, command, rss in _SYSTEM:
        process = machine.spawn(user, command, rss=rss, port=22 if "sshd" in command else None)
        if command == "/sbin/init":
            machine.processes.pop(process.pid)
            process.pid = 1
            machine.processes[1] = process
    return world


def begin(world: World, files: Files) -> None:
    """Starts what is meant to run, some days ago, callees first; the past is in the journal."""
    machine, rng = world.machine, world.rng
    ago = rng.randrange(2 * DAY, 9 * DAY)
    for name in (world.peer, world.victim, world.front, world.bystander, world.helper):
        start(machine.services[name], files, machine)
        machine.services[name].since -= ago
    machine.journal = [
        Line(line.time - ago, line.unit, line.pid, line.text, line.priority) for line in machine.journal
    ]
    for name in machine.services:
        for n in range(6):
            machine.log(
                name,
                rng.choice(_REQUESTS) if not machine.services[name].helper else "batch done",
                ago=ago * (6 - n) / 7,
            )
    machine.journal.sort(key=lambda line: line.time)
