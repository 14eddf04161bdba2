"""Our web shop against the original's text environment, on the same clicks: steps per CPU second.

Needs a checkout of princeton-nlp/WebShop and its small dependencies (flask, beautifulsoup4, thefuzz,
rank_bm25, rich, tqdm). Its heavy ones (torch, gym, pyserini, spaCy, cleantext) are replaced here by stand-
ins: neither side pays for a search engine or a tagger of nouns, both are given the same rankings and nouns.
What both say must be equal, step for step. The goal is at least 20 times the original's steps.

    python benchmarks/webshop_speed.py --original PATH [--sessions 40] [--steps 15] [--seed 3]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

from roleagent_lite.envs.webshop import made
from roleagent_lite.envs.webshop.env import catalogue
from roleagent_lite.envs.webshop.nouns import by_rule
from roleagent_lite.envs.webshop.pages import clickables
from roleagent_lite.envs.webshop.shop import Shop, Visit

REPEATS = 20  # ours plays each session so often: one alone is too short to time
SEED = 5


class Word:
    def __init__(self, text: str) -> None:
        self.text, self.pos_ = text, "NOUN"


def stand_ins(rank: Any) -> None:
    """Modules of the original's that this measurement leaves out."""
    for name in (
        "torch",
        "gym",
        "cleantext",
        "spacy",
        "pyserini",
        "pyserini.search",
        "pyserini.search.lucene",
    ):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["gym"].Env = object  # type: ignore[attr-defined]
    sys.modules["gym.envs"] = types.ModuleType("gym.envs")
    registration = types.ModuleType("gym.envs.registration")
    registration.register = lambda **_: None  # type: ignore[attr-defined]
    sys.modules["gym.envs.registration"] = registration
    sys.modules["spacy"].load = lambda _: lambda title: [Word(w) for w in by_rule(title)]  # type: ignore[attr-defined]

    class Hit:
        def __init__(self, asin: str) -> None:
            self.docid = asin

    class Searcher:
        def __init__(self, *_: Any) -> None: ...

        def search(self, keywords: str, k: int) -> list[Hit]:
            return [Hit(asin) for asin in rank(keywords.split(" "))]

        def doc(self, docid: str) -> Any:
            return types.SimpleNamespace(raw=lambda: json.dumps({"id": docid}))

    sys.modules["pyserini.search.lucene"].LuceneSearcher = Searcher  # type: ignore[attr-defined]


def original(path: Path, folder: Path, rank: Any) -> Any:
    """The original's text environment on our made-up files, read from `folder`."""
    stand_ins(rank)
    sys.path.insert(0, str(path))
    package = types.ModuleType("web_agent_site.envs")  # its own __init__ wants a browser
    package.__path__ = [str(path / "web_agent_site" / "envs")]
    import web_agent_site

    sys.modules["web_agent_site.envs"] = package
    web_agent_site.envs = package
    from web_agent_site.engine import engine
    from web_agent_site.envs.web_agent_text_env import WebAgentTextEnv

    for what, data in zip(("items", "attributes", "human"), made.make(), strict=True):
        (folder / what).write_text(json.dumps(data))
    engine.DEFAULT_ATTR_PATH, engine.HUMAN_ATTR_PATH = str(folder / "attributes"), str(folder / "human")
    random.seed(SEED)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return WebAgentTextEnv("text", file_path=str(folder / "items"), human_goals=True)


def draw(visit: Visit, steps: int, rng: random.Random) -> list[str]:
    """What a customer does who searches for the wish and then clicks about."""
    actions = [f"search[{visit.goal.name.lower()}]"]
    visit.act(actions[0])
    while len(actions) < steps:
        shown = [name for name in clickables(visit.stand.parts) if name not in ("search", "buy now")]
        name = "buy now" if visit.stand.asin and len(actions) == steps - 1 else rng.choice(shown or ["none"])
        actions.append(f"click[{name}]" if shown else f"search[{visit.goal.query}]")
        visit.act(actions[-1])
    return actions


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--original", type=Path, required=True, help="a checkout of WebShop")
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--seed", type=int, default=3)
    asked = parser.parse_args()
    goods = catalogue("webshop", SEED)
    rng = random.Random(asked.seed)
    shop = Shop(goods.products, goods.prices, goods.index.search, by_rule)
    with tempfile.TemporaryDirectory() as folder:
        theirs = original(asked.original, Path(folder), goods.index.search)
    steps, spent = 0, {"ours": 0.0, "theirs": 0.0}
    for session in range(asked.sessions):
        goal = goods.goals[session]
        actions = draw(Visit(shop, goal), asked.steps, rng)
        start = time.process_time()
        seen, _ = theirs.reset(session)
        their_texts = [(seen, theirs.get_available_actions()["clickables"])]
        for action in actions:
            text, *_ = theirs.step(action)
            their_texts.append((text, theirs.get_available_actions()["clickables"]))
        spent["theirs"] += time.process_time() - start
        start = time.process_time()
        for _ in range(REPEATS):
            visit = Visit(shop, goal)
            our_texts = [(visit.text(), list(clickables(visit.stand.parts)))]
            for action in actions:
                visit.act(action)
                our_texts.append((visit.text(), list(clickables(visit.stand.parts))))
        spent["ours"] += (time.process_time() - start) / REPEATS
        if our_texts != their_texts:
            at = next(n for n, (a, b) in enumerate(zip(our_texts, their_texts, strict=True)) if a != b)
            sys.exit(f"session {session} differs after {actions[:at]}:\n{our_texts[at]}\n{their_texts[at]}")
        steps += len(actions)
    rates = {who: steps / seconds for who, seconds in spent.items()}
    print(f"{steps} steps in {asked.sessions} sessions, equal on both sides")
    print(f"original {rates['theirs']:,.0f} steps per CPU second, ours {rates['ours']:,.0f}")
    print(f"ratio {rates['ours'] / rates['theirs']:.0f} (goal: 20)")


if __name__ == "__main__":
    main()
