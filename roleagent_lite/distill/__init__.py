"""Distill: from the tables of a run to samples, losses and an adapter of a small local model (floor 3)."""
