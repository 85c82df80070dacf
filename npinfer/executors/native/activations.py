"""Elementwise activations over 16 lanes, without branches and without libm: within 4 ulp of the correctly rounded float32
result over the whole range (exp, sigmoid, tanh: 2 ulp, of all 2**32 floats), NaN, ±inf and ±0 as the definitions in
npinfer/ops/activations.py.

What decays like exp (sigmoid, silu, gelu …) multiplies by 2**n last, so that results down to the smallest subnormal round once.
tools/fit_polynomials.py computes the coefficients, tools/sweep_activations.py measures the errors.

These are functions of Lanes: they run once, while compiling (lanes.py). To add one, write it and name it in FUNCTIONS;
parameters come as Lanes too.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

from npinfer.executors.native.exponentials import (
    LOG2_E,
    ROUND,
    ROUND_BITS,
    exact_product,
    exp_parts,
    expm1,
    exponential,
    limited,
    log1p_unit,
    power,
    reduced,
)
from npinfer.executors.native.lanes import (
    Lanes,
    bits,
    copysign,
    floats,
    fma,
    maximum,
    minimum,
    polynomial,
    select,
    sqrt,
)

LN2_HALF = 0.34657359  # as a float32 too good by chance to need a second part: n times 1e-9 is off
SQRT_HALF = 0.707106781186547524
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

TANH = (-0.333333224, 0.133311406, -0.0527145304)  # (tanh r - r)/r³ in r²
SIGMOID = (0.5, *(c / 2 / 4**k for k, c in enumerate(TANH, 1)))  # tanh(r/2)/r in r²
TANH_SHRINK = (0.333333343, -0.133334085, 0.0539777391, -0.021915311, 0.00897051953, -0.00371838594, 0.00150641694,
               -0.000535385741, 0.000143202371, -2.40520858e-05, 1.84396879e-06)  # fmt: skip
ERF = (1.12837911, -0.376121074, 0.112762101, -0.0264815763, 0.00440259743, -0.000171880369)
#: 2√(2/π) and 0.044715 times that, each as a float32 and what it lacks
GELU_LINEAR, GELU_LINEAR_REST = 1.5957691669464111, -4.534068e-08
GELU_CUBIC, GELU_CUBIC_REST = 0.07135481387376785, 2.3988324e-09
ERFCX = (1.27697837, -0.092763938, -0.166031122, 0.164055064, -0.0542052239, -0.00805960689, 0.00863117166, 0.00131291407,
         -0.00122675148, -0.000397967029)  # fmt: skip


def linear(x: Lanes) -> Lanes:
    return x


def relu(x: Lanes) -> Lanes:
    return maximum(x, 0)


def relu_max(x: Lanes, top: Lanes) -> Lanes:
    return minimum(maximum(x, 0), top)


def leaky_relu(x: Lanes, slope: Lanes) -> Lanes:
    return select(x > 0, x, slope * x)


def relu_general(x: Lanes, slope: Lanes, top: Lanes, threshold: Lanes) -> Lanes:
    below = select(slope.equals(0), 0, slope * maximum(threshold - x, 0))
    kept = select(x > threshold, x, select(threshold.equals(0), x, 0))
    return minimum(maximum(kept, 0), top) - below


def thresholded_relu(x: Lanes, theta: Lanes) -> Lanes:
    return x * select(x > theta, x.like(x.of(1.0)), 0)


def elu(x: Lanes, alpha: Lanes) -> Lanes:
    return select(x > 0, x, alpha * expm1(select(x > 0, 0, x)))


def selu(x: Lanes) -> Lanes:
    return SELU_SCALE * select(x > 0, x, SELU_ALPHA * expm1(select(x > 0, 0, x)))


def celu(x: Lanes, alpha: Lanes) -> Lanes:
    return maximum(x, 0) + alpha * expm1(minimum(minimum(x, 0) / alpha, 88))


def tanh(x: Lanes) -> Lanes:
    """With x = n·ln 2/2 + r, T = tanh r, t = 2**-n, a = t - 1, b = t + 1: tanh x = (T·b - a)/(b - T·a), the addition theorem.
    For n = 0 that is T to the last bit. -x gives all numbers times -1 or 2**n, so that no bit differs."""
    z = limited(x, -10, 10)
    shifted = fma(z, 2 * LOG2_E, ROUND)
    r = fma(shifted - ROUND, -LN2_HALF, z)
    t = floats((127 + ROUND_BITS - bits(shifted)) << 23)
    square = fma(r, r, -1e-18)  # which only r = -0 feels: below 0, it lets the sum keep the sign
    small = fma(r * square, polynomial(square, TANH), r)
    a, b = t - 1, t + 1
    return fma(small, b, -a) / fma(-small, a, b)


def over_one_plus_exp(x: Lanes, v: Lanes, rest: Lanes | float = 0) -> Lanes:
    """x/(1 + e), and x·e/(1 + e) where x < 0, with e = exp(v + rest), v ≤ 0."""
    left = x < 0
    p, a, b = exp_parts(maximum(v, -120), rest)
    e = p * a * b
    d = 1 + e
    lost = e - (d - 1)  # by rounding d; y/(1 + lost/d) with 1/d ≈ 1.457 - d/2
    y = select(left, p * maximum(x, -1000), x) / d  # beyond -1000, times e, all is 0
    y = y - minimum(y, 1000) * (lost * (1.457 - 0.5 * d))  # nothing is lost where y is larger, and infinity times 0 is NaN
    return select(left, y * a * b, y)


def sigmoid(x: Lanes) -> Lanes:
    """With x = n·ln 2 + r, T = tanh(r/2) and t = 2**-n: exp(-x) = t·(1 - T)/(1 + T), so that 1/(1 + exp(-x)) is
    (1 + T)/((1 + T) + t·(1 - T)). Below n = -100, where 1 + T no longer counts in that sum, the rest of 2**n comes last."""
    r, n = reduced(limited(x, -120, 40))
    square = r * r
    half = polynomial(square, SIGMOID)  # T/r
    above, below = fma(r, half, 1), fma(-r, half, 1)
    m = select(n < ROUND_BITS - 100, ROUND_BITS - 100, n)
    return above / fma(below, power(ROUND_BITS - m), above) * power(n - m)


def silu(x: Lanes) -> Lanes:
    return select(x.equals(-inf), nan, over_one_plus_exp(x, -abs(x)))


def hard_sigmoid(x: Lanes) -> Lanes:
    return limited(x + 3, 0, 6) / 6


def hard_sigmoid_k2(x: Lanes) -> Lanes:
    return limited(0.2 * (x + 2.5), 0, 1)  # 0.2x + 0.5 would cancel


def hard_silu(x: Lanes) -> Lanes:
    return x * hard_sigmoid(x)


def softplus(x: Lanes) -> Lanes:
    """max(x, 0) + log(1 + exp(-|x|))."""
    return maximum(x, 0) + log1p_unit(exponential(-abs(x)))


def log_sigmoid(x: Lanes) -> Lanes:
    return -softplus(-x)


def softsign(x: Lanes) -> Lanes:
    return x / (abs(x) + 1)


def mish(x: Lanes) -> Lanes:
    """x·tanh(softplus(x)): with e = exp(-|x|), x(1 + 2e)/(1 + 2e + 2e²) for x ≥ 0; for x < 0
    x·e(2 + e)/(2 + 2e + e²), as x·e·(1 - h) with h = e(1 + e)/(2 + 2e + e²)."""
    p, a, b = exp_parts(maximum(-abs(x), -110))
    e, left = p * a * b, x < 0
    twice = e + e
    right = x * (twice + 1) / fma(e, twice, twice + 1)
    y = maximum(x, -1000) * p
    y = fma(-y, fma(e, e, e) / fma(e, e, twice + 2), y) * a * b
    return select(x.equals(-inf), nan, select(left, y, select(x.equals(inf), x, right)))


def erfcx_tail(z: Lanes) -> Lanes:
    """(1 + 2z)·exp(z²)·erfc(z) for 0 ≤ z ≤ 11, by a polynomial in (z - 2)/(z + 2)."""
    return polynomial((z - 2) / (z + 2), ERFCX)


def gelu(x: Lanes) -> Lanes:
    """x·Φ(x), with Φ(-z) = exp(-z²/2)·erfcx(z/√2)/2, and Φ(x) = (1 + erf(x/√2))/2 near 0."""
    near = x * (x * (0.5 * SQRT_HALF) * polynomial(x * x * 0.5, ERF) + 0.5)
    z = minimum(abs(x), 15)
    square, rest = exact_product(z, z)
    p, a, b = exp_parts(-0.5 * square, -0.5 * rest)
    q = p * erfcx_tail(z * SQRT_HALF) / fma(z, 4 * SQRT_HALF, 2)
    return select(
        abs(x) < 0.7, near, select(x.equals(-inf), nan, select(x < 0, maximum(x, -1000) * q * a * b, x * (1 - q * a * b)))
    )


def gelu_tanh(x: Lanes) -> Lanes:
    """x·sigmoid(v), v = 2√(2/π)·(x + 0.044715 x³). The left tail is x·exp(v), so v needs more digits than a float has."""
    z = minimum(abs(x), 11)
    square, square_rest = exact_product(z, z)
    high, low = exact_product(square, GELU_CUBIC)
    sum_ = GELU_LINEAR + high
    low = low + square_rest * GELU_CUBIC + square * GELU_CUBIC_REST + GELU_LINEAR_REST
    low = low + (high - (sum_ - GELU_LINEAR)) + (GELU_LINEAR - (sum_ - (sum_ - GELU_LINEAR)))
    v, rest = exact_product(z, sum_)
    return select(x.equals(-inf), nan, over_one_plus_exp(x, -v, -(rest + z * low)))


def erf(x: Lanes) -> Lanes:
    z = minimum(abs(x), 4)
    s = z * z
    small = polynomial(s, ERF) * z
    large = 1 - exponential(-s) * erfcx_tail(z) / (z + z + 1)
    return copysign(select(z < 0.75, small, large), x)


def hard_shrink(x: Lanes, threshold: Lanes) -> Lanes:
    return select(abs(x) > threshold, x, 0)


def soft_shrink(x: Lanes, threshold: Lanes) -> Lanes:
    return select(x > threshold, x - threshold, select(x < -threshold, x + threshold, 0))


def tanh_shrink(x: Lanes) -> Lanes:
    """x - tanh(x): its own polynomial where the two are close."""
    s = minimum(x * x, 4)
    return select(abs(x) < 1.5, x * s * polynomial(s, TANH_SHRINK), x - tanh(x))


def squareplus(x: Lanes, b: Lanes) -> Lanes:
    """(x + r)/2 with r = √(x² + b); for x < 0 as b/2/(r - x), which doesn't cancel."""
    r = select(abs(x) > 1e18, abs(x), sqrt(fma(x, x, b)))
    y = select(x < 0, 0.25 * b / (0.5 * r - 0.5 * x), 0.5 * x + 0.5 * r)
    return select(x.equals(-inf), nan, y)


def hard_tanh(x: Lanes) -> Lanes:
    return limited(x, -1, 1)


def sparse_plus(x: Lanes) -> Lanes:
    near = 0.25 * (x + 1) * (x + 1)
    return select(x <= -1, 0, select(x < 1, near, x))


def sparse_sigmoid(x: Lanes) -> Lanes:
    return limited(0.5 * (x + 1), 0, 1)


def threshold(x: Lanes, start: Lanes, default: Lanes) -> Lanes:
    return select(x > start, x, default)


#: by the kinds of npinfer/ops/activations.py; opcodes.KINDS numbers them
FUNCTIONS: dict[str, Callable[..., Lanes]] = {
    f.__name__: f
    for f in (
        linear, relu, relu_max, leaky_relu, relu_general, thresholded_relu, elu, selu, celu, gelu, gelu_tanh, sigmoid,
        hard_sigmoid, hard_sigmoid_k2, tanh, silu, hard_silu, softplus, softsign, exponential, mish, log_sigmoid, hard_shrink,
        soft_shrink, tanh_shrink, squareplus, hard_tanh, sparse_plus, sparse_sigmoid, threshold, erf,
    )
}  # fmt: skip
