"""The doctor: small checks of this machine, these packages, these places and a model; each gives lines.

Owns what is looked at and what to do about it. Leaves out mending anything: nothing here changes a run.
"""

from roleagent_lite.doctor.examine import examine
from roleagent_lite.doctor.line import Line

__all__ = ["Line", "examine"]
