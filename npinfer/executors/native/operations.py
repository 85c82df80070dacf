"""Elementwise operations of models (npinfer/ops/arithmetic.py) over 16 lanes, as activations.py has activations: sin, cos, log,
roots, rounding. log, sin and cos within 4 ulp of the correctly rounded result over the whole range, the others exact or within
1 ulp.

A sine needs x modulo 2π. Up to LARGE, subtracting multiples of π/2 in float64 leaves enough digits. Beyond, those digits come
from 2/π with 200 of them, a number at a time (`beyond`): M. Payne and R. Hanek, SIGNUM Newsletter 18, 1983.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npinfer.executors.native.exponentials import ROUND, ROUND_BITS, log
from npinfer.executors.native.lanes import (
    Lanes,
    bits,
    copysign,
    floats,
    fma,
    narrowed,
    polynomial,
    select,
    sqrt,
    widened,
)
from npinfer.executors.native.vector import i32_at, jit

LARGE = 131072.0
HALF_PI, HALF_PI_REST = 1.5707963267341256, 6.077100506506192e-11  # the first has 34 bits: 2**17 times it is exact
SIN = (-0.166666538, 0.00833210628, -0.000195078785)  # (sin r - r)/r³ in r²
COS = (-0.5, 0.0416666456, -0.00138872978, 2.44300845e-05)  # (cos r - 1)/r² in r²

WHOLE = 8388608.0  # from here on every float is a whole number

#: 2/π·2**216 in digits of 32 bits, the first first
W0, W1, W2, W3, W4, W5, W6 = 0xA2F983, 0x6E4E4415, 0x29FC2757, 0xD1F534DD, 0xC0DB6295, 0x993C4390, 0x41FE5163
DIGIT = 0xFFFFFFFF


def wave(x: Lanes, quarter: int) -> Lanes:
    """sin(x + quarter·π/2) for |x| < LARGE."""
    shifted = fma(x, 2 / np.pi, ROUND)
    n = widened(shifted - ROUND)
    r = narrowed(widened(x) - n * HALF_PI - n * HALF_PI_REST)
    q = bits(shifted) - (ROUND_BITS - quarter)
    s = r * r
    y = select((q & 1).equals(0), fma(r * s, polynomial(s, SIN), r), fma(s, polynomial(s, COS), 1))
    return floats(bits(y) ^ ((q & 2) << 30))


def sin(x: Lanes) -> Lanes:
    return select(abs(x) < 1e-4, x, wave(x, 0))  # the sum would make -0 into 0


def cos(x: Lanes) -> Lanes:
    return wave(x, 1)


def rsqrt(x: Lanes) -> Lanes:
    return 1 / sqrt(x)


def rounded(x: Lanes) -> Lanes:
    """To the nearest whole number, ties to even."""
    return select(abs(x) < WHOLE, copysign((abs(x) + WHOLE) - WHOLE, x), x)


def floor(x: Lanes) -> Lanes:
    y = rounded(x)
    return copysign(y - select(y > x, x.like(x.of(1.0)), 0), x)


def ceil(x: Lanes) -> Lanes:
    y = rounded(x)
    return copysign(y + select(y < x, x.like(x.of(1.0)), 0), x)


def trunc(x: Lanes) -> Lanes:
    return copysign(floor(abs(x)), x)


def sign(x: Lanes) -> Lanes:
    return select(x > 0, x.like(x.of(1.0)), select(x < 0, x.like(x.of(-1.0)), x + 0))


#: by the kinds of npinfer/ops/arithmetic.py
OPERATIONS: dict[str, Callable[[Lanes], Lanes]] = {
    "sin": sin, "cos": cos, "log": log, "sqrt": sqrt, "rsqrt": rsqrt, "floor": floor, "ceil": ceil, "trunc": trunc,
    "round": rounded, "sign": sign,
}  # fmt: skip


@jit
def beyond(address, quarter):
    """sin(x + quarter·π/2) of the float x at an address, |x| ≥ LARGE: |x| = m·2**e, and of 2/π·2**e·m only two digits before
    the point and 94 behind it are computed."""
    word = np.int64(i32_at(address, 0))
    exponent = (word >> 23) & 255
    if exponent == 255:
        return np.float32(np.nan)
    m = (word & 0x7FFFFF) | 0x800000
    start = exponent - 144
    k, s = start >> 5, start & 31
    a, b, c, d = W0, W1, W2, W3
    if k == 1:
        a, b, c, d = W1, W2, W3, W4
    elif k == 2:
        a, b, c, d = W2, W3, W4, W5
    elif k == 3:
        a, b, c, d = W3, W4, W5, W6
    low = m * (((((c << 32) | d) << s) >> 32) & DIGIT)
    middle = m * (((((b << 32) | c) << s) >> 32) & DIGIT) + (low >> 32)
    high = m * (((((a << 32) | b) << s) >> 32) & DIGIT) + (middle >> 32)
    turns = (high << 32) | (middle & DIGIT)  # two bits of quarters, 62 behind the point
    q = (turns + (1 << 61)) >> 62
    r = (np.float64(turns - (q << 62)) + np.float64(low & DIGIT) / 4294967296.0) * (np.pi / 2 / 4611686018427387904.0)
    z = r * r
    if (q + quarter) & 1:
        y = 1 + z * (-1 / 2 + z * (1 / 24 + z * (-1 / 720 + z * (1 / 40320 - z / 3628800))))
    else:
        y = r + r * z * (-1 / 6 + z * (1 / 120 + z * (-1 / 5040 + z * (1 / 362880 - z / 39916800))))
    if ((q + quarter) & 2 != 0) != (word < 0 and quarter == 0):
        y = -y
    return np.float32(y)
