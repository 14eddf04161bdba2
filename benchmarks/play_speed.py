"""How much faster does the model in training play where each core answers a request of its own?

    python benchmarks/play_speed.py [TASKS] [GROUP] [REPEATS]

Plays household-easy's first TASKS training tasks (default 4) GROUP times each (default 4) with the recipe
`smollm2-cpu`, once with all cores in each request and once with a core a request (`LocalModel.crew`), in
turns, REPEATS times (default 3). Prints the ratio of wall times a step of each turn, and their median. Needs
the extra `distill`, the embedded model, two cores or more, and a machine that does nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from roleagent_lite.distill.local import LocalModel
from roleagent_lite.distill.policy import Policy, open_policy
from roleagent_lite.distill.recipe import Recipe, load_recipe
from roleagent_lite.distill.stand import Stand, config_of, name_of, training_tasks
from roleagent_lite.distill.tokenizer import Tokenizer, open_tokenizer
from roleagent_lite.session import Beginning, opened, starting_prompts
from roleagent_lite.tasksets import file_hash
from roleagent_lite.types import ROLES, Task

TASKS = "household-easy"


async def seconds_a_step(
    policy: Policy, tokenizer: Tokenizer, recipe: Recipe, tasks: Sequence[Task], group: int, crew: bool
) -> float:
    """Wall seconds a step of `group` episodes of each task, played by a model that has read nothing yet."""
    config = config_of(recipe, TASKS)
    prompts = starting_prompts(config)
    model = LocalModel(policy, tokenizer, name_of(recipe, 0), most=recipe.data.max_tokens)
    if not crew:
        model.crew = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    beginning = Beginning(tasks, file_hash(TASKS), TASKS, prompts.seed_set())
    with tempfile.TemporaryDirectory() as folder:
        async with opened(config, Path(folder) / "run", beginning, models=dict.fromkeys(ROLES, model)) as at:
            stand = Stand(at, config, prompts, beginning.seed, model)
            begun = time.monotonic()
            groups = await stand.play(tasks, 0, group=group, temperature=0.8, predict=False)
            taken = time.monotonic() - begun
    return taken / sum(len(t.steps) for some in groups for t in some)


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    count, group, repeats = (*given, *(4, 4, 3)[len(given) :])
    recipe = load_recipe("smollm2-cpu")
    tokenizer = open_tokenizer(recipe.model)
    policy = open_policy(recipe, tokenizer.pad_id)
    tasks = training_tasks(TASKS, 1)[0][:count]
    ratios = []
    for _ in range(repeats):
        shared, own = (
            asyncio.run(seconds_a_step(policy, tokenizer, recipe, tasks, group, crew))
            for crew in (False, True)
        )
        ratios.append(shared / own)
        print(f"a step: {shared:.3f} s with all cores in a request, {own:.3f} s with a core each: "
              f"{ratios[-1]:.2f} times as fast", flush=True)  # fmt: skip
    print(f"median of {repeats}: {statistics.median(ratios):.2f} times as fast")


if __name__ == "__main__":
    main()
