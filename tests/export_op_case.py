"""The form of a case of export, and its random weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npinfer.graph import Array, Op

SEED = np.random.default_rng(5)
F = "float"  # stands for the dtype of the run, float32 or float64


def w(*shape: int) -> Array:
    return SEED.standard_normal(shape).astype(np.float32)


class OpCase(NamedTuple):
    """An op on inputs of these per-sample shapes; a shape with a dtype in front is of that dtype. free: the axes (input, axis)
    that are tried with an unknown size too. low, high: where floats lie."""

    name: str
    op: Op
    shapes: tuple[Any, ...]
    free: tuple[tuple[int, int], ...] = ()
    low: float = -2.0
    high: float = 2.0
    rtol: float = 1e-5  # of float32
    rtol64: float = 1e-12
