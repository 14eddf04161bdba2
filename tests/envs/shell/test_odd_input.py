"""Whatever words a command gets and whatever stands in the files: an answer in words, never an exception."""

from __future__ import annotations

from functools import lru_cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roleagent_lite.envs.shell.commands import admin, containers, finding, listing, network, processes, units
from roleagent_lite.envs.shell.commands.call import Call, Said
from roleagent_lite.envs.shell.files import Files
from roleagent_lite.envs.shell.health import HOSTS, ZONE, trouble, well
from roleagent_lite.envs.shell.machine import Runtime
from roleagent_lite.envs.shell.runtime import restart, tend
from tests.envs.shell.bench import Bench

MODULES = (admin, containers, finding, listing, network, processes, units)
COMMANDS = {name: command for module in MODULES for name, command in module.COMMANDS.items()}
WORDS = [
    "",
    "-",
    "--",
    "-n",
    "-p",
    "-u",
    "-a",
    "-h",
    "-R",
    "-rf",
    "-l",
    "-s",
    "-c",
    "-i",
    "-o",
    "-d",
    "-9",
    "-0",
    "-in",
    "+%s",
    "+%F",
    "--since",
    "--tail=3",
    "--replicas=-1",
    "--limits=memory=1",
    "--sort=-x",
    "-size",
    "+1G",
    "-perm",
    "/7777",
    "-mtime",
    "-newer",
    "-connect",
    "x509",
    "s_client",
    "status",
    "restart",
    "stop",
    "start",
    "get",
    "pods",
    "describe",
    "logs",
    "set",
    "scale",
    "rollout",
    "update",
    "inspect",
    "ps",
    "renew",
    "migrate",
    "force",
    "show",
    "list",
    "hosts",
    "passwd",
    "makestep",
    "set-ntp",
    "true",
    "/",
    "..",
    "/etc",
    "/etc/hosts",
    "/var",
    "/nothing",
    "localhost",
    "localhost:99999",
    "http://[",
    "https://a@b:1/c",
    "0",
    "1",
    "-1",
    "99999999999999999999",
    "²",
    "٣",
    "é",
    "\ud800",
    "\0",
    "a" * 3000,
    "%",
    "{}",
    "*",
    "[",
    "$(x)",
    "'",
    "\n",
    "=",
    "a=b",
    "@-1",
    "@9999999999999",
    "1e9",
    "nan",
    "inf",
]


@lru_cache(maxsize=3)
def bench_of(runtime: Runtime) -> Bench:
    return Bench(5, runtime)


@pytest.mark.parametrize("runtime", ["systemd", "docker", "kubernetes"])
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_words(runtime: Runtime, data: st.DataObject) -> None:
    bench = bench_of(runtime)
    name = data.draw(st.sampled_from(sorted(COMMANDS)))
    names = [s.name for s in bench.machine.services.values()]
    words = data.draw(st.lists(st.sampled_from([*WORDS, *names]) | st.text(max_size=12), max_size=6))
    machine = bench.machine.copy()
    files = Files(bench.store, machine)
    said = COMMANDS[name](
        Call(name, tuple(words), data.draw(st.sampled_from(["", "a\nb\n"])), "/etc", files, machine)
    )
    assert isinstance(said, Said) and isinstance(said.code, int)
    assert len(said.out) + len(said.err) < 300_000
    tend(files, machine)
    said.out.encode("utf-8", "replace")


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_content(data: st.DataObject) -> None:
    bench = Bench(6, "systemd")
    victim = bench.victim
    places = [
        victim.config,
        victim.unit,
        victim.cert,
        victim.lock,
        f"{victim.data}/schema",
        f"{victim.data}/store.db",
        HOSTS,
        ZONE,
        f"{victim.unit}.d/x.conf",
        bench.files.children(f"{victim.data}/tables")[0].path,
        "/etc/passwd",
        bench.files.children(f"/opt/{victim.name}/migrations")[0].path,
    ]
    for place in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=4)):
        old = bench.files.raw(place) or b""
        new = data.draw(
            st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace"))
        )
        at = data.draw(st.integers(0, len(old)))
        bench.files.write(place, "")
        bench.store.write_file(place, old[:at] + new + data.draw(st.sampled_from([b"", old[at:]])))
    restart(victim, bench.files, bench.machine)
    tend(bench.files, bench.machine)
    well(bench.files, bench.machine)
    for service in bench.machine.services.values():
        trouble(service, bench.files, bench.machine)
    for line in (f"migrate {victim.name}", f"status {victim.name}", f"force {victim.name} 3"):
        bench.call(admin.dbctl, line)
    for line in ("list", f"show {victim.name}", f"renew {victim.name}"):
        bench.call(admin.certctl, line)
    for line in (f"status {victim.name}", f"cat {victim.name}", f"show {victim.name}"):
        bench.call(units.systemctl, line)


def test_a_very_long_file_is_read_at_its_beginning() -> None:
    bench = Bench(6, "systemd")
    bench.files.write(
        bench.victim.config, (bench.files.text(bench.victim.config) or "") + "# x\n" * 2_000_000
    )
    assert restart(bench.victim, bench.files, bench.machine) is None
    bench.files.write(bench.victim.config, "# x\n" * 2_000_000)
    assert "missing key" in (restart(bench.victim, bench.files, bench.machine) or "")
