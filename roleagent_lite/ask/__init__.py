"""From a prompt file to typed answers: prompts, the request, the reading of the reply, the one re-ask.

The door to DSPy: signatures are made from prompt files and an adapter of ours carries one request an ask.
"""

from roleagent_lite.ask.prompts import Output, PromptFile, Prompts, load_prompts, make_prompt_set

__all__ = ["Output", "PromptFile", "Prompts", "load_prompts", "make_prompt_set"]
