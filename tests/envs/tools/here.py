"""Whether BFCL's data is here, and the behaviour of its own code as it was recorded once."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from roleagent_lite.envs.tools import data

needs_bfcl = pytest.mark.skipif(not data.is_pulled(), reason=data.ADVICE)


@lru_cache(maxsize=1)
def recorded() -> Any:
    """Calls, answers and states of ten entries, as bfcl-eval 2026.3.23 gave them; its `note` says how."""
    file = Path(__file__).parent / "data" / "bfcl_multi_turn.json.gz"
    return json.loads(gzip.decompress(file.read_bytes()))
