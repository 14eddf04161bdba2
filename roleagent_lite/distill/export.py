"""What a training leaves to play with: adapter, merged weights, GGUF files, a Modelfile; checked, then kept.

Owns which files a format means, their making in a folder beside their place, the order of the parity gate,
and `parity.json`. Nothing takes its place before the gate has passed. Leaves out the writers (merge.py,
to_gguf.py, modelfile.py) and what is compared (parity.py).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roleagent_lite.distill import merge as merging
from roleagent_lite.distill import modelfile, parity
from roleagent_lite.distill.recipe import Recipe
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.to_gguf import shape_of, write_adapter, write_model
from roleagent_lite.distill.tokenizer import Tokenizer, open_tokenizer
from roleagent_lite.distill.weights import model_folder
from roleagent_lite.errors import ConfigError, RoleAgentError, nearest
from roleagent_lite.lm.weights import is_embedded, resolve_model
from roleagent_lite.types import Listener, Progress

ADAPTER, MERGED, GGUF, GGUF_ADAPTER, MODELFILE = (
    "adapter",
    "merged",
    "model-f16.gguf",
    "adapter.gguf",
    "Modelfile",
)
# What each format leaves in the folder of exports.
FORMATS: dict[str, tuple[str, ...]] = {
    "adapter": (ADAPTER,),
    "merged": (MERGED,),
    "gguf": (GGUF,),
    "gguf-adapter": (GGUF_ADAPTER,),
    "ollama": (GGUF, MODELFILE),
}
_MARGIN = 64  # tokens of context beyond the longest probe, for choices and replies


@dataclass(slots=True)
class _Work:
    """Where things are made, and what is needed for it."""

    recipe: Recipe
    adapter: Path
    folder: Path
    words: Path | None  # the GGUF file that the model came from
    out: Path
    listener: Listener | None
    reports: list[parity.Report] = field(default_factory=list)
    logits: merging.Parity | None = None

    def tell(self, what: str) -> None:
        if self.listener is not None:
            self.listener(Progress("export", note=what))


def wanted(names: str) -> list[str]:
    """Formats by name, separated by commas; `all` is every one. Raises ConfigError with the nearest name."""
    found = list(FORMATS) if names == "all" else [n.strip() for n in names.split(",") if n.strip()]
    for name in found:
        if name not in FORMATS:
            raise ConfigError(f"no export format '{name}'{nearest(name, FORMATS)}")
    if not found:
        raise ConfigError(f"--export takes {', '.join(FORMATS)} or all")
    return list(dict.fromkeys(found))


def export(
    trained: Path, recipe: Recipe, formats: Sequence[str], probes: Sequence[parity.Probe],
    listener: Listener | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Exports the adapter in the training's folder `trained` to `trained`/export; what parity.json says.

    Raises ConfigError where there is no adapter, or the model is not covered (before anything is made);
    RoleAgentError where an export does not play as base + adapter: what was there before stays, and
    parity-failed.json says what differed.
    """
    adapter = trained / "adapter"
    if not (adapter / "adapter_config.json").is_file():
        raise ConfigError(
            f"{trained} holds no adapter yet: train first, with the same command without --export"
        )
    items = {item for name in formats for item in FORMATS[name]}
    folder = model_folder(recipe.model, listener)
    if items & {GGUF, GGUF_ADAPTER}:
        shape_of(folder)
    out, target = trained / "export.part", trained / "export"
    words = _origin(recipe.model, listener)
    work = _Work(recipe, adapter, folder, words, out, listener)
    shutil.rmtree(out, ignore_errors=True)
    try:
        out.mkdir(parents=True)
        _make(work, items)
        _gate(work, items, probes)
        told = _told(work, items, target)
        if any(r.required and r.faults for r in work.reports):
            _write(trained / "parity-failed.json", told)
        parity.check(work.reports)
        _keep(work, items, target)
        _write(target / "parity.json", told)
        (trained / "parity-failed.json").unlink(missing_ok=True)
    except OSError as error:
        raise RoleAgentError(f"cannot write the export to {target}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return told


def _origin(model: str, listener: Listener | None) -> Path | None:
    if is_embedded(model):
        return resolve_model(model, listener)
    path = Path(model).expanduser()
    return path if path.suffix == ".gguf" else None


def _make(work: _Work, items: set[str]) -> None:
    if ADAPTER in items:
        _copy_adapter(work)
    if items & {MERGED, GGUF}:
        work.tell("base + adapter merged, logits compared")
        work.logits = merging.merge(str(work.folder), work.adapter, work.out / MERGED)
    if GGUF in items:
        work.tell(f"{GGUF} from the merged model")
        write_model(work.out / MERGED, work.out / GGUF, work.words)
    if GGUF_ADAPTER in items:
        work.tell(GGUF_ADAPTER)
        write_adapter(work.adapter, work.folder, work.out / GGUF_ADAPTER)
    if MODELFILE in items:
        text = modelfile.modelfile(open_tokenizer(str(work.folder)), GGUF)
        (work.out / MODELFILE).write_text(text, encoding="utf-8")


def _copy_adapter(work: _Work) -> None:
    """peft's folder, with the name of the model that it belongs to."""
    shutil.copytree(work.adapter, work.out / ADAPTER)
    path = work.out / ADAPTER / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = str(work.folder)
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _gate(work: _Work, items: set[str], probes: Sequence[parity.Probe]) -> None:
    """Each of what was made against base + adapter in torch. One model of llama.cpp's at a time."""
    tokenizer = open_tokenizer(str(work.folder))
    torch, transformers = load("torch"), load("transformers")

    def read(folder: Path) -> Any:
        transformers.utils.logging.disable_progress_bar()
        model = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
        return model.eval()

    adapter = work.out / ADAPTER if ADAPTER in items else work.adapter
    both = load("peft").PeftModel.from_pretrained(read(work.folder), str(adapter)).eval()
    reference, base = (
        parity.Torch("adapter", both, tokenizer),
        parity.Torch("base", both, tokenizer, off=True),
    )

    def compare(side: parity.Side, required: bool = True) -> None:
        report = parity.compare(side, reference, base, probes, required=required)
        work.reports.append(report)
        work.tell(report.words)

    compare(reference)
    if items & {MERGED, GGUF}:
        own = open_tokenizer(str(work.out / MERGED))
        compare(parity.Torch("merged", read(work.out / MERGED), own))
    longest = max(len(reference.say(p).ids) for p in probes)
    served = _server(tokenizer, longest)
    if GGUF in items:
        compare(served(GGUF, work.out / GGUF))
    if GGUF_ADAPTER in items:
        plain = work.out / "base-f16.gguf"
        write_model(work.folder, plain, work.words)
        compare(served(f"F16 base + {GGUF_ADAPTER}", plain, work.out / GGUF_ADAPTER))
        plain.unlink()
        if work.words is not None:  # quantised, as a rule: told, not required
            name = f"{work.words.name} + {GGUF_ADAPTER}"
            compare(served(name, work.words, work.out / GGUF_ADAPTER), required=False)


def _server(tokenizer: Tokenizer, longest: int) -> Callable[..., parity.Served]:
    from roleagent_lite.lm import embedded

    def served(name: str, file: Path, adapter: Path | None = None) -> parity.Served:
        return parity.Served(name, embedded.start(file, longest + _MARGIN, adapter), tokenizer.end_id)

    return served


def _told(work: _Work, items: set[str], target: Path) -> dict[str, Any]:
    logits = work.logits
    return {
        "files": {item: str(target / item) for item in sorted(items)},
        "merged_logits": None
        if logits is None
        else {"to_adapter": logits.to_adapter, "to_base": logits.to_base, "allowed": logits.allowed},
        "sides": [report.plain() for report in work.reports],
        "play": _play(work, items, target),
    }


def _play(work: _Work, items: set[str], target: Path) -> list[str]:
    """How to play what was made, as commands."""
    said = []
    if GGUF in items:
        said.append(f"roleagent-lite eval --model embedded:{target / GGUF}")
    if GGUF_ADAPTER in items and work.words is not None:
        base = "" if work.recipe.model == "embedded" else f" --model embedded:{work.words}"
        said.append(f"roleagent-lite eval{base} --adapter {target / GGUF_ADAPTER}")
    if MODELFILE in items:
        name = work.recipe.name
        said.append(
            f"ollama create {name} -f {target / MODELFILE}; roleagent-lite eval --model ollama/{name}"
        )
    return said


def _keep(work: _Work, items: set[str], target: Path) -> None:
    target.mkdir(exist_ok=True)
    for item in sorted(items):
        old = target / item
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink(missing_ok=True)
        (work.out / item).rename(old)


def _write(path: Path, told: dict[str, Any]) -> None:
    path.write_text(json.dumps(told, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
