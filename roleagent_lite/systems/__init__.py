"""Systems: the ways to attempt a task that an evaluation compares. One system a file, names in make."""

from roleagent_lite.systems.make import SYSTEMS, make_system
from roleagent_lite.systems.setting import Setting

__all__ = ["SYSTEMS", "Setting", "make_system"]
