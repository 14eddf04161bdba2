"""`appworld`: AppWorld's tasks through its own server (`appworld serve environment`), for who has its data.

The name `appworld` means a server on 127.0.0.1:8000, `appworld:URL` another, `appworld:URL,URL` several. A
task's `params`: `task_id` (AppWorld's, such as 82e2fac_1), `max_steps` 50. An action is Python code; what it
prints comes back. The episode ends when the code calls `apis.supervisor.complete_task()`; the score is the
share of AppWorld's own tests that pass then, 1 where all do. An episode without that call scores 0.

Such a server holds one world at a time. Owns the remedy: episodes are spread over the servers, and one whose
world another episode has replaced is begun anew and its code run again before its next step. As many servers
as workers spare that. Nothing of AppWorld is imported: its dependencies need an environment of their own.
Proved against a scripted server only, not on AppWorld's data.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roleagent_lite.envs import params
from roleagent_lite.envs.reach import listens
from roleagent_lite.errors import ConfigError, EnvironmentFault
from roleagent_lite.types import Observation, Task, Transition

PREFIX = "appworld:"
DEFAULT = "http://127.0.0.1:8000"
STEPS = 50
TIMEOUT = 150.0  # seconds; AppWorld itself stops code after 100
MOST_SHOWN = 8000  # characters of what code printed
WANTS = "task_id (AppWorld's own, such as 82e2fac_1)"
EXPERIMENT = "roleagent-lite"  # AppWorld keeps its outputs in a folder of this name
VOCABULARY = (
    "Python code, which runs in one shell with `apis` (print(apis.api_docs.show_app_descriptions()), "
    "print(apis.api_docs.show_api_descriptions(app_name='...')), "
    "print(apis.api_docs.show_api_doc(app_name='...', api_name='...'))); what it prints is shown. End with "
    "apis.supervisor.complete_task() or complete_task(answer=...)"
)
_FENCE = re.compile(r"\s*```(?:python|py)?[ \t]*\n(.*?)```\s*", re.S)


def _silent(url: str, why: str) -> str:
    return (
        f"AppWorld server {url} does not answer ({why}); start one where AppWorld and its data are installed "
        "(appworld download data): appworld serve environment --port 8000"
    )


@dataclass(eq=False)
class Server:
    """One server: who plays on it, whose world it holds, and the right to speak to it."""

    url: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    guests: int = 0
    holds: object = None

    def ask(self, method: str, **body: Any) -> Any:
        """The `output` of a call. Raises EnvironmentFault where it fails or has another shape."""
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(
            f"{self.url}/{method}",
            data,
            {"Content-Type": "application/json"},
            method="POST" if body else "GET",
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                said = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                told = error.read(300).decode("utf-8", "replace")
            raise EnvironmentFault(
                f"AppWorld server {self.url}: {method} failed ({error.code}): {told}"
            ) from None
        except (OSError, ValueError) as error:
            raise EnvironmentFault(_silent(self.url, str(error))) from error
        if not isinstance(said, dict) or "output" not in said:
            raise EnvironmentFault(
                f"AppWorld server {self.url}: {method} answered {said!r:.120}, not an output"
            )
        return said["output"]


_servers: dict[str, Server] = {}
_choosing = threading.Lock()


def servers(name: str) -> list[Server]:
    """The servers of an environment's name, one object an address. Raises ConfigError."""
    urls = (
        [url.strip().rstrip("/") for url in name.partition(":")[2].split(",")] if ":" in name else [DEFAULT]
    )
    wrong = [url for url in urls if not url.startswith(("http://", "https://"))]
    if wrong:
        raise ConfigError(f"environment {name}: '{wrong[0]}' is no address; write appworld:{DEFAULT}")
    with _choosing:
        return [_servers.setdefault(url, Server(url)) for url in urls]


def id_of(task: Task) -> str:
    """AppWorld's own id of a task. Raises ConfigError."""
    return params.text(task, "task_id")


def ready(name: str) -> None:
    """Raises EnvironmentFault where no server listens at an address on this computer."""
    for server in servers(name):
        if not listens(server.url):
            raise EnvironmentFault(_silent(server.url, "nothing listens there"))


def limit(task: Task) -> int:
    """Steps an episode may have: params.max_steps, else 50."""
    return params.steps(task, STEPS)


def row(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A task row from one that names AppWorld's `task_id`: the instruction comes from the server. A row that
    is a task already passes unchanged. Raises ConfigError and EnvironmentFault."""
    if "goal" in given:
        return dict(given)
    id = given.get("task_id")
    if not isinstance(id, str) or not re.fullmatch(r"\w+", id):
        raise ConfigError(
            f"a row for {name} needs task_id, AppWorld's own; it has {', '.join(map(str, given))}"
        )
    told = servers(name)[0].ask(f"tasks/{id}")
    found = {"id": id, "goal": str(told["instruction"]), "params": {"task_id": id}}
    return {**found, **{key: given[key] for key in ("split", "seed") if key in given}}


def code_of(action: str) -> str:
    """The code of an action: what stands between fences, else all of it."""
    blocks = _FENCE.fullmatch(action)
    return (blocks[1] if blocks else action).strip()


class AppWorld:
    """An Environment: one task, on the least busy of its servers."""

    def __init__(self, name: str, task: Task) -> None:
        self._id = id_of(task)
        self._codes: list[str] = []
        self._done, self._score, self._left = False, 0.0, False
        known = servers(name)
        with _choosing:
            self._server = min(known, key=lambda server: server.guests)
            self._server.guests += 1
        try:
            with self._server.lock:
                self._seen = self._greeting(self._begin())
        except BaseException:
            self.close()
            raise

    def _begin(self) -> Mapping[str, Any]:
        self._server.holds = None
        told: Mapping[str, Any] = self._server.ask("initialize", task_id=self._id, experiment_name=EXPERIMENT)
        self._server.holds = self
        return told

    @staticmethod
    def _greeting(told: Mapping[str, Any]) -> str:
        who = told["supervisor"]
        return (
            f"{told['instruction']}\n\nYour supervisor: {who['first_name']} {who['last_name']}, "
            f"{who['email']}, {who['phone_number']}. It is {told['datetime']}."
        )

    def observe(self) -> Observation:
        return Observation(self._seen)

    def _take(self) -> None:
        """Makes the server's world this episode's, by running its code again where another one took it."""
        if self._server.holds is not self:
            self._begin()
            for code in self._codes:
                self._run(code)

    def _run(self, code: str) -> str:
        return str(self._server.ask("execute", task_id=self._id, code=code))

    def step(self, action: str) -> Transition:
        """Runs the code; where it completed the task, AppWorld's tests give the score."""
        if self._done:
            return Transition(self.observe(), 0.0, True, valid=False)
        code = code_of(action)
        with self._server.lock:
            self._take()
            text = self._run(code)
            self._codes.append(code)
            self._done = bool(self._server.ask("task_completed", task_id=self._id))
            if self._done:
                self._score = self._judged(
                    self._server.ask("evaluate", task_id=self._id, suppress_errors=True)
                )
        self._seen = text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"
        failed = text.startswith("Execution failed")
        return Transition(self.observe(), self._score, self._done, valid=not failed)

    @staticmethod
    def _judged(told: Mapping[str, Any]) -> float:
        """Share of the tests that pass; 1.0 where AppWorld says success, and only there."""
        if told.get("success") is True:
            return 1.0
        passes, failures = len(told.get("passes", ())), len(told.get("failures", ()))
        return min(passes / max(1, passes + failures), 0.99)

    def score(self) -> float:
        """0..1 by AppWorld's tests once the task was declared complete, 0.0 until then."""
        return self._score

    def close(self) -> None:
        """Leaves the server; the next episode's world takes the place of this one's."""
        with _choosing:
            self._server.guests -= not self._left
            self._left = True
