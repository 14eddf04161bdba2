"""Ten GRPO steps with Unsloth and with the plain back end on the same samples, on this machine's CUDA card.

    python benchmarks/gpu_check.py              # under 8 minutes, no network
    python benchmarks/gpu_check.py --cpu --steps 2   # rehearses the script where there is no card

The model is a randomly initialised Llama of 50 million parameters, built here with a tokenizer of its own;
the samples are random tokens. Each back end trains in a process of its own, for importing Unsloth changes
transformers. Prints tokens per second, peak memory and the loss curves side by side; of Unsloth, in 16 and in
4 bits, the part that failed where one did; where it does not import, one line says why.

What it prints says whether the back ends work here and agree, and nothing about learning. Exit code: 0 where
all that is here trained, 1 where a part failed, 2 without a CUDA card.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from roleagent_lite.distill.backend import Backend, Plain
from roleagent_lite.distill.grpo import Offline
from roleagent_lite.distill.plan import Size
from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.recipe import Recipe, from_mapping
from roleagent_lite.distill.samples import Sample
from roleagent_lite.distill.stack import installed, load
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.distill.train import Trainer, batch_at
from roleagent_lite.distill.unsloth_backend import Unsloth
from roleagent_lite.types import Progress

MINUTES = 8
KINDS = ("plain", "unsloth", "unsloth 4-bit")
MARKS = ("<|unk|>", "<|end|>", "<|pad|>")
END, PAD = 1, 2


@dataclass(frozen=True, slots=True)
class Scale:
    """Model and samples, all of which are in every step, so that the loss goes down. prompt, reply: least and
    most tokens of them; dtype: of the base."""

    size: Size
    prompt: tuple[int, int]
    reply: tuple[int, int]
    groups: int
    rollouts: int
    micro_batch: int
    dtype: str

    @property
    def batch(self) -> int:
        return self.groups * self.rollouts


CARD = Scale(
    Size(layers=10, hidden=640, feed_forward=1728, heads=10, kv_heads=5, head_size=64,
         vocabulary=8192, tied=True),
    prompt=(200, 600), reply=(16, 64), groups=4, rollouts=8, micro_batch=4, dtype="bfloat16",
)  # fmt: skip
REHEARSAL = Scale(
    Size(layers=2, hidden=64, feed_forward=128, heads=2, kv_heads=1, head_size=32, vocabulary=512, tied=True),
    prompt=(20, 60), reply=(4, 12), groups=2, rollouts=4, micro_batch=2, dtype="float32",
)  # fmt: skip
SCALES = {"cuda": CARD, "cpu": REHEARSAL}


@dataclass(slots=True)
class Outcome:
    """What one back end did. failed: why it did not, `stage`: where; seconds, tokens, losses: one a step;
    peak: bytes; start: mean log-probability of each sample before the first step (nats)."""

    kind: str
    words: str = ""
    stage: str = ""
    failed: str = ""
    loading: float = 0.0
    peak: int = 0
    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float | None:
        """Tokens a second, without the first step, in which kernels are made."""
        spent = sum(self.seconds[1:])
        return sum(self.tokens[1:]) / spent if spent else None


# --- what is trained ----------------------------------------------------------------------------------


def build_model(folder: Path, size: Size) -> Path:
    """A random Llama and a tokenizer of as many words as it has ids, in Hugging Face's layout."""
    torch, transformers = load("torch"), load("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [*MARKS, *(f"w{k}" for k in range(size.vocabulary - len(MARKS)))]
    inner = Tokenizer(models.WordLevel({word: k for k, word in enumerate(words)}, unk_token=MARKS[0]))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token=MARKS[0], eos_token=MARKS[END], pad_token=MARKS[PAD],
        chat_template="{% for m in messages %}{{ m.content }} {% endfor %}"
        "{% if add_generation_prompt %}w0 {% endif %}",
    ).save_pretrained(folder)  # fmt: skip
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=size.vocabulary, hidden_size=size.hidden, intermediate_size=size.feed_forward,
        num_hidden_layers=size.layers, num_attention_heads=size.heads, num_key_value_heads=size.kv_heads,
        head_dim=size.head_size, max_position_embeddings=2048, tie_word_embeddings=size.tied,
        eos_token_id=END, pad_token_id=PAD, bos_token_id=None,
    )  # fmt: skip
    transformers.utils.logging.disable_progress_bar()
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def samples(scale: Scale, seed: int = 0) -> list[Tokens]:
    """Groups of rollouts behind one prompt, half of them with a good reply; the same for every back end."""
    draw, out = random.Random(seed), []
    for group in range(scale.groups):
        prompt = _words(draw, scale, scale.prompt)
        for rollout in range(scale.rollouts):
            good = rollout % 2 == 0
            reply = (*_words(draw, scale, scale.reply), END)
            name = f"g{group}#{rollout}"
            sample = Sample(
                id=name, kind="act", trajectory=name, step=1, group=f"g{group}", task=f"g{group}", round=1,
                model="random", messages=(), text=name, reasoning=None, ended=True, reward=float(good),
                step_reward=float(good), advantage=1.0 if good else -1.0, solved=good,
            )  # fmt: skip
            ids = prompt + reply
            out.append(Tokens(sample, (), ids, len(prompt), (0,) * len(ids)))
    return out


def _words(draw: random.Random, scale: Scale, between: tuple[int, int]) -> tuple[int, ...]:
    return tuple(draw.randrange(len(MARKS), scale.size.vocabulary) for _ in range(draw.randint(*between)))


def recipe_of(kind: str, model: Path, scale: Scale, steps: int) -> Recipe:
    train = {
        "steps": steps, "epochs": steps, "batch": scale.batch, "micro_batch": scale.micro_batch, "lr": 1e-3,
        "dtype": scale.dtype, "recompute": True, "four_bit": kind.endswith("4-bit"),
        "checkpoint_every": 1000,
    }  # fmt: skip
    return from_mapping(
        {
            "name": "gpu-check", "model": str(model), "backend": "plain" if kind == "plain" else "unsloth",
            "data": {"max_tokens": scale.prompt[1] + scale.reply[1] + 1},
            "adapter": {"rank": 16, "alpha": 32}, "train": train,
            "loss": {"old": "start", "policy": "tokens", "max_kl": 1e9},
        }
    )  # fmt: skip


# --- one back end, in a process of its own ------------------------------------------------------------


def train(kind: str, folder: Path, device: str, steps: int) -> Outcome:
    """Trains with the back end `kind`; what went wrong is in the outcome, with the part that it went wrong
    in."""
    done = Outcome(kind)
    try:
        _train(done, folder, SCALES[device], device, steps)
    except Exception as error:  # noqa: BLE001  # border: whatever a back end raises is what is asked for
        text = (str(error).strip().splitlines() or [""])[0][:300]
        done.failed = f"{type(error).__name__}: {text}"
        traceback.print_exc()
    return done


@contextlib.contextmanager
def part(done: Outcome, name: str) -> Iterator[None]:
    done.stage = name
    yield


def _train(done: Outcome, folder: Path, scale: Scale, device: str, steps: int) -> None:
    recipe, rows = recipe_of(done.kind, folder / "model", scale, steps), samples(scale)
    started = time.perf_counter()
    with part(done, "import"):
        backend: Backend = Plain() if done.kind == "plain" else Unsloth()
        done.words = backend.words
        torch = load("torch")
    with part(done, "load"):
        found = backend.load(recipe, folder / "model", device)
        policy = Policy(
            found.model, device=device, pad_id=PAD, reference=found.reference, backend=backend, recipe=recipe
        )
        begin_alike(policy)
        done.loading = time.perf_counter() - started
    with part(done, "log-probabilities"):
        objective = Offline.prepare(policy, rows, recipe, "")
        done.start = [float(objective.known[0][t.sample.id].mean()) for t in rows]
    with part(done, "training"):
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        marks = [time.perf_counter()]

        def hear(progress: Progress) -> None:
            if device == "cuda":
                torch.cuda.synchronize()
            marks.append(time.perf_counter())

        out = folder / done.kind.replace(" ", "-")
        made = Trainer(policy, objective, recipe, out, {}).run(rows, hear)
        done.seconds = [after - before for before, after in itertools.pairwise(marks)]
        done.tokens = [sum(len(t.ids) for t in batch_at(rows, k, recipe)) for k in range(len(done.seconds))]
        lines = (out / "steps.jsonl").read_text(encoding="utf-8").splitlines()
        done.losses = [json.loads(line)["loss"] for line in lines]
        done.peak = torch.cuda.max_memory_reserved() if device == "cuda" else _resident()
        if made.stopped:
            raise RuntimeError(made.stopped)
    done.stage = "done"


def begin_alike(policy: Policy) -> None:
    """The adapter's first weights by a generator of our own: the back ends may draw theirs otherwise."""
    torch = load("torch")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in policy.parameters.items():
            if ".lora_A." in name:
                drawn = torch.randn(parameter.shape, generator=generator) / math.sqrt(parameter.shape[-1])
                parameter.copy_(drawn.to(parameter.device))


def _resident() -> int:
    import resource

    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


# --- side by side -------------------------------------------------------------------------------------


def table(outcomes: Sequence[Outcome]) -> str:
    """Tokens a second, memory, the start and the losses, one column a back end."""
    plain = next((o for o in outcomes if o.kind == "plain"), None)

    def row(name: str, cells: Sequence[str]) -> str:
        return f"{name:44}" + "".join(f"{cell:>16}" for cell in cells)

    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    lines = [row("", [o.kind for o in outcomes])]
    lines.append(row("loaded in (s)", [number(o.loading or None, ".1f") for o in outcomes]))
    lines.append(row("tokens per second, update", [number(o.speed, ",.0f") for o in outcomes]))
    lines.append(row("peak memory (GiB)", [number(o.peak / 2**30 or None, ".2f") for o in outcomes]))
    apart = [_apart(o, plain) for o in outcomes]
    lines.append(row("mean |log p - plain's| at the start (nats)", [number(a, ".4f") for a in apart]))
    for step in range(max((len(o.losses) for o in outcomes), default=0)):
        cells = [number(o.losses[step] if step < len(o.losses) else None, "+.5f") for o in outcomes]
        lines.append(row(f"loss at step {step + 1}", cells))
    return "\n".join(lines)


def _apart(one: Outcome, plain: Outcome | None) -> float | None:
    if plain is None or not one.start or len(one.start) != len(plain.start):
        return None
    return sum(abs(a - b) for a, b in zip(one.start, plain.start, strict=True)) / len(one.start)


def verdicts(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each back end."""
    return [
        f"{o.kind}: {o.words or 'it'} failed at {o.stage}: {o.failed}"
        if o.failed
        else f"{o.kind}: {o.words} trained {len(o.losses)} steps"
        for o in outcomes
    ]


def absent() -> str:
    """Why Unsloth cannot be tried, or ""."""
    return "" if installed("unsloth") else "Unsloth is not installed (pip install 'roleagent-lite[unsloth]')"


def ask(kind: str, folder: Path, device: str, steps: int, seconds: float) -> Outcome:
    """The outcome of `train` in a process of its own."""
    command = [sys.executable, __file__, "--child", kind, "--folder", str(folder), "--steps", str(steps)]
    command += ["--cpu"] if device == "cpu" else []
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "UNSLOTH_DISABLE_STATISTICS": "1"}
    quiet["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)  # what this process finds
    try:
        done = subprocess.run(
            command, env={**os.environ, **quiet}, timeout=seconds, check=False, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return Outcome(kind, stage="the time allowed", failed=f"not done after {seconds:.0f} s")
    file = folder / f"{kind}.json"
    if not file.is_file():
        last = (done.stderr.strip().splitlines() or ["no words"])[-1][:300]
        return Outcome(kind, stage="the process", failed=f"exit code {done.returncode}: {last}")
    found = Outcome(**json.loads(file.read_text(encoding="utf-8")))
    if found.failed:
        print("\n".join(done.stderr.strip().splitlines()[-12:]), file=sys.stderr)
    return found


def check(device: str, steps: int) -> int:
    """Trains with each back end that is here and prints the columns; an exit code."""
    torch = load("torch")
    scale, began = SCALES[device], time.perf_counter()
    name = torch.cuda.get_device_name(0) if device == "cuda" else "rehearsal on the CPU: no figure of a card"
    print(
        f"{name}; torch {torch.__version__}, a random Llama of {scale.size.parameters / 1e6:.1f} M parameters"
    )
    print(f"{scale.batch} samples, {steps} GRPO steps of all of them, {scale.dtype}")
    why = absent()
    if why:
        print(f"unsloth: {why}")
    kinds = KINDS[:1] if why else KINDS
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as place:
        folder = Path(place)
        build_model(folder / "model", scale.size)
        left = 60 * MINUTES - 30 - (time.perf_counter() - began)
        each = left / len(kinds) if device == "cuda" else 600.0
        outcomes = [ask(kind, folder, device, steps, each) for kind in kinds]
    print(table(outcomes))
    print("\n".join(verdicts(outcomes)))
    print(f"{time.perf_counter() - began:.0f} s in all")
    return 1 if any(o.failed for o in outcomes) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--cpu", action="store_true", help="rehearse the script with a tiny model")
    parser.add_argument("--child", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    device = "cpu" if given.cpu else "cuda"
    if given.child:
        done = train(given.child, given.folder, device, given.steps)
        told: Mapping[str, Any] = asdict(done)
        (given.folder / f"{given.child}.json").write_text(json.dumps(told), encoding="utf-8")
        return 1 if done.failed else 0
    if device == "cuda" and not load("torch").cuda.is_available():
        print("no CUDA card: nothing was measured; --cpu --steps 2 rehearses this script without one")
        return 2
    return check(device, given.steps)


if __name__ == "__main__":
    sys.exit(main())
