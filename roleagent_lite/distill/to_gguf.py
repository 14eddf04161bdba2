"""GGUF files of what was trained: a merged model in F16, or the adapter alone, as llama.cpp reads them.

The way back of weights.py. Owns the names, shapes and order of weights for Llama, Qwen 2 and Qwen 3, and the
keys that describe the architecture. Written tensor by tensor, so that memory holds one of them. Leaves out
the tokenizer's keys (gguf_words.py) and the proof that the file plays alike (parity.py).

llama.cpp turns pairs of neighbouring rows where Hugging Face's Llama turns halves of a head, so the rows of
its query and key projections change places on the way (`_interleaved`); Qwen's keep theirs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roleagent_lite.distill.gguf_words import Field, by_llama_cpp, fields_for, fields_of
from roleagent_lite.distill.stack import load
from roleagent_lite.errors import ConfigError, RoleAgentError

_F16 = 1  # general.file_type: mostly F16
_PREFIX = "base_model.model."


@dataclass(frozen=True, slots=True)
class Kind:
    """An architecture: llama.cpp's name for it, and whether query and key rows change places."""

    name: str
    interleaved: bool


KINDS = {
    "LlamaForCausalLM": Kind("llama", True),
    "Qwen2ForCausalLM": Kind("qwen2", False),
    "Qwen3ForCausalLM": Kind("qwen3", False),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What config.json says of a model. rope: its `rope_parameters` (or older names for them), as it is."""

    kind: Kind
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_size: int
    context: int
    vocabulary: int
    epsilon: float
    theta: float
    rope: Mapping[str, Any]
    tied: bool


@dataclass(frozen=True, slots=True)
class Weight:
    """One tensor of a folder: Hugging Face's name, its shape, and a function that reads it in float32."""

    key: str
    dims: tuple[int, ...]
    read: Callable[[], Any]


def shape_of(folder: Path) -> Shape:
    """The shape of the model in `folder`.

    Raises ConfigError for an architecture that is not covered, with llama.cpp's own command.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {folder / 'config.json'}: {error}") from None
    name = (config.get("architectures") or ["unknown"])[0]
    if name not in KINDS:
        raise ConfigError(
            f"GGUF files are written for {', '.join(KINDS)}; this model is {name}. " + by_llama_cpp(folder)
        )
    heads = int(config["num_attention_heads"])
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return Shape(
        kind=KINDS[name],
        layers=int(config["num_hidden_layers"]),
        hidden=int(config["hidden_size"]),
        feed_forward=int(config["intermediate_size"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_size=int(config.get("head_dim") or config["hidden_size"] // heads),
        context=int(config["max_position_embeddings"]),
        vocabulary=int(config["vocab_size"]),
        epsilon=float(config["rms_norm_eps"]),
        theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0),
        rope=rope,
        tied=bool(config.get("tie_word_embeddings", False)),
    )


def write_model(folder: Path, out: Path, words_from: Path | None = None) -> None:
    """The model in `folder` as one F16 GGUF file; norms and biases stay F32.

    words_from: a GGUF file whose tokenizer is taken over as it is (the one that the model was made from);
    None = made from the folder. Raises ConfigError for what is not covered, RoleAgentError where the disk is
    full.
    """
    shape = shape_of(folder)
    words = fields_of(words_from) if words_from is not None else fields_for(folder, shape.vocabulary)
    numpy, gguf = load("numpy"), load("gguf")
    writer = gguf.GGUFWriter(str(out), shape.kind.name)
    writer.add_name(folder.resolve().name)
    _describe(writer, shape)
    _put(writer, words)
    names = _names(shape)
    tensors = [weight for weight in _weights(folder) if not _left_out(weight.key, shape)]
    factors = _rope_factors(shape)
    if factors is not None:
        writer.add_tensor_info("rope_freqs.weight", factors.shape, factors.dtype, factors.nbytes)
    for weight in tensors:
        kind = numpy.dtype(numpy.float16 if len(weight.dims) > 1 else numpy.float32)
        size = kind.itemsize * math.prod(weight.dims)
        writer.add_tensor_info(names(weight.key), weight.dims, kind, size)

    def fill() -> None:
        if factors is not None:
            writer.write_tensor_data(factors)
        for weight in tensors:
            values = _turned(weight.read(), weight.key, shape)
            with numpy.errstate(over="ignore"):  # told below
                narrow = values.astype(numpy.float16 if values.ndim > 1 else numpy.float32)
            if not numpy.isfinite(narrow).all():
                raise RoleAgentError(f"the weights {weight.key} hold values that F16 has not")
            writer.write_tensor_data(narrow)

    _write(writer, out, fill)


def write_adapter(adapter: Path, folder: Path, out: Path) -> None:
    """The LoRA adapter in peft's folder `adapter`, trained on the model in `folder`, as a GGUF file in F32.

    llama.cpp scales by alpha / rank, as peft does. Raises ConfigError for adapters that are more than that
    (DoRA, biases, whole layers, ranks or alphas of their own by layer) and for what is not covered.
    """
    shape = shape_of(folder)
    try:
        config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {adapter / 'adapter_config.json'}: {error}") from None
    odd = [k for k in ("use_dora", "rank_pattern", "alpha_pattern", "modules_to_save") if config.get(k)]
    odd += ["bias"] if config.get("bias", "none") != "none" else []
    if odd:
        raise ConfigError(f"the adapter {adapter} uses {', '.join(odd)}, which a GGUF adapter cannot say")
    alpha, rank = float(config["lora_alpha"]), int(config["r"])
    gguf, numpy = load("gguf"), load("numpy")
    writer = gguf.GGUFWriter(str(out), shape.kind.name)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha * math.sqrt(rank) if config.get("use_rslora") else alpha)
    names = _names(shape)
    for weight in _weights(adapter):
        key = weight.key
        layer, _, part = key.removeprefix(_PREFIX).removesuffix(".weight").rpartition(".lora_")
        if part not in ("A", "B"):
            raise ConfigError(f"the adapter {adapter} holds {key}, which is no LoRA weight")
        values = weight.read()
        if part == "B":  # rows of B are rows of the layer
            values = _turned(values, f"{layer}.weight", shape)
        writer.add_tensor(f"{names(f'{layer}.weight')}.lora_{part.lower()}", values.astype(numpy.float32))
    _write(writer, out, None)


def _describe(writer: Any, shape: Shape) -> None:
    writer.add_file_type(_F16)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_size)
    writer.add_value_length(shape.head_size)
    writer.add_rope_dimension_count(shape.head_size)
    writer.add_rope_freq_base(shape.theta)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    scaling, kinds = _scaling(shape), load("gguf").RopeScalingType
    if scaling in ("linear", "yarn"):
        writer.add_rope_scaling_type(kinds.LINEAR if scaling == "linear" else kinds.YARN)
        writer.add_rope_scaling_factor(float(shape.rope["factor"]))
        if scaling == "yarn":
            writer.add_rope_scaling_orig_ctx_len(
                int(shape.rope.get("original_max_position_embeddings") or shape.context)
            )


def _scaling(shape: Shape) -> str:
    kind = str(shape.rope.get("rope_type") or shape.rope.get("type") or "default")
    if kind not in ("default", "linear", "yarn", "llama3"):
        raise ConfigError(f"rope scaling '{kind}' is not covered by the GGUF writer")
    return kind


def _rope_factors(shape: Shape) -> Any:
    """Llama 3's divisors of the rotary frequencies (head_size / 2,), or None.

    As in Hugging Face's `rope_type: llama3`: long waves are stretched by `factor`, short ones stay, those
    between go over smoothly.
    """
    if _scaling(shape) != "llama3":
        return None
    numpy, rope = load("numpy"), shape.rope
    factor, old = float(rope["factor"]), float(rope["original_max_position_embeddings"])
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    half = numpy.arange(0, shape.head_size, 2, dtype=numpy.float64) / shape.head_size
    turns = old / (2 * math.pi * shape.theta**half)  # of each frequency, over the old context
    smooth = numpy.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1.0 - smooth) / factor + smooth)).astype(numpy.float32)


def _put(writer: Any, fields: Mapping[str, Field]) -> None:
    for name, field in fields.items():
        writer.add_key_value(name, field.value, field.kind, field.item)


def _names(shape: Shape) -> Callable[[str], str]:
    """llama.cpp's name of a weight from Hugging Face's; the function raises ConfigError for what has none."""
    gguf = load("gguf")
    arch = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}[shape.kind.name]
    table = gguf.get_tensor_name_map(arch, shape.layers)

    def name(key: str) -> str:
        found = table.get_name(key, try_suffixes=(".weight", ".bias"))
        if found is None:
            raise ConfigError(f"the weights {key} have no place in a GGUF file of {shape.kind.name}")
        return str(found)

    return name


def _left_out(key: str, shape: Shape) -> bool:
    """The output layer where it is the embedding again, and buffers that llama.cpp computes."""
    return (shape.tied and key.startswith("lm_head.")) or key.endswith("rotary_emb.inv_freq")


def _turned(values: Any, key: str, shape: Shape) -> Any:
    heads = {"q_proj": shape.heads, "k_proj": shape.kv_heads}.get(key.split(".")[-2])
    if heads is None or not shape.kind.interleaved:
        return values
    return _interleaved(values, heads)


def _interleaved(values: Any, heads: int) -> Any:
    """Rows (heads x 2 x half) as (heads x half x 2): each head's two halves become neighbours."""
    rows, rest = values.shape[0], values.shape[1:]
    return values.reshape(heads, 2, rows // heads // 2, *rest).swapaxes(1, 2).reshape(values.shape)


def _weights(folder: Path) -> Iterator[Weight]:
    """All weights in the safetensors of `folder`, by name."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ConfigError(f"{folder} holds no .safetensors file")
    torch, safetensors = load("torch"), load("safetensors")

    def reader(opened: Any, key: str) -> Callable[[], Any]:
        return lambda: opened.get_tensor(key).to(torch.float32).numpy()

    found = []
    for file in files:
        opened = safetensors.safe_open(str(file), framework="pt")
        for key in list(opened.keys()):
            dims = tuple(opened.get_slice(key).get_shape())
            found.append(Weight(key, dims, reader(opened, key)))
    yield from sorted(found, key=lambda w: w.key)


def _write(writer: Any, out: Path, fill: Callable[[], None] | None) -> None:
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        if fill is None:
            writer.write_tensors_to_file()
        else:
            writer.write_ti_data_to_file()
            fill()
    except OSError as error:
        raise RoleAgentError(f"cannot write {out}: {error.strerror or error}") from None
    finally:
        writer.close()
