"""Functions that NumPy lacks or would overflow: erf, the normal distribution, sigmoid, softplus; exact for NaN and infinity.

erf: a Chebyshev series of (1 + 2z)·exp(z²)·erfc(z) in t = (z - K)/(z + K) for the tail (the substitution of M. M. Shepherd and
J. G. Laframboise, Math. Comp. 36, 1981) and one of erf(x)/x in x² for |x| < 1; tools/make_erf_table.py computes both at 60
digits. Relative error in float64: 1e-15 over the whole range, the far tail included; float32 is computed in float64 with a
shorter series, so that the result is the rounded exact one but for one case in ten.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npinfer.graph import Array

K = 3.75
TAIL = (
    1.2375126308378275,
    -0.14024059858554697,
    0.0035854154854644293,
    0.0822767384901452,
    -0.10880393014174886,
    0.09230432116037748,
    -0.05869339858963677,
    0.028362277418956406,
    -0.009746579558029276,
    0.0017556258528952954,
    0.0002937136655913448,
    -0.0002901540805408417,
    5.164909889268241e-05,
    2.238423915508223e-05,
    -1.1444146237700524e-05,
    -9.73559896736775e-07,
    1.751637648849062e-06,
    -5.7218230603224086e-08,
    -2.5866850716155884e-07,
    2.3263508708859124e-08,
    3.8675334242222354e-08,
    -3.744210080962018e-09,
    -5.1739902140113095e-09,
    3.1114333809799254e-10,
    4.2514714447963895e-10,
)
#: enough for float32: relative error 1e-9
TAIL_SHORT = (
    1.2375126300326993,
    -0.14024059953590887,
    0.00358549531406309,
    0.08227677399009918,
    -0.10880522754949953,
    0.09230393753827405,
    -0.05868544049363111,
    0.028364105117372054,
    -0.009770087183368234,
    0.0017511576292398034,
    0.00033016745627228067,
    -0.00028431307575109806,
    2.2046718905694024e-05,
    1.8521947386750102e-05,
)
CENTRE = (
    1.1283791670955126,
    -0.37612638903183754,
    0.1128379167095512,
    -0.026866170645129854,
    0.005223977625423455,
    -0.0008548327021945428,
    0.00012055332903350668,
    -1.4925647581008593e-05,
    1.6462045711013026e-06,
    -1.6364645854816389e-07,
    1.479243542696247e-08,
    -1.2164764337224506e-09,
    8.709755232851789e-11,
    -4.2320376764874594e-12,
)


def _polynomial(coefficients: Sequence[float], t: Array) -> Array:
    """Horner's rule; coefficients from the constant upwards."""
    y = t * coefficients[-1]
    y += coefficients[-2]
    for c in coefficients[-3::-1]:
        y *= t
        y += c
    return y


def _scaled_tail(z: Array, single: bool) -> Array:
    """exp(z²)·erfc(z) of float64 z ≥ 0."""
    t = (z - K) / (z + K)
    return np.asarray(_polynomial(TAIL_SHORT if single else TAIL, t) / (1 + 2 * z))


def _gauss(z: Array, single: bool) -> Array:
    """exp(-z²) of float64 0 ≤ z ≤ 1e19. The rounding of z² would be multiplied by z² in the result, so z is split into a part
    whose square is exact and a rest. Values that were float32 have exact squares at once."""
    if single:
        return np.asarray(np.exp(-z * z))
    high = z.astype(np.float32).astype(np.float64)
    return np.exp(-high * high) * np.exp((high - z) * (high + z))


def erf(x: Array) -> Array:
    """The error function, in x's dtype."""
    single = x.dtype == np.float32
    wide = x.astype(np.float64)
    z = np.minimum(np.abs(wide), 30.0)  # erf is 1 from 6 on; infinity has no t
    small = np.minimum(z, 1.0)
    y = np.where(z < 1, small * _polynomial(CENTRE, small * small), 1 - _gauss(z, single) * _scaled_tail(z, single))
    return np.copysign(y, wide).astype(x.dtype, copy=False)


def erfc(x: Array) -> Array:
    """1 - erf(x) without cancellation, in x's dtype."""
    single = x.dtype == np.float32
    wide = x.astype(np.float64)
    z = np.minimum(np.abs(wide), 30.0)
    tail = _gauss(z, single) * _scaled_tail(z, single)
    return np.where(wide < 0, 2 - tail, tail).astype(x.dtype, copy=False)


def times_normal_cdf(x: Array) -> Array:
    """x·Φ(x), Φ the standard normal distribution: the exact GELU. Relative error 1e-15 down to x = -37, where Φ is 1e-300."""
    single = x.dtype == np.float32
    wide = x.astype(np.float64)
    a = np.minimum(np.abs(wide), 40.0)
    tail = _scaled_tail(a * np.sqrt(0.5), single)
    # exp(-a²/2), with a's square made exact as in _gauss
    if single:
        tail *= np.exp(-0.5 * a * a)
    else:
        high = a.astype(np.float32).astype(np.float64)
        tail *= np.exp(-0.5 * high * high)
        tail *= np.exp(0.5 * (high - a) * (high + a))
    tail *= 0.5
    return (wide * np.where(wide < 0, tail, 1 - tail)).astype(x.dtype, copy=False)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) with the exponential of -|x| alone, which can't overflow and keeps the digits of small results."""
    e = np.exp(-np.abs(x))
    y = np.where(x < 0, e, 1.0)
    y /= 1 + e
    return y


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), in the form max(x, 0) + log1p(exp(-|x|))."""
    y = np.log1p(np.exp(-np.abs(x)))
    y += np.maximum(x, 0)
    return y
