"""The house: imports go down, no cycles, heavy guests have one door, limits on files and functions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "roleagent_lite"

FLOORS: dict[str, int] = {
    "types": 0, "errors": 0, "version": 0,
    "redact": 1, "config": 1, "content": 1, "tasksets": 1, "table": 1, "store": 1,
    "stats": 1, "memory": 1, "lm": 1, "embed": 1, "ask": 1, "session": 1,
    "envs": 2, "agents": 2, "stage": 2, "rollout": 2, "systems": 2, "wia": 2, "aiw": 2, "selfplay": 2,
    "evolve": 3, "evals": 3, "distill": 3, "report": 3, "doctor": 3,
    "cli": 4, "jobs": 4,
}  # fmt: skip
DOORS: dict[str, tuple[str, ...]] = {
    "dspy": ("lm", "ask"), "litellm": ("lm", "ask"), "openai": ("lm", "ask"), "anthropic": ("lm", "ask"),
    "tenacity": ("lm",), "aiohttp": ("lm",), "xllamacpp": ("lm.embedded",), "gepa": ("evolve",),
    "lancedb": ("memory",), "pyarrow": ("memory",),
    "torch": ("distill", "embed"), "transformers": ("distill", "embed"),
    "peft": ("distill",), "unsloth": ("distill",), "safetensors": ("distill",),
    "tokenizers": ("distill.tokenizer",), "jinja2": ("distill.chat",), "rich": ("cli",), "typer": ("cli",),
    "cydifflib": ("wia",),
    "py4j": ("envs.jvm",), "mcp": ("envs.mcp",), "gymnasium": ("envs.gymnasium",),
    "verifiers": ("envs.verifiers",),
    "bashkit": ("envs.shell",), "rapidfuzz": ("envs.webshop",), "spacy": ("envs.webshop",),
    "mpmath": ("envs.tools",),
    "pandas": ("evals",), "scipy": ("stats",), "statsmodels": ("stats",),
}  # fmt: skip
# On floor 1 there is an order of its own; every other room knows only lower floors and itself.
BASEMENT = ["redact", "config", "content", "tasksets", "table", "store", "stats", "memory", "lm", "embed"]
BASEMENT += ["ask", "session"]
FLOOR2_ORDER = [
    "envs",
    "agents",
    "stage",
    "rollout",
    "systems",
]  # imports go left; wia, aiw, selfplay stand alone


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {module_of(p): p for p in FILES}


def inner(path: Path) -> set[str]:
    """Modules of our own that `path` imports, without the package prefix."""
    names = {i.removeprefix("roleagent_lite.") for i in imports_of(path) if i.startswith("roleagent_lite.")}
    return {n for n in names if n in MODULES}


@pytest.mark.parametrize("path", [p for p in FILES if module_of(p)], ids=lambda p: module_of(p))
def test_imports_go_down(path: Path) -> None:
    room = module_of(path).split(".")[0]
    assert room in FLOORS, f"{room} has no floor: add it to FLOORS and to the drawing"
    for target in inner(path):
        other = target.split(".")[0]
        if other == room:
            continue
        if FLOORS[other] == FLOORS[room] == 1:
            assert BASEMENT.index(other) < BASEMENT.index(room), (
                f"{room} imports {other}, which stands above it"
            )
        elif FLOORS[other] == FLOORS[room] == 2:
            assert {room, other} <= set(FLOOR2_ORDER), f"{room} and {other} are rooms of one floor"
            assert FLOOR2_ORDER.index(other) < FLOOR2_ORDER.index(room), f"{room} imports {other}"
        elif FLOORS[room] == 4:
            assert (room, other) != ("jobs", "cli"), "jobs must not know the command line"
        else:
            assert FLOORS[other] < FLOORS[room], f"arrow upward or sideways: {room} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: module_of(p) or "package")
def test_guests_use_their_door(path: Path) -> None:
    module = module_of(path)
    for name in imports_of(path):
        doors = DOORS.get(name.split(".")[0])
        if doors is not None:
            assert any(module == d or module.startswith(d + ".") for d in doors), f"{module} imports {name}"


def test_no_import_cycle() -> None:
    graph = {m: inner(p) - {m, ""} for m, p in MODULES.items()}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, "import cycle: " + " -> ".join([*trail, module])
        if module in done:
            return
        for target in graph[module]:
            visit(target, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("path", FILES, ids=lambda p: module_of(p) or "package")
def test_sizes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(lines) <= 300, f"{path} has over 300 lines of code"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            assert node.end_lineno - node.lineno < 80, f"{path}:{node.name} has over 80 lines"


@pytest.mark.parametrize("path", [p for p in FILES if p.name != "__init__.py"], ids=lambda p: module_of(p))
def test_every_file_has_a_test_of_its_name(path: Path) -> None:
    folder = (ROOT / "tests" / path.relative_to(PACKAGE)).parent
    assert (folder / f"test_{path.name}").exists(), f"{folder}/test_{path.name} is missing"


def test_no_python_in_the_content_rooms() -> None:
    assert [p for room in ("prompts", "tasks", "distill", "evals") for p in (ROOT / room).rglob("*.py")] == []


# What opens a port, by the name of the call; llama.cpp's server takes its host from its params.
LISTENERS = {"start_server", "create_server", "HTTPServer", "ThreadingHTTPServer", "TCPServer", "UDPServer"}
LISTENERS |= {"TCPSite", "run_app", "bind"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: module_of(p) or "package")
def test_servers_bind_this_machine_only(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert node.value not in ("0.0.0.0", "::", "[::]"), f"{path}:{node.lineno} names every address"
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in LISTENERS:
            given = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant)]
            given += [constants.get(n.id) for n in ast.walk(node) if isinstance(n, ast.Name)]
            assert "127.0.0.1" in given, f"{path}:{node.lineno}: {name} must say 127.0.0.1"
        if name == "Server" and "xllamacpp" in ast.unparse(node.func):
            text = path.read_text(encoding="utf-8")
            assert 'params.hostnames = ["127.0.0.1"]' in text, f"{path}:{node.lineno} does not say where"
            assert "params.api_keys = [key]" in text, f"{path}:{node.lineno} serves everyone on this machine"


# A user's own code is imported by a name that `cli/trust.py` has vetted or announced; the last two import
# names of our own.
IMPORTERS = ("envs.registry", "envs.gymnasium", "agents.external", "systems.external", "", "distill.stack")


@pytest.mark.parametrize("path", FILES, ids=lambda p: module_of(p) or "package")
def test_data_is_never_run(path: Path) -> None:
    module = module_of(path)
    assert not imports_of(path) & {"pickle", "marshal", "shelve", "dill", "cloudpickle", "tarfile", "yaml"}, (
        path
    )
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        assert name not in ("eval", "exec", "compile", "__import__", "os.system", "torch.load"), (
            f"{path}:{node.lineno}"
        )
        assert not name.endswith(".extractall") or module == "lm.wheels", (
            f"{path}:{node.lineno}: unpacks unchecked"
        )
        assert not name.endswith("import_module") or module in IMPORTERS, (
            f"{path}:{node.lineno}: imports by name"
        )
        for option in node.keywords:
            on = isinstance(option.value, ast.Constant) and option.value.value is True
            assert not (on and option.arg in ("shell", "trust_remote_code")), (
                f"{path}:{node.lineno}: {option.arg}"
            )
