"""The one compiled entry point. See record.py for its arguments, results and rules: that is the interface."""

from __future__ import annotations
