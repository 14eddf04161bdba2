"""docker and kubectl."""

from __future__ import annotations

import json

import pytest

from roleagent_lite.envs.shell.commands.containers import docker, kubectl, pod_of, short_id
from tests.envs.shell.bench import Bench


@pytest.fixture
def ship() -> Bench:
    return Bench(2, "docker")


@pytest.fixture
def cluster() -> Bench:
    return Bench(2, "kubernetes")


def test_containers_are_listed_with_state(ship: Bench) -> None:
    text = ship.out(docker, "ps")
    assert all(name in text for name in ship.machine.services) and text.count("Up since") == 5
    ship.edit(ship.victim.config, "workers = 4", "workers = x")
    ship.out(docker, f"restart {ship.victim.name}")
    ship.out(docker, f"stop {ship.peer.name}")
    assert f"Restarting (1), {ship.victim.restarts} restarts" in ship.out(docker, "ps")
    assert ship.peer.name not in ship.out(docker, "ps") and "Exited (0)" in ship.out(docker, "ps -a")
    assert ship.out(docker, "container ls -a") == ship.out(docker, "ps -a")


def test_logs_inspect_stats(ship: Bench) -> None:
    name = ship.victim.name
    ship.machine.log(name, "the last line")
    assert (
        ship.out(docker, f"logs --tail 1 {name}")
        == "the last line\n"
        == ship.out(docker, f"logs -n 1 {name}")
    )
    assert ship.out(docker, f"logs -t {name}").startswith("20")
    found = json.loads(ship.out(docker, f"inspect {name}"))[0]
    assert found["State"]["Running"] and found["HostConfig"]["Memory"] == 1024**3
    assert f"{ship.victim.memory}MiB / 1024MiB" in ship.out(docker, "stats --no-stream")
    assert ship.out(docker, f"logs {short_id(name)[:6]}") == ship.out(docker, f"logs {name}")


@pytest.mark.parametrize(("text", "size"), [("256m", 256), ("1g", 1024), ("512MB", 512), ("1Gi", 1024)])
def test_limits_can_be_changed(ship: Bench, text: str, size: int) -> None:
    ship.out(docker, f"update --memory {text} {ship.victim.name}")
    assert ship.victim.limit == size
    assert ship.call(docker, f"update -m much {ship.victim.name}").code == 1 and ship.victim.limit == size


def test_what_is_stopped_stays_and_what_is_started_is_kept(ship: Bench) -> None:
    ship.out(docker, f"stop {ship.victim.name} {ship.peer.name}")
    assert not ship.victim.enabled and ship.victim.pid is None and ship.peer.pid is None
    ship.out(docker, f"start {ship.victim.name}")
    assert ship.victim.enabled and ship.victim.pid is not None


@pytest.mark.parametrize(
    "line", ["logs nosuch", "exec x ls", "frobnicate", "logs", "", "run -v /:/h alpine", "cp a b"]
)
def test_what_does_not_go_is_said(ship: Bench, line: str) -> None:
    said = ship.call(docker, line)
    assert said.code == 1 and said.err


def test_only_ones_own_kind_is_seen(ship: Bench, cluster: Bench) -> None:
    assert (
        ship.out(kubectl, "get pods")
        == "No resources found in default namespace.\n"
        == ship.out(kubectl, "get deploy")
    )
    assert cluster.out(docker, "ps").count("\n") == 1
    assert ship.call(kubectl, f"logs {ship.victim.name}").code == 1


def test_pods_are_listed_and_have_other_names_after_a_restart(cluster: Bench) -> None:
    victim = cluster.victim
    old = pod_of(victim)
    assert old in cluster.out(kubectl, "get pods -A -o wide") and "CrashLoop" not in cluster.out(
        kubectl, "get po"
    )
    cluster.out(kubectl, f"delete pod {old}")
    assert pod_of(victim) != old and victim.pid is not None
    cluster.machine.offset = 900
    row = next(line for line in cluster.out(kubectl, "get pods").splitlines() if line.startswith(victim.name))
    assert row.split()[1:3] == ["0/1", "Running"]


def test_a_pod_that_crashes_and_what_is_told_of_it(cluster: Bench) -> None:
    victim = cluster.victim
    victim.limit = 10
    cluster.out(kubectl, f"rollout restart deployment/{victim.name}")
    assert "CrashLoopBackOff" in cluster.out(kubectl, "get pods") and "0/1" in cluster.out(
        kubectl, "get deployments"
    )
    for line in (
        f"describe deployment {victim.name}",
        f"describe pod {pod_of(victim)}",
        f"get deploy {victim.name} -o yaml",
    ):
        text = cluster.out(kubectl, line)
        assert text in cluster.out(kubectl, "describe pods")
        assert "Limits: memory: 10Mi" in text and "out of memory" in text
    assert "out of memory" in cluster.out(kubectl, "get events") and "waiting" in cluster.out(
        kubectl, f"rollout status deploy/{victim.name}"
    )
    cluster.out(kubectl, f"set resources deployment/{victim.name} --limits=cpu=1,memory=2Gi")
    assert victim.limit == 2048 and victim.pid is not None
    victim.limit = 10
    cluster.out(kubectl, f"rollout undo deployment {victim.name}")
    assert victim.limit == 1024 and victim.pid is not None


def test_scaling_to_none_and_back(cluster: Bench) -> None:
    victim = cluster.victim
    cluster.out(kubectl, f"scale deployment {victim.name} --replicas=0")
    assert victim.pid is None and victim.name not in cluster.out(kubectl, "get pods")
    assert "0/0" in cluster.out(kubectl, "get deploy")
    cluster.out(kubectl, f"scale --replicas 2 deployment/{victim.name}")
    assert victim.pid is not None


def test_logs_by_pod_deployment_and_label(cluster: Bench) -> None:
    victim = cluster.victim
    cluster.machine.log(victim.name, "the last line")
    for name in (pod_of(victim), f"deployment/{victim.name}", f"pod/{pod_of(victim)}", victim.name):
        assert cluster.out(kubectl, f"logs {name} --tail=1") == "the last line\n"


def test_other_lists(cluster: Bench) -> None:
    assert cluster.machine.host in cluster.out(kubectl, "get nodes") and cluster.machine.host in cluster.out(
        kubectl, "describe node x"
    )
    assert f"{cluster.victim.port}/TCP" in cluster.out(kubectl, "get svc")
    assert f"{cluster.victim.memory}Mi" in cluster.out(kubectl, "top pods")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "exec x ls",
        "apply -f x",
        "frobnicate x",
        "delete deployment x",
        "logs nosuch",
        "logs",
        "set",
        "edit deploy x",
    ],
)
def test_what_does_not_go_in_the_cluster_is_said(cluster: Bench, line: str) -> None:
    said = cluster.call(kubectl, line)
    assert said.code == 1 and said.err


def test_deployments_are_not_deleted_and_limits_must_be_sizes(cluster: Bench) -> None:
    assert "only pods" in cluster.call(kubectl, f"delete deployment {cluster.victim.name}").err
    assert cluster.call(kubectl, f"set resources deploy/{cluster.victim.name} --limits=cpu=1").code == 1
