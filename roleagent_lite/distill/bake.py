"""Baking a prompt in: replies that a long prompt brought forth stand behind a short one for training.

Owns which prompt is the short one, how a recorded prompt is taken apart into the inputs that went into it,
and what is saved. Leaves out which replies are imitated (samples.py) and tokens (tokens.py).

Nothing is rendered from an episode's history: the inputs are read out of the messages as sent, by the
template and the texts that made them. Only where template, texts and inputs give those messages back letter
by letter are the same inputs put into the short prompt; elsewhere the sample is dropped, with the reason.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from roleagent_lite.agents.choose import nearest_demonstrations
from roleagent_lite.ask import Prompts, load_prompts, make_prompt_set
from roleagent_lite.ask.adapter import Envelope, render
from roleagent_lite.ask.form import reply_form, wanted
from roleagent_lite.ask.prompts import REPLY_FORM, PromptFile, fill, holes
from roleagent_lite.ask.quote import headings, shown
from roleagent_lite.distill.rows import Dropped
from roleagent_lite.distill.samples import Collected, Sample
from roleagent_lite.distill.tokens import Tokens
from roleagent_lite.errors import ConfigError
from roleagent_lite.redact import clean
from roleagent_lite.session import starting_prompts
from roleagent_lite.store import Run
from roleagent_lite.types import Call, Message, PromptSet

SEED, NONE = "seed", "none"
OWN_PROMPT = "prompt.json"  # beside the tables of a run that was begun with a prompt of its user's


@dataclass(frozen=True, slots=True)
class Short:
    """The prompt that is trained on. `own`: its templates are the run's own, so that its texts alone
    (`prompt_set.texts`) say how to play with it."""

    prompts: Prompts
    prompt_set: PromptSet
    own: bool


def short_prompt(run: Run, name: str) -> Short:
    """The prompt that `name` means: `seed`, what the run started from; `none`, its templates with every text
    that evolves left empty; a prompt file, over the run's prompts; else a prompt version or folder.

    Raises ConfigError for a name nobody knows, and where the run does not keep its seed prompt.
    """
    prompts = run_prompts(run)
    if name == SEED:
        start = run.events.get("start")
        seed = run.prompt_sets.get(str(start.data.get("seed_set"))) if start is not None else None
        if seed is None:
            raise ConfigError(f"run {run.dir} does not hold its seed prompt; name a prompt in sft.bake")
        return Short(prompts, seed, True)
    if name == NONE:
        texts = {f"{file.name}.{text}": "" for file in prompts.modules.values() for text in file.evolve}
        return Short(prompts, make_prompt_set(texts), True)
    if Path(name).is_file():
        changed = prompts.override(name)
        return Short(changed, changed.seed_set(), True)
    other = load_prompts(name)
    return Short(other, other.seed_set(), False)


def run_prompts(run: Run) -> Prompts:
    """The prompts that a run was begun with. Raises ConfigError where they are gone."""
    own = run.dir / OWN_PROMPT
    return starting_prompts(run.config, own if own.is_file() else None)


def bake(run: Run, found: Collected, short: Short) -> tuple[Collected, dict[str, tuple[Message, ...]]]:
    """`found` with each sample's messages under the short prompt, and the messages as sent by sample id.

    What was recorded about other messages (log-probabilities, scores) goes. A sample that cannot be rebuilt
    is dropped with the reason.
    """
    prompts = run_prompts(run)
    kept: list[Sample] = []
    sent: dict[str, tuple[Message, ...]] = {}
    dropped = list(found.dropped)
    for sample in found.samples:
        made = _rebuilt(run, sample, prompts, short)
        if isinstance(made, str):
            dropped.append(Dropped(sample.id, sample.group, f"prompt not rebuilt: {made}"))
            continue
        sent[sample.id] = sample.messages
        kept.append(replace(sample, messages=made, logprobs=None, scores=(), penalties=()))
    return replace(found, samples=tuple(kept), dropped=tuple(dropped)), sent


def _rebuilt(run: Run, sample: Sample, prompts: Prompts, short: Short) -> tuple[Message, ...] | str:
    """The messages of `sample` under the short prompt, or why there are none."""
    call = run.calls.get(sample.call)
    if call is None:
        return "its call is not in the run"
    if call.request.messages != sample.messages:
        return "its messages are not as sent (experience stripped)"
    was = run.prompt_sets.get(sample.prompt_set)
    if was is None:
        return "its prompt set is not in the run"
    task = run.tasks.get(sample.task)
    return rebuild(call, prompts, was, short, task.goal if task is not None else "")


def rebuild(
    call: Call, prompts: Prompts, was: PromptSet, short: Short, goal: str = ""
) -> tuple[Message, ...] | str:
    """What `call` would have sent under the short prompt; words where that cannot be told.

    prompts, was: the prompts and the texts that it was sent under. goal: of its task, "" = not known.
    """
    name = call.request.module
    file, other = prompts.modules.get(name), short.prompts.modules.get(name)
    for modules, one in ((prompts, file), (short.prompts, other)):
        if one is None:
            return f"prompts '{modules.name}' have no module '{name}'"
    assert file is not None and other is not None
    system, user, begun, turns = _parts(call.request.messages)
    counts = _counts(call, file)
    # The agent that chooses shows only the demonstrations most like the goal.
    likely = call.request.choices is not None or name == "foretell"
    for choosing in (likely, not likely):
        texts = prompts.texts(name, nearest_demonstrations(prompts, was, goal) if choosing else was)
        made = Envelope(file, texts, call.request, counts=counts, turns=turns)
        candidates = _inputs(made, (system, user, begun), goal)
        inputs = next((i for i in candidates if render(made, i) == call.request.messages), None)
        if inputs is not None:
            break
    else:
        return f"what was sent is not what module '{name}' makes of its texts"
    if [o.name for o in wanted(other.outputs, counts)] != [o.name for o in made.outputs]:
        return f"module '{name}' of prompts '{short.prompts.name}' asks for another form of reply"
    if turns and reply_form(wanted(other.outputs, counts), counts) != reply_form(made.outputs, counts):
        return "asked again in words that another prompt would not use"
    lacking = [i for i in other.inputs if i not in inputs]
    if lacking:
        return f"prompts '{short.prompts.name}' show the input '{lacking[0]}', which was not sent"
    base = nearest_demonstrations(short.prompts, short.prompt_set, goal) if choosing else short.prompt_set
    under = Envelope(other, short.prompts.texts(name, base), call.request, counts=counts, turns=turns)
    return render(under, {i: inputs[i] for i in other.inputs})


def _parts(messages: Sequence[Message]) -> tuple[str, str, str, tuple[Message, ...]]:
    """System text, user text, the reply that was begun, and the turns of a re-ask."""
    system = messages[0].content if messages and messages[0].role == "system" else ""
    rest = list(messages[1:] if system else messages)
    user = rest[0].content if rest else ""
    behind = tuple(rest[1:])
    if len(behind) == 1 and behind[0].role == "assistant":
        return system, user, behind[0].content, ()
    return system, user, "", behind


def _counts(call: Call, file: PromptFile) -> dict[str, int]:
    """Lengths of list outputs, and 0 for those left out, as the schema of the request says them."""
    schema: Any = call.request.schema
    if schema is None:
        return {}
    asked = schema["properties"]
    lengths = {name: int(form["minItems"]) for name, form in asked.items() if "minItems" in form}
    return lengths | {output.name: 0 for output in file.outputs if output.name not in asked}


def _inputs(made: Envelope, turns: tuple[str, str, str], goal: str) -> Iterator[dict[str, str]]:
    """The inputs that may stand in the texts of the three turns, "" for those that were empty."""
    file = made.module
    known = {name: str(clean(text)) for name, text in made.texts.items()}
    known[REPLY_FORM] = reply_form(made.outputs, made.counts)
    templates = (file.system, file.user, "" if made.turns else file.assistant)
    ways: list[dict[str, str]] = [{}]
    if goal and "task" in file.inputs:
        ways.insert(0, {"task": shown(goal, headings(file.system, file.user, file.assistant))})
    for named in ways:
        for found in _through(templates, turns, known, named):
            yield {name: found.get(name, "") for name in file.inputs}


def _through(
    templates: Sequence[str], texts: Sequence[str], known: Mapping[str, str], found: dict[str, str]
) -> Iterator[dict[str, str]]:
    if not templates:
        yield found
        return
    for more in unfill(templates[0], {**known, **found}, texts[0]):
        yield from _through(templates[1:], texts[1:], known, {**found, **more})


def unfill(template: str, known: Mapping[str, str], text: str) -> Iterator[dict[str, str]]:
    """Values of the holes that `known` lacks, such that `ask.prompts.fill` gives `text`; the likeliest first.

    That is where the most paragraphs with words of their own are there, and the fewest that are a mere hole.
    """
    paragraphs = re.split(r"\n[ \t]*\n", template.strip("\n"))
    ways: list[tuple[bool, ...]] = []
    bare: list[bool] = []
    for paragraph in paragraphs:
        names = holes(paragraph)
        always = not names or any(known.get(n, "").strip() for n in names)
        ways.append((True,) if always else (False,) if names <= known.keys() else (True, False))
        bare.append(re.fullmatch(r"\s*\{[a-z_0-9]+\}\s*", paragraph) is not None)

    def likely(there: tuple[bool, ...]) -> tuple[int, int]:
        pairs = list(zip(there, bare, strict=True))
        return -sum(is_there and not mere for is_there, mere in pairs), sum(is_there for is_there, _ in pairs)

    for there in sorted(product(*ways), key=likely):
        left = "\n\n".join(p for p, is_there in zip(paragraphs, there, strict=True) if is_there)
        found = _aligned(left, known, text)
        if found is not None:
            gone = {n for p in paragraphs for n in holes(p)} - known.keys() - found.keys()
            whole = {**dict.fromkeys(gone, ""), **found}
            if fill(template, {**known, **whole}) == text:
                yield whole


def _aligned(template: str, known: Mapping[str, str], text: str) -> dict[str, str] | None:
    """Each unknown hole ends where what follows it is first found; the last literal stands at the end."""
    found: dict[str, str] = {}
    open_hole, at = "", 0
    for literal, hole in _pieces(template, known, found):
        if not open_hole:
            if not text.startswith(literal, at):
                return None
            end = at
        else:
            end = text.find(literal, at) if hole is not None else len(text) - len(literal)
            if end < at or not text.startswith(literal, end):
                return None
            found[open_hole] = text[at:end]
        at, open_hole = end + len(literal), hole or ""
    return found if at == len(text) else None


def _pieces(
    template: str, known: Mapping[str, str], found: Mapping[str, str]
) -> Iterator[tuple[str, str | None]]:
    """(what is known up to the next unknown hole, that hole); at the end None. `found` grows meanwhile."""
    literal = ""
    for place, part in enumerate(re.split(r"\{([a-z_][a-z0-9_]*)\}", template)):
        if place % 2 == 0:
            literal += part
        elif part in known or part in found:
            literal += known[part] if part in known else found[part]
        else:
            yield literal, part
            literal = ""
    yield literal, None


def texts_file(texts: Mapping[str, str]) -> str:
    """The short prompt's texts as a file for `--prompt`."""
    return json.dumps(dict(texts), ensure_ascii=False, indent=2) + "\n"


def playing(name: str, file: str, folder: Path) -> str:
    """The flag that plays the prompt trained under: `file` in `folder`, "" where it has its own templates."""
    return f"--prompt {shlex.quote(str(folder / file))}" if file else f"--prompts {shlex.quote(name)}"


def saving(rows: Sequence[Tokens]) -> dict[str, float]:
    """Of the rows with `sent`: how many, mean tokens of their prompts as sent and under the short prompt,
    what a step saves, and how many were short already. Empty where there is none."""
    known = [(row.sent, row.before - (len(row.ids) - row.start)) for row in rows if row.sent is not None]
    if not known:
        return {}
    before, after = (sum(column) / len(known) for column in zip(*known, strict=True))
    return {
        "samples": len(known), "prompt_sent": before, "prompt_baked": after, "saved_a_step": before - after,
        "share_saved": (before - after) / before if before else 0.0,
        "already_short": sum(a == b for a, b in known),
    }  # fmt: skip
