"""The report's sections on means: tokens, dollars and time, and what the embedded model is.

Owns their tables and words. Leaves out counting (gather).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from roleagent_lite.config import RunConfig, parse_toml
from roleagent_lite.content import room
from roleagent_lite.report.gather import Facts, Spend
from roleagent_lite.report.markdown import code, count, dollars, duration, fence, plain, table


def calls_words(spend: Spend) -> str:
    """`12 (1 lost, 2 requests failed)`; lost calls were paid for, failed requests brought no reply."""
    extra = [f"{spend.lost} lost"] if spend.lost else []
    extra += [f"{spend.failed} requests failed"] if spend.failed else []
    return f"{spend.calls:,}" + (f" ({', '.join(extra)})" if extra else "")


def requests_words(calls: int, lost: int, failed: int, unread: int) -> str:
    """What is to be said of requests that brought no reply: counts of `Spend`, summed; "" where all did."""
    sent = calls + failed - unread
    if not failed:
        return ""
    if calls > lost:
        text = f"{failed:,} of {sent:,} requests brought no answer"
    else:  # what is lost and not unread was empty, or in flight when the run was stopped
        text = f"{sent:,} requests sent, " + ("none answered" if calls == unread else "no usable answer")
    maybe = f"; {unread:,} of them may have been charged (what came cannot be read, or came too late)"
    return text + (maybe if unread else "")


def unanswered(facts: Facts) -> str:
    """`requests_words` of a run, as a sentence."""
    text = requests_words(
        *(sum(getattr(s, k) for s in facts.spend) for k in ("calls", "lost", "failed", "unread"))
    )
    return f"{text}." if text else ""


def spend_table(facts: Facts) -> str:
    """Calls, tokens and dollars by role and model; what is unknown is called unknown."""
    rows = [
        [
            plain(s.role),
            code(s.model),
            calls_words(s),
            count(s.input, s.unknown_tokens, s.calls),
            count(s.cached, s.unknown_tokens, s.calls),
            count(s.output, s.unknown_tokens, s.calls),
            dollars(s.dollars, s.unknown_dollars, s.calls),
        ]
        for s in facts.spend
    ]
    if len(facts.spend) > 1:
        calls = sum(s.calls for s in facts.spend)
        tokens, money = (
            sum(s.unknown_tokens for s in facts.spend),
            sum(s.unknown_dollars for s in facts.spend),
        )
        rows.append(
            [
                "all",
                "",
                f"{calls:,}",
                count(sum(s.input for s in facts.spend), tokens, calls),
                count(sum(s.cached for s in facts.spend), tokens, calls),
                count(sum(s.output for s in facts.spend), tokens, calls),
                dollars(sum(s.dollars for s in facts.spend), money, calls),
            ]
        )
    return table(
        ["role", "model", "calls", "input tokens", "of these cached", "output tokens", "dollars"], rows
    )


def _ended(stopped: str) -> str:
    """How a session ended, in words; what Python calls an interrupt says nothing to a reader."""
    kind = stopped.partition(":")[0]
    return "interrupted" if kind in ("CancelledError", "KeyboardInterrupt") else stopped


def time_words(facts: Facts, spend: list[Spend]) -> str:
    """Seconds that models took, and each session's length, calls and answers from the record."""
    lines = [
        f"Models took {duration(sum(s.seconds for s in spend))} in all, calls at once counted one by one."
    ]
    rows = []
    for i, one in enumerate(facts.sessions, 1):
        seconds = one.get("seconds")
        rows.append(
            [
                str(i),
                duration(float(seconds) if seconds is not None else None),
                str(one.get("calls", "unknown")),
                str(one.get("replayed", "unknown")),
                plain(_ended(str(one.get("stopped") or "finished"))),
            ]
        )
    if rows:
        lines.append(table(["session", "time", "calls made", "answered from the record", "ended"], rows))
    return "\n\n".join(lines)


def is_embedded(config: RunConfig) -> bool:
    """Whether the agent's model is the small default one (no file or hub model named)."""
    return config.model_for("agent") == "embedded"


def own_model_line(config: RunConfig, name: str, facts: Facts) -> str:
    """The command that does the same on the reader's own model."""
    words = ["roleagent-lite", "eval" if facts.suite else "evolve"]
    if facts.suite:
        words += _what_is_played(config, facts.suite)
    words += ["--run", f"{name}-own", "--model", "openai/MODEL"]
    if not facts.suite:
        words += ["--tasks", config.tasks, "--rounds", str(config.evolve.rounds)]
    words += ["--seed", str(config.seed), "--max-usd", "5"]
    return " ".join(shlex.quote(w) for w in words)


def _what_is_played(config: RunConfig, suite: Mapping[str, Any]) -> list[str]:
    """A shipped suite by its name with what was changed of it, one's own tasks with their systems."""
    name = str(suite.get("name", ""))
    files = {path.stem: path for path in room("evals").glob("*.toml")}
    systems = ["--systems", ",".join(map(str, suite.get("systems", ())))]
    if name not in files:
        return ["--tasks", config.tasks, *systems, *_limit(suite, {})]
    shipped = parse_toml(files[name].read_text(encoding="utf-8"))
    words = [name] if list(suite.get("systems", ())) == shipped.get("systems") else [name, *systems]
    for key in ("repetitions", "temperature"):
        value = suite.get(key)
        if isinstance(value, int | float) and value != shipped.get(key):
            words += [f"--{key}", f"{value:g}"]
    return words + _limit(suite, shipped)


def _limit(suite: Mapping[str, Any], shipped: Mapping[str, Any]) -> list[str]:
    """`--limit N` where so many tasks of each set were played, and the suite itself says otherwise."""
    played, own = ({one.get("limit") for one in it.get("sets") or ()} for it in (suite, shipped))
    return ["--limit", str(played.pop())] if played != own and len(played) == 1 and None not in played else []


def _proposals(facts: Facts) -> str:
    """What became of the proposals: texts that a reflector wrote, and episodes that were only shown."""
    tried = [c for c in facts.candidates if c.get("component")]
    shown = [c for c in tried if str(c["component"]).endswith(".demonstrations")]
    written = [c for c in tried if c not in shown]
    parts = []
    for made, what in ((written, "texts rewritten by the reflector"), (shown, "swaps of demonstrations")):
        children, entered = (
            sum(bool(c.get("child")) for c in made),
            sum(bool(c.get("accepted")) for c in made),
        )
        parts.append(f"{what}: {len(made)} tried, {children} played, {entered} entered the pool")
    return f"Proposals by kind: {'; '.join(parts)} (a swap asks no model)."


def embedded_parts(config: RunConfig, name: str, facts: Facts) -> tuple[list[str], str]:
    """What a 135M model can and cannot do, from this run's own numbers, and the command for another model.

    Empty for any other model."""
    if not is_embedded(config):
        return [], ""
    # What plays without it (the system random, say) is no feat of the model.
    tallies = [t for (own, _), t in facts.tallies.items() if own not in facts.modelless]
    solved, n = sum(t.success.k for t in tallies), sum(t.success.n for t in tallies)
    moves = facts.model_moves
    proposals = "" if facts.suite else f"{_proposals(facts)} "
    parts = [
        "The default model is SmolLM2-135M-Instruct, with 135 million parameters. It is here so that every "
        "part of the method runs on any machine without a key; it is no measure of what the method does for "
        "a capable model.",
        f"In this run it solved {solved} of {n} scored episodes over all splits. "
        f"{moves.steps - moves.invalid} of its {moves.steps} actions were admissible: where a world lists "
        "them, replies are held to them, so that is form, not understanding.",
        f"{proposals}Whether its predictions are worth more than trivial ones is said under Foresight.",
        "The same on your own model (any that LiteLLM knows; --base-url for a server of your own):",
    ]
    return parts, own_model_line(config, name, facts)


def embedded_words(config: RunConfig, name: str, facts: Facts) -> str:
    """`embedded_parts` as Markdown; "" for any other model."""
    parts, command = embedded_parts(config, name, facts)
    return "\n\n".join([*parts, fence(command)]) if parts else ""
