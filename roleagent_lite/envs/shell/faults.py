"""The fault families: how each is put into a drawn machine, what its culprit is called, one way to mend it.

Each is a function in FAMILIES. Leaves out when a fault counts as mended: that is health.py's, and knows no
families. What a family's culprit is stands in CULPRIT, as the agent is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from roleagent_lite.envs.shell.files import Files
from roleagent_lite.envs.shell.health import HOSTS, ZONE
from roleagent_lite.envs.shell.machine import Service
from roleagent_lite.envs.shell.runtime import restart, stop, tend
from roleagent_lite.envs.shell.stamps import DAY, iso, write_cert
from roleagent_lite.envs.shell.world import World

CULPRIT: Mapping[str, str] = {
    "disk_full": "the file that fills the disk",
    "wrong_permission": "the path whose rights are wrong",
    "bad_config": "the key or the file that is wrong",
    "port_taken": "the process that holds the port, by name or PID",
    "expired_certificate": "the certificate's file or its service",
    "dead_upstream": "the service that is down",
    "wrong_dns": "the host name whose address is wrong",
    "crash_loop": "the service that crashes",
    "leaking_process": "the process that takes the memory, by name or PID",
    "stale_lock": "the lock file",
    "failed_migration": "the migration's number or file",
    "clock_skew": "the host whose clock is wrong",
}


@dataclass(frozen=True, slots=True)
class Broken:
    """A fault in place. culprits: what it may be called, the first as the plan reports it; plan: commands
    that find and mend it."""

    family: str
    culprits: tuple[str, ...]
    plan: tuple[str, ...] = field(default=())


def look(service: Service) -> tuple[str, str]:
    """How one looks at a service, and at what it said."""
    if service.runtime == "docker":
        return "docker ps -a", f"docker logs --tail 20 {service.name}"
    if service.runtime == "kubernetes":
        return "kubectl get pods", f"kubectl logs deployment/{service.name} --tail=20"
    return f"systemctl status {service.name}", f"journalctl -u {service.name} -n 20 --no-pager"


def again(service: Service) -> str:
    """How one restarts a service."""
    if service.runtime == "docker":
        return f"docker restart {service.name}"
    if service.runtime == "kubernetes":
        return f"kubectl rollout restart deployment/{service.name}"
    return f"systemctl restart {service.name}"


def _down(world: World, files: Files, service: Service) -> None:
    """The service was restarted after the fault came in, and did not come back."""
    restart(service, files, world.machine)
    service.restarts += world.rng.randint(4, 40)


def disk_full(world: World, files: Files) -> Broken:
    rng, machine = world.rng, world.machine
    writer = world.service(rng.choice([world.bystander, world.helper, world.peer]))
    folder = rng.choice(
        [f"/var/log/{writer.name}", f"/var/lib/{writer.name}/spool", "/var/tmp", "/var/crash"]
    )
    path = (
        f"{folder}/{writer.name}-{rng.choice(['trace', 'debug', 'dump', 'payloads'])}.{rng.randint(1, 9)}.log"
    )
    head = f"# {writer.name} trace {rng.getrandbits(48):012x}"
    lines = "".join(
        f"{iso(machine.now - 9 * n)} TRACE {rng.getrandbits(64):016x}\n" for n in range(60, 0, -1)
    )
    files.write(path, f"{head}\n{lines}")
    disk = files.disk_of(path)
    room = disk.size - files.used()[disk.mount]
    machine.bulk[head] = room // len(f"{head}\n{lines}") + 1 + rng.randint(1, 900)
    files.recount()
    files.chown(path, f"{writer.user}:{writer.user}")
    machine.log(writer.name, f"trace level on, writing to {path}", priority=5, ago=rng.randint(9, 40) * 3600)
    victim = world.service(world.victim)
    _down(world, files, victim)
    plan = ("df -h", f"du -ah {disk.mount} | sort -h | tail -n 5", f"truncate -s 0 {path}", again(victim))
    return Broken("disk_full", (path, folder, writer.name, path.rsplit("/", 1)[1]), plan)


def wrong_permission(world: World, files: Files) -> Broken:
    rng, victim = world.rng, world.service(world.victim)
    path, mode, right = rng.choice(
        [
            (victim.config, 0o600, 0o640),
            (victim.data, 0o755, 0o750),
            (f"{victim.data}/store.db", 0o644, 0o644),
        ]
    )
    files.chown(path, "root:root")
    files.chmod(path, mode)
    _down(world, files, victim)
    mend = f"chown {victim.user}:{victim.user} {path}"
    return Broken(
        "wrong_permission", (path,), (f"ls -ld {path}", mend, f"chmod {right:o} {path}", again(victim))
    )


def bad_config(world: World, files: Files) -> Broken:
    rng, victim = world.rng, world.service(world.victim)
    old, new, key = rng.choice([
        ("workers = 4", "wokers = 4", "workers"), ("workers = 4", "workers 4", "workers"),
        ("workers = 4", "workers = four", "workers"),
        ("log_level = info", "log_level = verbose", "log_level"),
        ("request_timeout = 30s", "request_timeout = 30 seconds", "request_timeout"),
        ("request_timeout = 30s", "request_timout = 30s", "request_timeout"),
        ("max_connections = 512", "max_connections = unlimited", "max_connections"),
        ("cache_size = 64M", "cache_size = 64X", "cache_size"),
        ("cache_size = 64M", "cache_sise = 64M", "cache_size"),
    ])  # fmt: skip
    text = files.text(victim.config) or ""
    files.write(victim.config, text.replace(old, new))
    world.machine.log(victim.name, "settings changed on disk", ago=rng.randint(1, 5) * 3600)
    _down(world, files, victim)
    plan = (f"cat {victim.config}", f"sed -i 's/^{new}$/{old}/' {victim.config}", again(victim))
    return Broken("bad_config", tuple(dict.fromkeys((key, victim.config, new.split(" ")[0]))), plan)


def port_taken(world: World, files: Files) -> Broken:
    rng, victim, machine = world.rng, world.service(world.victim), world.machine
    port = victim.port
    command = rng.choice([
        f"/usr/bin/python3 -m http.server {port}", f"/home/deploy/{victim.name}-canary --port {port}",
        f"/usr/bin/socat TCP-LISTEN:{port},fork -", f"/opt/{victim.name}/bin/{victim.name}-old --port {port}",
    ])  # fmt: skip
    stop(victim, files, machine)
    process = machine.spawn("deploy", command, port=port, rss=rng.randint(9, 60))
    _down(world, files, victim)
    plan = (f"ss -ltnp | grep {port}", f"ps -p {process.pid}", f"kill {process.pid}", again(victim))
    return Broken("port_taken", (process.name, str(process.pid), command), plan)


def expired_certificate(world: World, files: Files) -> Broken:
    rng, machine = world.rng, world.machine
    service = world.service(world.victim)
    ended = machine.now - rng.randint(2, 200) * 3600
    files.write(service.cert, write_cert(service.address, ended - 90 * DAY, ended))
    machine.log(service.name, f"tls: certificate {service.cert} expires in 3 days", priority=4, ago=5 * DAY)
    plan = (f"openssl x509 -in {service.cert} -noout -dates", f"certctl renew {service.name}")
    return Broken("expired_certificate", (service.cert, service.name, service.address), plan)


def dead_upstream(world: World, files: Files) -> Broken:
    rng, machine, peer = world.rng, world.machine, world.service(world.peer)
    stop(peer, files, machine)
    peer.enabled = False
    machine.journal[-1] = replace(machine.journal[-1], time=machine.clock - rng.randint(600, 9000))
    plan = (*look(peer), {"docker": f"docker start {peer.name}", "systemd": f"systemctl start {peer.name}",
            "kubernetes": f"kubectl scale deployment/{peer.name} --replicas=1"}[peer.runtime])  # fmt: skip
    return Broken("dead_upstream", (peer.name, peer.address), plan)


def wrong_dns(world: World, files: Files) -> Broken:
    rng, machine, peer = world.rng, world.machine, world.service(world.peer)
    wrong = f"10.{rng.randint(91, 200)}.{rng.randint(0, 250)}.{rng.randint(1, 250)}"
    name = peer.address
    if rng.random() < 0.5:
        path, mend = HOSTS, f"sed -i '/{name}/d' {HOSTS}"
        files.write(path, (files.text(path) or "") + f"{wrong} {name}\n")
    else:
        path, mend = ZONE, f"sed -i 's/{wrong}/{machine.ip}/' {ZONE}"
        files.write(
            path,
            (files.text(path) or "").replace(f"{name} 300 IN A {machine.ip}", f"{name} 300 IN A {wrong}"),
        )
    plan = (
        f"getent hosts {name}",
        f"ss -ltnp | grep {peer.port}",
        f"grep -rn {name} /etc/hosts /etc/dns",
        mend,
    )
    return Broken("wrong_dns", (name, peer.name, wrong, path), plan)


def crash_loop(world: World, files: Files) -> Broken:
    rng, machine, victim = world.rng, world.machine, world.service(world.victim)
    limit = rng.choice([32, 48, 64, 80])
    if victim.runtime == "systemd":
        drop = f"{victim.unit}.d/{rng.choice(['limits', 'memory', '50-resources'])}.conf"
        files.write(drop, f"[Service]\nMemoryMax={limit}M\n")
        mend: tuple[str, ...] = (
            f"systemctl cat {victim.name}",
            f"rm {drop}",
            "systemctl daemon-reload",
            again(victim),
        )
    elif victim.runtime == "docker":
        victim.limit = limit
        mend = (f"docker inspect {victim.name}", f"docker update --memory 1g {victim.name}", again(victim))
    else:
        victim.limit = limit
        mend = (
            f"kubectl describe deployment {victim.name}",
            f"kubectl set resources deployment/{victim.name} --limits=memory=1Gi",
        )
    _down(world, files, victim)
    for n in range(3, 0, -1):
        machine.log(victim.name, "starting, loading index", ago=n * 31 + 4)
        machine.log(victim.name, f"fatal: {victim.said}", priority=3, ago=n * 31)
    return Broken("crash_loop", (victim.name,), mend)


def leaking_process(world: World, files: Files) -> Broken:
    rng, machine = world.rng, world.machine
    leaker = world.service(rng.choice([world.helper, world.bystander]))
    assert leaker.pid is not None
    process = machine.processes[leaker.pid]
    process.rss += machine.free_memory - rng.randint(6, 40)
    process.cpu = round(rng.uniform(3, 20), 1)
    for n in range(5, 0, -1):
        machine.log(
            "kernel",
            f"memory pressure: {leaker.name} grew to {process.rss // (n + 1)} MiB",
            priority=4,
            pid=0,
            ago=n * 1700,
        )
    plan = ("free -m", "ps aux --sort=-rss | head -n 5", again(leaker))
    return Broken("leaking_process", (leaker.name, str(process.pid)), plan)


def stale_lock(world: World, files: Files) -> Broken:
    rng, machine, victim = world.rng, world.machine, world.service(world.victim)
    dead = victim.pid or 0
    stop(victim, files, machine)
    machine.journal[-1] = replace(machine.journal[-1], text=f"main process {dead} exited, status=killed")
    files.write(victim.lock, f"{dead}\n")
    machine.next_pid += rng.randint(3, 90)
    _down(world, files, victim)
    plan = (f"cat {victim.lock}", f"ps -p {dead}", f"rm {victim.lock}", again(victim))
    return Broken("stale_lock", (victim.lock, victim.lock.rsplit("/", 1)[1]), plan)


def failed_migration(world: World, files: Files) -> Broken:
    rng, machine, victim = world.rng, world.machine, world.service(world.victim)
    assert victim.schema is not None
    table = next(e.path for e in files.children(f"{victim.data}/tables"))
    script = next(e.path for e in files.children(f"/opt/{victim.name}/migrations"))
    rows = (files.text(table) or "").splitlines()
    twin = rng.choice(rows[1:]).split(",")
    extra = ",".join([str(rng.randint(200, 900)), twin[1], "imported"])
    files.write(table, "\n".join([*rows, extra]) + "\n")
    files.write(f"{victim.data}/schema", f"version={victim.schema - 1}\ndirty=true\n")
    number = f"{victim.schema:04d}"
    machine.log(
        victim.name,
        f"migration {number}: CREATE UNIQUE INDEX failed: duplicate value '{twin[1]}'",
        priority=3,
        ago=1900,
    )
    _down(world, files, victim)
    plan = (
        f"dbctl status {victim.name}",
        f"cat {script}",
        f"sed -i '/^{extra}$/d' {table}",
        f"dbctl migrate {victim.name}",
        again(victim),
    )
    names = (
        number,
        str(victim.schema),
        script,
        script.rsplit("/", 1)[1],
        script.rsplit("/", 1)[1].removesuffix(".sql"),
    )
    return Broken("failed_migration", names, plan)


def clock_skew(world: World, files: Files) -> Broken:
    rng, machine = world.rng, world.machine
    machine.offset = float(rng.choice([-1, 1]) * rng.randint(900, 40_000))
    machine.synced = False
    for process in [p for p in machine.processes.values() if p.name == "chronyd"]:
        machine.end(process.pid)
    machine.log("chronyd", "exiting on signal", priority=4, pid=1, ago=4000)
    return Broken(
        "clock_skew",
        (machine.host, "chronyd", "clock"),
        ("date", "chronyc tracking", "systemctl restart chronyd"),
    )


FAMILIES: Mapping[str, Callable[[World, Files], Broken]] = {
    "disk_full": disk_full, "wrong_permission": wrong_permission, "bad_config": bad_config,
    "port_taken": port_taken,
    "expired_certificate": expired_certificate, "dead_upstream": dead_upstream, "wrong_dns": wrong_dns,
    "crash_loop": crash_loop, "leaking_process": leaking_process, "stale_lock": stale_lock,
    "failed_migration": failed_migration, "clock_skew": clock_skew,
}  # fmt: skip


def put(family: str, world: World, files: Files) -> Broken:
    """Breaks a machine in good order; what came of it stands in its logs."""
    machine = world.machine
    before = len(machine.journal)
    broken = FAMILIES[family](world, files)
    tend(files, machine)
    for service in machine.services.values():
        if service.pid is not None and service.said:
            for n in range(3, 0, -1):
                machine.log(
                    service.name, f"error: {service.said}", priority=3, ago=70 * n + world.rng.randint(0, 40)
                )
    # Where the clock was moved, what came before keeps the times that it had then.
    first = before if machine.offset else 0
    machine.journal[first:] = sorted(machine.journal[first:], key=lambda line: line.time)
    return broken
