"""Each need of a service, broken and mended in more than one way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roleagent_lite.envs.shell.health import (
    HOSTS,
    TIGHT,
    ZONE,
    limit_of,
    run_problem,
    start_problem,
    trouble,
    user_of,
    well,
)
from roleagent_lite.envs.shell.machine import Runtime
from roleagent_lite.envs.shell.runtime import restart, stop
from roleagent_lite.envs.shell.stamps import DAY, write_cert
from tests.envs.shell.bench import Bench


def can_start(bench: Bench) -> str | None:
    return start_problem(bench.victim, bench.files, bench.machine)


def serves(bench: Bench) -> str | None:
    problem = run_problem(bench.victim, bench.files, bench.machine)
    return problem.text if problem else None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("runtime", [None, "systemd"])
def test_a_drawn_machine_is_well(seed: int, runtime: Runtime | None) -> None:
    bench = Bench(seed, runtime)
    assert well(bench.files, bench.machine)
    for service in bench.machine.services.values():
        assert service.pid is not None and trouble(service, bench.files, bench.machine) is None
        assert start_problem(service, bench.files, bench.machine) is None


def test_no_unit_no_config_no_data(bench: Bench) -> None:
    victim = bench.victim
    for path, said in (
        (victim.unit, "unit file"),
        (victim.config, "cannot open"),
        (f"{victim.data}/store.db", "data file"),
    ):
        kept = bench.files.text(path)
        assert kept is not None
        bench.files.remove(path)
        assert said in (can_start(bench) or "")
        bench.files.write(path, kept)
        bench.files.chown(path, f"{victim.user}:{victim.user}")
    assert can_start(bench) is None
    bench.files.write(f"{victim.data}/store.db", "")
    assert "missing or damaged" in (can_start(bench) or "")


@pytest.mark.parametrize(
    "mend",
    [
        lambda b: b.files.chown(b.victim.config, f"{b.victim.user}:root"),
        lambda b: b.files.chown(b.victim.config, f"root:{b.victim.user}"),
        lambda b: b.files.chmod(b.victim.config, 0o644),
        lambda b: b.edit(b.victim.unit, f"User={b.victim.user}", "User=root"),
    ],
)
def test_rights_are_mended_by_owner_group_mode_or_user(bench: Bench, mend: Callable[[Bench], None]) -> None:
    bench.files.chown(bench.victim.config, "root:root")
    assert f"cannot open {bench.victim.config}: Permission denied" in (can_start(bench) or "")
    assert f"running as {bench.victim.user}" in (can_start(bench) or "")
    mend(bench)
    assert can_start(bench) is None


def test_rights_of_folders_count(bench: Bench) -> None:
    bench.files.chmod(f"/etc/{bench.victim.name}", 0o700)
    assert f"(at /etc/{bench.victim.name})" in (can_start(bench) or "")
    bench.files.chmod(f"/etc/{bench.victim.name}", 0o755)
    bench.files.chown(bench.victim.data, "root:root")
    assert "cannot write to" in (can_start(bench) or "")


def test_a_lock_of_another(bench: Bench) -> None:
    assert can_start(bench) is None  # its own
    stop(bench.victim, bench.files, bench.machine)
    assert bench.files.text(bench.victim.lock) is None and can_start(bench) is None
    for text in ("4242\n", "", "who knows"):
        bench.files.write(bench.victim.lock, text)
        assert "already held by process" in (can_start(bench) or "")
    bench.edit(bench.victim.config, bench.victim.lock, "/run/other.lock")  # another way round
    assert can_start(bench) is None


def test_a_schema_that_is_dirty_or_old(bench: Bench) -> None:
    place = f"{bench.victim.data}/schema"
    need = bench.victim.schema
    assert need is not None
    for text, said in (
        (f"version={need}\ndirty=true", "dirty"),
        (f"version={need - 1}", f"this release needs {need}"),
    ):
        bench.files.write(place, text)
        assert said in (can_start(bench) or "")
    bench.files.write(place, f"version={need + 1}\n")
    assert can_start(bench) is None


def test_a_port_in_use_and_two_ways_round(bench: Bench) -> None:
    victim, front = bench.victim, bench.front
    stop(victim, bench.files, bench.machine)
    other = bench.machine.spawn("x", "/bin/other", port=victim.port)
    assert f"cannot listen on port {victim.port}: Address already in use" in (can_start(bench) or "")
    bench.edit(victim.config, f"listen_port = {victim.port}", "listen_port = 6001")
    assert restart(victim, bench.files, bench.machine) is None and victim.listens == 6001
    assert "is this" not in (trouble(front, bench.files, bench.machine) or "")
    assert not well(bench.files, bench.machine)  # who calls it still calls the old port
    bench.edit(front.config, f":{victim.port}", ":6001")
    assert well(bench.files, bench.machine)
    bench.machine.end(other.pid)
    assert can_start(bench) is None


def test_a_full_disk_ails_all_that_write_there(bench: Bench) -> None:
    disk = next(d for d in bench.machine.disks if d.mount == "/var")
    kept, disk.base = disk.base, disk.size
    bench.files.recount()
    assert "No space left on device" in (can_start(bench) or "") and "No space left" in (serves(bench) or "")
    assert not well(bench.files, bench.machine)
    disk.base = kept
    bench.files.recount()
    assert well(bench.files, bench.machine)


@pytest.mark.parametrize("runtime", ["systemd", "docker", "kubernetes"])
def test_a_memory_limit_below_the_need(runtime: Runtime) -> None:
    bench = Bench(3, runtime)
    victim, drop = bench.victim, f"{bench.victim.unit}.d/limits.conf"
    assert limit_of(victim, bench.files) == (None if runtime == "systemd" else 1024)
    if runtime == "systemd":
        bench.files.write(drop, "[Service]\nMemoryMax=10M\n")
    else:
        victim.limit = 10
    assert f"needs {victim.memory} MiB, memory limit is 10 MiB" in (can_start(bench) or "")
    if runtime == "systemd":
        for text in ("[Service]\nMemoryMax=1G\n", "[Service]\nMemoryMax=infinity\n", ""):
            bench.files.write(drop, text)
            assert can_start(bench) is None
        assert user_of(victim, bench.files) == victim.user
    else:
        victim.limit = None
        assert can_start(bench) is None


def test_memory_that_another_took(bench: Bench) -> None:
    hog = bench.machine.spawn("x", "/bin/hog", rss=bench.machine.free_memory - TIGHT + 1)
    assert "cannot allocate memory" in (serves(bench) or "")
    hog.rss -= 1
    assert serves(bench) is None


def test_a_certificate_must_be_there_and_in_its_time(bench: Bench) -> None:
    now, path = bench.machine.now, bench.victim.cert
    for text, said in (
        (write_cert("x", now - 9, now - 1), "expired"),
        (write_cert("x", now + 9, now + 99), "expired"),
        ("", "cannot read"),
    ):
        bench.files.write(path, text)
        assert said in (serves(bench) or "")
    bench.files.write("/etc/ssl/new.pem", write_cert("x", now - 9, now + DAY))
    bench.edit(bench.victim.config, path, "/etc/ssl/new.pem")
    assert serves(bench) is None
    bench.machine.offset = 40 * DAY  # the clock of the machine does not make a certificate good or bad
    assert "token" in (serves(bench) or "")


def test_an_upstream_by_name_address_port_and_health(bench: Bench) -> None:
    peer, ip = bench.peer, bench.machine.ip
    bench.edit(ZONE, f"{peer.address} 300 IN A {ip}", f"{peer.address} 300 IN A 10.250.0.1")
    assert "connect to 10.250.0.1" in (serves(bench) or "") and "timed out" in (serves(bench) or "")
    hosts = bench.files.text(HOSTS) or ""
    bench.files.write(HOSTS, f"{hosts}{ip} {peer.address}\n")
    assert serves(bench) is None
    bench.files.write(HOSTS, hosts)
    bench.edit(bench.victim.config, f"{peer.address}:", f"{ip}:")
    assert serves(bench) is None
    bench.edit(bench.victim.config, f"{ip}:", "nowhere.svc.internal:")
    assert "name or service not known" in (serves(bench) or "")
    bench.edit(bench.victim.config, "nowhere.svc.internal:", f"{bench.machine.host}:")
    assert serves(bench) is None
    bench.edit(bench.victim.config, f":{peer.port}", ":1")
    assert "connection refused" in (serves(bench) or "")
    bench.edit(bench.victim.config, ":1\n", f":{bench.front.port}\n")
    assert f"is this {peer.name}?" in (serves(bench) or "")


def test_what_ails_the_upstream_ails_who_calls_it(bench: Bench) -> None:
    stop(bench.peer, bench.files, bench.machine)
    assert "connection refused" in (serves(bench) or "")
    sick = run_problem(bench.front, bench.files, bench.machine)
    assert sick is not None and sick.text.endswith("answered 502")


@pytest.mark.parametrize(
    ("offset", "word"), [(61, "in the future"), (-61, "too long ago"), (59, ""), (-59, "")]
)
def test_a_clock_that_is_wrong(bench: Bench, offset: float, word: str) -> None:
    bench.machine.offset = offset
    assert (word in (serves(bench) or "")) if word else serves(bench) is None


def test_what_is_not_wanted_may_be_down_and_helpers_need_nothing(bench: Bench) -> None:
    stop(bench.helper, bench.files, bench.machine)
    assert not well(bench.files, bench.machine)
    bench.helper.wanted = False
    assert well(bench.files, bench.machine)
    assert run_problem(bench.helper, bench.files, bench.machine) is None
    assert start_problem(bench.helper, bench.files, bench.machine) is None
    assert trouble(bench.helper, bench.files, bench.machine) == "not running: stopped"
