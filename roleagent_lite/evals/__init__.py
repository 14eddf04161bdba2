"""Evaluations: suites of tasks that several systems play, and comparisons of what came of them."""

from roleagent_lite.evals.play import Evaluation, evaluate, evaluate_async
from roleagent_lite.evals.suite import Suite, TaskSource, load_suite

__all__ = ["Evaluation", "Suite", "TaskSource", "evaluate", "evaluate_async", "load_suite"]
