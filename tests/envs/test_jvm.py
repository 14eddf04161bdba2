"""The door to Java: what is missing is said, what dies or forks is one fault, nobody else may talk to it."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from roleagent_lite.envs import jvm, registry
from roleagent_lite.envs.jvm import Engine, Simulator
from roleagent_lite.envs.textworld_express import ENGINE
from roleagent_lite.errors import EnvironmentFault, MissingExtra
from roleagent_lite.types import Task
from tests.envs.java import needs

here = needs(ENGINE)
OTHER = Engine(ENGINE.package, ENGINE.jar, ENGINE.entry, "256m", ENGINE.extra)  # a machine of its own


def begun(engine: Engine = ENGINE) -> Simulator:
    simulator = Simulator(engine)
    assert simulator.call("load", "coin", "") == ""
    simulator.call("generateNewGameJSON", 3, "train", False)
    return simulator


@here
def test_simulators_of_one_engine_share_a_machine_and_nothing_else() -> None:
    one, other = begun(), begun()
    assert one._machine is other._machine
    before = other.call("stepJSON", "look around")
    json.loads(one.call("stepJSON", "open door to south"))
    assert json.loads(other.call("stepJSON", "look around")) | {"validActions": 0} == json.loads(before) | {
        "validActions": 0
    }
    assert "coin" in one.texts("getGameNames")
    assert one._machine.process.pid in jvm.processes()
    one.close()
    one.close()
    with pytest.raises(EnvironmentFault, match="stepJSON"):
        one.call("stepJSON", "look around")  # it was let go
    other.close()


@here
def test_what_java_throws_is_a_fault() -> None:
    simulator = begun()
    with pytest.raises(EnvironmentFault, match="textworld_express failed at stepJSON: "):
        simulator.call("stepJSON", 3)
    with pytest.raises(EnvironmentFault, match="failed at nothingOfTheKind"):
        simulator.call("nothingOfTheKind")
    assert json.loads(simulator.call("stepJSON", "look around"))["look"]
    simulator.close()


@here
def test_a_machine_that_died_is_one_fault_and_the_next_episode_has_another() -> None:
    simulator = begun(OTHER)
    simulator._machine.process.kill()
    simulator._machine.process.wait()
    for _ in range(2):
        with pytest.raises(
            EnvironmentFault, match=r"the Java of textworld_express has ended with -9 \(stepJSON"
        ):
            simulator.call("stepJSON", "look around")
    simulator.close()
    again = begun(OTHER)
    assert again._machine is not simulator._machine
    assert json.loads(again.call("stepJSON", "look around"))["look"]
    again.close()


@here
def test_nobody_without_the_token_may_talk_to_it() -> None:
    simulator = begun()
    port = simulator._machine.gateway.gateway_parameters.port
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        stranger.sendall(b"c\nj\ngetProperty\nsuser.name\ne\n")
        assert not stranger.recv(100).startswith(b"!y")
    simulator.close()


FORK = """
import os, sys
from roleagent_lite.envs import jvm, scienceworld, textworld_express as twx
twx._turn.acquire(); scienceworld._turn.acquire()  # as another thread might
from roleagent_lite.errors import EnvironmentFault
from tests.envs.test_jvm import begun
old = begun()
child = os.fork()
if child == 0:
    try:
        old.call("stepJSON", "look around")
        print("no fault")
    except EnvironmentFault as error:
        print(error)
    old.close()
    new = begun()
    import threading
    def free(): print(twx._turn.acquire(timeout=1), scienceworld._turn.acquire(timeout=1))
    other = threading.Thread(target=free); other.start(); other.join()
    print("child", "look" in new.call("stepJSON", "look around"), new._machine is not old._machine)
    sys.stdout.flush()
    jvm.close_all()
    sys.exit()
print(os.waitpid(child, 0)[1])
print("parent", "look" in old.call("stepJSON", "look around"))
"""


@here
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_is_one_fault_in_the_child_and_nothing_in_the_parent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].startswith("this textworld_express episode was begun before a fork")
    assert said[1:] == ["True True", "child True True", "0", "parent True"]


@here
def test_the_machine_ends_with_the_process() -> None:
    code = "from tests.envs.test_jvm import begun; print(begun()._machine.process.pid)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_without_the_package_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtra, match=r"pip install 'roleagent-lite\[textworld-express\]' .*Java 8 or later"
    ):
        jvm.jar_of(ENGINE)


@pytest.mark.parametrize("lacking", ["package", "java"])
@pytest.mark.parametrize(
    ("env", "params"),
    [("textworld-express", {"game": "coin"}), ("scienceworld", {"task": "boil", "variation": 0})],
)
def test_a_task_of_these_worlds_says_what_to_install(
    lacking: str, env: str, params: dict[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jvm, "_machines", {})
    if lacking == "package":
        monkeypatch.setattr(jvm, "find_spec", lambda name: None)
        said = rf"pip install 'roleagent-lite\[{env}\]'"
    else:
        if importlib.util.find_spec(env.replace("-", "_")) is None:
            pytest.skip(f"{env} is not installed, which is said first")
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        said = "no Java was found"
    with pytest.raises(MissingExtra, match=said):
        registry.make(Task("t", env, "g", params=params))


def test_a_package_without_its_jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(jvm, "find_spec", lambda name: Spec())
    with pytest.raises(MissingExtra, match=r"lacks textworld-express\.jar; reinstall"):
        jvm.jar_of(ENGINE)


def test_without_java_one_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingExtra, match=r"no Java was found.*install Java 8 or later.*apt install"):
        jvm.java()


def test_java_home_goes_before_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "bin" / "java"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\necho too old >&2\nexit 1\n")
    own.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert jvm.java() == str(own)


@here
def test_a_java_that_does_not_start_is_told_with_its_words() -> None:
    with pytest.raises(MissingExtra, match=r"Java did not start .*heap"):
        Simulator(Engine(ENGINE.package, ENGINE.jar, ENGINE.entry, "1k", ENGINE.extra))
