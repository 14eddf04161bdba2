"""A scripted stand-in for `appworld serve environment`: one world at a time, its routes and shapes.

The code it runs is three kinds of lines: `name = number`, `print(name)`, and
`apis.supervisor.complete_task(answer=name)`; anything else fails as AppWorld says it.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SUPERVISOR = {"first_name": "Ada", "last_name": "Byron", "email": "ada@mail.example", "phone_number": "1790"}
INSTRUCTIONS = {"task_1": "Report seventeen.", "task_2": "Report five.", "task_3": "Report seventeen again."}
ANSWERS = {"task_1": 17, "task_2": 5, "task_3": 17}


class World:
    """What the server holds; a request for another task fails, as there."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.names: dict[str, int] = {}
        self.answer: int | None = None
        self.completed = False

    def execute(self, code: str) -> str:
        printed = []
        for line in code.splitlines():
            if found := re.fullmatch(r"(\w+) = (\d+)", line):
                self.names[found[1]] = int(found[2])
            elif (found := re.fullmatch(r"print\((\w+)\)", line)) and found[1] in self.names:
                printed.append(str(self.names[found[1]]))
            elif found := re.fullmatch(r"apis\.supervisor\.complete_task\((?:answer=(\w+))?\)", line):
                self.completed = True
                self.answer = self.names.get(found[1] or "")
            else:
                return f"Execution failed. Traceback:\n{line}\nNameError"
        return "\n".join(printed) or "Execution successful."

    def evaluate(self) -> dict[str, Any]:
        good = self.answer == ANSWERS[self.task_id]
        tests = [("it was completed", True), ("the answer is right", good), ("nothing else changed", True)]
        told = [({"requirement": name, "label": None}, passed) for name, passed in tests]
        return {
            "success": good,
            "difficulty": 1,
            "num_tests": len(tests),
            "passes": [t for t, passed in told if passed],
            "failures": [t for t, passed in told if not passed],
        }


class Scripted(ThreadingHTTPServer):
    """On 127.0.0.1; `calls` are the methods asked for, in order."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.world: World | None = None
        self.calls: list[str] = []
        self.broken = ""
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        self.thread.join(10)

    def about(self, task_id: str) -> dict[str, Any]:
        return {
            "task_id": task_id,
            "instruction": INSTRUCTIONS[task_id],
            "supervisor": SUPERVISOR,
            "datetime": "2023-05-18T12:00:00",
        }

    def answer(self, method: str, body: dict[str, Any]) -> Any:
        if method == "initialize":
            self.world = World(body["task_id"])
            return self.about(body["task_id"])
        if self.world is None or self.world.task_id != body["task_id"]:
            raise LookupError("The active task world is another one.")
        if method == "execute":
            return self.world.execute(body["code"])
        return {"task_completed": lambda: self.world.completed, "evaluate": self.world.evaluate}[method]()  # type: ignore[union-attr]


class Handler(BaseHTTPRequestHandler):
    server: Scripted

    def _reply(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        task_id = self.path.removeprefix("/tasks/")
        if task_id in INSTRUCTIONS:
            self._reply(200, {"output": self.server.about(task_id)})
        else:
            self._reply(500, {"detail": "no such task"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = self.path.strip("/")
        self.server.calls.append(method)
        if self.server.broken:
            self._reply(200, json.loads(self.server.broken))
            return
        try:
            self._reply(200, {"output": self.server.answer(method, body)})
        except (LookupError, AttributeError) as error:
            self._reply(500, {"detail": str(error)})

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""
