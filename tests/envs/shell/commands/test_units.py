"""systemctl and journalctl."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.commands.units import dmesg, journalctl, moment, sync, systemctl
from tests.envs.shell.bench import Bench


def test_the_list_shows_all_units_and_the_failed_ones(bench: Bench) -> None:
    bench.machine.units["backup"] = "failed"
    text = bench.out(systemctl, "")
    assert all(f"{name}.service" in text for name in [*bench.machine.services, "chronyd", "sshd", "backup"])
    assert bench.out(systemctl, "list-units --all") == text
    assert "1 loaded units listed" in bench.out(systemctl, "--failed") and "backup.service" in bench.out(
        systemctl, "list-units --state=failed"
    )


def test_status_shows_the_state_the_process_and_the_last_lines(bench: Bench) -> None:
    victim = bench.victim
    text = bench.out(systemctl, f"status {victim.name}")
    assert "Active: active (running)" in text and f"Main PID: {victim.pid}" in text and victim.unit in text
    assert text.count(f"{bench.machine.host} {victim.name}[") == 7
    bench.edit(victim.config, "workers = 4", "workers = x")
    said = bench.call(systemctl, f"restart {victim.name}.service")
    assert said.code == 1 and f'"systemctl status {victim.name}.service"' in said.err
    down = bench.call(systemctl, f"status {victim.name} --no-pager -l")
    assert (
        down.code == 3
        and "failed (failed) (Result: exit-code)" in down.out
        and "configuration error" in down.out
    )


def test_start_stop_restart_and_what_they_are_asked_about(bench: Bench) -> None:
    victim = bench.victim
    name, pid = victim.name, victim.pid
    assert bench.call(systemctl, f"is-active {name}").code == 0
    assert bench.call(systemctl, f"stop {name}").code == 0 and victim.pid is None
    assert bench.call(systemctl, f"is-active {name}").out == "inactive\n"
    assert bench.call(systemctl, f"start {name}").code == 0 and victim.pid not in (None, pid)
    for verb in ("restart", "reload", "reload-or-restart", "try-restart"):
        old = victim.pid
        assert bench.call(systemctl, f"{verb} {name}").code == 0 and victim.pid not in (None, old)
    assert bench.call(systemctl, f"is-failed {name}").code == 3
    assert (
        bench.call(systemctl, f"disable --now {name}").code == 0 and victim.pid is None and not victim.enabled
    )
    assert bench.out(systemctl, f"enable --now {name}") == "" and victim.pid is not None
    assert bench.call(systemctl, f"is-enabled {name}").out == "enabled\n"


@pytest.mark.parametrize(
    "line",
    [
        "status nosuch",
        "restart nosuch",
        "enable nosuch",
        "frobnicate x",
        "start",
        "set-property",
        "cat nosuch",
        "revert x",
    ],
)
def test_what_does_not_go_is_said(bench: Bench, line: str) -> None:
    said = bench.call(systemctl, line)
    assert said.code != 0 and said.err


@pytest.mark.parametrize(
    "line", ["daemon-reload", "reset-failed", "list-timers", "show sshd", "status sshd", "restart sshd"]
)
def test_what_goes_without_further_ado(bench: Bench, line: str) -> None:
    assert bench.call(systemctl, line).code == 0


def test_a_service_that_runs_elsewhere_is_not_found_and_the_hint_says_where() -> None:
    bench = Bench(2, "docker")
    for verb in ("status", "restart"):
        said = bench.call(systemctl, f"{verb} {bench.victim.name}")
        assert said.code in (4, 5) and "It runs in docker" in said.err


def test_cat_show_and_limits(bench: Bench) -> None:
    victim = bench.victim
    bench.files.write(f"{victim.unit}.d/limits.conf", "[Service]\nMemoryMax=64M\n")
    assert "MemoryMax=64M" in bench.out(systemctl, f"cat {victim.name}") and "User=" in bench.out(
        systemctl, f"cat {victim.name}"
    )
    assert "MemoryMax=67108864" in bench.out(systemctl, f"show {victim.name} -p MemoryMax")
    bench.out(systemctl, f"set-property {victim.name} MemoryMax=2G")
    assert "MemoryMax=2147483648" in bench.out(systemctl, f"show {victim.name}")
    bench.out(systemctl, f"revert {victim.name}")
    assert "MemoryMax=infinity" in bench.out(systemctl, f"show {victim.name}")


def test_what_the_shell_stands_on_is_not_stopped_and_jobs_stay_failed(bench: Bench) -> None:
    assert "depends on it" in bench.call(systemctl, "stop sshd").err
    bench.machine.units["backup"] = "failed"
    assert bench.call(systemctl, "start backup").code == 1 and bench.machine.units["backup"] == "failed"
    assert bench.call(systemctl, "stop backup").code == 0 and bench.machine.units["backup"] == "inactive"


@pytest.mark.parametrize("name", ["chronyd", "chrony", "systemd-timesyncd", "ntp"])
def test_the_time_service_sets_the_clock(bench: Bench, name: str) -> None:
    bench.machine.offset, bench.machine.synced = 5000.0, False
    bench.out(systemctl, f"stop {name}")
    assert bench.call(systemctl, f"is-active {name}").code == 3
    bench.out(systemctl, f"restart {name}")
    assert (bench.machine.offset, bench.machine.synced) == (0.0, True) and bench.call(
        systemctl, f"is-active {name}"
    ).code == 0
    count = len(bench.machine.processes)
    sync(bench.machine)
    assert len(bench.machine.processes) == count


def test_the_journal_by_unit_number_level_and_words(bench: Bench) -> None:
    name = bench.victim.name
    bench.machine.log(name, "a fatal thing", priority=3)
    bench.machine.log(name, "a small thing", priority=6)
    lines = bench.out(journalctl, f"-u {name} --no-pager").splitlines()
    assert all(f" {name}[" in line for line in lines) and lines[-1].endswith("a small thing")
    assert bench.out(journalctl, f"-u {name}.service -n 2").splitlines() == lines[-2:]
    assert bench.out(journalctl, f"-u {name} -n 2 -r").splitlines() == lines[-2:][::-1]
    assert bench.out(journalctl, f"--unit={name} -p err -n1").splitlines() == [lines[-2]]
    assert bench.out(journalctl, "-p 0..3").splitlines() == [lines[-2]]
    assert bench.out(journalctl, "-g FATAL -xe").splitlines() == [lines[-2]]
    assert len(bench.out(journalctl, f"-f -u {name}").splitlines()) <= 10
    assert (
        bench.out(journalctl, "-u nosuch") == "-- No entries --\n" == bench.out(journalctl, f"-u {name} -n 0")
    )


def test_the_journal_by_time(bench: Bench) -> None:
    name = bench.victim.name
    bench.machine.log(name, "hours ago", ago=7200)
    bench.machine.log(name, "now")
    assert bench.out(journalctl, f"-u {name} --since=-1h").splitlines()[0].endswith("now")
    for since in ("3_hours_ago", "-3h", "3h"):
        assert [
            x.rsplit(": ")[-1] for x in bench.out(journalctl, f"-u {name} --since {since}").splitlines()
        ] == ["hours ago", "now"]
    assert "hours ago" in bench.out(journalctl, f"-u {name} -U -1h") and "now" not in bench.out(
        journalctl, f"-u {name} -U -1h"
    )
    assert bench.call(journalctl, "--since whenever").code == 1


@pytest.mark.parametrize(
    ("text", "ago"),
    [("10 min ago", 600), ("-2d", 172800), ("1 hour ago", 3600), ("30s", 30), ("now-ish", None), ("", None)],
)
def test_moments(bench: Bench, text: str, ago: int | None) -> None:
    found = moment(text, bench.machine)
    assert found == (None if ago is None else bench.machine.clock - ago)


def test_today_begins_at_midnight_of_the_machine(bench: Bench) -> None:
    today = moment("today", bench.machine)
    assert today is not None and today % 86400 == 0 and moment("yesterday", bench.machine) == today - 86400


def test_the_kernels_lines(bench: Bench) -> None:
    bench.machine.log("kernel", "memory pressure", pid=0)
    assert "memory pressure" in bench.out(dmesg, "-T") and "memory pressure" in bench.out(journalctl, "-k")
