"""The folder with a recipe's model in Hugging Face's layout: found, fetched, or made once from a GGUF file.

Owns what a model string means to the trainer, and the conversion that keeps embedded weights trainable.
Leaves out tokenising (tokenizer.py) and everything done with a loaded model (policy.py).
"""

from __future__ import annotations

import contextlib
import io
import shutil
from pathlib import Path

from roleagent_lite.distill.stack import load
from roleagent_lite.errors import ConfigError, RoleAgentError
from roleagent_lite.lm.weights import check_gguf, resolve_model
from roleagent_lite.lm.wheels import cache_dir
from roleagent_lite.redact import scrub
from roleagent_lite.types import Listener, Progress


def model_folder(model: str, listener: Listener | None = None) -> Path:
    """The folder of `model` (as in `Recipe.model`); downloads and converts where it has to.

    Raises ConfigError for a model that is not there, RoleAgentError where it cannot be fetched or converted.
    """
    path = Path(model).expanduser()
    if model.partition(":")[0] == "embedded":
        return _converted(resolve_model(model, listener), listener)
    if path.suffix == ".gguf":
        return _converted(check_gguf(path), listener)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ConfigError(
                f"{path} holds no config.json; is it a model's folder in Hugging Face's layout?"
            )
        return path
    if model.count("/") == 1 and not path.exists() and not model.startswith((".", "/", "~")):
        return _from_hub(model)
    raise ConfigError(
        f"model '{model}' is neither a folder, a GGUF file, OWNER/NAME, nor embedded[:FILE.gguf]"
    )


def made_from(file: Path) -> Path:
    """Where the folder made from a GGUF file lies, or will."""
    return cache_dir() / "converted" / f"{file.stem}-{file.stat().st_size:x}"


def _converted(file: Path, listener: Listener | None) -> Path:
    """A folder made from a GGUF file, in the cache: reading one takes a minute, its folder a second."""
    folder = made_from(file)
    if (folder / "config.json").is_file():
        return folder
    if listener is not None:
        listener(Progress("convert", note=f"{file.name} to trainable weights, once"))
    torch, transformers = load("torch"), load("transformers")
    load("gguf")
    partial = folder.with_name(folder.name + ".part")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        source = {"gguf_file": file.name}
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(file.parent), **source)
        with contextlib.redirect_stderr(io.StringIO()):  # a progress bar that asks nobody
            found = transformers.AutoModelForCausalLM.from_pretrained(
                str(file.parent), dtype=torch.float32, **source
            )
        # What comes out is plain float32; the marks of the quantised file would refuse to be saved.
        found.config.__dict__.pop("quantization_config", None)
        found.is_quantized, found.hf_quantizer = False, None
        found.to(torch.bfloat16).save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        partial.rename(folder)
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        with contextlib.suppress(OSError):
            shutil.rmtree(partial)
        raise RoleAgentError(
            f"cannot make trainable weights from {file}: {type(error).__name__}: {str(error)[:300]}"
        ) from error
    return folder


def _from_hub(name: str) -> Path:
    import huggingface_hub

    try:
        return Path(huggingface_hub.snapshot_download(name, cache_dir=cache_dir() / "hub"))
    except (OSError, ValueError) as error:  # the hub's own errors are children of these
        reason = (
            scrub(str(error).strip().splitlines()[0][:300]) if str(error).strip() else type(error).__name__
        )
        raise RoleAgentError(
            f"cannot fetch {name} from the model hub: {reason}; check the name and the network, "
            "or give a folder"
        ) from None
