"""Our calls of BFCL's simulated APIs beside BFCL's own executor, on the same calls: calls per CPU second.

Both play the true calls of all entries of a variant, one call at a time, from new objects each; every answer
must be equal. Ours reads calls with `ast`, BFCL's evaluates them. Also: steps per CPU second of the whole
environment, with its texts, listed calls, keys of the state and checks. Needs `roleagent-lite tasks pull
bfcl` and mpmath.

    python benchmarks/tools_speed.py [--variant base] [--repeats 5]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from roleagent_lite.envs.tools import apis, calls, data
from roleagent_lite.envs.tools.env import Tools
from roleagent_lite.types import Task


def ours(entries: Sequence[data.Entry]) -> list[str]:
    answers = []
    for entry in entries:
        found = apis.owners(apis.start(entry))
        for turn in entry.truth:
            for text in turn:
                answers += apis.run(found, calls.read(text, found))
    return answers


def theirs(entries: Sequence[data.Entry], execute: Callable[..., Any], name: str) -> list[str]:
    answers: list[str] = []
    for entry in entries:
        for turn in entry.truth:
            for text in turn:
                answers += execute([text], entry.config, entry.classes, name, entry.id, entry.long_context)[0]
    return answers


def environment(entries: Sequence[data.Entry]) -> int:
    steps = 0
    for entry in entries:
        env = Tools(Task(entry.id, "tools", "g", 0, {"entry": entry.id}))
        for action in env.walkthrough():
            env.step(action)
            steps += 1
        assert env.score() == 1.0
    return steps


def timed(spent: dict[str, float], what: str, work: Callable[[], Any]) -> Any:
    begun = time.process_time()
    found = work()
    spent[what] = spent.get(what, 0.0) + time.process_time() - begun
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--variant", choices=data.VARIANTS, default="base")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(data.place().parent))
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call

    entries = list(data.entries(asked.variant).values())
    spent: dict[str, float] = {}
    made = steps = 0
    for number in range(asked.repeats + 1):
        if number == 1:  # the first round loads modules and works out what the true calls bring about
            spent, made, steps = {}, 0, 0
        own = timed(spent, "ours", lambda: ours(entries))
        play = partial(theirs, entries, execute_multi_turn_func_call, f"m{number}")
        other = timed(spent, "theirs", play)
        assert own == other, "the answers differ"
        steps += timed(spent, "steps", lambda: environment(entries))
        made += len(own)
    rates = {what: made / spent[what] for what in ("ours", "theirs")}
    print(f"{asked.variant}: {made // asked.repeats} calls, the same answers")
    print(f"BFCL's executor  {rates['theirs']:8.0f} calls per CPU second")
    ratio = rates["ours"] / rates["theirs"]
    print(f"ours             {rates['ours']:8.0f} calls per CPU second, {ratio:.2f} times")
    print(f"the environment  {steps / spent['steps']:8.0f} steps per CPU second")


if __name__ == "__main__":
    main()
