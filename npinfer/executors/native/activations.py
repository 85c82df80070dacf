"""Elementwise activations over 16 lanes, without branches and without libm: within 4 ulp of the correctly rounded float32
result over the whole range (exp, sigmoid, tanh: 2 ulp), NaN, ±inf and ±0 as the definitions in npinfer/ops/activations.py.

exp is the heart: x = n·ln 2 + r with a whole number n, exp(r) by a polynomial, times 2**n by writing n into the exponent bits.
What decays like exp (sigmoid, silu, gelu …) multiplies by 2**n last, so that results down to the smallest subnormal round once.
tools/fit_polynomials.py computes the coefficients, tools/sweep_activations.py measures the errors.

These are functions of Lanes: they run once, while compiling (lanes.py). To add one, write it and name it in FUNCTIONS;
parameters come as Lanes too.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

from npinfer.executors.native.lanes import (
    Lanes,
    bits,
    copysign,
    floats,
    fma,
    maximum,
    minimum,
    paired,
    polynomial,
    select,
    sqrt,
    to_float,
)

#: adding and subtracting this rounds to the nearest whole number (below 2**22), which is then in the low bits
ROUND, ROUND_BITS = 12582912.0, 0x4B400000
LOG2_E = 1.44269504088896341
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440054690583e-4  # the first has nine bits, so n·LN2_HIGH is exact
SQRT_HALF = 0.707106781186547524
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

EXP = (0.5, 0.166666672, 0.0416664891, 0.00833320711, 0.00139326649, 0.00019945098)  # (exp(r) - 1 - r)/r²
LOG1P = (0.333333343, 0.199998841, 0.142899781, 0.110479429, 0.0940650702, 0.0838215053)
TANH_SHRINK = (0.333333343, -0.133334085, 0.0539777391, -0.021915311, 0.00897051953, -0.00371838594, 0.00150641694,
               -0.000535385741, 0.000143202371, -2.40520858e-05, 1.84396879e-06)  # fmt: skip
ERF = (1.12837911, -0.376121074, 0.112762101, -0.0264815763, 0.00440259743, -0.000171880369)
#: 2√(2/π) and 0.044715 times that, each as a float32 and what it lacks
GELU_LINEAR, GELU_LINEAR_REST = 1.5957691669464111, -4.534068e-08
GELU_CUBIC, GELU_CUBIC_REST = 0.07135481387376785, 2.3988324e-09
ERFCX = (1.27697837, -0.092763938, -0.166031122, 0.164055064, -0.0542052239, -0.00805960689, 0.00863117166, 0.00131291407,
         -0.00122675148, -0.000397967029)  # fmt: skip


def reduced(x: Lanes) -> tuple[Lanes, Lanes]:
    """(r, n) with x = n·ln 2 + r and |r| ≤ ln 2 / 2; n as an integer in the low bits, offset by ROUND_BITS."""
    shifted = fma(x, LOG2_E, ROUND)
    n = shifted - ROUND
    return fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x)), bits(shifted)


def powers(n: Lanes) -> tuple[Lanes, Lanes]:
    """Two factors whose product is 2**n, n from `reduced`: results beyond the range of one factor's exponent round once, at
    last."""
    n = n - ROUND_BITS
    half = n >> 1
    return power(half), power(n - half)


def power(n: Lanes) -> Lanes:
    """2**n for -126 ≤ n ≤ 127 from the low nine bits of n."""
    return floats((n + 127) << 23)


def limited(x: Lanes, low: float, high: float) -> Lanes:
    return minimum(maximum(x, low), high)


def exp_parts(x: Lanes, rest: Lanes | float = 0) -> tuple[Lanes, Lanes, Lanes]:
    """(p, a, b) with exp(x + rest) = p·a·b, p within [0.7, 1.42] (NaN where x is), a and b powers of two; |x| ≤ 120, rest
    tiny."""
    r, n = reduced(x)
    if isinstance(rest, Lanes):
        r = r + rest
    one, square = r + 1, r * r
    return one + fma(square, paired(r, square, EXP), r - (one - 1)), *powers(n)  # what 1 + r rounds off isn't lost


def exponential(x: Lanes) -> Lanes:
    p, a, b = exp_parts(limited(x, -110, 110))
    return p * a * b


def expm1_within(x: Lanes) -> Lanes:
    """2**n·expm1(r) + (2**n - 1) for -20 ≤ x ≤ 88."""
    r, n = reduced(x)
    s, square = power(n), r * r
    return fma(square * s, paired(r, square, EXP), fma(r, s, s - 1))


def expm1(x: Lanes) -> Lanes:
    """exp(x) - 1 with all digits at small x, for x ≤ 88."""
    y = expm1_within(maximum(x, -20))
    return select(abs(x) < 1e-8, x, y)  # the sum would make -0 into 0


def log(x: Lanes) -> Lanes:
    """k·ln 2 + log m with m within [0.7, 1.42]; log m = 2 atanh(t), t = (m - 1)/(m + 1), in the form f - t·(f - …) with f = m -
    1."""
    small = x < 1.17549435e-38
    y = select(small, x * 8388608.0, x)
    k = (bits(y) - 0x3F3504F3) >> 23
    f = floats(bits(y) - (k << 23)) - 1
    t = f / (f + 2)
    s = t * t
    tail = s * polynomial(s, tuple(2 * c for c in LOG1P))
    n = to_float(k) - select(small, x.like(x.of(23.0)), 0.0)
    y = fma(n, LN2_HIGH, fma(n, LN2_LOW, f - t * (f - tail)))
    y = select(x > 0, y, select(x.equals(0), x.like(x.of(-inf)), nan))
    return select(x.equals(inf), inf, y)


def log1p_unit(e: Lanes) -> Lanes:
    """log(1 + e) for 0 ≤ e ≤ 1: 2 atanh(t), t = e/(2 + e)."""
    t = e / (e + 2)
    s = t * t
    return fma((t + t) * s, polynomial(s, LOG1P), t + t)


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
    """sign(x)·(p + 1 - t)/(p + 1 + t) with p = expm1(r), t = 2**-n, 2|x| = n·ln 2 + r: the numerator cancels nowhere."""
    r, n = reduced(minimum(abs(x) * 2, 20))
    square, t = r * r, floats((127 + ROUND_BITS - n) << 23)
    above = fma(square, paired(r, square, EXP), r + (1 - t))
    below = above + (t + t)
    lost = above - (below - (t + t))  # by rounding the sum
    y = above / below
    rest = fma(-y, lost, fma(-y, below, above))  # what y leaves of the numerator; counts where t is 1 and 1/below about 0.47
    return copysign(fma(rest, 0.47, y), x)


def over_one_plus_exp(factor: Lanes | float, left: Lanes, x: Lanes, rest: Lanes | float = 0) -> Lanes:
    """factor/(1 + e), and factor·e/(1 + e) where `left`, with e = exp(x + rest), x ≤ 0."""
    p, a, b = exp_parts(maximum(x, -120), rest)
    near = maximum(factor, -1000) if isinstance(factor, Lanes) else factor  # times e, all beyond is 0
    e = p * a * b
    d = 1 + e
    lost = e - (d - 1)  # by rounding d; y/(1 + lost/d) with 1/d ≈ 1.457 - d/2
    y = select(left, p * near, factor) / d
    y = y - minimum(y, 1000) * (lost * (1.457 - 0.5 * d))  # nothing is lost where y is larger, and infinity times 0 is NaN
    return select(left, y * a * b, y)


def sigmoid(x: Lanes) -> Lanes:
    """1/(1 + exp(-x)), by the exponential of -|x| alone."""
    return over_one_plus_exp(1, x < 0, -abs(x))


def silu(x: Lanes) -> Lanes:
    return select(x.equals(-inf), nan, over_one_plus_exp(x, x < 0, -abs(x)))


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


def exact_product(x: Lanes, y: Lanes | float) -> tuple[Lanes, Lanes]:
    """x·y as a rounded product and its rounding error (T. J. Dekker, Numerische Mathematik 18, 1971, where there is no fma)."""
    product = x * y
    if x.has_fma:
        return product, fma(x, y, -product)
    other = y if isinstance(y, Lanes) else x.like(x.of(y))
    a, b = (floats(bits(v) & -4096) for v in (x, other))  # the upper twelve bits
    c, d = x - a, other - b
    return product, (a * b - product + a * d + c * b) + c * d


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
    return select(x.equals(-inf), nan, over_one_plus_exp(x, x < 0, -v, -(rest + z * low)))


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
