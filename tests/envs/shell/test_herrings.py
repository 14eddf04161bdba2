"""What misleads does no harm, differs from seed to seed, and comes in the number that the difficulty says."""

from __future__ import annotations

import pytest

from roleagent_lite.envs.shell.health import well
from roleagent_lite.envs.shell.herrings import COUNT, HERRINGS, put
from tests.envs.shell.bench import Bench


@pytest.mark.parametrize("herring", HERRINGS, ids=lambda h: h.__name__)
def test_each_leaves_every_service_well_and_something_to_see(herring: object) -> None:
    bench = Bench(7)
    before = (bench.machine.copy(), bench.files.survey({}).digest)
    assert callable(herring)
    herring(bench.world, bench.files)
    assert well(bench.files, bench.machine)
    assert (bench.machine, bench.files.survey({}).digest) != before
    assert bench.machine.free_memory > 1000


@pytest.mark.parametrize(("difficulty", "number"), COUNT.items())
def test_the_difficulty_says_how_many(difficulty: str, number: int) -> None:
    seen = set()
    for seed in range(12):
        bench = Bench(seed)
        put(difficulty, bench.world, bench.files)
        assert len(set(bench.world.herrings)) == len(bench.world.herrings) == number
        assert well(bench.files, bench.machine)
        seen |= set(bench.world.herrings)
        times = [line.time for line in bench.machine.journal]
        assert times == sorted(times)
    assert len(seen) == (len(HERRINGS) if number == 4 else len(seen))
    assert len(seen) > number or number == 0


def test_an_old_fault_is_over_before_the_present() -> None:
    bench = Bench(7)
    for herring in HERRINGS:
        herring(bench.world, bench.files)
    day = bench.machine.clock - 12 * 3600
    old = [x for x in bench.machine.journal if x.unit == bench.world.victim and x.priority <= 3]
    assert len(old) >= 5 and all(line.time < day for line in old)
