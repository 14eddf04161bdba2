"""The clock, certificates, migrations."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.commands.admin import (
    certctl,
    chronyc,
    date,
    dbctl,
    editor,
    history,
    hostnamectl,
    identity,
    ntpdate,
    sleep,
    tar,
    timedatectl,
    uuidgen,
    which,
)
from roleagent_lite.envs.shell.health import start_problem, trouble
from roleagent_lite.envs.shell.stamps import iso, write_cert
from tests.envs.shell.bench import Bench


@pytest.fixture
def noon(bench: Bench) -> Bench:
    bench.machine.now = 1_767_593_228.0  # 2026-01-05 06:07:08
    return bench


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "Mon Jan 05 06:07:08 UTC 2026"),
        ("-u", "Mon Jan 05 06:07:08 UTC 2026"),
        ("+%F_%T", "2026-01-05 06:07:08"),
        ("+%s", "1767593228"),
        ("-d @0 +%Y", "1970"),
        ("-d 2026-02-03_04:05:06 +%s", "1770091506"),
        ("-d 1_hour_ago +%T", "05:07:08"),
        ("-d 2_days +%F", "2026-01-07"),
        ("--date=now +%s%N", "1767593228000000000"),
        ("-I", "2026-01-05T06:07:08+00:00"),
        ("+%q%%", "%q%%"),
        ("+%n", "\n"),
    ],
)
def test_dates(noon: Bench, line: str, said: str) -> None:
    assert noon.out(date, line) == f"{said}\n"


@pytest.mark.parametrize("line", ["-d whenever", "-s never", "--set=x"])
def test_dates_that_are_none(noon: Bench, line: str) -> None:
    assert noon.call(date, line).code == 1 and noon.machine.offset == 0


def test_setting_the_clock_moves_it_and_nothing_else(noon: Bench) -> None:
    noon.out(date, "-s 2026-01-05_07:07:08")
    assert noon.machine.offset == 3600 and noon.out(date, "+%T") == "07:07:08\n"
    noon.out(date, "-s 1_hour_ago")
    assert noon.machine.offset == 0
    noon.out(timedatectl, "set-time 2026-01-06_06:07:08")
    assert noon.machine.offset == 86400
    noon.files.write("/tmp/a", "x")
    noon.files.survey({})
    assert noon.out(date, "-r /tmp/a +%F") == "2026-01-06\n"


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (timedatectl, "set-ntp true"),
        (chronyc, "makestep"),
        (chronyc, "-a makestep"),
        (ntpdate, "pool.ntp.org"),
    ],
)
def test_the_ways_to_the_right_time(noon: Bench, command: object, line: str) -> None:
    noon.machine.offset, noon.machine.synced = -5000.0, False
    assert "synchronized: no" in noon.out(timedatectl, "") and "5000.000000 seconds slow" in noon.out(
        chronyc, "tracking"
    )
    assert "offset 5000" in noon.out(ntpdate, "-q pool.ntp.org") and noon.machine.offset == -5000
    assert callable(command)
    noon.out(command, line)
    assert noon.machine.offset == 0 and "synchronized: yes" in noon.out(timedatectl, "status")


def test_without_its_daemon_chrony_has_nothing_to_say(noon: Bench) -> None:
    for pid in [p.pid for p in noon.machine.processes.values() if p.name == "chronyd"]:
        noon.machine.end(pid)
    assert noon.call(chronyc, "tracking").code == 1 and "NTP service: inactive" in noon.out(timedatectl, "")


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("5", 5),
        ("0.5", 0.5),
        ("2m", 120),
        ("1h", 3600),
        ("999999d", 86400),
        ("infinity", None),
        ("", None),
        ("-1", None),
    ],
)
def test_sleep_moves_the_clock(noon: Bench, line: str, seconds: float | None) -> None:
    before = noon.machine.now
    assert noon.call(sleep, line).code == int(seconds is None)
    assert noon.machine.now - before == (seconds or 0)


def test_certificates_are_listed_shown_and_renewed(bench: Bench) -> None:
    victim = bench.victim
    assert bench.out(certctl, "list").count("notAfter") == 2
    bench.files.write(victim.cert, write_cert("x", 0, 5))
    assert "expired" in (trouble(victim, bench.files, bench.machine) or "")
    assert "1970" in bench.out(certctl, f"show {victim.name}")
    for name in (victim.name, victim.address, victim.cert):
        bench.files.write(victim.cert, "")
        assert "unreadable" in bench.out(certctl, "list")
        assert bench.out(certctl, f"renew {name}").startswith(f"renewed {victim.cert}, valid until ")
        assert trouble(victim, bench.files, bench.machine) is None


@pytest.mark.parametrize("line", ["", "renew", "renew nosuch", "sign x", "renew /etc/passwd"])
def test_certificates_that_are_none(bench: Bench, line: str) -> None:
    assert bench.call(certctl, line).code == 1
    assert bench.call(certctl, f"renew {bench.peer.name}").code == 1  # it has none


def broken(bench: Bench) -> tuple[str, str]:
    """A migration that fails: (its table's file, its script)."""
    victim = bench.victim
    table = bench.files.children(f"{victim.data}/tables")[0].path
    script = bench.files.children(f"/opt/{victim.name}/migrations")[0].path
    rows = (bench.files.text(table) or "").splitlines()
    bench.files.write(table, "\n".join([*rows, f"999,{rows[1].split(',')[1]},twin"]) + "\n")
    bench.files.write(f"{victim.data}/schema", f"version={(victim.schema or 0) - 1}\ndirty=true\n")
    return table, script


def test_a_migration_fails_while_its_rule_is_broken(bench: Bench) -> None:
    name, (table, _) = bench.victim.name, broken(bench)
    assert "(dirty)" in bench.out(dbctl, f"status {name}")
    said = bench.call(dbctl, f"migrate {name}")
    assert said.code == 1 and "duplicate value" in said.err and table in said.err
    assert "dirty" in (start_problem(bench.victim, bench.files, bench.machine) or "")


def test_ways_to_mend_a_migration(bench: Bench) -> None:
    victim, (table, script) = bench.victim, broken(bench)
    state = {path: bench.files.text(path) or "" for path in (table, script, f"{victim.data}/schema")}
    for path, old, new in (
        (table, ",twin\n", ",twin\n"),
        (table, "999,", "999,other-"),
        (script, "UNIQUE ", ""),
        (script, "CREATE UNIQUE", "-- CREATE UNIQUE"),
    ):
        for one, text in state.items():
            bench.files.write(one, text)
        text = state[path].replace(old, new)
        bench.files.write(path, "\n".join(text.splitlines()[:-1]) + "\n" if old == new else text)
        assert bench.call(dbctl, f"migrate {victim.name}").code == 0
        assert start_problem(victim, bench.files, bench.machine) is None


def test_force_takes_the_mark_away_and_is_no_mending(bench: Bench) -> None:
    victim = bench.victim
    broken(bench)
    need = victim.schema or 0
    assert "clean" in bench.out(dbctl, f"force {victim.name} {need - 1}")
    assert f"needs {need}" in (start_problem(victim, bench.files, bench.machine) or "")
    for line in (
        f"force {victim.name} {need}",
        f"force {victim.name}",
        f"force {victim.name} ²",
        "force",
        "",
        "migrate nosuch",
        f"status {bench.peer.name}",
        f"drop {victim.name}",
    ):
        assert bench.call(dbctl, line).code == 1
    bench.files.remove(bench.files.children(f"/opt/{victim.name}/migrations")[0].path)
    assert f"at version {need - 1}" in bench.out(
        dbctl, f"migrate {victim.name}"
    )  # nothing to run: still too old
    assert start_problem(victim, bench.files, bench.machine) is not None


def test_a_table_that_is_gone(bench: Bench) -> None:
    table, _ = broken(bench)
    bench.files.remove(table)
    assert "no such column" in bench.call(dbctl, f"migrate {bench.victim.name}").err


def test_who_and_where(bench: Bench) -> None:
    bench.machine.simulated = frozenset({"systemctl"})
    bench.files.write("/usr/bin/grep", "")
    assert (
        bench.out(identity, "") == "uid=0(root) gid=0(root) groups=0(root)\n"
        and bench.out(identity, "-u") == "0\n"
    )
    assert bench.out(identity, bench.victim.user).endswith(f"({bench.victim.user})\n")
    assert bench.call(identity, "nosuch", name="id").err == "id: 'nosuch': no such user\n"
    assert bench.machine.host in bench.out(hostnamectl, "")
    assert bench.out(which, "grep systemctl") == "/usr/bin/grep\n/usr/bin/systemctl\n"
    assert bench.call(which, "grep nosuch").code == 1 == bench.call(which, "").code
    first = bench.out(uuidgen, "")
    assert bench.out(uuidgen, "") != first == Bench().out(uuidgen, "")


def test_history_and_iso(bench: Bench) -> None:
    assert bench.call(tar, "cf x /etc").code == 1
    assert "sed -i" in bench.call(editor, "/etc/hosts", name="vi").err
    bench.machine.typed += ["ls", "date"]
    assert bench.out(history, "") == "    1  ls\n    2  date\n"
    assert iso(0) == "1970-01-01 00:00:00"
