"""The machine's state by itself: processes, journal, names, copies."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.machine import JOURNAL_LINES, Machine, Process, Service


@pytest.fixture
def machine() -> Machine:
    found = Machine("h-1", "10.1.2.3", 1000.0, seed=4)
    found.services["api"] = Service("api", "systemd", "api", 8000)
    return found


def test_pids_are_drawn_from_the_seed_and_grow(machine: Machine) -> None:
    first = [machine.draw_pid() for _ in range(20)]
    assert first == sorted(set(first))
    other = Machine("h", "10.1.2.3", 0.0, seed=4)
    assert [other.draw_pid() for _ in range(20)] == first
    assert [Machine("h", "10.1.2.3", 0.0, seed=5).draw_pid()] != first[:1]


def test_a_process_belongs_to_its_service_and_takes_memory(machine: Machine) -> None:
    before = machine.free_memory
    process = machine.spawn("api", "/opt/api/bin/api --config x", port=8000, unit="api", rss=300)
    machine.services["api"].pid = process.pid
    assert (process.name, machine.listener(8000), machine.of_unit("api")) == ("api", process, [process])
    assert machine.free_memory == before - 300 and machine.listener(8001) is None
    machine.end(process.pid)
    after: tuple[object, ...] = (machine.services["api"].pid, machine.processes, machine.free_memory)
    assert after == (None, {}, before)
    machine.end(process.pid)  # gone already


def test_memory_does_not_go_below_nothing(machine: Machine) -> None:
    machine.spawn("x", "y", rss=10**6)
    assert machine.free_memory == 0


def test_journal_lines_carry_the_clock_and_the_oldest_go(machine: Machine) -> None:
    machine.offset = 500.0
    machine.log("api", "one", ago=100)
    assert (machine.journal[0].time, machine.journal[0].pid) == (1400.0, 1)
    machine.services["api"].pid = 77
    machine.log("api", "two")
    assert machine.journal[1].pid == 77
    for n in range(JOURNAL_LINES + 5):
        machine.log("api", str(n))
    assert len(machine.journal) == JOURNAL_LINES and machine.journal[-1].text == str(JOURNAL_LINES + 4)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("a.svc.internal", "10.9.9.9"),
        ("b.svc.internal", "10.1.2.3"),
        ("localhost", "127.0.0.1"),
        ("h-1", "127.0.0.1"),
        ("10.0.0.7", "10.0.0.7"),
        ("999.0.0.7", None),
        ("1.2.3", None),
        ("nowhere", None),
        ("", None),
        ("٣.0.0.1", None),
    ],
)
def test_names_go_by_the_hosts_file_then_the_zone(machine: Machine, name: str, address: str | None) -> None:
    hosts = "# a comment\n10.9.9.9 a.svc.internal other # b.svc.internal\n\n"
    zone = "; zone\na.svc.internal 300 IN A 10.1.2.3\nb.svc.internal. 300 IN A 10.1.2.3 ; here\nb 300 IN A\n"
    assert machine.resolve(name, hosts, zone) == address


def test_the_last_entry_of_a_zone_counts(machine: Machine) -> None:
    zone = "a 300 IN A 1.1.1.1\na 300 IN A 2.2.2.2\na IN TXT hello\n"
    assert machine.named("a", zone) == machine.named("a.", zone) == "2.2.2.2"
    assert (
        machine.ours("10.1.2.3")
        and machine.ours("127.0.0.1")
        and not machine.ours("2.2.2.2")
        and not machine.ours(None)
    )


def test_a_copy_is_a_machine_of_its_own(machine: Machine) -> None:
    machine.spawn("x", "y")
    machine.owners["/a"] = "x:x"
    copy = machine.copy()
    assert copy == machine
    copy.services["api"].enabled = False
    copy.processes[5] = Process(5, "x", "z")
    copy.owners["/b"] = "x:x"
    copy.log("api", "only there")
    copy.typed.append("ls")
    copy.units["u"] = "failed"
    assert machine.services["api"].enabled and 5 not in machine.processes and "/b" not in machine.owners
    assert (machine.journal, machine.typed, machine.units) == ([], [], {})


def test_places_follow_from_the_name() -> None:
    service = Service("api", "docker", "api", 8000)
    assert (service.config, service.data, service.lock) == (
        "/etc/api/api.conf",
        "/var/lib/api",
        "/run/api/api.lock",
    )
    assert (service.cert, service.log) == ("/etc/ssl/api/fullchain.pem", "/var/log/api/api.log")
    assert (service.unit, service.address) == ("/etc/systemd/system/api.service", "api.svc.internal")
