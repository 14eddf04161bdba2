"""A copy of a run for others: no keys, no paths of the machine, no user or host name; reports written anew.

Every record is read, treated (`anonymous`) and written through the store; nothing is copied as a file, and no
link is followed. Owns what is left out and the wording of what remains to be read. Leaves out the rules for
texts (anonymous, redact) and the report's contents (write).
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from roleagent_lite.config import RunConfig
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.report.anonymous import Anonymous, home_names, machine_names
from roleagent_lite.report.html.write import write_all
from roleagent_lite.report.write import write_report
from roleagent_lite.store import TABLES, Run
from roleagent_lite.table import Table

LEFT = "[left out]"
_WRITTEN = {"config.toml", "lock", *(f"{name}.jsonl" for name in TABLES)}
_REPORT = re.compile(r"report\.(md|json|html)|[a-z_]+\.svg")
_WHY = {
    "log.txt": "may hold anything that a library said",
    "memory": "a search index, made again from the records",
    "dspy": "a library's folder",
    "prompt.json": "its texts are in prompt_sets.jsonl",
}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shared:
    """Where the copy lies, what was left out or replaced, and what a person should still read; in words."""

    path: Path
    left_out: tuple[str, ...]
    to_read: tuple[str, ...]


def share(source: Path, target: Path, *, prompts: bool = True, observations: bool = True) -> Shared:
    """Write the copy of the run at `source` to the new folder `target`, or zip file where it ends in .zip.

    prompts False: without the texts of prompts and of all calls. observations False: without what the world
    said and the models answered. Raises ConfigError where there is no run, or `target` is there already or
    inside the run; RoleAgentError where it cannot be written. `source` is only read.
    """
    target = Path.cwd() / target  # not resolved: a link by that name is seen, and refused
    if target.exists() or target.is_symlink():
        raise ConfigError(f"{target} is there already; name another with --to")
    if source.resolve() in (target.resolve(), *target.resolve().parents):
        raise ConfigError(f"{target} lies inside the run itself; name another place with --to")
    with Run.open(source) as run:
        anonymous = _names(run)
        name = re.sub(r"[\[\]]", "", anonymous.text(target.stem if target.suffix == ".zip" else target.name))
        left = _strangers(run.dir)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=".share-", dir=target.parent))
        except OSError as error:
            raise RoleAgentError(f"cannot write {target}: {error.strerror or error}") from None
        try:
            made = _made(run, work, name, anonymous, prompts, observations)
            _place(made, target)
        except OSError as error:
            raise RoleAgentError(f"cannot write {target}: {error.strerror or error}") from None
        finally:
            shutil.rmtree(work, ignore_errors=True)
        left += _replaced(anonymous, prompts, observations)
        return Shared(target, tuple(left), tuple(_to_read(run, prompts, observations)))


def _made(run: Run, work: Path, name: str, anonymous: Anonymous, prompts: bool, observations: bool) -> Path:
    """The finished copy in a folder of `work`."""
    whole = work / "whole" / name
    _copy(run, whole, anonymous, _changes(prompts, observations, texts=True))
    if observations:
        write_all(whole)
        return whole
    write_report(whole)
    # The report's numbers come from the texts, so they are counted before the texts go.
    bare = work / "bare" / name
    _copy(run, bare, anonymous, _changes(prompts, observations, texts=False))
    for file in ("report.md", "report.json", *(p.name for p in whole.glob("*.svg"))):
        (whole / file).rename(bare / file)
    return bare


def _names(run: Run) -> Anonymous:
    users, hosts = machine_names()
    texts = [run.config.model_dump_json().replace("\\\\", "\\")]
    for name in TABLES:
        texts += ["\n".join(_strings(_plain(row))) for row in getattr(run, name) if name != "credits"]
        users |= {found for text in texts for found in home_names(text)}
        texts = []
    return Anonymous(users, hosts)


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [s for k, v in value.items() for s in (str(k), *_strings(v))]
    return [s for v in value for s in _strings(v)] if isinstance(value, list | tuple) else []


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(row: Any) -> TypeAdapter[Any]:
    """The one that the store reads and writes such rows with."""
    if type(row) not in _adapters:
        _adapters[type(row)] = TypeAdapter(type(row))
    return _adapters[type(row)]


def _plain(row: Any) -> Row:
    plain: Row = _adapter(row).dump_python(row, mode="json")
    return plain


def _copy(run: Run, target: Path, anonymous: Anonymous, changes: Mapping[str, Callable[[Row], Row]]) -> None:
    config = RunConfig.model_validate(anonymous.data(run.config.model_dump(mode="json")))
    with Run.create(target, config) as copy:
        for name in TABLES:
            table: Table[Any] = getattr(copy, name)
            for row in getattr(run, name):
                plain = changes.get(name, dict)(_plain(row))
                table.put(_adapter(row).validate_python(anonymous.data(plain)))
    (target / "lock").unlink(missing_ok=True)


# --- what is left out -------------------------------------------------------------------------------------


def _changes(prompts: bool, observations: bool, *, texts: bool) -> dict[str, Callable[[Row], Row]]:
    """How rows of each table change. `texts` True: observations stay for the time being, errors go."""
    out: dict[str, Callable[[Row], Row]] = {}
    if not prompts:
        out["prompt_sets"] = lambda row: {**row, "texts": {k: v and LEFT for k, v in row["texts"].items()}}
    elif not observations:
        out["prompt_sets"] = _without_demonstrations
    if not prompts or not observations:
        out["calls"] = _without_words
    if not observations:
        out["trajectories"] = out["trials"] = _without_error if texts else _without_observations
        out["diagnoses"] = lambda row: {**row, "detail": LEFT, "lesson": LEFT, "query": LEFT}
    return out


def _without_words(row: Row) -> Row:
    request = {**row["request"], "messages": [], "choices": None, "schema": None, "stop": []}
    silent = {"text": LEFT, "reasoning": None, "token_ids": None, "logprobs": None, "scores": None}
    return {**row, "request": request, "reply": {**row["reply"], **silent}}


def _without_demonstrations(row: Row) -> Row:
    texts = {k: LEFT if v and k.endswith(".demonstrations") else v for k, v in row["texts"].items()}
    return {**row, "texts": texts}


def _without_error(row: Row) -> Row:
    return {**row, "error": row["error"] and LEFT}


def _without_observations(row: Row) -> Row:
    def key(text: str | None) -> str | None:  # equal states stay equal
        return text and hashlib.sha256(text.encode()).hexdigest()[:16]

    steps = [
        {**s, "observation": LEFT, "outcome": LEFT, "thought": "", "said": "", "admissible": [],
         "state_key": key(s["state_key"]), "predictions": [p and LEFT for p in s["predictions"]]}
        for s in row["steps"]
    ]  # fmt: skip
    return {**_without_error(row), "steps": steps, "final_state_key": key(row["final_state_key"])}


def _strangers(folder: Path) -> list[str]:
    """What lies in the run's folder and is not taken over, with the reason."""
    out = []
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            out.append(f"{path.name}: a link, not followed")
        elif path.name not in _WRITTEN and not _REPORT.fullmatch(path.name):
            out.append(f"{path.name}: {_WHY.get(path.name, 'not a part of a run')}")
    return out


def _replaced(anonymous: Anonymous, prompts: bool, observations: bool) -> list[str]:
    counts = anonymous.counts
    out = [
        f"{counts['paths']} absolute paths, {counts['names']} user or host names and {counts['servers']} "
        "private servers: stand-ins take their place"
    ]
    if not prompts:
        out.append("the texts of prompts, and what was sent and answered in calls")
    if not observations:
        out.append("what the world said, what the models answered, and diagnoses; actions and numbers remain")
        out.append("report.html, which shows episodes step by step")
    return out


def _to_read(run: Run, prompts: bool, observations: bool) -> list[str]:
    out = [
        f"tasks.jsonl: {len(run.tasks)} goals and their settings",
        "config.toml: names of models and task files",
    ]
    if prompts:
        out.append(f"prompt_sets.jsonl, report.md: {len(run.prompt_sets)} prompts")
    if prompts and observations:
        out.append(f"calls.jsonl: {len(run.calls)} requests and replies, word for word")
    if observations:
        out.append(f"trajectories.jsonl, diagnoses.jsonl: {len(run.trajectories)} episodes")
    else:
        out.append("trajectories.jsonl: the actions")
    out.append("events.jsonl, dispatched.jsonl: notes, and what servers said of their errors")
    return out


def _place(made: Path, target: Path) -> None:
    """Move the finished folder, or pack it; nothing half done is ever left under the target's name."""
    for part in made.rglob("*"):
        if part.is_symlink() or not (part.is_file() or part.is_dir()):
            raise RoleAgentError(f"{part.name} in the copy is no plain file; nothing was shared")
    if target.suffix != ".zip":
        made.rename(target)
        return
    packed = made.parent / "packed.zip"
    with zipfile.ZipFile(packed, "x", zipfile.ZIP_DEFLATED) as archive:
        for part in sorted(p for p in made.rglob("*") if p.is_file()):
            entry = zipfile.ZipInfo(f"{made.name}/{part.relative_to(made).as_posix()}")  # no date, no owner
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, part.read_bytes())
    packed.rename(target)
