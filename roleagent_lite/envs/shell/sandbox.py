"""The door to bashkit: one bash over files in memory, with the simulated commands, bounded in all it takes.

No process is started, no file of this computer read, no connection opened: what a line can reach is the
sandbox's memory and the commands of COMMANDS. A line that runs too long, loops or fills the memory is undone
as a whole, so that what is left does not depend on how fast this computer is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from roleagent_lite.envs.shell.commands import admin, containers, finding, listing, network, processes, units
from roleagent_lite.envs.shell.commands.call import Call, Command, Said
from roleagent_lite.envs.shell.files import Cache, Files, Survey
from roleagent_lite.envs.shell.machine import STEP_SECONDS, Machine
from roleagent_lite.envs.shell.runtime import tend
from roleagent_lite.errors import MissingExtra

COMMANDS: Mapping[str, Command] = {
    **units.COMMANDS, **containers.COMMANDS, **network.COMMANDS, **processes.COMMANDS, **admin.COMMANDS,
    **listing.COMMANDS, **finding.COMMANDS,
}  # fmt: skip
SECONDS = 4.0  # a line may take
MOST_BYTES = 24 * 1024**2  # of files
MOST_FILES = 3000
MOST_CALLS = 1000  # of simulated commands in one line
LIMITS = (
    f"over a limit ({SECONDS:g} s, 5000 commands, 5000 rounds of a loop, functions 16 deep, "
    f"{MOST_BYTES // 1024**2} MiB or {MOST_FILES} files)"
)
_OVER = "resource limit exceeded"
MOST_LINE = 8000  # characters of one line
_PASSING = re.compile(r"RANDOM|EPOCH\w+|SECONDS|OLDPWD|_|PIPESTATUS|BASH_\w+|LINENO|REPLY")
# What would show the real clock or real chance, as far as a look at the line can tell.
_LEAKS = re.compile(
    r"/dev/u?random\b|/proc/(uptime|stat|loadavg)\b|\b(systime|srand|strftime)\s*\(|%\([^)]{0,40}\)T|"
    r"\bSRANDOM\b|\bsort\s+(-\w*R|--random-sort)"
)
_TIMES = re.compile(r"((?:real|user|sys)\t\d{1,6}m)\d{1,6}\.\d{1,6}s")
_DEFINES = re.compile(
    r"[(]\s*[)]|\b(function|set|shopt|umask|exec|trap|unset|alias|unalias|eval|source|hash|cd|pushd|popd)\b|^\s*[.]\s"
)
# bashkit has these itself, and lets nobody write them unless they are given at the beginning.
_OWN_NAMES = ("passwd", "group", "hostname", "hosts", "os-release", "shells", "timezone")
_OWN_FILES = tuple(f"/etc/{name}" for name in _OWN_NAMES)
_BY_PATH = ("/bin/", "/usr/bin/")
_SETUP = (
    'sudo() { while [ "${1#-}" != "$1" ]; do if [ "$1" = -u ]; then shift; fi; shift; done; "$@"; }; '
    'less() { cat "$@"; }; more() { cat "$@"; }; history() { typed-lines; }; '
    'tail() { local a=() x; for x in "$@"; do case "$x" in -f|-F|--follow) ;; *) a+=("$x");; esac; done; '
    'command tail "${a[@]}"; }; '
    "export -f sudo less more history tail 2>/dev/null; true"
)


def bashkit() -> Any:
    """The package. Raises MissingExtra."""
    try:
        import bashkit as found
    except ImportError as error:
        raise MissingExtra(
            "the shell world needs bashkit, which is not installed; pip install 'roleagent-lite[shell]'"
        ) from error
    return found


@dataclass(frozen=True, slots=True)
class Result:
    """What a line printed; `undone`: why all that it did was taken back, "" = it was kept."""

    out: str
    err: str
    code: int
    undone: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """A sandbox at one point: bash, the machine, and all files (in `survey`).

    Files are kept here and not in bashkit's snapshot: restored, that leaves deleted what had been deleted.
    """

    bash: bytes
    machine: Machine
    survey: Survey


class Sandbox:
    """A bash session over the files of one machine."""

    def __init__(self, machine: Machine, texts: Mapping[str, str], modes: Mapping[str, int]) -> None:
        self.machine = machine
        machine.simulated = frozenset(COMMANDS)
        self._fault: Exception | None = None
        self._calls = 0
        self._cache: Cache = {}
        self._builtins = self._custom()
        self._bash = self._fresh(texts)
        self.files = Files(self._bash.fs(), self.machine)
        for path, mode in modes.items():
            self.files.chmod(path, mode)
        self._kept: bytes | None = None  # bash as it is now, where a snapshot of that was taken
        self.survey = self.refresh()

    def refresh(self) -> Survey:
        """Looks at all files anew, after something other than a line has changed them."""
        self.survey = self.files.survey(self._cache)
        return self.survey

    def _custom(self) -> dict[str, Callable[[Any], Any]]:
        result = bashkit().BuiltinResult

        def made(name: str, command: Command) -> Callable[[Any], Any]:
            def called(context: Any) -> Any:
                said = self._command(name, command, context)
                return result(said.out, said.err, said.code)

            return called

        found = {}
        for name, command in COMMANDS.items():
            for prefix in ("", *_BY_PATH):
                found[prefix + name] = made(name, command)
        return found

    def _fresh(self, texts: Mapping[str, str]) -> Any:
        # The profile without a limit on calls (the usual one refuses the 1,001st); all others are set here.
        found = bashkit().Bash(
            profile=bashkit().ExecutionProfile.Interactive,
            username="root", hostname=self.machine.host, cwd="/root",
            env={"HOME": "/root", "TERM": "dumb", "LANG": "C.UTF-8"},
            timeout_seconds=SECONDS, max_commands=5000, max_loop_iterations=5000, max_memory=MOST_BYTES,
            files=dict(texts), custom_builtins=self._builtins,
        )  # fmt: skip
        found.execute_sync(_SETUP)
        return found

    def _command(self, name: str, command: Command, context: Any) -> Said:
        """One use of a simulated command; what is wrong in it is kept for `run` to raise."""
        self._calls += 1
        if self._calls > MOST_CALLS:
            return Said(err=f"{name}: too many commands in one line\n", code=1)
        files = Files(context.fs, self.machine)
        try:
            return command(
                Call(name, tuple(context.argv), context.stdin or "", context.cwd, files, self.machine)
            )
        except Exception as error:  # border: bashkit would make a message of it  # noqa: BLE001
            self._fault = self._fault or error
            return Said(code=1)

    def run(self, line: str) -> Result:
        """Runs one line; time passes, what runs by itself goes on. Raises what a simulated command raised."""
        if (leak := _LEAKS.search(line)) is not None:
            return Result(
                "", f"bash: {leak[0]}: not on this machine, where nothing may differ from run to run", 1
            )
        before, place = self.save(), self.place()
        self.machine.typed.append(line)
        result = self._execute(line)
        if self._fault is not None:
            raise self._fault
        # One and the same answer for all limits: which of them comes first depends on this computer's speed.
        over = any(_OVER in text for text in (result.error or "", result.stderr))
        if not over:
            self._pass()
            over = self.survey.bytes > MOST_BYTES or self.survey.files > MOST_FILES
        if over:
            self.load(before)
            self.machine.turn += 1
            self.machine.now += STEP_SECONDS
            return Result("", "", 1, LIMITS)
        if self.place() != place or _DEFINES.search(line):
            self._kept = None
        return Result(result.stdout, _TIMES.sub(r"\g<1>0.000s", result.stderr), result.exit_code)

    def _pass(self) -> None:
        """What is due after a line."""
        self.machine.turn += 1
        self.machine.now += STEP_SECONDS
        self.files = Files(self._bash.fs(), self.machine)
        self.refresh()
        tend(self.files, self.machine)
        if self.files.changed:
            self.refresh()

    def _execute(self, line: str) -> Any:
        self._calls = 0
        clock = int(self.machine.clock)
        drawn = (self.machine.seed * 7919 + self.machine.turn * 104_729) % 32_768
        self._bash.execute_sync(f"RANDOM={drawn}; EPOCHSECONDS={clock}; SECONDS=0; SRANDOM={drawn}")
        return self._bash.execute_sync(line.replace("\0", "").encode("utf-8", "replace").decode("utf-8"))

    def _install(self, bash: bytes, survey: Survey) -> None:
        self._bash = self._fresh(dict.fromkeys(_OWN_FILES, ""))
        self.files = Files(self._bash.fs(), self.machine)
        self.files.put(survey.tree)
        self._bash.restore_snapshot(bash)

    def save(self) -> State:
        if self._kept is None:
            self._kept = self._bash.snapshot(exclude_filesystem=True)
        return State(self._kept, self.machine.copy(), self.survey)

    def load(self, state: State) -> None:
        self.machine, self.survey, self._kept = state.machine.copy(), state.survey, state.bash
        self._install(state.bash, state.survey)

    def place(self) -> str:
        """Where the shell stands and what it knows, for the key of the state."""
        state = self._bash.shell_state()
        names = sorted(
            (k, v) for k, v in {**state.variables, **state.env}.items() if not _PASSING.fullmatch(k)
        )
        arrays = {**state.arrays, **state.assoc_arrays}
        lists = sorted((k, sorted(v.items())) for k, v in arrays.items() if not _PASSING.fullmatch(k))
        return f"{state.cwd} {names} {lists} {sorted(state.aliases.items())}"
