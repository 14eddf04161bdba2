"""Generation for several prompts at once: each gets what it would get alone.

Owns padding for generation. Prompts are padded on the left whatever side a tokenizer prefers, padding is
masked, and each prompt counts its positions from its own beginning: a decoder that had padding between a
prompt and its reply would answer something else. Training pads on the right (tokens.collate). Leaves out
what is done with the replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roleagent_lite.distill.stack import load


def generate(
    model: Any, prompts: Sequence[Sequence[int]], *, most: int, end_id: int, pad_id: int
) -> list[list[int]]:
    """The greedy reply to each of `prompts` (token ids), in their order: at most `most` tokens, the token
    that ends a turn included where it came. No gradient; the model is left in the mode that it was in.

    Raises ValueError for no prompts, or an empty one.
    """
    if not prompts or not all(prompts):
        raise ValueError("prompts to answer must be one or more non-empty lists of token ids")
    torch = load("torch")
    width = max(map(len, prompts))
    padded = [[pad_id] * (width - len(p)) + list(p) for p in prompts]
    shown = [[0] * (width - len(p)) + [1] * len(p) for p in prompts]
    was, device = model.training, model.device
    model.eval()
    try:
        with torch.no_grad():
            new = torch.tensor(padded, device=device)
            mask = torch.tensor(shown, device=device)
            return _replies(model, new, mask, most, end_id)
    finally:
        model.train(was)


def _replies(model: Any, new: Any, mask: Any, most: int, end_id: int) -> list[list[int]]:
    torch = load("torch")
    replies: list[list[int]] = [[] for _ in range(len(new))]
    cache, places = None, (mask.cumsum(-1) - 1).clamp(min=0)
    for _ in range(most):
        out = model(
            input_ids=new, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True,
            logits_to_keep=1,
        )  # fmt: skip
        cache, picked = out.past_key_values, out.logits[:, -1].argmax(-1)
        for reply, token in zip(replies, picked.tolist(), strict=True):
            if not reply or reply[-1] != end_id:
                reply.append(token)
        if all(reply[-1] == end_id for reply in replies):
            break
        new, places = picked[:, None], places[:, -1:] + 1
        mask = torch.cat([mask, torch.ones_like(picked)[:, None]], dim=-1)
    return replies
