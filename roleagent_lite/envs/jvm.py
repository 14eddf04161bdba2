"""The door to Java: one virtual machine a package and process, many simulators in it.

Owns starting and ending the machine, the heap's cap, the token without which no other process of this
computer may talk to it, and the border at which whatever goes wrong there becomes one EnvironmentFault.
Leaves out what the simulators play (scienceworld.py, textworld_express.py).

The machine starts with the first simulator and ends with the process. A machine that died is replaced by
the next simulator; a forked process starts its own. Who needs a larger heap sets `_JAVA_OPTIONS=-Xmx...`,
which overrides ours.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from roleagent_lite.errors import EnvironmentFault, MissingExtra

TIMEOUT = 120.0  # seconds that one call may take; the longest seen (a gold path) took 9
GET_JAVA = (
    "Java 8 or later (Debian and Ubuntu: apt install default-jre-headless, macOS: brew install openjdk, "
    "anything: https://adoptium.net), with `java` on PATH or JAVA_HOME set"
)


@dataclass(frozen=True, slots=True)
class Engine:
    """A simulator that comes as a Python package with a jar: how it is named, installed and started.

    package: as it is imported; jar: file in it; entry: the Java class of a simulator; heap: as `-Xmx` takes
    it; extra: ours that installs it; options: more for the machine.
    """

    package: str
    jar: str
    entry: str
    heap: str
    extra: str
    options: tuple[str, ...] = ()


@dataclass(slots=True)
class _Machine:
    """A running Java process with the connection to it. `last`: its last words on either stream."""

    process: subprocess.Popen[bytes]
    owner: int
    gateway: Any = None
    last: deque[bytes] = field(default_factory=lambda: deque(maxlen=10))
    listeners: list[threading.Thread] = field(default_factory=list)

    def listen(self, pipe: IO[bytes]) -> None:
        """Reads a pipe to its end: the simulators print a lot, and block where nobody reads it."""

        def read() -> None:
            with pipe:
                self.last.extend(pipe)

        self.listeners.append(threading.Thread(target=read, daemon=True))
        self.listeners[-1].start()

    def alive(self) -> bool:
        return self.owner == os.getpid() and self.process.poll() is None

    def end(self) -> None:
        """Ends the process, by asking first, and waits for it."""
        if self.gateway is not None:
            self.gateway.shutdown()  # py4j keeps quiet where the machine is gone already
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for listener in self.listeners:
            listener.join(5)

    def words(self) -> str:
        said = b" ".join(self.last).decode("utf-8", "replace").split()
        return " ".join(said)[-300:] or "it said nothing"


_machines: dict[Engine, _Machine] = {}
_lock = threading.Lock()


def java() -> str:
    """The java command: in $JAVA_HOME, else on PATH. Raises MissingExtra."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise MissingExtra(
            f"no Java was found, which ScienceWorld and TextWorldExpress need: install {GET_JAVA}"
        )
    return found


def jar_of(engine: Engine) -> Path:
    """The jar in the installed package. Raises MissingExtra that says what to install."""
    found = find_spec(engine.package)
    if found is None or found.origin is None or find_spec("py4j") is None:
        raise MissingExtra(
            f"{engine.package} is not installed: pip install 'roleagent-lite[{engine.extra}]' (it also needs "
            f"{GET_JAVA})"
        )
    jar = Path(found.origin).parent / engine.jar
    if not jar.is_file():
        raise MissingExtra(f"the installed package {engine.package} lacks {engine.jar}; reinstall it")
    return jar


def ready(engine: Engine) -> None:
    """Raises MissingExtra where the package or Java is missing."""
    jar_of(engine)
    java()


def _launch(engine: Engine) -> _Machine:
    jar = jar_of(engine)
    from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path

    classes = os.pathsep.join((str(find_jar_path()), str(jar)))
    command = [java(), f"-Xmx{engine.heap}", "-XX:+UseSerialGC", *engine.options, "-cp", classes]
    process = subprocess.Popen(
        [*command, "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"],
        cwd=jar.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is ours to answer; it dies with our end of the pipe
    )
    assert process.stdout is not None and process.stderr is not None
    machine = _Machine(process, os.getpid())
    machine.listen(process.stderr)
    port, token = process.stdout.readline().strip(), process.stdout.readline().strip()
    if not port.isdigit():
        machine.last.extend((port, token))
        machine.listen(process.stdout)
        machine.end()
        raise MissingExtra(f"Java did not start ({machine.words()}); needed is {GET_JAVA}")
    machine.listen(process.stdout)
    # Simulators are let go by hand: a finalizer could speak into a connection that a fork shares.
    parameters = GatewayParameters(
        address="127.0.0.1",
        port=int(port),
        auth_token=token.decode("ascii"),
        enable_memory_management=False,
        read_timeout=TIMEOUT,
    )
    machine.gateway = JavaGateway(gateway_parameters=parameters)
    return machine


def _machine(engine: Engine) -> _Machine:
    with _lock:
        machine = _machines.get(engine)
        if machine is None or not machine.alive():
            if machine is not None:
                machine.end()  # dead, but for its pipes
            machine = _machines[engine] = _launch(engine)
        return machine


def processes() -> list[int]:
    """Ids of the Java processes that run for this one."""
    with _lock:
        return [machine.process.pid for machine in _machines.values() if machine.alive()]


def close_all() -> None:
    """Ends the machines of this process; the next simulator starts another."""
    with _lock:
        machines = [machine for machine in _machines.values() if machine.owner == os.getpid()]
        _machines.clear()
    for machine in machines:
        machine.end()


_inherited: list[_Machine] = []
after_fork: list[Callable[[], None]] = []  # what else is to be made anew in a forked child (locks)


def _forked() -> None:
    """In a forked child: its copies of the parent's sockets are closed without the word that would end the
    parent's connections; what is left of them is kept so that no finalizer speaks that word."""
    global _lock
    _lock = threading.Lock()  # the parent may have held it
    _inherited.extend(_machines.values())
    _machines.clear()
    for machine in _inherited:
        for connection in machine.gateway._gateway_client.deque:
            with contextlib.suppress(OSError):
                os.close(connection.socket.detach())
    for renew in after_fork:
        renew()


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Simulator:
    """One simulator object in the machine of its engine. `call` and `texts` raise EnvironmentFault where
    Java raised, died, or belongs to another process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._machine = _machine(engine)
        self._held: list[Any] = []
        self.object = self.keep(self._guarded("a new simulator", self._make))

    def _make(self) -> Any:
        return self.named(self._engine.entry)()

    def named(self, path: str) -> Any:
        """A Java class by its full name, for what is static in it."""
        found = self._machine.gateway.jvm
        for part in path.split("."):
            found = getattr(found, part)
        return found

    def _guarded(self, what: str, call: Any, *arguments: Any) -> Any:
        if self._machine.owner != os.getpid():
            raise EnvironmentFault(
                f"this {self._engine.package} episode was begun before a fork, in process "
                f"{self._machine.owner}; begin it anew in this one"
            )
        from py4j.protocol import Py4JError

        try:
            return call(*arguments)
        except (Py4JError, OSError, ValueError) as error:
            raise EnvironmentFault(self._said(what, error)) from error

    def _said(self, what: str, error: Exception) -> str:
        name = self._engine.package
        if not self._machine.alive() or type(error).__name__ == "Py4JNetworkError":
            code = self._machine.process.poll()
            state = "does not answer" if code is None else f"has ended with {code}"
            told = f"{what}; {self._machine.words()}"
            return f"the Java of {name} {state} ({told}); the next episode starts another"
        thrown = getattr(error, "java_exception", None)
        shown = str(thrown.toString()) if thrown is not None else " ".join(str(error).split())
        if "OutOfMemoryError" in shown:
            shown += f" (the heap has {self._engine.heap}; _JAVA_OPTIONS=-Xmx2g gives it more)"
        return f"{name} failed at {what}: {shown[:300]}"

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of the simulator returns: a text, number, truth, or an object (see `keep`)."""
        return self.of(self.object, method, *arguments)

    def of(self, thing: Any, method: str, *arguments: Any) -> Any:
        """What a method of another Java object, or a static one of a class, returns."""
        return self._guarded(method, lambda: getattr(thing, method)(*arguments))

    def texts(self, method: str) -> list[str]:
        """A Java list of texts that a method returns: in one piece, for each entry would be a call."""
        found = self.call(method)
        try:
            whole = self._guarded(method, self._machine.gateway.jvm.java.lang.String.join, "\n", found)
            return whole.split("\n") if whole else []
        finally:
            self._release(found)

    def keep(self, thing: Any) -> Any:
        """A Java object to be held until `close`."""
        self._held.append(thing)
        return thing

    def _release(self, thing: Any) -> None:
        self._guarded(
            "release", self._machine.gateway._gateway_client.garbage_collect_object, thing._target_id
        )

    def close(self) -> None:
        """Lets go of what it holds in Java; a dead or foreign machine needs no word."""
        held, self._held = self._held, []
        if self._machine.alive():
            for thing in held:
                with contextlib.suppress(EnvironmentFault):
                    self._release(thing)
