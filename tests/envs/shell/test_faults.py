"""Each family makes the machine ill in the way its name says, says so in the logs, and in no other way."""

from __future__ import annotations

import re

import pytest

from roleagent_lite.envs.shell import faults
from roleagent_lite.envs.shell.faults import CULPRIT, FAMILIES, put
from roleagent_lite.envs.shell.health import trouble, well
from roleagent_lite.envs.shell.machine import Runtime
from tests.envs.shell.bench import Bench

SIGNS = {
    "disk_full": "No space left on device",
    "wrong_permission": "Permission denied",
    "bad_config": "configuration error",
    "port_taken": "Address already in use",
    "expired_certificate": "certificate has expired",
    "dead_upstream": "connection refused",
    "wrong_dns": "timed out",
    "crash_loop": "out of memory",
    "leaking_process": "cannot allocate memory",
    "stale_lock": "cannot lock",
    "failed_migration": "schema is dirty",
    "clock_skew": "refused our token",
}
RUNTIMES: tuple[Runtime, ...] = ("systemd", "docker", "kubernetes")


def test_at_least_twelve_families_each_with_words_for_its_culprit() -> None:
    assert set(FAMILIES) == set(CULPRIT) == set(SIGNS) and len(FAMILIES) >= 12


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_machine_is_ill_in_that_way(family: str, runtime: Runtime) -> None:
    for seed in range(6):
        bench = Bench(seed, runtime)
        broken = put(family, bench.world, bench.files)
        victim = bench.victim
        assert broken.family == family and len(broken.culprits) == len(set(broken.culprits)) > 0
        assert not well(bench.files, bench.machine)
        assert SIGNS[family] in (trouble(victim, bench.files, bench.machine) or "")
        said = [line.text for line in bench.machine.journal if line.unit == victim.name][-6:]
        assert any(SIGNS[family] in text for text in said)
        others = {name: sign for name, sign in SIGNS.items() if name != family}
        assert not [name for name, sign in others.items() if sign in said[-1]]


@pytest.mark.parametrize(
    "family", ["wrong_permission", "bad_config", "port_taken", "crash_loop", "stale_lock", "failed_migration"]
)
def test_faults_of_one_service_leave_those_that_do_not_call_it_well(family: str) -> None:
    bench = Bench(4)
    put(family, bench.world, bench.files)
    for name in (bench.world.peer, bench.world.bystander, bench.world.helper):
        assert trouble(bench.world.service(name), bench.files, bench.machine) is None


@pytest.mark.parametrize("family", FAMILIES)
def test_culprits_differ_from_seed_to_seed(family: str) -> None:
    first = set()
    for seed in range(12):
        bench = Bench(seed)
        first.add(put(family, bench.world, bench.files).culprits)
    assert len(first) >= 6


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fault_is_the_same_from_the_same_seed(family: str) -> None:
    one, other = Bench(8, None), Bench(8, None)
    assert put(family, one.world, one.files) == put(family, other.world, other.files)
    assert one.machine == other.machine and one.files.survey({}).digest == other.files.survey({}).digest


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_plan_speaks_the_runtimes_language(runtime: Runtime) -> None:
    bench = Bench(3, runtime)
    words = {
        "systemd": "systemctl restart",
        "docker": "docker restart",
        "kubernetes": "kubectl rollout restart",
    }
    assert faults.again(bench.victim).startswith(words[runtime])
    plan = " ".join(put("dead_upstream", bench.world, bench.files).plan)
    assert re.search(
        {"systemd": "systemctl start", "docker": "docker start", "kubernetes": "kubectl scale"}[runtime], plan
    )


def test_after_a_moved_clock_the_order_is_that_of_what_happened() -> None:
    for seed in range(6):
        bench = Bench(seed)
        before = len(bench.machine.journal)
        put("clock_skew", bench.world, bench.files)
        late = [line.time for line in bench.machine.journal[before:]]
        assert late == sorted(late) and abs(late[-1] - bench.machine.clock) < 300
