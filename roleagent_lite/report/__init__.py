"""Reports: what a run directory says, in words, numbers and plots. Reads run directories only."""

from roleagent_lite.report.write import Report, build, render, write_report

__all__ = ["Report", "build", "render", "write_report"]
