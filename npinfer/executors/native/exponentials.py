"""exp, expm1 and log over 16 lanes, and products without rounding: what activations.py is built from.

exp is the heart: x = n·ln 2 + r with a whole number n, exp(r) by a polynomial, times 2**n by writing n into the exponent bits.
tools/fit_polynomials.py computes the coefficients.
"""

from __future__ import annotations

from math import inf, nan

from npinfer.executors.native.lanes import (
    Lanes,
    bits,
    floats,
    fma,
    maximum,
    minimum,
    paired,
    polynomial,
    select,
    to_float,
)

#: adding and subtracting this rounds to the nearest whole number (below 2**22), which is then in the low bits
ROUND, ROUND_BITS = 12582912.0, 0x4B400000
LOG2_E = 1.44269504088896341
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440054690583e-4  # the first has nine bits, so n·LN2_HIGH is exact

EXP = (0.5, 0.166666672, 0.0416664891, 0.00833320711, 0.00139326649, 0.00019945098)  # (exp(r) - 1 - r)/r²
LOG1P = (0.333333343, 0.199998841, 0.142899781, 0.110479429, 0.0940650702, 0.0838215053)


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


def exact_product(x: Lanes, y: Lanes | float) -> tuple[Lanes, Lanes]:
    """x·y as a rounded product and its rounding error (T. J. Dekker, Numerische Mathematik 18, 1971, where there is no fma)."""
    product = x * y
    if x.has_fma:
        return product, fma(x, y, -product)
    other = y if isinstance(y, Lanes) else x.like(x.of(y))
    a, b = (floats(bits(v) & -4096) for v in (x, other))  # the upper twelve bits
    c, d = x - a, other - b
    return product, (a * b - product + a * d + c * b) + c * d
