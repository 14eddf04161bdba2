"""A process for the kill test: eight workers buy 60 calls, `python -m tests.lm.kill_me URL DIR`.

Prints `done` and the number of calls that the ledger counts when it comes to the end.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from roleagent_lite.config import from_mapping
from roleagent_lite.lm.pool import open_models
from roleagent_lite.store import Run
from tests.lm.kit import ask


async def main(url: str, folder: Path) -> None:
    config = from_mapping({"model": "openai/fake", "limits": {"base_url": url}, "budget": {"price": "1/2"}})
    with Run.create(folder, config) as run:
        async with open_models(config, run) as models:
            todo = iter(range(60))

            async def worker() -> None:
                for n in todo:
                    await models["agent"].complete(ask(f"task {n}", sample=str(n)))

            await asyncio.gather(*(worker() for _ in range(8)))
            print("done", models.ledger.snapshot().total.calls, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
