"""What the tests of feeding share: models, samples, results read back, and sources that break."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import GOLDEN

import npinfer

ROWS = 103


def load(name: str) -> npinfer.Model:
    return npinfer.load(GOLDEN / name, engine="numpy")


@pytest.fixture(scope="module")
def model() -> npinfer.Model:
    return load("k35/t1-dense-inputlayer.h5")


@pytest.fixture(scope="module")
def pair() -> npinfer.Model:
    return load("k3np/t2-multi-io.h5")


@pytest.fixture(scope="module")
def x(model: npinfer.Model) -> Any:
    return np.random.default_rng(3).normal(size=(ROWS, *model.inputs[0].shape)).astype(np.float32)


def read(path: Path, names: list[str]) -> list[Any]:
    """The results in a file, one array an output."""
    if path.suffix == ".npy":
        return [np.load(path)]
    if path.suffix == ".npz":
        with np.load(path) as file:
            assert file.files == names
            return [file[n] for n in names]
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        assert table.column_names == names
        return [np.array(table[n].to_pylist(), np.float32).reshape(len(table), -1) for n in names]
    whole = np.loadtxt(path, np.float32, delimiter=",", skiprows=1, ndmin=2)
    head = path.read_text("utf-8").splitlines()[0].split(",")
    return [whole[:, [k for k, h in enumerate(head) if h == n or h.startswith(f"{n}_")]] for n in names]


class Break(Exception):
    pass


def breaking(x: Any, after: int, rows: int = 10) -> Iterator[Any]:
    for k in range(0, len(x), rows):
        if k >= after:
            raise Break
        yield x[k : k + rows]
