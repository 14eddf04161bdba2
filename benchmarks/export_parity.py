"""Do the exported files of an adapter play household tasks as transformers does?

    python benchmarks/export_parity.py [TASKS] [ADAPTER]

Plays the first step of TASKS (default 20) household tasks with the embedded model, exports an adapter of it
in every format, and prints what the parity gate found: first actions and first tokens that are alike, near
ties, logits of the merged model. ADAPTER: peft's folder of a trained adapter; without one it is a random one
(seeded, and so named in the output), which shows the way of the weights and nothing about learning.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

from roleagent_lite.distill import lora
from roleagent_lite.distill.export import export, wanted
from roleagent_lite.distill.parity import NEAR, probes_of
from roleagent_lite.distill.policy import open_policy
from roleagent_lite.distill.recipe import Recipe, load_recipe
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokenizer import open_tokenizer
from roleagent_lite.store import Run

SIZE = 0.02  # standard deviation of the random adapter's second matrices


async def first_steps(path: Path, count: int) -> None:
    """A run with the first step of `count` household tasks, played by the embedded model."""
    from roleagent_lite.agents.make import make_agent
    from roleagent_lite.lm.pool import open_models
    from roleagent_lite.rollout import Episode, play_many
    from roleagent_lite.session import make_asker, settings, starting_prompts
    from roleagent_lite.tasksets import load_tasks

    config = settings({"model": "embedded", "tasks": "household-easy", "wia": {"predict": "off"}})
    tasks = load_tasks(config.tasks, "train")[:count]
    prompts = starting_prompts(config)
    with Run.create(path, config) as run:
        async with open_models(config, run) as models:
            agent = make_agent("choose", make_asker(config, models, prompts), prompts.seed_set(), config.wia)
            episodes = [Episode(task, 0, 0, 0.0, max_steps=1) for task in tasks]
            await play_many(agent, episodes, run=run, workers=1, model_name=models["agent"].name)


def random_adapter(recipe: Recipe, folder: Path) -> None:
    """An adapter that does something, by a seed."""
    policy = open_policy(recipe, open_tokenizer(recipe.model).pad_id)
    torch = load("torch")
    generator = torch.Generator().manual_seed(1)
    for name, parameter in policy.parameters.items():
        if ".lora_B." in name:
            parameter.data += SIZE * torch.randn(parameter.shape, generator=generator)
    lora.save(policy.model, folder, recipe.adapter.dtype)


def main(count: int = 20, adapter: str = "") -> int:
    recipe = load_recipe("smollm2-cpu")
    with tempfile.TemporaryDirectory() as place:
        here = Path(place)
        asyncio.run(first_steps(here / "run", count))
        if adapter:
            shutil.copytree(adapter, here / "adapter")
        else:
            random_adapter(recipe, here / "adapter")
        with Run.open(here / "run") as run:
            probes = probes_of(run, count)
        start = time.perf_counter()
        told = export(here, recipe, wanted("all"), probes)
        seconds = time.perf_counter() - start
    near, far = (told["merged_logits"][name] for name in ("to_adapter", "to_base"))
    print("adapter:", adapter or f"random, seeded, not trained (standard deviation {SIZE})")
    print(f"merged logits: {near:.2g} from base + adapter, {far:.3g} from the base")
    for side in told["sides"]:
        print(
            f"{side['side']:34} {side['actions']} of {side['of_actions']} first actions, {side['tokens']} of "
            f"{side['of_tokens']} first tokens; {side['to_reference']:.2g} nats from base + adapter, "
            f"{side['to_base']:.2g} from the base"
        )
        for line in (*side["excused"], *side["faults"]):
            print(f"    {line}")
    print(f"{len(probes)} tasks in {seconds:.0f} s; below {NEAR} nats apart either pick is right")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, *sys.argv[2:3]))
