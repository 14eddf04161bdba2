"""search as an Environment: protocol, other corpora, foreign question files, what is wrong with a task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from roleagent_lite.envs import registry
from roleagent_lite.envs.checker import check
from roleagent_lite.envs.own import write_tasks
from roleagent_lite.envs.search.env import Search, made_rows, row
from roleagent_lite.errors import ConfigError
from roleagent_lite.tasksets import load_tasks
from roleagent_lite.types import Task
from tests.envs.search.recorded import recorded

TASKS = load_tasks("search")


def made(task: Task) -> Search:
    return cast(Search, registry.make(task))


def changed(**params: Any) -> Task:
    return Task("t", "search", "Who?", 0, {"answers": ["Ada"], **params})


def test_the_shipped_set_is_what_is_made_and_plans_answer_it() -> None:
    assert [(t.goal, t.params, t.split) for t in TASKS] == [
        (r["goal"], r["params"], r["split"]) for r in made_rows()
    ]
    for task in TASKS[::27]:
        env = made(task)
        steps = [env.step(action) for action in env.walkthrough()]
        assert len(steps) <= registry.spec("search").max_steps(task)
        assert (env.score(), steps[-1].done, steps[-1].reward) == (1.0, True, 1.0)
        texts = "".join(step.observation.text for step in steps[:-1])
        assert task.params["answers"][0] in texts  # what it searches for is where the answer stands


def test_the_checker_finds_nothing() -> None:
    spec = registry.spec("search")
    made(TASKS[0]).step("<search>town</search>")  # the first search of all builds the index
    assert check(spec.make, TASKS[0], other=TASKS[50]) == []
    assert (spec.max_steps(changed()), spec.history) == (4, 4)


@pytest.mark.parametrize("name", ["search_r1", "verl_agent"])
def test_an_episode(name: str) -> None:
    env = made(changed(dialect=name))
    assert env.observe().text == "Question: Who?"
    refused = env.step("Ada")
    assert (refused.valid, refused.done) == (False, False)
    assert "<search>" in refused.observation.text
    assert "<information>" in env.step("<search>a town</search>").observation.text
    last = env.step("<think>x</think><answer> the ADA. </answer>")
    assert (last.reward, last.done, last.valid, env.score()) == (1.0, True, True, 1.0)
    assert env.step("<answer>Ada</answer>").valid is False


def test_metrics_and_wrong_answers() -> None:
    for metric, said, expected in (
        ("em", "Ada it is", 0.0),
        ("sub_em", "Ada it is", 1.0),
        ("em", "Bob", 0.0),
    ):
        env = made(changed(metric=metric))
        assert env.step(f"<answer>{said}</answer>").done
        assert env.score() == expected


def test_state_facts_and_snapshots() -> None:
    env = made(changed())
    start, first = env.snapshot(), env.observe()
    env.step("<search>river</search>")
    assert env.observe().state_key != first.state_key
    assert len(env.facts()) == 3 and env.facts()[0].startswith("seen: ")
    env.step("<answer>Ada</answer>")
    assert "answered: Ada" in env.facts()
    env.restore(start)
    assert (env.observe(), env.score(), env.facts()) == (first, 0.0, [])


def test_long_results_are_shortened(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text(json.dumps({"id": "1", "contents": '"River"\n' + "river " * 5000}) + "\n")
    env = registry.make(Task("t", f"search:{file}", "q", 0, {"answers": ["x"]}))
    text = env.step("<search>river</search>").observation.text
    assert len(text) < 6200 and "…" in text


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"answers": "Ada"}, "params.answers must be a list of texts, found 'Ada'"),
        ({"answers": []}, "must be a list of texts"),
        ({"metric": "f1"}, "params.metric is 'f1'; known: em, sub_em"),
        ({"dialect": "x"}, "params.dialect is 'x'; known: search_r1, verl_agent"),
        ({"retrieval": "bm25"}, "params.retrieval is 'bm25'; known: hybrid, text, vector"),
        ({"top_k": 0}, "params.top_k must be a whole number of at least 1"),
    ],
)
def test_what_is_wrong_with_a_task(params: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(changed(**params))
    assert said in str(caught.value)
    with pytest.raises(ConfigError, match="positive whole number"):
        registry.spec("search").max_steps(changed(max_steps="4"))
    with pytest.raises(ConfigError, match="does not say what leads to its answer"):
        made(changed()).walkthrough()


@pytest.mark.parametrize(
    "given",
    [
        {"question": "Who?", "golden_answers": ["Ada"], "id": 3},
        {"question": "Who?", "answer": "Ada"},
        {"question": "Who?", "reward_model": {"ground_truth": {"target": ["Ada"]}}, "data_source": "nq"},
    ],
)
def test_rows_of_the_usual_files(given: dict[str, Any]) -> None:
    found = row(given)
    assert (found["goal"], found["params"]["answers"]) == ("Who?", ["Ada"])
    assert found.get("id") == (None if "id" not in given else "3")
    assert found["params"]["type"] == given.get("data_source", "question")


def test_rows_that_are_none() -> None:
    assert row({"goal": "g", "params": {}}) == {"goal": "g", "params": {}}
    with pytest.raises(ConfigError, match="a question needs question and golden_answers; it has q"):
        row({"q": 1})


def test_a_file_of_questions_over_a_file_of_passages(tmp_path: Path) -> None:
    corpus, questions = tmp_path / "corpus.jsonl", tmp_path / "questions.jsonl"
    corpus.write_text("".join(json.dumps(p) + "\n" for p in recorded()["passages"]), encoding="utf-8")
    questions.write_text("".join(json.dumps(q) + "\n" for q in recorded()["questions"]), encoding="utf-8")
    tasks = load_tasks(write_tasks(f"search:{corpus}", tmp_path / "own.jsonl", str(questions)))
    assert len(tasks) == 40 and {t.split for t in tasks} == {"train", "dev", "test"}
    env = registry.make(tasks[0])
    assert "<information>Doc 1(Title:" in env.step("<search>Velihaven</search>").observation.text
    assert env.step(f"<answer>{tasks[0].params['answers'][0]}</answer>").reward == 1.0


@pytest.mark.parametrize(
    "prompt",
    [
        [{"role": "user", "content": "Question: how to ask. Question: Who?\n"}],
        [{"role": "system", "content": "Question: none"}, {"role": "user", "content": "Question:Who?"}],
    ],
)
def test_a_row_with_the_question_in_its_prompt_alone(prompt: Any) -> None:
    truth = {"style": "rule", "ground_truth": {"target": ["Ada"]}}
    found = row({"data_source": "nq", "prompt": prompt, "ability": "fact", "reward_model": truth})
    assert (found["goal"], found["params"]) == ("Who?", {"type": "nq", "answers": ["Ada"]})


@pytest.mark.parametrize(
    "prompt", ["Question: Who?", [], [{"content": "Who?"}], [{"content": "Question: "}], [3]]
)
def test_a_prompt_that_holds_no_question(prompt: Any) -> None:
    with pytest.raises(ConfigError, match="a question needs question"):
        row({"prompt": prompt, "golden_answers": ["Ada"]})


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"searches": "river"}, "params.searches must be a list of texts, found 'river'"),
        ({"embedder": 5}, "params.embedder must be a text, found 5"),
    ],
)
def test_what_is_wrong_with_a_way_to_search(params: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        registry.check(Task("t", "search", "g", 0, {"answers": ["a"], **params}))


def test_a_name_without_a_corpus_and_a_file_that_is_none_are_told_before_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="environment search: names no corpus"):
        registry.ready([Task("t", "search:", "g")])
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps({"question": "Who?", "golden_answers": ["Ada"]}) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="line 1: a passage needs id and contents"):
        registry.ready([Task("t", f"search:{path}", "g")])
