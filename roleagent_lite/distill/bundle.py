"""A training to carry to another machine: samples, recipe, code, pinned requirements, a script, a notebook.

Owns the folder's form, the training there (`train_here`, which its script calls) and taking the adapter back.
Samples go as token ids with what the loss needs, without the run's texts and settings. The code that trains
goes along, so that the other machine needs only what requirements.txt names. Leaves out training (job.py).
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import roleagent_lite
from roleagent_lite.distill.bake import OWN_PROMPT
from roleagent_lite.distill.prepare import Prepared, Report
from roleagent_lite.distill.recipe import Recipe, from_mapping
from roleagent_lite.distill.samples import Sample
from roleagent_lite.distill.tokenizer import Tokenizer
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.version import __version__

# What training imports; the rest of the project's dependencies stays at home.
NEEDED = (
    "torch", "transformers", "peft", "accelerate", "safetensors", "gguf", "numpy", "pydantic", "cydifflib",
)  # fmt: skip
BACK = "adapter.zip"
_MEMBERS = ("adapter_config.json", "adapter_model.safetensors", "train.json", "steps.jsonl", OWN_PROMPT)
_MOST = 4 << 30  # bytes of one member of what comes back

SCRIPT = '''"""Trains the adapter of this folder's recipe on its samples; called again, it goes on.

    pip install -r requirements.txt
    python train.py

Leaves adapter.zip beside this file: what to take home. `--check` only says what would be done.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from roleagent_lite.distill.bundle import train_here  # noqa: E402

sys.exit(train_here(HERE, check="--check" in sys.argv[1:]))
'''


@dataclass(frozen=True, slots=True)
class _Names:
    """What training asks a tokenizer for, once samples are in tokens."""

    name: str
    end_id: int
    pad_id: int


def write(prepared: Prepared, tokenizer: Tokenizer, folder: Path, back: str) -> list[str]:
    """Writes the bundle of `prepared` to the new folder `folder`; the names of its parts.

    back: the command that takes the adapter home, for the README. A model that is a folder or file of this
    machine is copied along. Raises ConfigError where the folder exists or training goes on from an adapter,
    RoleAgentError where there is nothing to train on or the disk is full.
    """
    prepared.check()
    recipe = prepared.recipe
    if folder.exists():
        raise ConfigError(f"{folder} exists; give the bundle a folder of its own")
    if recipe.adapter.start:
        raise ConfigError(f"adapter.start is a folder of this machine ({recipe.adapter.start}): not carried")
    partial = folder.with_name(folder.name + ".part")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        with (partial / "samples.jsonl").open("w", encoding="utf-8") as file:
            for tokens in prepared.usable:
                file.write(json.dumps(row(tokens)) + "\n")
        carried = _carry_model(recipe, partial)
        _json(partial / "recipe.json", json.loads(recipe.model_dump_json()))
        told = {
            "version": __version__, "tokenizer": tokenizer.name, "end_id": tokenizer.end_id,
            "pad_id": tokenizer.pad_id, "report": asdict(prepared.report),
            "model": carried, "texts": dict(prepared.texts),
        }  # fmt: skip
        _json(partial / "bundle.json", told)
        texts = {
            "requirements.txt": "".join(f"{line}\n" for line in requirements(recipe)),
            "train.py": SCRIPT, "train.ipynb": json.dumps(notebook(), indent=1) + "\n",
            "README.md": _readme(recipe, prepared.report, back),
        }  # fmt: skip
        for name, text in texts.items():
            (partial / name).write_text(text, encoding="utf-8")
        _copy_code(partial / "roleagent_lite")
        partial.rename(folder)
    except OSError as error:
        raise RoleAgentError(f"cannot write the bundle to {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return sorted(p.name for p in folder.iterdir())


def _carry_model(recipe: Recipe, partial: Path) -> str:
    """The name that a local model's copy has in the bundle; "" where the model is fetched there."""
    path = Path(recipe.model.removeprefix("embedded:")).expanduser()
    if recipe.model == "embedded" or not path.exists():
        return ""
    if path.is_dir():
        shutil.copytree(path, partial / "model")
        return "model"
    shutil.copy2(path, partial / "model.gguf")
    return "model.gguf"


def row(tokens: Tokens) -> dict[str, Any]:
    """A sample as plain data, without the texts that training does not read; choices go by number."""
    sample = tokens.sample
    numbers = tuple(str(k) for k in range(len(sample.choices)))
    drawn = numbers[sample.choices.index(sample.text)] if sample.text in sample.choices else ""
    bare = replace(sample, messages=(), text=drawn, reasoning=None, choices=numbers, token_ids=None)
    return asdict(replace(tokens, sample=bare, messages=()))


def read(folder: Path) -> tuple[Prepared, Tokenizer]:
    """What a bundle holds. Raises ConfigError where it is damaged or of another version."""
    try:
        told = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
        if told["version"] != __version__:
            raise ConfigError(
                f"{folder} was written by version {told['version']}, this is {__version__}; run its own code"
            )
        recipe = from_mapping(json.loads((folder / "recipe.json").read_text(encoding="utf-8")))
        rows = tuple(_rows(folder / "samples.jsonl"))
        report = Report(**{k: _tuples(v) for k, v in told["report"].items()})
        if told["model"]:
            recipe = recipe.model_copy(update={"model": str(folder / told["model"])})
        texts = {str(name): str(text) for name, text in told["texts"].items()}
        names = _Names(told["tokenizer"], int(told["end_id"]), int(told["pad_id"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"the bundle {folder} is damaged: {type(error).__name__}: {error}") from None
    if len(rows) != report.used:
        raise ConfigError(f"the bundle {folder} is damaged: {len(rows)} of {report.used} samples are there")
    return Prepared(recipe, rows, (), report, texts), cast(Tokenizer, names)


def _rows(path: Path) -> Iterator[Tokens]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            plain = {k: _tuples(v) for k, v in json.loads(line).items() if k != "sample"}
            sample = {k: _tuples(v) for k, v in json.loads(line)["sample"].items()}
            yield Tokens(sample=Sample(**sample), **plain)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def train_here(folder: Path, check: bool = False) -> int:
    """What the bundle's script does: trains in `folder`/out and leaves adapter.zip. An exit code.

    check: says what would be trained and on what, and loads nothing.
    """
    from roleagent_lite.distill.job import distill
    from roleagent_lite.distill.stack import device_for
    from roleagent_lite.types import Progress

    def hear(progress: Progress) -> None:
        count = f" {progress.done}/{progress.total}" if progress.total else ""
        print(f"{progress.stage}{count}: {progress.note}", flush=True)

    try:
        prepared, tokenizer = read(folder)
        recipe = prepared.recipe
        print(f"{recipe.model}, {recipe.method}, {prepared.report.used} samples, on {device_for(recipe)}")
        if check:
            return 0
        told = distill(prepared, tokenizer, folder / "out", hear)
        pack(folder / "out", folder / BACK)
    except RoleAgentError as error:
        print(f"error: {error}", flush=True)
        return 1
    print(f"{told['steps']} of {told['of']} steps; take home {folder / BACK}")
    if told["stopped"]:
        print(f"stopped: {told['stopped']}; the last good adapter is in it")
    return 1 if told["stopped"] else 0


def pack(out: Path, target: Path) -> None:
    """A training's adapter and record as one file. Raises RoleAgentError where the disk is full."""
    try:
        with zipfile.ZipFile(target, "w") as archive:
            for name in _MEMBERS:
                file = out / "adapter" / name if name.startswith("adapter_") else out / name
                if file.is_file():
                    archive.write(file, name)
    except OSError as error:
        raise RoleAgentError(f"cannot write {target}: {error.strerror or error}") from None


def take_back(file: Path, trained: Path, recipe: Recipe) -> Mapping[str, Any]:
    """Puts the adapter of `file` (adapter.zip) into the training's folder `trained`; what train.json says.

    Only the known members are read, by name, up to a size. Raises ConfigError where it is no such file,
    was trained by another recipe, or an adapter is there.
    """
    if (trained / "adapter").exists():
        raise ConfigError(f"{trained / 'adapter'} exists; give another --out, or move it away")
    partial = trained / "adapter.part"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with zipfile.ZipFile(file) as archive:
            there = {i.filename: i for i in archive.infolist()}
            if not set(_MEMBERS[:3]) <= set(there) or any(i.file_size > _MOST for i in there.values()):
                raise ConfigError(f"{file} is not what a bundle's train.py leaves (adapter.zip)")
            told = json.loads(archive.read("train.json"))
            then, now = told["recipe"], json.loads(recipe.model_dump_json())
            same = ("name", "about", "model")  # a model that was carried has another path there
            other = [k for k in now if k not in same and then.get(k) != now[k]]
            if other:
                raise ConfigError(f"{file} was trained by another recipe: {', '.join(other)} differ")
            partial.mkdir(parents=True)
            for name in _MEMBERS[:2]:
                with archive.open(name) as source, (partial / name).open("wb") as target:
                    shutil.copyfileobj(source, target)
            for name in _MEMBERS[2:]:
                if name in there:
                    (trained / name).write_bytes(archive.read(name))
        partial.rename(trained / "adapter")
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} cannot be read: {type(error).__name__}: {error}") from None
    except FileNotFoundError:
        raise ConfigError(f"there is no file {file}") from None
    except OSError as error:
        raise RoleAgentError(f"cannot take {file} back: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return cast(Mapping[str, Any], told)


def requirements(recipe: Recipe | None = None) -> list[str]:
    """What training needs, pinned to the versions installed here (without a local build's suffix); the
    project's own bounds for what is not installed. Unsloth where the recipe asks for it, by its bound."""
    bounds: dict[str, str] = {}
    for line in metadata.requires("roleagent-lite") or ():
        spec = line.partition(";")[0].strip()
        name = spec.replace("[", " ").replace(">", " ").replace("<", " ").replace("=", " ").split()[0]
        bounds.setdefault(name, spec)
    out = []
    asked = recipe is not None and (recipe.backend == "unsloth" or recipe.train.four_bit)
    for name in (*NEEDED, "unsloth") if asked else NEEDED:
        try:
            out.append(f"{name}=={metadata.version(name).partition('+')[0]}")
        except metadata.PackageNotFoundError:
            out.append(bounds.get(name, name))
    return out


def notebook() -> dict[str, Any]:
    """train.py as a notebook: install, check, train, fetch."""

    def cell(kind: str, *lines: str) -> dict[str, Any]:
        made: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": "\n".join(lines)}
        return made if kind == "markdown" else {**made, "execution_count": None, "outputs": []}

    cells = [
        cell(
            "markdown", "# Training of an adapter", "", "Upload this folder, open this file in it, run all."
        ),
        cell("code", "%pip install -q -r requirements.txt"),
        cell("code", "!python train.py --check"),
        cell("code", "!python train.py"),
        cell("markdown", f"Take home `{BACK}`. Interrupted? Run the cell before again: it goes on."),
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}


def _readme(recipe: Recipe, report: Report, back: str) -> str:
    return (
        f"# {recipe.name}: {recipe.model}, {recipe.method}\n\n"
        f"{report.used} samples, {report.tokens} tokens, the longest {report.longest}. {recipe.about}\n\n"
        "On the machine with the card:\n\n    pip install -r requirements.txt\n    python train.py\n\n"
        "or `train.ipynb`. Called again after an interruption it goes on from its last checkpoint. It\n"
        f"leaves `{BACK}`; at home:\n\n    {back}\n\n"
        "The samples hold what the run's prompts and replies said, as token ids: treat them alike.\n"
    )


def _copy_code(target: Path) -> None:
    """This package's Python files, without its content rooms and caches."""
    source = Path(roleagent_lite.__file__).parent
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "_content", "*.pyc"))


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
