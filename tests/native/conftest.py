"""Every test draws the same numbers, in whatever order and on whatever worker the tests run."""

from __future__ import annotations

import pytest
from native_chains import rng

START = rng.bit_generator.state


@pytest.fixture(autouse=True)
def same_draws() -> None:
    rng.bit_generator.state = START
