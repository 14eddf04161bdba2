"""Evaluations: suites of tasks that several systems play, and comparisons of what came of them."""

from roleagent_lite.evals.compare import Comparison, compare
from roleagent_lite.evals.play import Evaluation, evaluate, evaluate_async
from roleagent_lite.evals.suite import Suite, TaskSource, load_suite

__all__ = [
    "Comparison",
    "Evaluation",
    "Suite",
    "TaskSource",
    "compare",
    "evaluate",
    "evaluate_async",
    "load_suite",
]
