"""The nouns: what a run is made of.

Owns every frozen record that crosses a floor and the protocols of environment, agent and model.
Leaves out I/O (store), validation of foreign text (config, ask) and all arithmetic (wia, aiw).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

Role = Literal["agent", "world", "reflector", "judge"]
ROLES: tuple[Role, ...] = ("agent", "world", "reflector", "judge")
Split = Literal["train", "dev", "test"]
Kind = Literal["solved", "failed", "bad_format", "cut_off", "infrastructure_error"]


# --- facts: what was asked, said and seen ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do in one environment. `id` is the user's, else a content hash."""

    id: str
    env: str
    goal: str
    seed: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    split: Split = "train"
    parent: str | None = None
    validated: bool = True


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money of one call; None = the server did not say (never 0).

    `input` includes `cached` (input tokens read from the provider's prompt cache) and `output` includes
    `reasoning`. `dollars` is None where the price is unknown.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    dollars: float | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What we ask of a model, before any provider's dialect.

    `sample` tells apart calls that are otherwise equal (a second rollout, a re-ask). It is part of the
    recorder's key and must be fixed before concurrent dispatch. `schema` is a JSON schema the reply should
    follow where the server can constrain it. `choices`: candidate replies to be scored by log-probability
    instead of generating (only models with `can_score`). `stop`: texts at which the reply ends, where the
    model can (the embedded one). A last message of the assistant is the beginning of the reply.
    """

    role: Role
    module: str
    messages: tuple[Message, ...]
    temperature: float = 0.0
    max_tokens: int = 512
    seed: int | None = None
    schema: Mapping[str, Any] | None = None
    choices: tuple[str, ...] | None = None
    sample: str = "0"
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. `finish`: stop, length, refusal, content_filter.

    `scores` answers `Request.choices`, one list of token log-probabilities (nats) a choice.
    """

    text: str
    finish: str = "stop"
    reasoning: str | None = None
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    scores: tuple[tuple[float, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A paid call as it happened. `id` is the recorder's key (see `lm/recorder.py`)."""

    id: str
    model: str
    base_url: str | None
    request: Request
    reply: Reply


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended.

    solved; failed (lost, step_limit, loop; ended by its player: budget, gave_up); bad_format (no usable reply
    after the re-ask): these teach, the last two count 0. cut_off (max_tokens, context, refused, filtered):
    counts 0, does not teach. infrastructure_error: left out of the mean, shown again as 0.
    """

    kind: Kind
    reason: str = ""

    @property
    def teaches(self) -> bool:
        return self.kind in ("solved", "failed", "bad_format")

    @property
    def scored(self) -> bool:
        """Whether the episode enters the headline mean."""
        return self.kind != "infrastructure_error"


@dataclass(frozen=True, slots=True)
class Step:
    """One move: what was seen, said and done, and what came of it.

    `action` is what the environment received; `said` what the model wrote. `predictions[h-1]` foretells the
    observation h steps on; None or "" = missing. `valid`: the environment admitted the action.
    """

    observation: str
    action: str
    outcome: str
    reward: float = 0.0
    state_key: str | None = None
    admissible: tuple[str, ...] = ()
    thought: str = ""
    predictions: tuple[str | None, ...] = ()
    said: str = ""
    valid: bool = True
    call_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode. `id` is `round/promptset8/task#rollout`.

    `arm` names the experience arm; `final_state_key` is the key of the terminal state; `score` is the
    environment's own, 0..1; `error` holds a traceback of an infrastructure error, scrubbed of keys.
    `other_calls`: ids of calls made for the task that stand in no step: replies that could not be used, and
    what a system spent beside the episode that counts (earlier trials, plans, values, reflections).
    """

    id: str
    task: str
    prompt_set: str
    model: str
    round: int
    rollout: int
    split: Split
    steps: tuple[Step, ...]
    score: float
    outcome: Outcome
    arm: str = "none"
    max_steps: int = 0
    final_state_key: str | None = None
    error: str | None = None
    seconds: float = 0.0
    other_calls: tuple[str, ...] = ()

    @property
    def solved(self) -> bool:
        return self.outcome.kind == "solved"

    @property
    def group(self) -> str:
        """Rollouts that may be compared: one task, prompt set, model, arm and round."""
        return f"{self.round}/{self.prompt_set}/{self.model}/{self.arm}/{self.task}"


# --- judgements: records of their own that point at facts ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Credit:
    """WIA's verdict on one trajectory, one entry a step (T) but for the scalars.

    alignment[t][h-1] in 0..1 or None; predictive = R_pre; task_return = R_task; reward = R_t (modulated);
    state_group: id of the state group; state_advantage = A^S; episode_advantage = A^E (scalar);
    advantage = A^S + alpha A^E. `formula` names parameters so that it can be recomputed.
    """

    trajectory: str
    alignment: tuple[tuple[float | None, ...], ...]
    predictive: tuple[float, ...]
    task_return: tuple[float, ...]
    reward: tuple[float, ...]
    state_group: tuple[int, ...]
    state_advantage: tuple[float, ...]
    episode_advantage: float
    advantage: tuple[float, ...]
    cut: tuple[int, ...] = ()
    formula: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """AIW's reading of one failed trajectory. `critical_step` counts from 1; 0 = not given."""

    trajectory: str
    mode: str
    detail: str
    critical_step: int
    lesson: str
    query: str
    shared_from: str | None = None


@dataclass(frozen=True, slots=True)
class FailureMode:
    name: str
    rule: str
    evidence: tuple[str, ...] = ()
    first_seen: int = 0
    last_seen: int = 0
    fixed_by: str | None = None


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Texts that may evolve, by name ("act.instructions"). `id` is a hash of the texts alone."""

    id: str
    texts: Mapping[str, str]
    parent: str | None = None
    why: str = "seed"


@dataclass(frozen=True, slots=True)
class TaskBudget:
    """What a system may spend on one task: as much as it likes, so many calls, or so many dollars."""

    rule: Literal["unlimited", "calls", "dollars"] = "unlimited"
    amount: float | None = None

    @property
    def words(self) -> str:
        """`unlimited`, `30 calls a task`, `0.05 dollars a task`."""
        return "unlimited" if self.amount is None else f"{self.amount:g} {self.rule} a task"


@dataclass(frozen=True, slots=True)
class Result:
    """One system on one task set. `scores[task]` has one entry a repetition; None = infrastructure error.

    scores: 1.0 solved, 0.0 not; values: the environment's own, 0..1; trajectories: ids of the episodes that
    count. calls, seconds (summed over episodes) and usage cover all that was done for the tasks, trials that
    do not count included. spread: standard deviation of the repetitions' means (0..1), None for a single one.
    model: what played, "" = unknown. Fields with a default are empty in rows of versions that lacked them.
    """

    suite: str
    system: str
    scores: Mapping[str, tuple[float | None, ...]]
    mean: float | None
    low: float | None
    high: float | None
    n: int
    usage: Usage = field(default_factory=Usage)
    values: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    trajectories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    calls: int | None = None
    seconds: float | None = None
    spread: float | None = None
    temperature: float | None = None
    budget: str = ""
    model: str = ""


# --- environments and agents --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Observation:
    """No `admissible` = free-form actions; equal `state_key` = same true state; `open`: others may do too."""

    text: str
    admissible: tuple[str, ...] = ()
    state_key: str | None = None
    open: bool = False


@dataclass(frozen=True, slots=True)
class Transition:
    """`done`: the environment ended it (a step limit is the rollout's); not `valid`: it changed nothing."""

    observation: Observation
    reward: float
    done: bool
    valid: bool = True


@runtime_checkable
class Environment(Protocol):
    """Made for one task and one episode by a factory `(task: Task) -> Environment`."""

    def observe(self) -> Observation: ...
    def step(self, action: str) -> Transition: ...
    def score(self) -> float: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class View:
    """All that an agent may see when it has to act; never the environment itself."""

    task: Task
    observation: Observation
    history: tuple[Step, ...]
    step: int
    max_steps: int
    horizon: int
    temperature: float
    sample: str
    predict: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    action: str
    predictions: tuple[str | None, ...] = ()
    thought: str = ""
    said: str = ""
    call_ids: tuple[str, ...] = ()


class Agent(Protocol):
    """`act` raises `errors.ReplyError` where no usable reply came; the rollout makes it an Outcome."""

    prompt_set: PromptSet

    def act(self, view: View) -> Awaitable[Decision]: ...


class System(Protocol):
    """What an evaluation compares: a way to attempt a task, whatever it tries on the way.

    `model`: the name of the model that plays, "" where none does. `solve` gives the one episode that counts,
    with the id `round/promptset8/task#rollout` of this system's own prompt set; what it tries beside that is
    stored by itself, and the calls of it are in `Trajectory.other_calls`. max_steps 0 = the environment's
    limit. It raises what ends a run (FatalModelError, BudgetStop, ConfigError) and nothing else.
    `most_calls`: an upper bound for one task, None where there is none.
    """

    name: str
    model: str
    prompt_set: PromptSet

    def solve(
        self, task: Task, *, round: int, rollout: int, temperature: float, max_steps: int = 0
    ) -> Awaitable[Trajectory]: ...

    def most_calls(self, task: Task, max_steps: int = 0) -> int | None: ...


class Model(Protocol):
    """One model behind one address. `complete` raises children of `errors.ModelError`."""

    name: str
    base_url: str | None
    can_score: bool

    def complete(self, request: Request) -> Awaitable[Reply]: ...


class Embedder(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]: ...


# --- progress -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """What a job tells its watcher. Counts: episodes (`stage` train, dev, test), steps (learn), updates."""

    stage: str
    done: int = 0
    total: int = 0
    solved: int = 0
    dollars: float | None = None
    note: str = ""


Listener = Callable[[Progress], None]
