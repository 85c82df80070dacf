"""The numbers of tests/seeded: drawn anew by tools/make_seeded_cases.py and by the tests, so that no file has to hold them."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np


def draw(name: str, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """Numbers for the array called `name`. RandomState, whose streams NumPy keeps as they are."""
    rng = np.random.RandomState(zlib.crc32(name.encode()))
    x = rng.normal(size=shape)
    return x > -0.3 if dtype == "bool" else x.astype(dtype)
