"""`python -m benchmarks compare A B`: what became slower, between two result files or two commits.

Two files come from different moments, so the ratio of npinfer to the best peer of its own run is compared where both have one.
Two commits are checked out side by side and measured in turns, so times themselves are compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from benchmarks.networks import NETWORKS, write_h5
from benchmarks.tables import best
from npinfer.bench.report import duration

ROOT = Path(__file__).resolve().parent.parent


class Change(NamedTuple):
    """A measurement in both; factor: how many times as slow B is."""

    what: str
    before: float
    after: float
    factor: float


def compare(o: Namespace) -> int:
    """Print all changes; 1 if one of them is a regression beyond o.allow."""
    if Path(o.before).is_file() and Path(o.after).is_file():
        changes = list(of_files(*(json.loads(Path(p).read_text("utf-8")) for p in (o.before, o.after)), o.cases))
    else:
        changes = list(of_commits(o))
    if not changes:
        print("nothing that both have", file=sys.stderr)
        return 1
    print(text(changes, o.allow))
    return int(any(c.factor > o.allow for c in changes))


def text(changes: list[Change], allow: float) -> str:
    """A line a measurement, the worst first."""
    width = max(len(c.what) for c in changes)
    lines = []
    for c in sorted(changes, key=lambda c: -c.factor):
        mark = "  SLOWER" if c.factor > allow else "  faster" if c.factor < 1 / allow else ""
        lines.append(f"{c.what:{width}}  {duration(c.before):>8}  {duration(c.after):>8}  {c.factor:5.2f}×{mark}")
    slower = sum(c.factor > allow for c in changes)
    return "\n".join([*lines, f"{slower} of {len(changes)} slower by more than {allow:.2f}×"])


def of_files(a: Mapping[str, Any], b: Mapping[str, Any], cases: list[str]) -> Iterator[Change]:
    """Every measurement of npinfer that both files have."""
    for name in (n for n in a["cases"] if n in b["cases"] and (not cases or any(c in n for c in cases))):
        old, new = dict(_times(a["cases"][name])), dict(_times(b["cases"][name]))
        for (runner, what), (before, base) in old.items():
            if (runner, what) in new:
                after, new_base = new[runner, what]
                factor = (after / new_base) / (before / base) if base and new_base else after / before
                yield Change(f"{name}, {runner}, {what}", before, after, factor)


def _times(case: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], tuple[float, float | None]]]:
    """((runner, what), (time, best peer's time)) of npinfer's engines."""
    peers = [_numbers(r) for r in case["rows"] if not r["own"]]
    for row in (r for r in case["rows"] if r["own"]):
        for what, time in _numbers(row).items():
            yield (row["name"], what), (time, min((p[what] for p in peers if what in p), default=None))


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {"one sample": best(row), **{f"batch {b['n']}": b["min"] for b in row["batches"]}}


def of_commits(o: Namespace) -> Iterator[Change]:
    """The quick networks in both commits, in turns."""
    chosen = [n for n in NETWORKS.values() if (any(c in n.name for c in o.cases) if o.cases else n.quick)]
    with TemporaryDirectory() as folder:
        models = []
        for network in chosen:
            write_h5(network, Path(folder) / f"{network.name}.h5")
            models.append(f"{Path(folder) / network.name}.h5:{int(network.stream)}")
        turns: list[dict[str, list[float]]] = [{}, {}]
        with checked_out(o.before, folder) as a, checked_out(o.after, folder) as b:
            for k in range(2 * o.rounds):
                if k == o.rounds and all(c.factor <= o.allow for c in changes(turns)):
                    break  # what seems to be a regression is measured twice as often
                for j in (0, 1) if k % 2 else (1, 0):
                    for what, ns in measured((a, b)[j], models, o.engines).items():
                        turns[j].setdefault(what, []).append(ns)
    yield from changes(turns)


def changes(turns: Sequence[Mapping[str, Sequence[float]]]) -> Iterator[Change]:
    """Whatever both sides have."""
    yield from (change(what, turns[0][what], turns[1][what]) for what in turns[0] if what in turns[1])


def change(what: str, before: Sequence[float], after: Sequence[float]) -> Change:
    """Of two measurements in turns. A busy machine spoils the least times of one side or some of the turns, seldom both alike:
    so the factor is that of the least times or the median of the turns' own, whichever is nearer to 1."""
    least = min(after) / min(before)
    each = float(np.median([b / a for a, b in zip(before, after)]))
    factor = min(least, each) if min(least, each) > 1 else max(least, each) if max(least, each) < 1 else 1.0
    return Change(what, min(before), min(after), factor)


@contextmanager
def checked_out(commit: str, folder: str) -> Iterator[Path]:
    """A temporary work tree of a commit; "." is this one as it is."""
    if commit == ".":
        yield ROOT
        return
    path = Path(folder) / f"tree-{abs(hash((commit, len(os.listdir(folder)))))}"
    subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "--detach", "-q", str(path), commit], check=True)
    try:
        yield path
    finally:
        subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(path)], check=True)


def measured(tree: Path, models: list[str], engines: list[str]) -> dict[str, float]:
    """Nanoseconds by what was measured, in a new process that imports npinfer from `tree`."""
    env = {**os.environ, "PYTHONPATH": str(tree)}
    child = Path(__file__).with_name("child.py")
    done = subprocess.run(
        [sys.executable, str(child), ",".join(engines), *models], env=env, capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
