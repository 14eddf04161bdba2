"""Intervals, paired tests, pass@k, correlation, and the size of effect that n tasks can see.

Nothing returns nan: no data is None. Differences are second minus first. SciPy and statsmodels do the
arithmetic and are imported on use.
"""

from roleagent_lite.stats.correlation import Correlation, point_biserial
from roleagent_lite.stats.intervals import LEVEL, Rate, clustered_error, success_rate, wilson
from roleagent_lite.stats.paired import (
    NOISE,
    TIE,
    Alternative,
    Paired,
    holm,
    mcnemar,
    mcnemar_one_sided,
    p_words,
    paired_difference,
    points,
    sign_test,
    task_means,
    verdict,
)
from roleagent_lite.stats.power import Detectable, detectable_effect
from roleagent_lite.stats.samples import PassK, pass_at_k, pass_hat_k, passes
from roleagent_lite.stats.summary import Summary, repetition_means, spread, summarise

__all__ = [
    "LEVEL",
    "NOISE",
    "TIE",
    "Alternative",
    "Correlation",
    "Detectable",
    "Paired",
    "PassK",
    "Rate",
    "Summary",
    "clustered_error",
    "detectable_effect",
    "holm",
    "mcnemar",
    "mcnemar_one_sided",
    "p_words",
    "paired_difference",
    "pass_at_k",
    "pass_hat_k",
    "passes",
    "point_biserial",
    "points",
    "repetition_means",
    "sign_test",
    "spread",
    "success_rate",
    "summarise",
    "task_means",
    "verdict",
    "wilson",
]
