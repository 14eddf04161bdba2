"""How many steps ahead the agent foretells. Owns that one number."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal


def horizon(max_steps: int, share: float = 0.05) -> int:
    """H: `share` of the step limit, rounded half up, at least 1 (paper Table 4; the rounding is ours).

    Step limits 50, 15 and 4 give 3, 1 and 1. Decimal, because 0.29 * 50 is 14.499999999999998 in binary.
    """
    exact = Decimal(str(share)) * max_steps
    return max(1, int(exact.to_integral_value(rounding=ROUND_HALF_UP)))
