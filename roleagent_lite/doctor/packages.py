"""Checks of the installed packages against the ranges that this version was tested with.

Owns reading the ranges (the package's own metadata, which come from pyproject.toml), comparing versions and
what each extra is for. Nothing is imported: only metadata is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from roleagent_lite.doctor.line import Line, ok, problem, warning

PURPOSES: Mapping[str, str] = {
    "embed": "Hugging Face encoders (aiw.embedder = hf:NAME)",
    "alfworld": "the original ALFWorld games (household:alfworld)",
    "test": "running this project's own tests",
    "distill": "training adapters from a run's episodes",
    "unsloth": "training adapters faster on a GPU",
    "gym": "environments of Gymnasium (gym:ID)",
}
Version = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of the metadata: `specs` are (operator, version); `extra` None = always needed."""

    name: str
    specs: tuple[tuple[str, str], ...]
    extra: str | None = None

    @property
    def words(self) -> str:
        return self.name + ",".join(op + version for op, version in self.specs)


def read(line: str) -> Requirement | None:
    """A line of `Requires-Dist`; None where it is for another Python or another system."""
    head, _, marker = line.partition(";")
    found = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*\(?([^)]*)\)?\s*$", head)
    if found is None or "!= 'CPython'" in marker:
        return None
    extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
    specs = re.findall(r"(===|==|>=|<=|!=|~=|<|>)\s*([^,\s]+)", found[2])
    return Requirement(found[1], tuple(specs), extra[1] if extra else None)


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version, without what follows them and without zeros at their end."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    numbers = [int(n) for n in found[1].split(".")] if found else [0]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


_HOLDS: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "==": lambda a, b: a == b,
    "===": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "~=": lambda a, b: a >= b and a[: len(b) - 1] == b[:-1],
}


def fits(version: str, specs: Sequence[tuple[str, str]]) -> bool:
    """Whether the numbers of `version` are in the range; pre-releases count as their release."""
    return all(_HOLDS[op](release(version), release(wanted)) for op, wanted in specs)


def _installed(name: str, version: Version) -> str | None:
    try:
        return version(name)
    except metadata.PackageNotFoundError:
        return None


def _core(needed: Sequence[Requirement], version: Version) -> list[Line]:
    lines = []
    for one in needed:
        found = _installed(one.name, version)
        if found is None:
            lines.append(problem("package", f"{one.name} is not installed", f"pip install '{one.words}'"))
        elif not fits(found, one.specs):
            lines.append(
                warning("package", f"{one.name} {found} was not tested here", f"pip install '{one.words}'")
            )
    good = len(needed) - len(lines)
    return [ok("packages", f"{good} of {len(needed)} needed packages are in the tested range"), *lines]


def _extra(name: str, needed: Sequence[Requirement], version: Version) -> Line:
    title, purpose = f"extra {name}", PURPOSES.get(name, "")
    install = f"pip install 'roleagent-lite[{name}]'"
    found = {one.name: _installed(one.name, version) for one in needed}
    missing = [n for n, v in found.items() if v is None]
    odd = [
        f"{one.name} {found[one.name]}" for one in needed if not fits(found[one.name] or "0", one.specs)
        and found[one.name] is not None
    ]  # fmt: skip
    if len(missing) == len(found):
        return ok(title, "not installed" + (f"; it is for {purpose}" if purpose else ""), install)
    if missing:
        return ok(title, f"in part: {', '.join(missing)} not installed", f"to use it: {install}")
    if odd:
        return warning(title, f"{', '.join(odd)}: not tested here", install)
    return ok(title, "installed: " + ", ".join(f"{n} {v}" for n, v in found.items()))


def packages(requires: Sequence[str] | None = None, version: Version = metadata.version) -> list[Line]:
    """One line on the needed packages, one for each that is missing or untested, one for each extra."""
    if requires is None:
        try:
            requires = metadata.requires("roleagent-lite") or []
        except metadata.PackageNotFoundError:
            return [
                warning(
                    "packages",
                    "roleagent-lite itself is not installed, so versions cannot be compared",
                    "pip install -e . in the checkout",
                )
            ]
    known = [r for r in map(read, requires) if r is not None and r.name != "roleagent-lite"]
    extras = sorted({r.extra for r in known if r.extra is not None})
    core = [r for r in known if r.extra is None]
    return [*_core(core, version), *(_extra(e, [r for r in known if r.extra == e], version) for e in extras)]
