"""World-In-Agent: what the agent's foresight is worth (paper section 3.2). The room's front door.

`horizon` and `fidelity` are functions of the modules of their names, imported from there.
"""

from roleagent_lite.wia.credit import credit_all, credit_group

__all__ = ["credit_all", "credit_group"]
