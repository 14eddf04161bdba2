"""shell as an Environment: protocol, score, reports, determinism, what is wrong with a task."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.envs.checker import check, seed_ignored
from roleagent_lite.envs.shell import faults
from roleagent_lite.envs.shell.env import MOST_SHOWN, Shell, clipped, limit, ticket
from roleagent_lite.envs.shell.faults import CULPRIT, FAMILIES
from roleagent_lite.envs.shell.sandbox import Sandbox
from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Task

pytest.importorskip("bashkit", reason="bashkit is not installed: pip install 'roleagent-lite[shell]'")
TASKS = load_tasks("shell")
LOOKING = [
    "systemctl --failed",
    "systemctl",
    "docker ps -a",
    "kubectl get pods",
    "df -h",
    "free -m",
    "ps aux --sort=-rss | head",
    "ss -ltnp",
    "date",
    "ls -la /etc /var/log",
    "journalctl -p err -n 10",
    "cat /etc/hosts",
    "echo $RANDOM",
    "cd /var/log && ls",
    "touch /tmp/x; ls -l /tmp",
    "curl -s localhost:80",
    "find / -size +1G",
    "mktemp",
    "uptime",
    "env",
    "report disk_full /var",
    "report clock_skew chronyd",
]


def made(family: str = "bad_config", seed: int = 3, difficulty: str = "easy", **params: Any) -> Shell:
    return Shell(Task("t", "shell", "g", seed, {"type": family, "difficulty": difficulty, **params}))


def play(env: Shell, actions: list[str]) -> list[tuple[str, str | None, float, bool, bool]]:
    seen = []
    for action in actions:
        came = env.step(action)
        seen.append((came.observation.text, came.observation.state_key, came.reward, came.done, came.valid))
    return seen


def test_a_task_without_a_family_gets_one_from_its_seed() -> None:
    families = {Shell(Task("t", "shell", "g", seed)).broken.family for seed in range(25)}
    assert len(families) > 6
    spec = registry.spec("shell")
    tasks = [Task(f"seed-{seed}", "shell", spec.goal, seed) for seed in range(3)]
    assert check(spec.make, tasks[0], other=tasks[1]) == [] == seed_ignored(spec.make, tasks)
    assert spec.goal.startswith("Find what is broken")


def test_the_checker_finds_nothing() -> None:
    spec = registry.spec("shell")
    assert check(spec.make, TASKS[0], other=TASKS[30]) == []
    assert (spec.max_steps(TASKS[0]), spec.history, spec.facts, spec.snapshots) == (30, 4, True, True)
    assert {
        "systemctl",
        "journalctl",
        "ss",
        "df",
        "ps",
        "kill",
        "kubectl",
        "docker",
        "curl",
        "date",
        "dig",
        "getent",
        "openssl",
    } <= set(spec.vocabulary.replace(",", "").split())


def test_causes_are_in_the_vocabulary_too_for_the_beginning_is_soon_out_of_sight() -> None:
    vocabulary = registry.spec("shell").vocabulary
    assert all(name in vocabulary for name in FAMILIES) and "report CAUSE CULPRIT" in vocabulary


def test_the_beginning_names_the_machine_and_all_causes_not_the_fault() -> None:
    env = made("stale_lock", 5)
    text = env.observe().text
    assert text.startswith(ticket(5, "easy") + "\n")
    assert all(f"  {name}: {what}" in text for name, what in CULPRIT.items())
    assert env.broken.culprits[0] not in text
    assert env.observe() == env.observe() and env.observe().admissible == ()


def test_a_hard_ticket_names_who_calls_the_ill_service() -> None:
    assert ticket(5, "easy") == ticket(5, "medium") != ticket(5, "hard")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("difficulty", ["easy", "hard"])
def test_the_plan_of_every_family_scores_full_marks(family: str, difficulty: str) -> None:
    env = made(family, 11, difficulty)
    assert env.score() == 0.0
    seen = play(env, env.walkthrough())
    assert [done for *_, done, _ in seen] == [False] * (len(seen) - 1) + [True]
    assert (env.score(), round(sum(reward for _, _, reward, *_ in seen), 6)) == (1.0, 1.0)


def test_half_marks_for_mending_the_rest_for_the_report() -> None:
    env = made("stale_lock", 5)
    *mending, report = env.walkthrough()
    assert round(sum(reward for _, _, reward, *_ in play(env, mending)), 6) == env.score() == 0.5
    after = env.snapshot()
    for said, score in [
        (report, 1.0),
        ("report stale_lock /tmp/other.lock", 0.8),
        ("report disk_full /var", 0.5),
        (f"report stale lock: the file '{env.broken.culprits[0]}'.", 1.0),
    ]:
        env.restore(after)
        last = env.step(said)
        assert (last.done, env.score(), last.reward) == (True, score, round(score - 0.5, 2)), said


def test_a_report_without_mending() -> None:
    env = made("stale_lock", 5)
    assert env.step(env.walkthrough()[-1]).done
    assert env.score() == 0.5
    closed = env.step("rm -rf /run")
    assert (closed.done, closed.valid, closed.reward, env.score()) == (True, False, 0.0, 0.5)


def test_many_culprits_named_at_once_are_one_guess() -> None:
    env = made("stale_lock", 5)
    env.step(f"report stale_lock /wrong {' '.join(env.broken.culprits)}")
    assert env.score() == 0.3


@pytest.mark.parametrize(
    "said", ["report", "report because of the disk", "report stale_lock", "report stale_lock the file"]
)
def test_a_report_that_is_none_is_refused_and_the_episode_goes_on(said: str) -> None:
    env = made("stale_lock", 5)
    came = env.step(said)
    assert not came.valid and not came.done and "report" in came.observation.text.lower()
    assert env.step("date").valid


def test_a_refused_report_says_what_it_took_for_the_cause() -> None:
    env = made("stale_lock", 5)
    assert env.step("report CAUSE CULPRIT").observation.text == (
        "'CAUSE CULPRIT' names no cause. Write report CAUSE CULPRIT, where CAUSE is one of "
        f"{', '.join(FAMILIES)}."
    )
    assert env.step("report").observation.text.startswith("This report names no cause. Write report CAUSE")


def test_what_is_mended_and_broken_again_is_taken_back() -> None:
    env = made("stale_lock", 5)
    *mending, _ = env.walkthrough()
    play(env, mending)
    stopped = play(env, [f"systemctl stop {env._sandbox.machine.host}", _stop(env)])
    assert stopped[-1][2] == -0.5 and env.score() == 0.0


def _stop(env: Shell) -> str:
    name = next(s for s in env._sandbox.machine.services.values() if s.tls)
    return {"systemd": f"systemctl stop {name.name}", "docker": f"docker stop {name.name}"}.get(
        name.runtime, f"kubectl scale deployment {name.name} --replicas=0"
    )


def test_snapshot_and_restore_go_back_to_files_shell_and_machine() -> None:
    env = made("disk_full", 4)
    env.step("cd /etc && v=1")
    kept, seen, facts = env.snapshot(), env.observe(), env.facts()
    plan = env.walkthrough()
    first = play(env, ["pwd; echo $v; v=2; cd /; rm -rf /etc", *plan])
    env.restore(kept)
    assert (env.observe(), env.facts(), env.score()) == (seen, facts, 0.0)
    assert play(env, ["pwd; echo $v; v=2; cd /; rm -rf /etc", *plan]) == first
    env.restore(kept)
    assert next(text for text, *_ in play(env, ["pwd; echo $v", *plan])) == "/etc\n1"
    assert env.score() == 1.0


def test_facts_say_what_is_ill_and_what_was_reported() -> None:
    env = made("clock_skew", 4)
    facts = env.facts()
    assert facts == sorted(facts)
    assert not any(fact.startswith("clock off by: 0") for fact in facts)
    assert any("refused our token" in fact for fact in facts)
    play(env, env.walkthrough())
    assert "clock off by: 0 s" in env.facts() and sum(fact.endswith(": serves") for fact in env.facts()) == 5
    assert any(fact.startswith("reported: clock_skew ") for fact in env.facts())


def test_the_state_key_is_that_of_the_state() -> None:
    env = made()
    key = env.observe().state_key
    assert env.step("ls /etc; date").observation.state_key == key
    assert env.step("cd /tmp").observation.state_key != key
    assert env.step("cd /root").observation.state_key == key
    changed = env.step("echo a > /tmp/a").observation.state_key
    assert changed != key
    assert env.step("chmod 600 /tmp/a").observation.state_key != changed
    assert env.step("rm /tmp/a").observation.state_key == key
    assert env.step("x=1").observation.state_key != key


def test_the_same_task_gives_the_same_episode() -> None:
    assert play(made(difficulty="hard"), LOOKING[:-2]) == play(made(difficulty="hard"), LOOKING[:-2])


def test_another_process_gives_the_same_episode() -> None:
    code = (
        "from tests.envs.shell.test_env import *\n"
        "import hashlib\n"
        "for family in ('leaking_process', 'port_taken'):\n"
        "    env = made(family, 9, 'hard')\n"
        "    seen = repr((env.observe(), play(env, LOOKING[:-2] + env.walkthrough())))\n"
        "    print(hashlib.sha256(seen.encode()).hexdigest())\n"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1 and len(runs.pop().split()) == 2


def test_chance_is_far_from_full_marks() -> None:
    rng, scores = random.Random(0), []
    for task in TASKS[::8]:
        env = cast(Shell, registry.make(task))
        for _ in range(10):
            if env.step(rng.choice(LOOKING)).done:
                break
        scores.append(env.score())
    assert max(scores) < 1.0 and sum(scores) / len(scores) < 0.2


def test_long_output_is_cut_with_a_note() -> None:
    text = made().step("seq 1 5000").observation.text
    assert text.startswith("1\n2\n") and text.endswith("\n5000") and "characters left out" in text
    assert len(text) < MOST_SHOWN + 120
    assert clipped("x" * MOST_SHOWN) == "x" * MOST_SHOWN


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("true", "[no output]"),
        ("false", "[no output, exit 1]"),
        ("ls /nowhere", "[exit 2]"),
        ("nosuch", "command not found"),
        ("echo 'open", "unexpected EOF"),
        ("echo é ☃ 日本", "é ☃ 日本"),
        ("echo a\0b", "ab"),
        ("echo \ud800x", "?x"),
        ("echo one\necho two", "one\ntwo"),
        ("  date +%Y  ", "20"),
        ("exit 3", "exit 3"),
        ("kill -9 $$", "not permitted"),
    ],
)
def test_odd_lines_are_answered(line: str, said: str) -> None:
    env = made()
    came = env.step(line)
    assert said in came.observation.text and came.valid and not came.done
    assert env.step("echo still here").observation.text == "still here"


@pytest.mark.parametrize("line", ["", "   ", "\n", "\0", "x" * 8001])
def test_what_is_no_line_is_refused(line: str) -> None:
    env = made()
    before = env.observe().state_key
    came = env.step(line)
    assert (
        not came.valid
        and "one command line" in came.observation.text
        and came.observation.state_key == before
    )


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"type": None}, "params.type is None"),
        ({"type": "bad_confg"}, "did you mean 'bad_config'"),
        ({"type": 3}, "params.type is 3"),
        ({"type": "bad_config", "difficulty": "hrd"}, "did you mean 'hard'"),
    ],
)
def test_what_is_wrong_with_a_task(params: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        registry.make(Task("t", "shell", "g", 0, params))


@pytest.mark.parametrize("steps", [0, "3", True, -1])
def test_a_limit_that_is_none(steps: Any) -> None:
    with pytest.raises(ConfigError, match="positive whole number"):
        limit(Task("t", "shell", "g", 0, {"type": "bad_config", "max_steps": steps}))


def test_what_a_simulated_command_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    env = made()
    monkeypatch.setattr(Sandbox, "_execute", _broken)
    with pytest.raises(ZeroDivisionError):
        env.step("date")


def _broken(sandbox: Any, line: str) -> Any:
    raise ZeroDivisionError


# --- a fault is mended by any way that mends it ------------------------------------------------------

WAYS: dict[str, list[str]] = {
    "disk_full": [
        "rm {0}",
        "> {0}",
        "truncate -s 0 {0}",
        "gzip {0}",
        "sudo rm -f {0}",
        "cat /dev/null > {0}",
        "echo > {0}",
        "find /var -size +1G -delete",
        "find /var -size +1G | xargs rm",
        "tail -n 5 {0} > /tmp/t; rm {0}",
    ],
    "wrong_permission": ["chmod -R a+rwX {0}", "chown -R {user}: {0}; chmod u+rwX {0}", "chmod 777 {0}"],
    "bad_config": [
        "sed -i 's/^{new}$/{old}/' {config}",
        "grep -v '^{new}$' {config} > /tmp/c; cat /tmp/c > {config}",
    ],
    "port_taken": ["kill -9 {1}", "pkill -f {port}", "fuser -k {port}/tcp", "kill $(lsof -t -i :{port})"],
    "expired_certificate": ["certctl renew {name}", "certctl renew {0}"],
    "wrong_dns": [
        "sed -i '/{wrong}/d' /etc/hosts; sed -i 's/{wrong}/{ip}/' /etc/dns/svc.internal.zone",
        "sed -i '/{wrong}/d' /etc/hosts; echo '{ip} {0}' >> /etc/hosts",
        "sed -i 's/{0}/{ip}/' {config}",
    ],
    "leaking_process": ["kill {1}", "pkill {0}", "kill -9 $(ps aux --sort=-rss | awk 'NR==2{{print $2}}')"],
    "stale_lock": ["rm {0}", "mv {0} /tmp/", "find /run -name '*.lock' -delete"],
    "clock_skew": [
        "timedatectl set-ntp true",
        "systemctl start chronyd",
        "systemctl enable --now chrony",
        "ntpdate pool",
    ],
}
NO_WAY = {
    "disk_full": ["mv {0} /var/cache.old", "cp {0} /tmp/x", "rm -rf /var/lib", "chmod 000 {0}"],
    "wrong_permission": ["true", "rm -rf {0}"],
    "bad_config": ["rm {config}", "> {config}"],
    "port_taken": ["kill -0 {1}", "kill 1"],
    "expired_certificate": ["rm {0}", "date -s '1 year ago'", "touch {0}"],
    "wrong_dns": ["sed -i '/upstream/d' {config}", "ping -c 1 {0}"],
    "leaking_process": ["kill -HUP {1}", "free -m"],
    "stale_lock": ["echo 1 > {0}", "chmod 000 {0}"],
    "clock_skew": ["date", "chronyc tracking", "date -s @0"],
}


def _filled(env: Shell, way: str) -> list[str]:
    """A way with the names of this machine, and a restart of what may be down."""
    machine = env._sandbox.machine
    victim = next(s for s in machine.services.values() if s.schema is not None)
    one, other = (*env.broken.culprits, "")[:2]
    old, new = "", ""
    for command in env.broken.plan:
        if command.startswith("sed -i 's/^"):
            new, old = command.removeprefix("sed -i 's/^").split("/' ")[0].split("$/")
    wrong = next((c for c in env.broken.culprits if re.fullmatch(r"10[.][0-9.]+", c)), "none")
    line = way.format(
        one,
        other,
        user=victim.user,
        config=victim.config,
        name=victim.name,
        port=victim.port,
        ip=machine.ip,
        old=old,
        new=new,
        wrong=wrong,
    )
    return [line, faults.again(victim)]


@pytest.mark.parametrize(("family", "way"), [(family, way) for family, ways in WAYS.items() for way in ways])
def test_other_ways_mend_it_too(family: str, way: str) -> None:
    for seed in (21, 22):
        env = made(family, seed)
        play(env, _filled(env, way))
        assert env.score() == 0.5, (env.facts(), env.observe().text)


@pytest.mark.parametrize(
    ("family", "way"), [(family, way) for family, ways in NO_WAY.items() for way in ways]
)
def test_what_does_not_mend_it(family: str, way: str) -> None:
    for seed in (21, 22):
        env = made(family, seed)
        play(env, _filled(env, way))
        assert env.score() == 0.0, env.facts()


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("dead_upstream", "leaking_process")])
def test_a_restart_alone_mends_nothing(family: str) -> None:
    env = made(family, 23)
    for service in env._sandbox.machine.services.values():
        env.step(faults.again(service))
    assert env.score() == 0.0


def test_threads_do_not_disturb_each_other() -> None:
    tasks = TASKS[:16]
    scripts = [[*LOOKING[:-2], *Shell(task).walkthrough()] for task in tasks]
    alone = [play(Shell(task), script) for task, script in zip(tasks, scripts, strict=True)]
    with ThreadPoolExecutor(8) as pool:
        assert (
            list(pool.map(lambda pair: play(Shell(pair[0]), pair[1]), zip(tasks, scripts, strict=True)))
            == alone
        )
