"""Shared by all tests: the golden cases, and graphs made at random."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest

GOLDEN = Path(__file__).resolve().parent / "golden"
ENGINES = ("reference", "numpy", "native")


#: where all generators of random numbers that tests share begin again
START = np.random.default_rng(7).bit_generator.state


def draw_anew(*modules: Any) -> None:
    for module in (*modules, sys.modules.get("native_chains"), sys.modules.get("native_cells")):
        for name in ("rng", "RNG"):
            if isinstance(generator := getattr(module, name, None), np.random.Generator):
                generator.bit_generator.state = START


@pytest.fixture(autouse=True)
def same_draws(request: pytest.FixtureRequest) -> None:
    """Tests draw the same numbers in whatever order and on whatever worker they run …"""
    draw_anew(request.module)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """… and so do their modules while they are imported."""
    if isinstance(collector, pytest.Module):
        draw_anew()


class Case(NamedTuple):
    """One golden case: a manifest row and where its files are."""

    row: dict[str, str]

    @property
    def base(self) -> str:
        return f"t{self.row['tier'].split(':')[-1]}-{self.row['model']}"

    @property
    def folder(self) -> Path:
        return GOLDEN / self.row["env"]

    def __str__(self) -> str:
        return f"{self.row['env']}-{self.base}"

    def files(self) -> list[Path]:
        """The files to load; not architectures alone, not single shards."""
        names = [f for f in self.row["files"].split() if "_0000" not in f]
        return [self.folder / f for f in names if f.endswith(".weights.json") or not f.endswith(".json")]

    def architecture(self) -> Path:
        """The JSON for files of weights alone; the sharded case is the plain one in several files."""
        return self.folder / f"{self.base.replace('sharded', 'plain')}.json"

    def io(self) -> tuple[dict[str, Any], Any]:
        """(meta, arrays) of the case's .npz."""
        data = np.load(self.folder / f"{self.base}.npz", allow_pickle=False)
        return json.loads(str(data["meta"])), data


def cases() -> list[Case]:
    with open(GOLDEN / "manifest.csv", newline="", encoding="utf-8") as f:
        return [Case(row) for row in csv.DictReader(f)]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine in turn; the native one must be there wherever the tests run, so its absence fails."""
    return str(request.param)
