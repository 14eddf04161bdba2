"""The tools Environment: a user's requests, one after another, served by calls of simulated APIs (BFCL).

A task's `params`: `entry`, the id of a multi-turn entry of BFCL; `turns`, how many requests it has;
`max_steps`. An action is one or several calls, or `done` to have the turn checked and hear the next request.
The first turn that does not pass ends the episode. Score: the share of checked turns passed; solved means
all, to the end of the conversation.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from roleagent_lite.envs.tools import apis, data, state, truth
from roleagent_lite.envs.tools.calls import FORMS, BadCalls, Call, read
from roleagent_lite.errors import ConfigError
from roleagent_lite.types import Observation, Task, Transition

VOCABULARY = FORMS
HISTORY = 10
STEPS_A_TURN = 8
STEPS = 40  # where a task does not say how many turns it has
MOST_SHOWN = 40_000  # characters of one answer; the longest that a true call gives has 31,706
AT_ONCE = 8  # calls between two looks at how far the state has grown
DONE = "done"
TOO_DEEP = "too deep"  # the key of a state that cannot be compared; it ends the episode
ADDED = "I have added what you can use: {}. Can you do it now?"


def limit(task: Task) -> int:
    """Steps an episode may have: params.max_steps, else 8 for each of params.turns, else 40."""
    for key, times in (("max_steps", 1), ("turns", STEPS_A_TURN)):
        own = task.params.get(key)
        if own is None:
            continue
        if not isinstance(own, int) or isinstance(own, bool) or own < 1:
            raise ConfigError(
                f"task {task.id}: params.{key} must be a positive whole number, found {own!r:.60}"
            )
        return own * times
    return STEPS


def entry_of(task: Task) -> data.Entry:
    """The entry that a task names. Raises ConfigError, MissingExtra."""
    id = task.params.get("entry")
    if not isinstance(id, str):
        raise ConfigError(f"task {task.id}: params.entry must be the id of a BFCL entry, found {id!r:.60}")
    return data.entry(id)


@dataclass(frozen=True, slots=True)
class State:
    """An episode so far: turns passed, the API's objects, all answers, what is shown, how it ended."""

    objects: apis.Instances
    turn: int = 0
    called: bool = False  # in this turn
    answers: tuple[str, ...] = ()
    shown: tuple[str, ...] = field(default=())
    ended: str = ""


class Tools:
    """An Environment with `facts`, `snapshot`, `restore` and a plan (`walkthrough`).

    Listed are calls of all functions that the user has told of, with made-up arguments and what the function
    is for: a help, not a limit. As in BFCL, a function that is told of later only works before, too.
    """

    def __init__(self, task: Task) -> None:
        self._entry = entry_of(task)
        self._functions = data.functions(self._entry.classes)
        self._turns = truth.turns(self._entry)
        self._checked = [bool(turn.answers) for turn in self._turns]
        self._objects = apis.start(self._entry)
        self._owners = apis.owners(self._objects)
        self._state = State(self._objects)
        self._keyed: tuple[State | None, str] = (None, "")
        self._told: dict[int, tuple[str, ...]] = {}  # by turn

    def observe(self) -> Observation:
        text = "\n".join([self._message(), *self._state.shown])
        return Observation(text, self._offered(), self._key(), open=True)

    def _message(self) -> str:
        turn = self._state.turn
        if self._state.ended:
            return self._state.ended
        added = self._entry.added.get(turn)
        return f"User: {ADDED.format(', '.join(added)) if added else self._entry.messages[turn]}"

    def _offered(self) -> tuple[str, ...]:
        turn = self._state.turn
        if self._state.ended:
            return ()
        if turn not in self._told:
            later = {name for at, names in self._entry.added.items() if at > turn for name in names}
            lines = (one.line for name, one in self._functions.items() if name not in later)
            self._told[turn] = (*lines, DONE)
        return self._told[turn]

    def _key(self) -> str:
        now = self._state
        if self._keyed[0] is not now:
            try:
                found = state.key(self._objects, [now.turn, now.called, now.ended])
            except state.TooDeep:
                found = TOO_DEEP
            self._keyed = (now, found)
        return self._keyed[1]

    def step(self, action: str) -> Transition:
        """The calls' answers; after `done` the next request, or the end. What is no call changes nothing."""
        if self._state.ended:
            return Transition(self.observe(), 0.0, True, valid=False)
        try:
            wanted = read(action, self._functions)
        except BadCalls as error:
            self._state = replace(self._state, shown=(f"Nothing was called: {error}.",))
            return Transition(self.observe(), 0.0, False, valid=False)
        before = self.score()
        if wanted:
            self._answer(wanted)
        else:
            self._close_turn()
        return Transition(self.observe(), self.score() - before, bool(self._state.ended))

    def _answer(self, wanted: list[Call]) -> None:
        """A few calls at a time: folders put into one another grow like powers of two."""
        for begin in range(0, len(wanted), AT_ONCE):
            now, some = self._state, wanted[begin : begin + AT_ONCE]
            answers = apis.run(self._owners, some)
            lines = (f"{call.name} -> {_cut(a)}" for call, a in zip(some, answers, strict=True))
            shown = (*now.shown, *lines) if begin else tuple(lines)
            self._state = replace(now, called=True, answers=(*now.answers, *answers), shown=shown)
            if self._key() == TOO_DEEP:
                self._end("The conversation ends: nobody can compare folders that nest so deeply.")
                return

    def _close_turn(self) -> None:
        now = self._state
        wrong = truth.missed(self._turns[now.turn], self._objects, now.answers, now.called)
        if wrong:
            self._end(f"The request was not served: {wrong}.")
            return
        self._state = replace(now, turn=now.turn + 1, called=False, shown=())
        if self._state.turn == len(self._turns):
            self._end("All requests are served.")

    def _end(self, words: str) -> None:
        self._state = replace(self._state, ended=words, shown=())

    def score(self) -> float:
        """The share of checked turns that passed, in order, 0..1; 1 where all turns are through."""
        return truth.share(self._checked, self._state.turn)

    def facts(self) -> list[str]:
        """What the objects hold (unless that is too much) and how many turns passed, sorted."""
        try:
            held = state.facts(self._objects)
        except state.TooDeep:
            held = []
        return sorted([*held, f"turns passed: {self._state.turn}"])

    def snapshot(self) -> State:
        return replace(self._state, objects=apis.copied(self._objects))

    def restore(self, snapshot: State) -> None:
        self._objects = apis.copied(snapshot.objects)
        self._owners = apis.owners(self._objects)
        self._state = replace(snapshot, objects=self._objects)

    def walkthrough(self) -> list[str]:
        """BFCL's own calls, one action a turn, and `done` after each."""
        return [
            action for turn in self._entry.truth for action in (*(["; ".join(turn)] if turn else []), DONE)
        ]

    def close(self) -> None:
        """Nothing to release."""


def _cut(answer: str) -> str:
    return answer if len(answer) <= MOST_SHOWN else answer[: MOST_SHOWN - 1] + "…"
