"""ps, kill, free and their like."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.commands.processes import (
    free,
    fuser,
    kill_command,
    pgrep,
    pkill,
    ps,
    top,
    uptime,
)
from tests.envs.shell.bench import Bench


def pids(text: str) -> list[str]:
    return [line.split()[1] for line in text.splitlines()[1:]]


def test_ps_lists_chooses_and_orders(bench: Bench) -> None:
    victim = bench.victim
    everything = pids(bench.out(ps, "aux"))
    assert everything == [str(p) for p in sorted(bench.machine.processes)] == pids(bench.out(ps, "-ef"))
    assert (
        pids(bench.out(ps, f"-p {victim.pid}"))
        == [str(victim.pid)]
        == pids(bench.out(ps, f"-C {victim.name}"))
    )
    assert pids(bench.out(ps, f"-u {victim.user}")) == [str(victim.pid)]
    hog = bench.machine.spawn("x", "/bin/hog", rss=4000, cpu=99.0)
    for order in ("-rss", "-%mem", "-%cpu", "-pcpu"):
        assert pids(bench.out(ps, f"aux --sort={order}"))[0] == str(hog.pid)
    assert pids(bench.out(ps, "aux --sort=pid"))[0] == "1"
    gone = bench.call(ps, "-p 99999")
    assert gone.code == 1 and pids(gone.out) == []
    assert "51.2" in bench.out(ps, f"-p {hog.pid}") and str(4000 * 1024) in bench.out(ps, f"-p {hog.pid}")


def test_memory_and_load(bench: Bench) -> None:
    machine = bench.machine
    assert bench.out(free, "-m").split()[5:9] == [
        str(n) for n in (machine.memory, machine.used_memory, machine.free_memory, machine.free_memory)
    ]
    assert f"{machine.free_memory}Mi" in bench.out(free, "-h") and str(machine.memory * 1024) in bench.out(
        free, ""
    )
    bench.machine.spawn("x", "/bin/busy", cpu=100.0)
    assert "load average: 1." in bench.out(uptime, "")
    assert bench.out(top, "-bn1").splitlines()[4].split()[-1] == "/bin/busy"


@pytest.mark.parametrize("line", ["{}", "-9 {}", "-KILL {}", "-TERM {}", "-15 {}"])
def test_a_signal_ends_a_process(bench: Bench, line: str) -> None:
    other = bench.machine.spawn("x", "/bin/other", port=5)
    assert bench.call(kill_command, line.format(other.pid), name="kill").code == 0
    assert other.pid not in bench.machine.processes


@pytest.mark.parametrize("line", ["-0 {}", "-HUP {}", "-1 {}"])
def test_some_signals_end_nothing(bench: Bench, line: str) -> None:
    other = bench.machine.spawn("x", "/bin/other")
    assert bench.call(kill_command, line.format(other.pid)).code == 0 and other.pid in bench.machine.processes


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1", "not permitted"),
        ("99999", "No such process"),
        ("x", "No such process"),
        ("", "usage"),
        ("²", "No such process"),
        ("-9 9999999999999999", "No such"),
    ],
)
def test_what_cannot_be_killed(bench: Bench, line: str, said: str) -> None:
    before = dict(bench.machine.processes)
    came = bench.call(kill_command, line)
    assert came.code == 1 and said in came.err and bench.machine.processes == before


def test_the_shells_own_ground_is_not_killed(bench: Bench) -> None:
    for name in ("dockerd", "kubelet", "sshd", "init"):
        process = next(p for p in bench.machine.processes.values() if p.name == name)
        assert bench.call(kill_command, f"-9 {process.pid}").code == 1
        bench.call(pkill, f"-9 {name}")
        bench.call(pkill, name, name="killall")
    bench.call(fuser, "-k 22/tcp")
    assert {"dockerd", "kubelet", "sshd", "init"} <= {p.name for p in bench.machine.processes.values()}
    assert "KILL" in bench.out(kill_command, "-l")


def test_by_name(bench: Bench) -> None:
    victim = bench.victim
    assert bench.out(pgrep, victim.name) == f"{victim.pid}\n" == bench.out(pgrep, victim.name, name="pidof")
    assert (
        bench.out(pgrep, f"-f {victim.config}") == f"{victim.pid}\n"
        and bench.call(pgrep, victim.config).code == 1
    )
    assert bench.out(pgrep, f"-a {victim.name}").startswith(f"{victim.pid} /opt/")
    assert bench.call(pgrep, "").code == 1 == bench.call(pkill, "nosuch").code
    old = victim.pid
    assert bench.call(pkill, f"-9 {victim.name}").code == 0 and old not in bench.machine.processes


def test_by_port(bench: Bench) -> None:
    other = bench.machine.spawn("x", "/bin/other", port=4242)
    assert bench.out(fuser, "4242/tcp") == f"4242/tcp: {other.pid}\n" and other.pid in bench.machine.processes
    assert bench.call(fuser, "-k 4242/tcp").code == 0 and other.pid not in bench.machine.processes
    assert bench.call(fuser, "4242/tcp").code == 1
