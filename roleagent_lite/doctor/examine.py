"""The whole examination: every check in order, each behind one border, so that a broken one is a line too.

Owns the order and what a fault inside a check becomes. Leaves out the checks and the screen (cli).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import roleagent_lite.doctor.machine as machine
import roleagent_lite.doctor.network as network
import roleagent_lite.doctor.places as places
from roleagent_lite.doctor.imports import imports, not_imported
from roleagent_lite.doctor.line import Line, problem
from roleagent_lite.doctor.packages import packages
from roleagent_lite.lm.wheels import cache_dir
from roleagent_lite.redact import scrub

Check = Callable[[], Line | Sequence[Line]]


def guarded(name: str, check: Check) -> list[Line]:
    """The lines of one check; a check that fails is a problem of its own and hides no other."""
    try:
        found = check()
    except Exception as error:  # border: doctor  # noqa: BLE001
        words = scrub(f"this check itself failed: {type(error).__name__}: {error}")
        return [problem(name, words, "please report this with the command that you used")]
    return [found] if isinstance(found, Line) else list(found)


def checks(
    runs: Path,
    run: Path | None,
    model: str | None,
    base_url: str | None,
    key_env: str | None,
    probe: bool,
    stores: bool = False,
    imported: bool = False,
) -> list[tuple[str, Check]]:
    """Names and checks in the order in which they are shown."""
    cache = cache_dir()
    one = [] if run is None else [run]
    return [
        ("python", machine.python),
        ("packages", packages),
        ("imports", imports if imported else not_imported),
        ("encoding", machine.encoding),
        ("clock", machine.clock),
        ("cores", machine.cores),
        ("memory", machine.memory),
        ("open files", machine.open_files),
        ("gpu", machine.gpu),
        ("java", machine.java),
        ("disk", lambda: [places.disk("disk", runs), places.disk("disk", cache)]),
        (
            "folders",
            lambda: [
                places.writable("folder of runs", runs),
                places.writable("cache", cache),
                places.writable("temporary files", Path(tempfile.gettempdir())),
            ],
        ),
        ("keys", network.keys),
        ("proxy", network.proxies),
        ("embedded model", network.embedded),
        ("runs", lambda: [x for r in one for x in places.run_lines(r, True)] or places.runs(runs)),
        ("stores", lambda: places.stores(one) if one else places.all_stores(runs, stores)),
        ("model", lambda: network.endpoint(model, base_url, key_env, probe)),
    ]


def examine(
    *,
    runs: Path = Path("runs"),
    run: Path | None = None,
    model: str | None = None,
    base_url: str | None = None,
    api_key_env: str | None = None,
    probe: bool = False,
    stores: bool = False,
    imported: bool = False,
) -> list[Line]:
    """All lines, in a fixed order. run: look at this run alone, and read it whole. stores: open the memory
    stores of all runs too, which loads LanceDB. imported: import every needed package in a process of its
    own, which takes some seconds; the other checks run meanwhile.

    Nothing is sent unless `model` or `base_url` is given; paid calls are made only with `probe`.
    """
    todo = checks(runs, run, model, base_url, api_key_env, probe, stores, imported)
    with ThreadPoolExecutor(8) as pool:  # the programs asked for their version take their time
        found = list(pool.map(lambda one: guarded(*one), todo))
    return [line for lines in found for line in lines]
