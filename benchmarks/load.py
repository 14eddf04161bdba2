"""Load: 512 rollouts at once with few open files, and a run of 20,000 episodes read back in bounded memory.

    python -m benchmarks.load crowd [--callers 512] [--files 1024]
    python -m benchmarks.load long [--episodes 20000] [--keep FOLDER]

`crowd`: household rollouts against a local server in a process of its own that answers after 100 to 300 ms,
first 64 at once, then many; each in its own process under a limit of open files. Printed: peak memory, most
open files, and calls a second as a share of what 64 at once reach on the same machine in the same minute.

`long`: an evaluation of many episodes is written through the store, then opened, listed (`runs`), shown
(`show`), resumed with nothing left to do and reported, each in a process of its own: CPU seconds and peak
memory, beside those of the same command on a run of one episode, which is what the libraries take.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rollout_throughput import REPLY, ROOT, server

STEPS = 8  # an episode
SEEN = (
    "You are in the middle of a room. Looking quickly around you, you see a shelf 1, a drawer 2, a desk. " * 4
)
ACTIONS = tuple(f"go to receptacle number {n}" for n in range(20))
PROMPT = "Act in the household so that the goal is reached. Choose one of the admissible actions. " * 30
MODEL = "openai/fake"
NOWHERE = "http://127.0.0.1:9/v1"  # nothing is sent: all is there


def peak() -> float:
    """The most memory that this process has held, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def open_files() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def child(*words: str) -> dict[str, Any]:
    """What this script prints as JSON, run with `words` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.load", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- many at once ---


async def crowd(url: str, callers: int, episodes: int) -> dict[str, float]:
    """Peak memory (MiB), most open files and calls a second while all `callers` are busy."""
    from roleagent_lite.agents.make import make_agent
    from roleagent_lite.ask import Asker, load_prompts
    from roleagent_lite.config import from_mapping
    from roleagent_lite.lm.pool import open_models
    from roleagent_lite.rollout import Episode, play_many
    from roleagent_lite.store import Run
    from roleagent_lite.tasksets import load_tasks
    from roleagent_lite.types import Progress

    config = from_mapping({"model": MODEL, "limits": {"base_url": url}, "workers": callers})
    tasks, files, marks = load_tasks("household-medium", "train"), [0], dict[int, tuple[float, int]]()

    async def watch() -> None:
        while True:
            files[0] = max(files[0], open_files())
            await asyncio.sleep(0.05)

    with tempfile.TemporaryDirectory() as folder, Run.create(Path(folder) / "run", config) as run:
        async with open_models(config, run) as models:

            def hear(progress: Progress) -> None:
                if progress.done in (1, episodes - callers):
                    marks[progress.done] = time.perf_counter(), models.ledger.snapshot().total.calls

            prompts = load_prompts("v1")
            agent = make_agent("generate", Asker(models, prompts), prompts.seed_set())
            watching = asyncio.ensure_future(watch())
            plan = [Episode(tasks[n % len(tasks)], 0, n, 0.9) for n in range(episodes)]
            played = await play_many(agent, plan, run=run, workers=callers, model_name="fake", listener=hear)
            watching.cancel()
            lost = models.ledger.snapshot().total.failed
    (t0, n0), (t1, n1) = marks[1], marks[episodes - callers]
    broken = sum(not t.outcome.scored for t in played)
    return {"rss": peak(), "files": files[0], "rate": (n1 - n0) / (t1 - t0), "broken": broken, "failed": lost}


def crowds(callers: int, files: int) -> None:
    few = min(64, callers)
    base = None
    print(f"limit of {files} open files, {os.cpu_count()} cores, answers after 100 to 300 ms")
    for count in dict.fromkeys((few, callers)):
        with server(0.1, 0.3) as url:
            found = child("crowd-of", str(count), str(4 * count), str(files), url)
        base = base or found["rate"]
        print(
            f"  {count:4} at once: peak {found['rss']:.0f} MiB, at most {found['files']} open files, "
            f"{found['rate'] / base:.2f} of the calls a second of {few} at once, "
            f"{found['broken']} of {4 * count} episodes broken, {found['failed']} requests failed",
            flush=True,
        )


# --- one long run ---


def task_rows(episodes: int) -> list[dict[str, Any]]:
    return [
        {"id": f"t{n}", "env": "tests.toy:Toy", "goal": f"Get out of hall {n}.", "split": "test",
         "params": {"type": f"kind{n % 6}"}}
        for n in range(episodes)
    ]  # fmt: skip


def write_run(folder: Path, episodes: int, length: int = STEPS) -> Path:
    """An evaluation of `episodes` toy tasks of `length` calls, all played: calls, trajectories and credits
    put into the store. The run's directory; the task file lies beside it."""
    from roleagent_lite.ask import load_prompts
    from roleagent_lite.config import from_mapping
    from roleagent_lite.rollout import Episode, trajectory_id
    from roleagent_lite.store import Event, Run
    from roleagent_lite.types import (
        Call,
        Credit,
        Message,
        Outcome,
        Reply,
        Request,
        Step,
        Task,
        Trajectory,
        Usage,
    )  # fmt: skip

    folder.mkdir(parents=True, exist_ok=True)
    tasks = folder / "tasks.jsonl"
    rows = task_rows(episodes)
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    seed = load_prompts("v1").seed_set()
    usage = Usage(600, 40, 0, None, None)
    flat = (0.0,) * length
    with Run.create(folder / "runs" / "long", from_mapping(settings(tasks))) as run:
        for number, row in enumerate(rows):
            task = Task(**row)
            name = trajectory_id(Episode(task, 0, 0, 0.0), seed)
            steps = []
            for at in range(length):
                key = f"{number:032x}{at:032x}"
                user = f"Goal: {task.goal}\nStep {at}\nYou see: {SEEN}\n" + "\n".join(ACTIONS)
                request = Request(
                    "agent", "act", (Message("system", PROMPT), Message("user", user)), sample=name
                )
                run.dispatched.put(Event(key, "call", {"role": "agent", "model": "fake"}))
                run.calls.put(Call(key, "fake", NOWHERE, request, Reply(REPLY, usage=usage, seconds=0.2)))
                steps.append(
                    Step(f"{SEEN}{at}", "look", f"{SEEN}{at + 1}", at / length, f"s{at}", ACTIONS, "hm",
                         ("You see a shelf.",), "look", True, (key,))
                )  # fmt: skip
            outcome = Outcome("solved") if number % 3 else Outcome("failed", "step_limit")
            run.trajectories.put(
                Trajectory(name, task.id, seed.id, "fake", 0, 0, "test", tuple(steps),
                           float(outcome.kind == "solved"), outcome, max_steps=length, seconds=1.6)
            )  # fmt: skip
            run.credits.put(
                Credit(name, ((0.5,),) * length, flat, flat, flat, tuple(range(length)), flat, 0.0, flat)
            )
        return run.dir


def settings(tasks: Path) -> dict[str, Any]:
    return {"model": MODEL, "tasks": str(tasks), "agent": "generate", "limits": {"base_url": NOWHERE}}


def opened(run_dir: Path) -> None:
    """Every table opened and its keys known, as a resume needs them."""
    from roleagent_lite.config import load
    from roleagent_lite.store import Run

    with Run.create(run_dir, load(run_dir / "config.toml")) as run:
        assert len(run.calls) == len(run.dispatched) == STEPS * len(run.trajectories)


def command(*words: str) -> Callable[[Path], None]:
    """`roleagent-lite WORDS` in this process, its output thrown away; {} = the folder of the runs."""

    def run(run_dir: Path) -> None:
        from roleagent_lite.cli import main as entry

        with Path(os.devnull).open("w") as nothing, contextlib.redirect_stdout(nothing):
            try:
                entry.main([word.format(run_dir.parent) for word in words])
            except SystemExit as ended:
                assert not ended.code, ended.code

    return run


def reported(run_dir: Path) -> None:
    from roleagent_lite.report.write import write_report

    write_report(run_dir)


MEASURED: dict[str, Callable[[Path], None]] = {
    "open": opened,
    "runs": command("runs", "--runs", "{}"),
    "show": command("show", "long", "--runs", "{}"),
    "list": command("show", "long", "list", "--runs", "{}"),
    "resume": command("eval", "--resume", "--run", "long", "--runs", "{}", "--trust"),
    "report": reported,
}


def measure(what: str, run_dir: Path) -> dict[str, float]:
    """CPU seconds (of all threads) and MiB of one of MEASURED, in this process."""
    start = time.process_time()
    MEASURED[what](run_dir)
    return {"seconds": time.process_time() - start, "rss": peak()}


def long(episodes: int, folder: Path) -> None:
    one = Path(child("write", str(folder / "one"), "1")["run"])
    big = folder / f"{episodes}" / "runs" / "long"
    if not big.exists():
        child("write", str(folder / f"{episodes}"), str(episodes))
    for path in (one, big):
        child("measure", "resume", str(path))  # writes the result row: from here on nothing is left to do
    size = sum(path.stat().st_size for path in big.glob("*.jsonl")) / 2**20
    print(f"{episodes:,} episodes of {STEPS} calls, {size:,.0f} MiB on disk")
    for what in MEASURED:
        alone, found = (child("measure", what, str(path)) for path in (one, big))
        print(
            f"  {what:7} {found['seconds']:6.1f} s, peak {found['rss']:5.0f} MiB; one episode takes "
            f"{alone['seconds']:.1f} s and {alone['rss']:.0f} MiB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    many = parts.add_parser("crowd")
    many.add_argument("--callers", type=int, default=512)
    many.add_argument("--files", type=int, default=1024)
    far = parts.add_parser("long")
    far.add_argument("--episodes", type=int, default=20_000)
    far.add_argument("--keep", type=Path, help="write the run there and leave it")
    for name, words in (("crowd-of", 4), ("write", 2), ("measure", 2)):  # in a process of its own
        parts.add_parser(name).add_argument("words", nargs=words)
    args = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if args.part == "crowd":
        crowds(args.callers, args.files)
    elif args.part == "long":
        with tempfile.TemporaryDirectory() as folder:
            long(args.episodes, args.keep or Path(folder))
    elif args.part == "crowd-of":
        count, episodes, files = (int(word) for word in args.words[:3])
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        print(json.dumps(asyncio.run(crowd(args.words[3], count, episodes))))
    elif args.part == "write":
        print(json.dumps({"run": str(write_run(Path(args.words[0]), int(args.words[1])))}))
    else:
        print(json.dumps(measure(args.words[0], Path(args.words[1]))))


if __name__ == "__main__":
    main()
