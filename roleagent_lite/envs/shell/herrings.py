"""What misleads: warnings that mean nothing, old faults long mended, things that look ill and are not.

None of them keeps a service from serving. Leaves out the fault itself (faults.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from roleagent_lite.envs.shell.files import Files
from roleagent_lite.envs.shell.machine import GIB
from roleagent_lite.envs.shell.stamps import DAY, write_cert
from roleagent_lite.envs.shell.world import World

COUNT: Mapping[str, int] = {"easy": 0, "medium": 2, "hard": 4}


def _warnings(world: World, files: Files) -> None:
    rng, name = world.rng, world.bystander
    text = rng.choice([
        "slow query: 1843 ms (threshold 1000 ms)", "option 'legacy_cache' is deprecated and ignored",
        "client closed the connection before the answer was complete",
        "retrying statistics upload (attempt 2)",
    ])  # fmt: skip
    for n in range(8, 0, -1):
        world.machine.log(name, text, priority=4, ago=n * rng.randint(200, 400))


def _mended_disk(world: World, files: Files) -> None:
    name, ago = world.victim, world.rng.randint(20, 40) * 3600.0
    data = world.service(name).data
    for n in range(3):
        world.machine.log(
            name,
            f"error: write {data}/store.db.wal: No space left on device",
            priority=3,
            ago=ago + 900 - 60 * n,
        )
    world.machine.log("logrotate", "forced rotation, 9.1 GiB freed", ago=ago + 300)
    world.machine.log(name, "recovered: all writes done", ago=ago)


def _mended_port(world: World, files: Files) -> None:
    service, ago = world.service(world.victim), world.rng.randint(15, 40) * 3600.0
    world.machine.log(
        service.name,
        f"fatal: cannot listen on port {service.port}: Address already in use",
        priority=3,
        ago=ago + 40,
    )
    world.machine.log(service.name, f"started, listening on port {service.port}", ago=ago)


def _mended_lookup(world: World, files: Files) -> None:
    peer, ago = world.service(world.peer), world.rng.randint(15, 40) * 3600.0
    world.machine.log(
        world.victim, f"error: upstream {peer.address}: name or service not known", priority=3, ago=ago + 90
    )
    world.machine.log(world.victim, "upstream is back", ago=ago)


def _failed_job(world: World, files: Files) -> None:
    name = world.rng.choice(["backup-rotate", "apt-news", "motd-refresh", "fstrim-weekly"])
    world.machine.units[name] = "failed"
    world.machine.log(
        name,
        "exited, status=1/FAILURE: nothing to do",
        priority=3,
        pid=1,
        ago=world.rng.randint(3, 20) * 3600,
    )


def _busy(world: World, files: Files) -> None:
    command = world.rng.choice(
        ["/usr/bin/zstd -19 /srv/archive.tar", "/usr/bin/updatedb", "/usr/bin/mandb --quiet"]
    )
    world.machine.spawn(
        "root", command, cpu=round(world.rng.uniform(70, 99), 1), rss=world.rng.randint(60, 200)
    )


def _boot(world: World, files: Files) -> None:
    disk = next(d for d in world.machine.disks if d.mount == "/boot")
    disk.base = int(disk.size * world.rng.uniform(0.9, 0.96))
    files.recount()


def _old_lock(world: World, files: Files) -> None:
    service = world.service(world.bystander)
    files.write(f"/run/{service.name}/{service.name}.lock.old", f"{world.rng.randint(300, 900)}\n")
    world.machine.log(service.name, "left-over file in /run ignored", priority=4, ago=7200)


def _old_certificate(world: World, files: Files) -> None:
    machine = world.machine
    ended = machine.now - 200 * DAY
    files.write(
        f"/etc/ssl/archive/{world.victim}-old.pem",
        write_cert(f"{world.victim}.svc.internal", ended - 90 * DAY, ended),
    )
    machine.log(world.bystander, "tls: a client's certificate expires in 12 days", priority=4, ago=9000)


def _big_file(world: World, files: Files) -> None:
    head = f"# archive {world.rng.getrandbits(48):012x}"
    files.write("/srv/archive.tar", head + "\n" + "0" * 1000 + "\n")
    world.machine.bulk[head] = world.rng.randint(4, 8) * GIB // 1020
    files.recount()


HERRINGS: tuple[Callable[[World, Files], None], ...] = (
    _warnings, _mended_disk, _mended_port, _mended_lookup, _failed_job, _busy, _boot, _old_lock,
    _old_certificate, _big_file,
)  # fmt: skip
"""Each changes what is seen and nothing of what works."""


def put(difficulty: str, world: World, files: Files) -> None:
    """As many as the difficulty asks for, drawn from the world's seed."""
    chosen = world.rng.sample(HERRINGS, COUNT[difficulty])
    for herring in chosen:
        herring(world, files)
    world.herrings = [herring.__name__.lstrip("_") for herring in chosen]
    world.machine.journal.sort(key=lambda line: line.time)
