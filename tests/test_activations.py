"""Activations: values against constants of 20 digits, signs of NaN and infinity as TensorFlow has them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from npinfer.errors import DtypeError, ShapeError
from npinfer.graph import Spec
from npinfer.ops import special
from npinfer.ops.activations import ACTIVATIONS, Activation
from npinfer.ops.softmax import Glu, LogSoftmax, Softmax, Sparsemax

#: x, erf(x), x·Φ(x), computed by tools/make_erf_table.py --values at 60 digits
EXACT = [
    (-36.0, -1.0, -1.5057446636870219994e-282),
    (-26.0, -1.0, -6.437764620308812143e-148),
    (-20.0, -1.0, -5.5072482372124673902e-88),
    (-12.0, -1.0, -2.1317785344932147972e-32),
    (-8.0, -1.0, -4.9767684594174272988e-15),
    (-6.0, -0.99999999999999997848, -5.9195258702261888442e-9),
    (-4.5, -0.99999999980338395585, -0.000015289529061285271808),
    (-3.0, -0.99997790950300141456, -0.00404969409489028358),
    (-2.0, -0.99532226501895273416, -0.045500263896358414401),
    (-1.5, -0.96610514647531072707, -0.10021080190328709901),
    (-1.01, -0.8468104962282767015, -0.15781012147146714314),
    (-1.0, -0.84270079294971486934, -0.15865525393145705141),
    (-0.99, -0.83850806955536979982, -0.15947618891572260281),
    (-0.5, -0.52049987781304653768, -0.15426876936299344818),
    (-0.25, -0.27632639016823693299, -0.10032341857926906894),
    (-0.01, -0.011283415555849617151, -0.0049601064368536840654),
    (-1e-09, -1.1283791670955126438e-9, -4.9999999960105775074e-10),
    (-0.0, 0.0, 0.0),
    (1e-09, 1.1283791670955126438e-9, 5.0000000039894231154e-10),
    (0.01, 0.011283415555849617151, 0.0050398935631463161428),
    (0.25, 0.27632639016823693299, 0.14967658142073093106),
    (0.5, 0.52049987781304653768, 0.34573123063700655182),
    (0.99, 0.83850806955536979982, 0.83052381108427738831),
    (1.0, 0.84270079294971486934, 0.84134474606854294859),
    (1.01, 0.8468104962282767015, 0.85218987852853286574),
    (1.5, 0.96610514647531072707, 1.399789198096712901),
    (2.0, 0.99532226501895273416, 1.9544997361036415856),
    (3.0, 0.99997790950300141456, 2.9959503059051097164),
    (4.5, 0.99999999980338395585, 4.4999847104709387147),
    (6.0, 0.99999999999999997848, 5.9999999940804741298),
    (8.0, 1.0, 7.9999999999999950232),
    (12.0, 1.0, 12.0),
    (20.0, 1.0, 20.0),
    (26.0, 1.0, 26.0),
    (36.0, 1.0, 36.0),
]


def test_erf_and_gelu_to_the_last_digits() -> None:
    x, erf, gelu = (np.array(column) for column in zip(*EXACT))
    np.testing.assert_allclose(special.erf(x), erf, rtol=1e-15, atol=0)
    np.testing.assert_allclose(special.erfc(x[erf < 1]), 1 - erf[erf < 1], rtol=3e-15, atol=1e-16)
    # relative to each value, far into the left tail, where 1 + erf(x) has no digit left
    np.testing.assert_allclose(special.times_normal_cdf(x), gelu, rtol=1e-12, atol=0)


def test_erf_against_the_c_library() -> None:
    x = np.random.default_rng(0).normal(scale=3, size=3000)
    np.testing.assert_allclose(special.erf(x), [math.erf(v) for v in x], rtol=1e-15)
    np.testing.assert_allclose(special.erfc(x), [math.erfc(v) for v in x], rtol=2e-15)
    x32 = x.astype(np.float32)
    exact = np.array([math.erf(float(v)) for v in x32])
    assert (np.abs(special.erf(x32) - exact) <= 0.51 * np.spacing(np.abs(exact).astype(np.float32))).all()


def slow(kind: str, x: float, *p: float) -> float:
    """The function in the C library's float64, branch by branch, for moderate x."""
    sigmoid = 1 / (1 + math.exp(-x))
    plus = math.log1p(math.exp(x))
    cdf = 0.5 * math.erfc(-x / math.sqrt(2))
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    table: dict[str, Any] = {
        "linear": lambda: x,
        "relu": lambda: x if x > 0 else 0.0,
        "relu_max": lambda: min(max(x, 0.0), p[0]),
        "leaky_relu": lambda: x if x > 0 else p[0] * x,
        "relu_general": lambda: (min(x, p[1]) if x > p[2] else 0.0) - p[0] * max(p[2] - x, 0.0),
        "thresholded_relu": lambda: x if x > p[0] else 0.0,
        "elu": lambda: x if x > 0 else p[0] * math.expm1(x),
        "selu": lambda: scale * (x if x > 0 else alpha * math.expm1(x)),
        "celu": lambda: x if x > 0 else p[0] * math.expm1(x / p[0]),
        "gelu": lambda: x * cdf,
        "gelu_tanh": lambda: x / (1 + math.exp(-2 * inner)),
        "sigmoid": lambda: sigmoid,
        "hard_sigmoid": lambda: min(max(x + 3, 0.0), 6.0) / 6,
        "hard_sigmoid_k2": lambda: min(max(0.2 * x + 0.5, 0.0), 1.0),
        "tanh": lambda: math.tanh(x),
        "silu": lambda: x * sigmoid,
        "hard_silu": lambda: x * min(max(x + 3, 0.0), 6.0) / 6,
        "softplus": lambda: plus,
        "softsign": lambda: x / (1 + abs(x)),
        "exponential": lambda: math.exp(x),
        "mish": lambda: x * math.tanh(plus),
        "log_sigmoid": lambda: -math.log1p(math.exp(-x)),
        "hard_shrink": lambda: x if abs(x) > p[0] else 0.0,
        "soft_shrink": lambda: math.copysign(abs(x) - p[0], x) if abs(x) > p[0] else 0.0,
        "tanh_shrink": lambda: x - math.tanh(x),
        "squareplus": lambda: (x + math.sqrt(x * x + p[0])) / 2,
        "hard_tanh": lambda: min(max(x, -1.0), 1.0),
        "sparse_plus": lambda: 0.0 if x <= -1 else x if x >= 1 else (x + 1) ** 2 / 4,
        "sparse_sigmoid": lambda: min(max((x + 1) / 2, 0.0), 1.0),
        "threshold": lambda: x if x > p[0] else p[1],
        "erf": lambda: math.erf(x),
    }
    return float(table[kind]())


PARAMETERS = {
    "relu_max": (6.0,),
    "leaky_relu": (0.25,),
    "relu_general": (0.25, 2.0, 0.5),
    "thresholded_relu": (0.75,),
    "elu": (0.5,),
    "celu": (0.5,),
    "hard_shrink": (0.5,),
    "soft_shrink": (0.5,),
    "squareplus": (4.0,),
    "threshold": (0.5, -2.0),
}
POINTS = np.concatenate([np.linspace(-12, 12, 385), [-0.0, 1e-8, -1e-8, 0.5, 1.0, -1.0, 1e-30]])


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_values(kind: str) -> None:
    """float64 within 1e-14 of the C library, float32 within four units in the last place of the float64 value (where nothing
    cancels), both relative to each value."""
    parameters = PARAMETERS.get(kind, ())
    op = Activation(kind, parameters)
    wide = op(POINTS)
    np.testing.assert_allclose(wide, [slow(kind, float(x), *parameters) for x in POINTS], rtol=1e-14, atol=1e-16)
    x32 = POINTS.astype(np.float32)
    single = op(x32)
    assert single.dtype == np.float32
    atol = 1e-6 if kind in ("tanh_shrink", "squareplus", "soft_shrink", "hard_sigmoid_k2") else 1e-37
    np.testing.assert_allclose(single, op(x32.astype(np.float64)), rtol=5e-7, atol=atol)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 1e20, -1e20, 200.0, -200.0])
nan, inf = np.nan, np.inf
#: TensorFlow 2.21 on x86, by kind; where float32 and float64 differ (1e20 squared overflows), no entry
AS_TENSORFLOW: dict[str, list[float]] = {
    "relu": [nan, inf, 0, 1e20, 0, 200, 0],
    "relu_max": [nan, 6, 0, 6, 0, 6, 0],
    "leaky_relu": [nan, inf, -inf, 1e20, -2.5e19, 200, -50],
    "elu": [nan, inf, -0.5, 1e20, -0.5, 200, -0.5],
    "selu": [nan, inf, -1.7580993408473766, 1.0507009873554805e20, -1.7580993408473766, 210.1401974710961, -1.7580993408473766],
    "celu": [nan, inf, -0.5, 1e20, -0.5, 200, -0.5],
    "gelu": [nan, inf, nan, 1e20, -0.0, 200, -0.0],
    "gelu_tanh": [nan, inf, nan, 1e20, -0.0, 200, -0.0],
    "hard_sigmoid": [nan, 1, 0, 1, 0, 1, 0],
    "hard_sigmoid_k2": [nan, 1, 0, 1, 0, 1, 0],
    "tanh": [nan, 1, -1, 1, -1, 1, -1],
    "hard_silu": [nan, inf, nan, 1e20, -0.0, 200, -0.0],
    "softsign": [nan, nan, nan, 1, -1, 200 / 201, -200 / 201],
    "log_sigmoid": [nan, -0.0, -inf, -0.0, -1e20, 0, -200],
    "hard_shrink": [0, inf, -inf, 1e20, -1e20, 200, -200],
    "soft_shrink": [0, inf, -inf, 1e20, -1e20, 199.5, -199.5],
    "tanh_shrink": [nan, inf, -inf, 1e20, -1e20, 199, -199],
    "hard_tanh": [nan, 1, -1, 1, -1, 1, -1],
    "sparse_plus": [nan, inf, 0, 1e20, 0, 200, 0],
    "sparse_sigmoid": [nan, 1, 0, 1, 0, 1, 0],
    "threshold": [-2, inf, -2, 1e20, -2, 200, -2],
    "sigmoid": [nan, 1, 0, 1, 0, 1, 0],
    "silu": [nan, inf, nan, 1e20, -0.0, 200, -0.0],
    "mish": [nan, inf, nan, 1e20, -0.0, 200, -0.0],
    "softplus": [nan, inf, 0, 1e20, 0, 200, 0],
    "erf": [nan, 1, -1, 1, -1, 1, -1],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", AS_TENSORFLOW)
def test_nan_and_infinity(kind: str, dtype: str) -> None:
    # 1e-80: what float64 keeps of sigmoid(-200), which float32 hasn't
    with np.errstate(invalid="ignore"):
        y = Activation(kind, PARAMETERS.get(kind, ()))(SPECIAL.astype(dtype))
    np.testing.assert_allclose(y, np.array(AS_TENSORFLOW[kind]), rtol=1e-6, atol=1e-80)


def test_safe_forms_raise_no_flag() -> None:
    """Large finite inputs overflow nowhere on the way, and small ones keep their digits."""
    x = np.array([-1000.0, -90.0, -1e-8, 1e-8, 90.0, 1000.0])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for kind in ("sigmoid", "softplus", "silu", "mish", "log_sigmoid", "elu", "selu", "gelu", "gelu_tanh", "erf"):
            for dtype in (np.float32, np.float64):
                assert np.isfinite(Activation(kind, PARAMETERS.get(kind, ()))(x.astype(dtype))).all(), kind
        assert Softmax()(np.array([[1000.0, 999.0]]))[0, 0] == pytest.approx(1 / (1 + math.exp(-1)))
    assert Activation("elu", (1.0,))(np.float32([-1e-8]))[0] == np.float32(-1e-8)
    assert Activation("softplus")(np.float32([1000.0]))[0] == 1000


def test_along_axes() -> None:
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    np.testing.assert_allclose(Softmax((-2,))(x), np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-14)
    np.testing.assert_allclose(Softmax((-2, -1))(x).sum((1, 2)), 1, rtol=1e-14)
    np.testing.assert_allclose(LogSoftmax()(x), np.log(Softmax()(x)), rtol=1e-13)
    np.testing.assert_allclose(Glu()(x), x[..., :2] / (1 + np.exp(-x[..., 2:])), rtol=1e-14)
    assert np.isnan(Softmax()(np.array([[np.nan, 0.0]]))).all()
    with np.errstate(invalid="ignore"):
        assert np.isnan(Softmax()(np.array([[np.inf, 0.0]]))).all()
        assert np.isnan(Softmax()(np.array([[-np.inf, -np.inf]]))).all()
    one = Sparsemax()(np.array([[3.0, 1.0, 0.0], [0.1, 0.0, -5.0]]))
    np.testing.assert_allclose(one[0], [1, 0, 0])
    # Keras sums running sums: k = 2, S = 0.1 + 0.1, tau = -0.4
    np.testing.assert_allclose(one[1], [0.5, 0.4, 0])
    assert Softmax()(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("op", "shape", "error"),
    [
        (Softmax((-2,)), (4,), ShapeError),
        (Softmax(()), (4,), ShapeError),
        (Softmax((0,)), (4,), ShapeError),
        (Glu(), (3,), ShapeError),
    ],
)
def test_wrong_axes(op: Any, shape: tuple[int, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        op.infer(Spec(shape, np.dtype(np.float32)))


def test_wrong_dtypes() -> None:
    integers = Spec((4,), np.dtype(np.int32))
    assert Activation("relu").infer(integers).dtype == np.int32
    for op in (Activation("tanh"), Softmax()):
        with pytest.raises(DtypeError, match="floats"):
            op.infer(integers)
