"""A progress bar on stderr, only on a terminal and only for work that takes a while. tqdm draws it where it is installed."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

DELAY = 0.5  # seconds before a bar appears
EVERY = 0.1  # seconds between redraws
WIDTH = 30


class Progress:
    """A context in which `advance(n)` moves a bar.

    total: None where it isn't known. verbose: "auto" shows the bar on a terminal once the work has lasted half a second; 0 or
    False never; 1 or True always. The bar is gone afterwards.
    """

    def __init__(self, total: int | None, verbose: Any = "auto", unit: str = "", what: str = "") -> None:
        wanted = _terminal() if verbose == "auto" else bool(verbose) and sys.stderr is not None
        self.total, self.unit, self.what, self.done = total, unit, what, 0
        self.start = time.monotonic()
        self.next = self.start + (DELAY if verbose == "auto" else 0)
        self.bar: Any = None
        self.wanted, self.drawn = wanted, 0
        if wanted:
            try:
                from tqdm import tqdm
            except ImportError:
                return
            delay = DELAY if verbose == "auto" else 0
            self.bar = tqdm(total=total, unit=f" {unit}", desc=what or None, delay=delay, leave=False, file=sys.stderr)

    def advance(self, count: int = 1) -> None:
        self.done += count
        if not self.wanted:
            return
        if self.bar is not None:
            self.bar.update(count)
            return
        now = time.monotonic()
        if now >= self.next:
            self.next = now + EVERY
            self._draw(now - self.start)

    def say(self, what: str) -> None:
        """Name the present stage of the work."""
        self.what = what
        if self.bar is not None:
            self.bar.set_description(what)

    def _draw(self, seconds: float) -> None:
        rate = self.done / max(seconds, 1e-9)
        text = f"{self.done:,} {self.unit} ({rate:,.0f}/s)"
        if self.total:
            share = min(1.0, self.done / self.total)
            left = seconds / share - seconds if share else 0.0
            text = f"{share:4.0%} [{'#' * round(WIDTH * share):{WIDTH}}] {text}, {left:.0f} s left"
        text = f"{self.what}: {text}" if self.what else text
        sys.stderr.write("\r" + text.ljust(self.drawn))
        sys.stderr.flush()
        self.drawn = len(text)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.close()
        elif self.drawn:
            sys.stderr.write("\r" + " " * self.drawn + "\r")
            sys.stderr.flush()


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
