"""Shared fixtures: offline, seeded, no key from the machine that runs the tests."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# What the command line remembers of the runs that it began belongs to nobody's home here.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="roleagent-lite-state-")
if not any("embedded" in argument for argument in sys.argv):
    os.environ.setdefault("ROLEAGENT_LITE_NO_DOWNLOAD", "1")

import pytest
from hypothesis import settings

from roleagent_lite import redact

atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
# A job in the background of a shell inherits "ignore SIGINT", and so would the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every machine, however slow it is.
settings.register_profile("seeded", derandomize=True, deadline=None, database=None)
settings.load_profile("seeded")


@pytest.fixture(autouse=True)
def no_foreign_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests never see the keys or proxies of the machine they run on."""
    for name in list(os.environ):
        if re.search(r"API_KEY|_TOKEN|(?i:_proxy)$", name):
            monkeypatch.delenv(name)
    yield


@pytest.fixture(autouse=True)
def no_keys_of_other_tests() -> Iterator[None]:
    """What one test calls a key is an ordinary word in the next."""
    before = set(redact._secrets)
    yield
    redact._secrets.clear()
    redact._secrets.update(before)
