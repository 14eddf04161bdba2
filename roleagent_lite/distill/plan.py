"""What a training takes before anything loads: memory by part, disk, and time; and the ladder down.

Owns the formulas, each with its source, and the order in which a recipe is made smaller. Needs config.json's
numbers only (`Size`), no weights. Leaves out reading these (size.py) and printing (cli).

All memory is in bytes and for the plain back end: attention by scaled_dot_product_attention, whose kernels
keep no scores on a card and two tables of them on a CPU; the adapter in float32. Where the true peak was
measured, on a CPU, it was within `WITHIN` of the estimate (tests/distill/test_plan.py); on a card nothing was
measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roleagent_lite.distill.recipe import Recipe

WITHIN = 1.5  # factor between estimate and a measured peak on a CPU
FIXED = 700 << 20  # Python with torch, transformers and peft, or a CUDA context with its libraries
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_KEPT = 2  # checkpoints on disk
_LEAST_TOKENS, _LEAST_RANK, _LEAST_GROUP = 512, 4, 2


@dataclass(frozen=True, slots=True)
class Size:
    """A decoder's dimensions, as in config.json. tied: the output layer is the embedding again."""

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    tied: bool

    @property
    def linear(self) -> dict[str, tuple[int, int]]:
        """(in, out) of the linear layers of one block."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        return {
            "q_proj": (self.hidden, queries), "k_proj": (self.hidden, keys), "v_proj": (self.hidden, keys),
            "o_proj": (queries, self.hidden), "gate_proj": (self.hidden, self.feed_forward),
            "up_proj": (self.hidden, self.feed_forward), "down_proj": (self.feed_forward, self.hidden),
        }  # fmt: skip

    @property
    def parameters(self) -> int:
        """Weights of all blocks, their two norms, the embedding (twice where the output has its own)."""
        block = sum(i * o for i, o in self.linear.values()) + 2 * self.hidden
        return self.layers * block + self.vocabulary * self.hidden * (1 if self.tied else 2) + self.hidden


@dataclass(frozen=True, slots=True)
class Load:
    """What is trained on. samples: how many a pass; tokens: in all of them; longest: of one sample, prompt
    and reply; reply: longest part under the loss. measured: whether they come from a run's samples, else
    from the recipe's limits."""

    samples: int
    tokens: int
    longest: int
    reply: int
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes by part at the peak of an update; bytes on disk; floating-point operations of the training."""

    weights: int
    adapter: int
    optimiser: int
    activations: int
    logits: int
    cache: int
    fixed: int
    disk: dict[str, int]
    operations: float
    load: Load
    beside: bool = False

    @property
    def total(self) -> int:
        """Playing and updating take turns: the cache of one and the activations of the other do not add.
        beside: vLLM keeps its cache through the updates: they do."""
        update = self.activations + self.logits
        turn = update + self.cache if self.beside else max(update, self.cache)
        return self.weights + self.adapter + self.optimiser + self.fixed + turn


def limits(recipe: Recipe) -> Load:
    """The load as the recipe bounds it, where no samples are known."""
    samples = recipe.train.steps * recipe.train.batch or recipe.train.batch
    reply = min(recipe.loss.length, recipe.data.max_tokens)
    return Load(samples, samples * recipe.data.max_tokens, recipe.data.max_tokens, reply, measured=False)


def plan(size: Size, recipe: Recipe, load: Load | None = None, *, card: bool = True) -> Plan:
    """What training `recipe` on a model of `size` takes. card: on a CUDA card, else on a CPU.

    weights: see `base_bytes`. adapter: rank x (in + out) a target (Hu et al. 2021,
    section 4.1), float32, twice with a frozen reference (adapter.start). optimiser: gradient and AdamW's two
    moments, float32 each (Loshchilov & Hutter 2019; torch.optim.AdamW keeps exp_avg and exp_avg_sq).
    """
    load = load or limits(recipe)
    wide = _BYTES[recipe.train.dtype]
    trained = adapter_parameters(size, recipe)
    copies = 2 if recipe.adapter.start else 1
    at_once = recipe.train.micro_batch * load.longest
    return Plan(
        weights=base_bytes(size, recipe),
        adapter=4 * trained * copies,
        optimiser=12 * trained,
        activations=at_once * token_bytes(size, recipe, load.longest, card),
        logits=recipe.train.micro_batch * logit_bytes(size, load.reply, wide),
        cache=cache_bytes(size, recipe, load.longest, wide),
        fixed=FIXED,
        disk=disk(size, trained),
        operations=operations(size, recipe, load),
        load=load,
        beside=recipe.online.vllm,
    )


def base_bytes(size: Size, recipe: Recipe) -> int:
    """The base's weights: parameters x bytes of train.dtype. With train.four_bit the linear layers of the
    blocks take 4 bits and 0.127 more for scales, quantised again (Dettmers et al. 2023, QLoRA, section 3),
    and one layer at a time stands in train.dtype while it is computed with."""
    wide = _BYTES[recipe.train.dtype]
    if not recipe.train.four_bit:
        return size.parameters * wide
    linear = size.layers * sum(i * o for i, o in size.linear.values())
    largest = max(i * o for i, o in size.linear.values())
    return int(linear * (4 + 0.127) / 8) + (size.parameters - linear + largest) * wide


def adapter_parameters(size: Size, recipe: Recipe) -> int:
    """Trained parameters: rank x (in + out) for each target of each block."""
    targets = recipe.adapter.targets
    chosen = [d for n, d in size.linear.items() if targets == ("all-linear",) or n in targets]
    return size.layers * recipe.adapter.rank * sum(i + o for i, o in chosen)


def token_bytes(size: Size, recipe: Recipe, longest: int, card: bool) -> int:
    """Bytes a token that all blocks keep. With train.recompute each keeps its input, and one block at a time
    is whole (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", with a segment a block). On a
    CPU attention keeps scores and their softmax, H x T float32 numbers each."""
    wide = _BYTES[recipe.train.dtype]
    block = layer_bytes(size, recipe.adapter.rank, wide)
    if not card:
        block += 2 * 4 * size.heads * longest
    return size.layers * size.hidden * wide + block if recipe.train.recompute else size.layers * block


def layer_bytes(size: Size, rank: int, wide: int) -> int:
    """Bytes a token that one block keeps for its backward pass.

    Counted as in Korthikanti et al. 2022 ("Reducing Activation Recomputation", section 4.1), tensor by
    tensor, for a Llama block with LoRA on frozen weights. In the base's number type: both norms' outputs
    (2 h), query, key and value (turned, and repeated for all heads: 3 H d), attention's output (H d), gate,
    its SiLU, up and their product (4 f). In float32: each norm's input and normalised input (4 h), and, where
    the base is narrower than the adapter, peft's copy of each linear layer's input (5 h + H d + f). rank: of
    each of the seven LoRA products.
    """
    h, f, queries = size.hidden, size.feed_forward, size.heads * size.head_size
    narrow = wide * (2 * h + 4 * queries + 4 * f)
    single = 4 * (4 * h + 7 * rank)
    copies = 4 * (5 * h + queries + f) if wide < 4 else 0
    return narrow + single + copies


def logit_bytes(size: Size, reply: int, wide: int) -> int:
    """The output layer's part for one sample: logits of the trained positions, their float32 copy,
    log-softmax and its gradient (loss.token_logps reads logits of replies only)."""
    return (reply + 1) * size.vocabulary * (wide + 3 * 4)


def cache_bytes(size: Size, recipe: Recipe, longest: int, wide: int) -> int:
    """Keys and values while `online.group` episodes play side by side: 2 x layers x K d a token (Pope et al.
    2022, section 2.1)."""
    token = 2 * size.layers * size.kv_heads * size.head_size * wide
    return token * longest * recipe.online.group


def operations(size: Size, recipe: Recipe, load: Load) -> float:
    """Floating-point operations: 2 a weight and token forward and 2 back, for gradients run through frozen
    weights but not into them (Kaplan et al. 2020, section 2.1, has 2 + 4 where all are trained); before the
    first step two forward passes for the log-probabilities of start and reference."""
    weights = size.parameters - (0 if size.tied else size.vocabulary * size.hidden)
    passes = float(recipe.train.epochs)
    if recipe.train.steps:
        passes = min(passes, recipe.train.steps * recipe.train.batch / max(load.samples, 1))
    return load.tokens * weights * (4.0 * passes + (4.0 if recipe.method == "grpo" else 0.0))


def disk(size: Size, trained: int) -> dict[str, int]:
    """Bytes on disk: the fetched model (bfloat16), checkpoints (adapter, its float32 copy and two moments,
    the last two of them and one in the making), and what exports would take."""
    return {
        "model": 2 * size.parameters,
        "checkpoints": (_KEPT + 1) * 4 * 4 * trained,
        "export merged (float32)": 4 * size.parameters,
        "export GGUF (F16)": 2 * size.parameters,
    }


@dataclass(frozen=True, slots=True)
class Rung:
    """One step down: what changes, in words, the recipe then, and its plan."""

    words: str
    recipe: Recipe
    plan: Plan


def ladder(size: Size, recipe: Recipe, load: Load | None = None, *, card: bool = True) -> Iterator[Rung]:
    """Smaller recipes, one after another, the cheapest loss first: samples a forward pass, recomputing,
    no vLLM, generations side by side, length of a sample, rank. Numbers are halved until nothing is left to
    halve."""
    load = load or limits(recipe)
    for words, smaller in _down(recipe):
        longest = min(load.longest, smaller.data.max_tokens)
        less = Load(load.samples, load.tokens, longest, min(load.reply, longest), load.measured)
        yield Rung(words, smaller, plan(size, smaller, less, card=card))


def fitting(
    size: Size, recipe: Recipe, memory: int, load: Load | None = None, *, card: bool = True
) -> list[Rung] | None:
    """The rungs down to the first that fits `memory` bytes: none where the recipe fits as it is; None where
    even the lowest does not."""
    if plan(size, recipe, load, card=card).total <= memory:
        return []
    taken = []
    for rung in ladder(size, recipe, load, card=card):
        taken.append(rung)
        if rung.plan.total <= memory:
            return taken
    return None


def _down(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    for table, name, least in (
        ("train", "micro_batch", 1),
        ("train", "recompute", 1),
        ("online", "vllm", 0),
        ("online", "group", _LEAST_GROUP),
        ("data", "max_tokens", _LEAST_TOKENS),
        ("adapter", "rank", _LEAST_RANK),
    ):
        if name == "recompute":
            if not recipe.train.recompute:
                part = recipe.train.model_copy(update={"recompute": True})
                recipe = recipe.model_copy(update={"train": part})
                yield "train.recompute = true (a third more time)", recipe
            continue
        if name == "vllm":
            if recipe.online.vllm:
                less = recipe.online.model_copy(update={"vllm": False})
                recipe = recipe.model_copy(update={"online": less})
                yield "online.vllm = false (replies are written slower)", recipe
            continue
        while (now := int(getattr(getattr(recipe, table), name))) > least:
            value = max(now // 2, least)
            change: dict[str, float] = {name: value}
            if name == "rank":  # the scale alpha / rank stays
                change["alpha"] = recipe.adapter.alpha * value / now
            part = getattr(recipe, table).model_copy(update=change)
            recipe = recipe.model_copy(update={table: part})
            yield f"{table}.{name} {now} -> {value}", recipe
