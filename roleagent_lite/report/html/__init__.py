"""The report as one HTML file: no network, every table and plot of report.md, every episode step by step."""
