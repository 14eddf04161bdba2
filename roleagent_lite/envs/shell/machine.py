"""The simulated machine: services, processes, the clock, names, disks and the journal, as plain state.

Owns the records and what changes them by themselves: a process that ends, a line in the journal, time that
passes. Leaves out files (files.py), whether a service can run (health.py) and what commands print.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Literal

Runtime = Literal["systemd", "docker", "kubernetes"]
GIB = 1024**3
MIB = 1024**2
STEP_SECONDS = 20  # that one command line takes on the simulated clock
JOURNAL_LINES = 4000  # the oldest go first


@dataclass(slots=True)
class Process:
    """`rss` in MiB; `port`: where it listens, None = nowhere; `unit`: the service it belongs to, if any."""

    pid: int
    user: str
    command: str
    rss: int = 20
    cpu: float = 0.1
    port: int | None = None
    unit: str | None = None

    @property
    def name(self) -> str:
        return self.command.split(" ")[0].rsplit("/", 1)[-1]


@dataclass(slots=True)
class Service:
    """One service. `port` and `needs` are what it was set up with; what it does now stands in its files.

    needs: the service that it calls, if any; memory: MiB that it takes once warm; limit: MiB that its runtime
    allows, None = as much as there is (systemd: the unit's files decide); wanted: it is meant to run;
    helper: it takes no requests and has no configuration; enabled:
    its runtime keeps it up.
    """

    name: str
    runtime: Runtime
    user: str
    port: int
    needs: str | None = None
    tls: bool = False
    schema: int | None = None
    memory: int = 120
    limit: int | None = None
    wanted: bool = True
    helper: bool = False
    enabled: bool = True
    pid: int | None = None
    listens: int | None = None
    since: float = 0.0
    restarts: int = 0
    failed: bool = False
    said: str = ""  # why it did not start, last time

    @property
    def config(self) -> str:
        return f"/etc/{self.name}/{self.name}.conf"

    @property
    def data(self) -> str:
        return f"/var/lib/{self.name}"

    @property
    def lock(self) -> str:
        return f"/run/{self.name}/{self.name}.lock"

    @property
    def cert(self) -> str:
        return f"/etc/ssl/{self.name}/fullchain.pem"

    @property
    def log(self) -> str:
        return f"/var/log/{self.name}/{self.name}.log"

    @property
    def unit(self) -> str:
        return f"/etc/systemd/system/{self.name}.service"

    @property
    def address(self) -> str:
        return f"{self.name}.svc.internal"


@dataclass(slots=True)
class Disk:
    """One file system. `base`: bytes that no file here accounts for."""

    device: str
    mount: str
    size: int
    base: int


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the journal; `time` in seconds as the machine's clock showed it; priority as in syslog."""

    time: float
    unit: str
    pid: int
    text: str
    priority: int = 6


@dataclass(slots=True)
class Machine:
    """All state beside the files. `now`: true seconds since 1970; `offset`: how far the clock is ahead.

    owners: path -> "user:group" of what does not belong to root; stamps: path -> (digest, time of change);
    bulk: first line of a file -> how many bytes stand for one of its bytes; zone: name -> address.
    """

    host: str
    ip: str
    now: float
    offset: float = 0.0
    synced: bool = True
    memory: int = 7812
    services: dict[str, Service] = field(default_factory=dict)
    processes: dict[int, Process] = field(default_factory=dict)
    disks: list[Disk] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    stamps: dict[str, tuple[int, float]] = field(default_factory=dict)
    bulk: dict[str, int] = field(default_factory=dict)
    journal: list[Line] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=dict)  # oneshot units: name -> state
    simulated: frozenset[str] = frozenset()  # names of the simulated commands
    typed: list[str] = field(default_factory=list)  # lines, as `history` shows them
    next_pid: int = 2000
    seed: int = 0
    turn: int = 0

    @property
    def clock(self) -> float:
        """What `date` shows, in seconds since 1970."""
        return self.now + self.offset

    def copy(self) -> Machine:
        """A machine of its own in the same state."""
        return replace(
            self,
            services={name: replace(service) for name, service in self.services.items()},
            processes={pid: replace(process) for pid, process in self.processes.items()},
            disks=[replace(disk) for disk in self.disks],
            owners=dict(self.owners),
            stamps=dict(self.stamps),
            bulk=dict(self.bulk),
            journal=list(self.journal),
            units=dict(self.units),
            typed=list(self.typed),
        )

    def log(
        self, unit: str, text: str, *, priority: int = 6, pid: int | None = None, ago: float = 0.0
    ) -> None:
        """A line in the journal, `ago` seconds before now."""
        if pid is None:
            service = self.services.get(unit)
            pid = (service.pid if service and service.pid else None) or 1
        self.journal.append(Line(self.clock - ago, unit, pid, text, priority))
        if len(self.journal) > JOURNAL_LINES:
            del self.journal[: len(self.journal) - JOURNAL_LINES]

    def draw_pid(self) -> int:
        rng = random.Random(self.seed * 1_000_003 + self.next_pid)
        self.next_pid += rng.randint(1, 37)
        return self.next_pid

    def spawn(self, user: str, command: str, **what: object) -> Process:
        process = Process(self.draw_pid(), user, command)
        for name, value in what.items():
            setattr(process, name, value)
        self.processes[process.pid] = process
        return process

    def listener(self, port: int) -> Process | None:
        return next((p for p in self.processes.values() if p.port == port), None)

    def of_unit(self, unit: str) -> list[Process]:
        return [p for p in self.processes.values() if p.unit == unit]

    def end(self, pid: int) -> None:
        """The process is gone; a service whose main process it was no longer runs."""
        self.processes.pop(pid, None)
        for service in self.services.values():
            if service.pid == pid:
                service.pid = service.listens = None

    @property
    def used_memory(self) -> int:
        """MiB in use."""
        return 700 + sum(p.rss for p in self.processes.values())

    @property
    def free_memory(self) -> int:
        return max(0, self.memory - self.used_memory)

    def resolve(self, name: str, hosts: str, zone: str) -> str | None:
        """The address of a name: what `hosts` (the text of /etc/hosts) says first, else the zone file's."""
        for line in hosts.splitlines():
            words = line.split("#")[0].split()
            if name in words[1:]:
                return words[0]
        if name in ("localhost", self.host):
            return "127.0.0.1"
        parts = name.split(".")
        if len(parts) == 4 and all(
            p.isascii() and p.isdigit() and len(p) < 4 and int(p) < 256 for p in parts
        ):
            return name
        return self.named(name, zone)

    def named(self, name: str, zone: str) -> str | None:
        """What the name server answers: the last entry `NAME A ADDRESS` of its zone file."""
        found = None
        for line in zone.splitlines():
            words = line.split(";")[0].split()
            if len(words) >= 3 and words[0].rstrip(".") == name.rstrip(".") and words[-2] == "A":
                found = words[-1]
        return found

    def ours(self, address: str | None) -> bool:
        return address == self.ip or (address or "").startswith("127.")
