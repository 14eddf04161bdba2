"""Drawn machines: the same from the same seed, another from another, and consistent in themselves."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.health import ZONE
from roleagent_lite.envs.shell.settings import read_settings
from roleagent_lite.envs.shell.stamps import read_cert
from roleagent_lite.envs.shell.world import HELPERS, HOSTS, NAMES, draw
from tests.envs.shell.bench import Bench


def test_a_seed_is_a_machine() -> None:
    first, again = draw(5), draw(5)
    assert (first.machine, first.files, first.modes) == (again.machine, again.files, again.modes)
    assert len({draw(n).machine.host + draw(n).machine.ip + draw(n).victim for n in range(60)}) == 60
    assert {s.runtime for n in range(20) for s in draw(n).machine.services.values()} == {
        "systemd",
        "docker",
        "kubernetes",
    }


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_what_is_drawn_fits_together(seed: int) -> None:
    world = draw(seed)
    machine = world.machine
    names = [world.front, world.victim, world.peer, world.bystander, world.helper]
    assert set(machine.services) == set(names) and len(set(names)) == 5
    assert (machine.services[world.front].needs, machine.services[world.victim].needs) == (
        world.victim,
        world.peer,
    )
    assert machine.host.split("-")[0] in HOSTS and set(names[:4]) <= set(NAMES) and world.helper in HELPERS
    ports = [s.port for s in machine.services.values() if not s.helper]
    assert len(set(ports)) == 4
    for service in machine.services.values():
        assert (service.unit in world.files) == (service.runtime == "systemd")
        if not service.helper:
            assert read_settings(world.files[service.config], service).problem == ""
            assert f"{service.address} 300 IN A {machine.ip}" in world.files[ZONE]
        if service.tls:
            cert = read_cert(world.files[service.cert])
            assert cert is not None and cert.begins < machine.now < cert.ends - 30 * 86400
        assert service.user in world.files["/etc/passwd"]
    assert sum(s.memory for s in machine.services.values()) < 2000


def test_what_has_run_for_days_has_a_past(bench: Bench) -> None:
    times = [line.time for line in bench.machine.journal]
    assert times == sorted(times) and times[-1] <= bench.machine.clock
    assert bench.machine.clock - times[0] > 86400
    assert {line.unit for line in bench.machine.journal} >= set(bench.machine.services)
    assert all(s.since < bench.machine.clock - 86400 for s in bench.machine.services.values())


def test_a_part_of_a_file_that_is_not_there_cannot_be_set() -> None:
    world = draw(1)
    world.set("/etc/hosts", "localhost", "lokal")
    assert "lokal" in world.files["/etc/hosts"]
    with pytest.raises(AssertionError):
        world.set("/etc/hosts", "nothing like it", "x")
