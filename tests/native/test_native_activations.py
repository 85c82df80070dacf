"""Each compiled activation against its float64 definition over a dense sample of all floats; the limits are promises."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npinfer.executors.native import activations, operations
from npinfer.executors.native.executor import NativeExecutor
from npinfer.executors.native.opcodes import KINDS
from npinfer.ops.activations import ACTIVATIONS
from npinfer.ops.arithmetic import UNARY

_spec = importlib.util.spec_from_file_location("sweep", Path(__file__).resolve().parents[2] / "tools" / "sweep_activations.py")
assert _spec is not None
assert _spec.loader is not None
sweep: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sweep)

LIMITS = {"exponential": 2.0, "tanh": 2.0, "sigmoid": 2.0, "sin": 2.0, "cos": 2.0, "rsqrt": 1.0}
LIMITS.update(dict.fromkeys(("sqrt", "floor", "ceil", "trunc", "round", "sign"), 0.0))
CASES = [(kind, parameters) for kind in KINDS for parameters in sweep.PARAMETERS.get(kind, ((),))]
#: every 4099th float, and closely where functions bend or end
STEP = 4099
NEAR = np.concatenate([np.linspace(-110, 100, 400_003), np.linspace(-4, 4, 400_009), np.linspace(-0.1, 0.1, 100_003)]).astype(
    "f"
)
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, -1.1754944e-38, 3.4028235e38, -3.4028235e38], "f"
)


def test_every_kind_has_a_compiled_form() -> None:
    assert set(activations.FUNCTIONS) == set(ACTIVATIONS)
    assert set(operations.OPERATIONS) < set(UNARY)
    assert sorted(KINDS) == sorted([*ACTIVATIONS, *operations.OPERATIONS])
    assert KINDS[0] == "linear", "a table row's 0 means none"


@pytest.mark.parametrize(("kind", "parameters"), CASES, ids=str)
def test_within_ulps(kind: str, parameters: tuple[float, ...]) -> None:
    most, where = sweep.worst(kind, parameters, [*sweep.blocks(STEP), NEAR])
    assert most <= LIMITS.get(kind, 4.0), f"{most} ulp at {where!r}"


@pytest.mark.parametrize(("kind", "parameters"), CASES, ids=str)
def test_special_values_as_defined(kind: str, parameters: tuple[float, ...]) -> None:
    got = NativeExecutor(sweep.activation_graph(kind, parameters, len(SPECIAL))).run([SPECIAL[None]])[0][0]
    with np.errstate(all="ignore"):
        expected = sweep.EXACT[kind](SPECIAL.astype(np.float64), *parameters).astype("f")
    np.testing.assert_array_equal(got[:5], expected[:5])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))


@pytest.mark.parametrize(
    "kind", ["tanh", "softsign", "erf", "selu", "linear", "sin", "sqrt", "ceil", "floor", "trunc", "round"]
)
def test_negative_zero_stays(kind: str) -> None:
    got = NativeExecutor(sweep.activation_graph(kind, (), 1)).run([np.array([[-0.0]], "f")])[0]
    assert np.signbit(got).all()
