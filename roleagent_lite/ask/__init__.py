"""From a prompt file to typed answers: prompts, the request, the reading of the reply, the one re-ask.

The door to DSPy: signatures are made from prompt files and an adapter of ours carries one request an ask.
DSPy itself is imported by the first ask.
"""

from roleagent_lite.ask.asker import Answer, Asker
from roleagent_lite.ask.match import free_form, near_miss
from roleagent_lite.ask.parse import parse_score
from roleagent_lite.ask.prompts import Output, PromptFile, Prompts, load_prompts, make_prompt_set

__all__ = [
    "Answer",
    "Asker",
    "Output",
    "PromptFile",
    "Prompts",
    "free_form",
    "load_prompts",
    "make_prompt_set",
    "near_miss",
    "parse_score",
]
