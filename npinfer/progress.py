"""A progress bar (tqdm, where it is installed) on stderr, only on a terminal and only for work that takes a while."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def progress(items: Iterable[T], total: int | None, verbose: Any, unit: str) -> Iterator[T]:
    """The items, with a bar on stderr. verbose: "auto" means on a terminal, once the work has lasted half a second; 0 or False
    never; 1 or True always. Without tqdm there is no bar."""
    wanted = sys.stderr is not None and sys.stderr.isatty() if verbose == "auto" else bool(verbose)
    if wanted:
        try:
            from tqdm import tqdm
        except ImportError:
            wanted = False
    if not wanted:
        yield from items
        return
    delay = 0.5 if verbose == "auto" else 0
    yield from tqdm(items, total=total, unit=f" {unit}", delay=delay, leave=False, file=sys.stderr)
