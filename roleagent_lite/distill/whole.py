"""Reading whole prompts: for back ends whose forward pass takes no cache or mask of ours.

Owns scores of choices and replies, with the same methods as `prefix.Reader`, which reads what prompts share
only once. Replies are written by the back end's own fast generation, by vLLM where the model was loaded with
it. Leaves out messages and requests (local.py).
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from roleagent_lite.distill.policy import Policy
from roleagent_lite.distill.prefix import Reader
from roleagent_lite.distill.stack import load
from roleagent_lite.distill.tokens import Tokens


def reader_of(
    policy: Policy, acting: Callable[[], AbstractContextManager[None]], *, now: bool
) -> Reader | Whole:
    """What reads with `policy` inside `acting`. now: these are the weights in training."""
    return Reader(policy, acting) if policy.packs else Whole(policy, acting, now=now)


class Whole:
    """`read`: prompt tokens that went through the model; `reused`: always 0."""

    def __init__(
        self,
        policy: Policy,
        acting: Callable[[], AbstractContextManager[None]] | None = None,
        *,
        now: bool = True,
    ) -> None:
        self._policy = policy
        self._acting = acting or nullcontext
        self._engine = getattr(policy.model, "vllm_engine", None) if now else None
        self._carried: Any = None  # the adapter as vLLM has it
        self.read = self.reused = 0

    def forget(self) -> None:
        """To be called whenever the weights have changed."""
        self._carried = None

    def score(self, prompt: Sequence[int], choices: Sequence[Sequence[int]]) -> list[list[float]]:
        """log p of each token of each choice behind `prompt` (nats). Neither may be empty."""
        state = SimpleNamespace(ids=tuple(prompt), start=len(prompt), choices=tuple(map(tuple, choices)))
        self.read += len(prompt)
        with self._policy.frozen(), self._acting():
            each = self._policy.choice_logps(cast(Tokens, state))
        return [row[: len(c)].tolist() for row, c in zip(each, choices, strict=True)]

    def write(
        self,
        prompt: Sequence[int],
        *,
        most: int,
        temperature: float,
        seed: str,
        done: Callable[[Sequence[int]], bool],
    ) -> list[tuple[int, float]]:
        """Tokens behind `prompt`, each with its log-probability: drawn at `temperature`, at 0 the best one.

        Ends after `most` tokens, or where `done` says so of the tokens written.
        """
        number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")
        self.read += len(prompt)
        if self._engine is not None:
            found = self._by_vllm(prompt, most, temperature, number)
        else:
            found = self._by_generate(prompt, most, temperature, number, done)
        for count in range(1, len(found) + 1):
            if done([token for token, _ in found[:count]]):
                return found[:count]
        return found

    def _by_generate(
        self,
        prompt: Sequence[int],
        most: int,
        temperature: float,
        seed: int,
        done: Callable[[Sequence[int]], bool],
    ) -> list[tuple[int, float]]:
        torch, transformers = load("torch"), load("transformers")
        device, start = self._policy.device, len(prompt)

        class Done(transformers.StoppingCriteria):  # type: ignore[misc,name-defined]
            def __call__(self, ids: Any, scores: Any, **_: Any) -> Any:
                return torch.tensor([done(row[start:].tolist()) for row in ids], device=ids.device)

        ids = torch.tensor([list(prompt)], device=device)
        draws: dict[str, Any] = {"do_sample": False}
        if temperature > 0:
            draws = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        cards = [torch.cuda.current_device()] if device.startswith("cuda") else []
        with self._policy.frozen(), self._acting(), torch.random.fork_rng(devices=cards):
            torch.manual_seed(seed)
            made = self._policy.model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=most,
                pad_token_id=self._policy.pad_id,
                stopping_criteria=transformers.StoppingCriteriaList([Done()]),
                output_logits=True, return_dict_in_generate=True, **draws,
            )  # fmt: skip
        tokens = made.sequences[0, start:].tolist()
        rows = [row[0].float().log_softmax(-1) for row in made.logits]
        return [(t, float(row[t])) for t, row in zip(tokens, rows, strict=False)]

    def _by_vllm(
        self, prompt: Sequence[int], most: int, temperature: float, seed: int
    ) -> list[tuple[int, float]]:
        """By the engine that Unsloth loaded beside the model, with the adapter as it is now."""
        settings = load("vllm").SamplingParams(
            temperature=max(temperature, 0.0), max_tokens=most, seed=seed, logprobs=1
        )
        model = self._policy.model
        if self._carried is None:
            folder = tempfile.mkdtemp(prefix="adapter-")  # for its configuration: the weights go by memory
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._carried = model.load_lora(str(Path(folder) / "adapter"), load_tensors=True)
        out = model.fast_generate(
            [{"prompt_token_ids": list(prompt)}], sampling_params=settings, lora_request=self._carried,
            use_tqdm=False,
        )[0].outputs[0]  # fmt: skip
        return [(t, float(of[t].logprob)) for t, of in zip(out.token_ids, out.logprobs, strict=True)]
