"""Asking: the one re-ask, and which failure becomes which outcome."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.ask import Answer, Asker, load_prompts, make_prompt_set
from roleagent_lite.errors import (
    BudgetStop,
    ConfigError,
    ContentFiltered,
    ContextTooLong,
    FatalModelError,
    ModelError,
    ReplyError,
    RoleAgentError,
    TransientModelError,
    UnsupportedRequest,
)
from roleagent_lite.lm.scripted import ScriptedModel
from roleagent_lite.types import Reply, Request

V1 = load_prompts("v1")
GOOD = '{"action": "take key", "predictions": ["You take the key."]}'
INPUTS = dict.fromkeys(V1.module("act").inputs, "") | {"task": "Get out.", "observation": "A hall."}
Said = str | Reply | RoleAgentError


class Script:
    """Plays replies in order, the last one for ever, and keeps the requests."""

    def __init__(self, *said: Said, can_score: bool = False) -> None:
        self.said, self.seen = said, list[Request]()
        self.model = ScriptedModel(self._next, can_score=can_score)

    def _next(self, request: Request) -> str | Reply:
        self.seen.append(request)
        said = self.said[min(len(self.seen), len(self.said)) - 1]
        if isinstance(said, RoleAgentError):
            raise said
        return said

    async def ask(self, module: str = "act", inputs: dict[str, str] | None = None, **options: Any) -> Answer:
        asker = Asker(dict.fromkeys(("agent", "world", "reflector", "judge"), self.model), V1, max_tokens=77)
        options = {"prompt_set": None, "sample": "e1", **options}
        return await asker.ask(module, inputs or INPUTS, **options)


async def failure(script: Script, **options: Any) -> ReplyError:
    with pytest.raises(ReplyError) as caught:
        await script.ask(**options)
    return caught.value


async def test_a_good_reply_is_one_request() -> None:
    script = Script(GOOD)
    answer = await script.ask(enums={"action": ("take key", "open door")}, counts={"predictions": 1})
    assert answer.values == {"action": "take key", "predictions": ["You take the key."], "thought": None}
    (request,) = script.seen
    assert request.schema is not None
    assert request.schema["properties"]["action"]["enum"] == ["take key", "open door"]
    assert (request.sample, request.max_tokens, request.temperature) == ("e1", 77, 0.0)


async def test_a_wrong_form_is_asked_for_once_more_with_what_was_wrong() -> None:
    script = Script('{"thought": "hm"}', GOOD)
    assert (await script.ask()).values["action"] == "take key"
    first, second = script.seen
    assert second.messages[: len(first.messages)] == first.messages
    said, wish = second.messages[-2:]
    assert (said.role, said.content) == ("assistant", '{"thought": "hm"}')
    assert "the field 'action' is missing" in wish.content and '"action"' in wish.content
    assert second.sample == first.sample


async def test_two_wrong_forms_are_bad_format_and_no_third_request() -> None:
    script = Script("no idea", "still none", GOOD)
    error = await failure(script)
    assert (error.kind, error.reason) == ("bad_format", "wrong form")
    assert "no JSON object" in str(error) and len(script.seen) == 2


async def test_rep_03_thinking_reaches_neither_values_nor_the_re_ask() -> None:
    script = Script("drop the key</think>hm", 'or not</think>\n{"action":"take key"}')
    answer = await script.ask()
    assert answer.values["action"] == "take key"
    assert answer.reasoning == "or not"
    assert "drop" not in script.seen[1].messages[-2].content


async def test_rep_05_an_empty_reply_is_never_an_action() -> None:
    script = Script(Reply("", finish="stop"))
    error = await failure(script)
    assert (error.kind, error.reason) == ("infrastructure_error", "empty reply")
    assert len(script.seen) == 1


async def test_thinking_without_an_answer_is_a_wrong_form() -> None:
    script = Script(Reply("", reasoning="long thoughts"), GOOD)
    assert (await script.ask()).values["action"] == "take key"
    assert "thinking only" in script.seen[1].messages[-1].content


@pytest.mark.parametrize("text", ['{"action": "take key", "predictions": ["You', "", "take key"])
async def test_rep_07_a_reply_cut_at_its_limit_says_so_and_is_not_sent_again(text: str) -> None:
    script = Script(Reply(text, finish="length"))
    error = await failure(script, enums={"action": ("take key",)})
    assert (error.kind, error.reason) == ("cut_off", "max_tokens")
    assert str(error) == "output cut at max tokens 77; raise limits.max_tokens"
    assert len(script.seen) == 1


async def test_rep_07_the_hint_names_the_prompt_file_where_it_sets_the_limit() -> None:
    script = Script(Reply("{", finish="length"))
    inputs = dict.fromkeys(V1.module("reflect").inputs, "x")
    error = await failure(script, module="reflect", inputs=inputs)
    assert "max tokens 2048" in str(error) and "reflect.toml" in str(error)


async def test_rep_07_a_whole_object_before_the_limit_is_used() -> None:
    answer = await Script(Reply(GOOD + " and then I", finish="length")).ask()
    assert answer.values["action"] == "take key"


async def test_rep_08_a_refusal_is_asked_again_once_and_then_refused() -> None:
    script = Script(Reply("I cannot help with that.", finish="refusal"))
    error = await failure(script)
    assert (error.kind, error.reason) == ("cut_off", "refused")
    assert len(script.seen) == 2
    script = Script(Reply("", finish="refusal"), GOOD)
    assert (await script.ask()).values["action"] == "take key"
    assert script.seen[1].messages[-2].content == "(no text)"


async def test_net_09_a_filtered_reply_is_one_request() -> None:
    for said in (Reply("", finish="content_filter"), ContentFiltered("the filter refused")):
        script = Script(said)
        error = await failure(script)
        assert (error.kind, error.reason) == ("cut_off", "filtered")
        assert len(script.seen) == 1


async def test_net_05_a_prompt_that_is_too_long_is_not_sent_again() -> None:
    script = Script(ContextTooLong("9000 tokens, 8192 fit"))
    error = await failure(script)
    assert (error.kind, error.reason) == ("cut_off", "context")
    assert "9000" in str(error) and len(script.seen) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TransientModelError("answered 503: overloaded"), "provider"),
        (TransientModelError("empty reply from m"), "empty reply"),
        (TransientModelError("http://x: stream cut, the connection ended"), "stream cut"),
        (UnsupportedRequest("refused the request (400)"), "provider"),
        (ModelError("something"), "provider"),
    ],
)
async def test_trouble_after_the_retry_policy_is_an_infrastructure_error(
    error: ModelError, reason: str
) -> None:
    script = Script(error)
    found = await failure(script)
    assert (found.kind, found.reason) == ("infrastructure_error", reason)
    assert len(script.seen) == 1


@pytest.mark.parametrize(
    "error", [FatalModelError("bad key"), BudgetStop("cap"), ConfigError("replay: no record")]
)
async def test_what_ends_a_run_passes_through(error: RoleAgentError) -> None:
    with pytest.raises(type(error)) as caught:
        await Script(error).ask()
    assert caught.value is error


async def test_tsk_07_the_model_gets_the_users_characters_exactly_once() -> None:
    goal = 'Return {"a": 1} and {task} {0} %s ${HOME}'
    script = Script(GOOD)
    await script.ask(inputs=INPUTS | {"task": goal})
    text = "\n".join(m.content for m in script.seen[0].messages)
    assert text.count(goal) == 1


async def test_evolved_texts_are_sent_and_empty_ones_leave_no_heading() -> None:
    script = Script(GOOD)
    await script.ask(prompt_set=make_prompt_set({"act.playbook": "Knock first."}))
    await script.ask(prompt_set=V1.seed_set())
    first, second = (r.messages[0].content for r in script.seen)
    assert "Lessons from earlier episodes:\nKnock first." in first
    assert "Lessons" not in second and "Examples" not in second


async def test_counts_leave_predictions_out_of_schema_words_and_values() -> None:
    script = Script('{"action": "take key", "predictions": ["x"]}')
    answer = await script.ask(counts={"predictions": 0})
    assert set(answer.values) == {"thought", "action"}
    assert script.seen[0].schema is not None
    assert "predictions" not in script.seen[0].schema["properties"]
    assert "predictions" not in script.seen[0].messages[0].content


async def test_settings_of_the_ask_win_over_the_files() -> None:
    script = Script('{"score": 1}')
    inputs = {"prediction": "a", "actual": "a"}
    await script.ask("judge", inputs, temperature=0.3, max_tokens=9, seed=4)
    await script.ask("judge", inputs, role="world")
    assert (script.seen[0].temperature, script.seen[0].max_tokens, script.seen[0].seed) == (0.3, 9, 4)
    assert [r.role for r in script.seen] == ["judge", "world"]


async def test_choices_are_scored_not_generated() -> None:
    reply = Reply("", scores=((-1.0, -2.0), (-0.5,)))
    script = Script(reply, can_score=True)
    answer = await script.ask(choices=("take key", "open door"))
    assert answer.scores == ((-1.0, -2.0), (-0.5,)) and answer.values == {}
    assert script.seen[0].choices == ("take key", "open door") and script.seen[0].schema is None
    with pytest.raises(ConfigError, match="cannot score choices; use the agent 'generate'"):
        await Script(reply).ask(choices=("a",))


async def test_wm_01_a_score_off_its_scale_is_asked_again_then_missing() -> None:
    inputs = {"prediction": "a", "actual": "b"}
    script = Script('{"score": 85}', '{"score": 0.85}')
    assert (await script.ask("judge", inputs)).values == {"score": 0.85}
    assert "no number from 0 to 1" in script.seen[1].messages[-1].content
    error = await failure(Script('{"score": 85}'), module="judge", inputs=inputs)
    assert error.kind == "bad_format"


async def test_wrong_inputs_are_named() -> None:
    with pytest.raises(ConfigError, match="has no input 'taks'; did you mean 'task'"):
        await Script(GOOD).ask(inputs=INPUTS | {"taks": "x"})
    with pytest.raises(ConfigError, match="needs the input 'task'"):
        await Script(GOOD).ask(inputs={k: v for k, v in INPUTS.items() if k != "task"})
    with pytest.raises(ConfigError, match="no module 'akt'"):
        await Script(GOOD).ask("akt")


def test_importing_ask_leaves_dspy_out() -> None:
    rooms = "roleagent_lite.ask, roleagent_lite.agents, roleagent_lite.rollout"
    code = f"import sys, {rooms}; print('dspy' in sys.modules)"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "False"
