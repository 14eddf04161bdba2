"""The main job: a prompt evolves against a world that learns where it fails.

Each round: draw, play, credit, diagnose, propose, play, accept; then retrieve and reshape. GEPA's engine
turns the wheel and keeps the pool; every part of it is ours. Owns their assembly. Leaves out the parts, the
sealed test and the report (jobs). Nothing is pickled: a resumed run is this same program over its record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roleagent_lite.ask import Asker, Prompts
from roleagent_lite.ask.asker import ByRole
from roleagent_lite.ask.prompts import REPLY_FORM
from roleagent_lite.config import RunConfig
from roleagent_lite.evolve.accept import criterion
from roleagent_lite.evolve.adapter import Acceptance, Adapter, Proposer, RoundEnd, Shop, Silence
from roleagent_lite.evolve.bridge import Bridge
from roleagent_lite.evolve.player import Player
from roleagent_lite.evolve.pool import Pool
from roleagent_lite.evolve.propose import Means
from roleagent_lite.evolve.sampler import Clock, CurriculumSampler
from roleagent_lite.evolve.select import select
from roleagent_lite.evolve.tasks import TaskSets
from roleagent_lite.evolve.world import World
from roleagent_lite.store import Run
from roleagent_lite.types import Listener, PromptSet


@dataclass(frozen=True, slots=True)
class Evolution:
    """What the rounds ended with. `final`: `best` where that beat the seed on dev beyond noise, else `seed`.

    `best`: the best candidate on dev, else the last refused. `p`: one-sided, paired over dev tasks;
    None where nothing was compared. `candidates`: seed first.
    """

    seed: PromptSet
    best: PromptSet
    final: PromptSet
    accepted: bool
    p: float | None
    reason: str
    candidates: tuple[PromptSet, ...]


async def run_evolution(
    config: RunConfig,
    run: Run,
    models: ByRole,
    *,
    tasks: TaskSets,
    prompts: Prompts,
    seed_set: PromptSet,
    listener: Listener | None = None,
) -> Evolution:
    """Evolve `seed_set` on the training tasks for `config.evolve.rounds` rounds and choose on dev.

    A pure function of (seed, replies): rows that `run` holds already are read instead of bought. Raises
    ConfigError for unknown names, and what ends a run: BudgetStop, FatalModelError, a fault of ours.
    """
    asker = Asker(
        models, prompts, max_tokens=config.limits.max_tokens, trim=config.limits.trim,
        note=lambda text: run.record(f"note/{text}", "note", {"text": text}),
    )  # fmt: skip
    clock, bridge = Clock(), Bridge()
    pool = Pool(run, seed_set, config.evolve.components)
    player = Player(config, run, asker, listener)
    world = World(config, run, asker, tasks.train, listener)
    own_names = frozenset({*prompts.module("act").inputs, *prompts.module("act").texts, REPLY_FORM})
    means = Means(asker, config.evolve.reflect_temperature, config.evolve.max_chars, own_names)
    shop = Shop(run, bridge, clock, pool, player, world, means, config.wia.feedback)
    parts: dict[str, Any] = {
        "batch_sampler": CurriculumSampler(tasks.train, world.draw, clock),  # draw
        "adapter": Adapter(shop),  # play, credit, diagnose; the feedback
        "custom_candidate_proposer": Proposer(shop),  # propose
        "acceptance_criterion": Acceptance(shop, criterion(config.evolve.accept)),  # accept
        "stop_callbacks": RoundEnd(shop, config.evolve.rounds),  # retrieve, reshape
    }

    def turn() -> None:
        import gepa

        gepa.optimize(
            seed_candidate=pool.candidate(seed_set),
            trainset=list(tasks.train),
            valset=list(tasks.dev),
            seed=config.seed,
            logger=Silence(),
            use_merge=False,  # it ignores acceptance and fails on weak seeds
            cache_evaluation=False,  # its key takes a training score for the dev task of the same number
            run_dir=None,  # else it pickles
            track_best_outputs=False,
            raise_on_exception=True,
            **parts,
        )

    await bridge.run(turn)
    chosen = select(pool.entered, pool.dev, pool.refused)
    run.record(
        "final",
        "final",
        {
            "seed": chosen.seed.id,
            "best": chosen.best.id,
            "final": chosen.final.id,
            "accepted": chosen.accepted,
            "p": chosen.p,
            "reason": chosen.reason,
        },
    )
    return Evolution(
        chosen.seed, chosen.best, chosen.final, chosen.accepted, chosen.p, chosen.reason, tuple(pool.entered)
    )
