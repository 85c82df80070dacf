"""Measuring: `npinfer bench` and `npinfer profile`. Everything measures into plain dicts, which report.py and plots.py show."""
