"""What the examples are tried on: a run in the toy hall, and TINY models that can be spoken to.

TRL's own settings for a test: on the CPU, no files beside the result, nothing on the screen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roleagent_lite.types import Task
from tests import tiny
from tests.distill import make, toy_run

QUIET: dict[str, Any] = {
    "use_cpu": True, "bf16": False, "report_to": [], "disable_tqdm": True, "save_strategy": "no",
    "logging_steps": 1, "per_device_train_batch_size": 16,
}  # fmt: skip
WAYS = (
    ("look around", "take key", "say hello.", "open door"),
    ("say hello.", "take key", "look around", "open door"),
    ("open door", "take key", "take key", "open door"),
    ("take key", "open door"),
    ("look around", "open door"),
)


def run(path: Path, tasks: int = 3) -> Path:
    """A run directory: `tasks` tasks, each played in five ways, four of which win."""
    made = make.new_run(path)
    for k in range(tasks):
        task = Task(f"t{k}", "tests.toy:Toy", "Get out of the hall.", seed=k, params={"type": "hall"})
        toy_run.add(made, task, WAYS, lambda step: step.action)
    made.close()
    make.OPENED.clear()
    return path


def model(folder: Path) -> Path:
    """TINY with an end of turn that generation stops at."""
    tiny.save_model(folder)
    tiny.save_tokenizer(folder, eos_token="<|end|>")
    return folder


def likelihoods(folder: Path, prompt: list[dict[str, str]], replies: tuple[str, ...]) -> list[float]:
    """p(reply, end of turn | prompt) of the model in `folder`, one a reply."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    spoken = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    head = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
    start = len(tokenizer(head)["input_ids"])
    found = []
    for reply in replies:
        ids = torch.tensor([tokenizer(f"{head}{reply}<|end|>")["input_ids"]])
        with torch.no_grad():
            logps = spoken(ids).logits[0, :-1].log_softmax(-1)
        found.append(float(logps.gather(1, ids[0, 1:, None])[start - 1 :].sum().exp()))
    return found


WORDS = (
    "Admissible actions", "Act by calling the tool", "one action a call", "until the episode is over",
    "With each action", "foretell in", "predictions", "what the world will answer", "word for word",
    "You see", "You are in a hall", "There is a key and a door", "arguments", "name", "act", "action",
    "You take the", "The door opens", "You are free", "The episode is over", "tool",
)  # fmt: skip
TOOLS = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<call>{{ c.function | tojson }}</call>{% endfor %}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
CALLS = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open": "<call>", "close_pattern": r"</call>\s*", "repeats": True, "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|end\|>\s*", "content": "text"},
    },
}  # fmt: skip


def caller(folder: Path) -> Path:
    """TINY whose chat template knows tools, with room for whole episodes."""
    tiny.save_model(folder, words=WORDS)
    tiny.save_tokenizer(folder, TOOLS, eos_token="<|end|>", response_template=CALLS, words=WORDS)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 4096}))
    return folder


def fit(folder: Path, chats: list[list[dict[str, Any]]], steps: int, seed: int = 0) -> None:
    """Trains the model in `folder` on what the assistant says in `chats`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    spoken = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    rows = [_marked(tokenizer, chat) for chat in chats]
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([r + [tokenizer.pad_token_id] * (width - len(r)) for r, _ in rows])
    own = torch.tensor([m + [False] * (width - len(m)) for _, m in rows])
    optimiser = torch.optim.AdamW(spoken.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 1e-2 * (1 - step / steps)
        some = torch.randperm(len(rows), generator=generator)[:6]
        logits = spoken(ids[some]).logits[:, :-1]
        targets = ids[some][:, 1:].masked_fill(~own[some][:, 1:], -100)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        optimiser.step()
        optimiser.zero_grad()
    spoken.save_pretrained(folder)


def _marked(tokenizer: Any, chat: list[dict[str, Any]]) -> tuple[list[int], list[bool]]:
    """The tokens of a chat, and which of them the assistant says."""
    ids: list[int] = []
    marks: list[bool] = []
    for k, message in enumerate(chat):
        text = tokenizer.apply_chat_template(chat[:k], tokenize=False) if k else ""
        more = tokenizer.apply_chat_template(chat[: k + 1], tokenize=False)[len(text) :]
        head = f"<|start|>{message['role']}\n"
        for part, own in ((head, False), (more[len(head) :], message["role"] == "assistant")):
            found = tokenizer(part)["input_ids"]
            ids += found
            marks += [own] * len(found)
    return ids, marks
