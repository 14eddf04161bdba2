"""Starting, stopping, killing, and what comes back by itself."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.machine import Runtime
from roleagent_lite.envs.shell.runtime import KILLED, command_of, kill, restart, start, stop, tell, tend
from tests.envs.shell.bench import Bench


def lines(bench: Bench, name: str) -> list[str]:
    return [line.text for line in bench.machine.journal if line.unit == name]


def test_a_start_takes_port_memory_and_lock_and_a_stop_gives_them_back(bench: Bench) -> None:
    victim, machine = bench.victim, bench.machine
    before = machine.free_memory
    stop(victim, bench.files, machine)
    assert machine.free_memory == before + victim.memory and machine.listener(victim.port) is None
    assert (victim.pid, victim.listens, bench.files.text(victim.lock)) == (None, None, None)
    assert start(victim, bench.files, machine) is None
    assert bench.files.text(victim.lock) == f"{victim.pid}\n" and victim.listens == victim.port
    pid = victim.pid
    assert start(victim, bench.files, machine) is None and victim.pid == pid  # runs already
    assert restart(victim, bench.files, machine) is None and victim.pid != pid
    assert machine.processes[victim.pid or 0].command == command_of(victim)


def test_a_start_that_fails_says_so_once_when_quiet(bench: Bench) -> None:
    victim = bench.victim
    bench.edit(victim.config, "workers = 4", "workers = x")
    problem = restart(victim, bench.files, bench.machine)
    assert (
        problem is not None
        and problem.startswith("configuration error")
        and (victim.failed, victim.said) == (True, problem)
    )
    said = len(lines(bench, victim.name))
    start(victim, bench.files, bench.machine, quiet=True)
    assert len(lines(bench, victim.name)) == said
    start(victim, bench.files, bench.machine)
    assert lines(bench, victim.name)[-1] == f"fatal: {problem}" and len(lines(bench, victim.name)) == said + 1


@pytest.mark.parametrize("runtime", ["systemd", "docker", "kubernetes"])
def test_who_is_killed_comes_back(runtime: Runtime) -> None:
    bench = Bench(2, runtime)
    victim = bench.victim
    pid = victim.pid
    assert pid is not None
    kill(pid, bench.files, bench.machine)
    assert victim.pid is None and victim.said == KILLED and bench.files.text(victim.lock) is None
    tend(bench.files, bench.machine)
    assert victim.pid not in (None, pid) and victim.restarts == 1


def test_a_process_of_nobody_stays_gone(bench: Bench) -> None:
    other = bench.machine.spawn("x", "/bin/other")
    kill(other.pid, bench.files, bench.machine)
    tend(bench.files, bench.machine)
    assert other.pid not in bench.machine.processes


@pytest.mark.parametrize(("runtime", "back"), [("systemd", False), ("docker", True), ("kubernetes", True)])
def test_containers_and_pods_try_again_by_themselves(runtime: Runtime, back: bool) -> None:
    bench = Bench(2, runtime)
    victim = bench.victim
    bench.edit(victim.config, "workers = 4", "workers = x")
    restart(victim, bench.files, bench.machine)
    tend(bench.files, bench.machine)
    assert victim.pid is None
    bench.edit(victim.config, "workers = x", "workers = 4")
    tend(bench.files, bench.machine)
    assert (victim.pid is not None) == back


def test_what_was_stopped_on_purpose_stays_down(bench: Bench) -> None:
    for service in bench.machine.services.values():
        service.runtime = "docker"
        service.enabled = False
        stop(service, bench.files, bench.machine)
    tend(bench.files, bench.machine)
    assert all(service.pid is None for service in bench.machine.services.values())


def test_trouble_while_running_is_told_once_and_its_end_too(bench: Bench) -> None:
    victim = bench.victim
    bench.machine.offset = 900
    before = len(lines(bench, victim.name))
    for _ in range(3):
        tell(victim, bench.files, bench.machine)
    assert len(lines(bench, victim.name)) == before + 1 and "token" in lines(bench, victim.name)[-1]
    bench.machine.offset = 0
    for _ in range(3):
        tend(bench.files, bench.machine)
    assert lines(bench, victim.name)[-1] == "serving again" and len(lines(bench, victim.name)) == before + 2


def test_a_lock_that_is_not_its_own_is_left(bench: Bench) -> None:
    bench.files.write(bench.victim.lock, "1\n")
    stop(bench.victim, bench.files, bench.machine)
    assert bench.files.text(bench.victim.lock) == "1\n"
