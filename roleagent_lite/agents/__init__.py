"""Agents: what looks at a View and gives a Decision. One agent a file, names in make."""

from roleagent_lite.agents.make import AGENTS, make_agent, settled

__all__ = ["AGENTS", "make_agent", "settled"]
