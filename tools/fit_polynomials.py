"""Fit the polynomials of npinfer/executors/native/{exponentials,activations,operations}.py and print their coefficients.

Each is the polynomial of least maximal weighted error on a dense grid of an interval: Chebyshev's approximation problem, solved
as the linear program that it is (minimise e under -e <= error at each point <= e). Coefficients are then rounded to float32 one
after another from the constant up, each time fitting the rest again, so that the rounding of one is made good by the others.

Run: python tools/fit_polynomials.py        (NumPy and SciPy)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import optimize, special

Function = Callable[[np.ndarray], np.ndarray]


def minimax(f: Function, weight: Function, low: float, high: float, degree: int, fixed: Sequence[float]) -> np.ndarray:
    """Coefficients c (low order first, the first ones given) of least max |sum(c[k] x**k) - f(x)| * weight(x)."""
    x = (low + high) / 2 - (high - low) / 2 * np.cos(np.linspace(0, np.pi, 60 * (degree + 1)))
    scale = max(abs(low), abs(high))
    powers = (x / scale)[:, None] ** np.arange(degree + 1)
    start, w = len(fixed), weight(x) * 2.0**24
    target = w * (f(x) - powers[:, :start] @ (np.asarray(fixed, float) * scale ** np.arange(start)))
    free = w[:, None] * powers[:, start:]
    one = np.ones((len(x), 1))
    got = optimize.linprog(
        np.r_[np.zeros(free.shape[1]), 1],
        A_ub=np.block([[free, -one], [-free, -one]]),
        b_ub=np.r_[target, -target],
        bounds=[(None, None)] * (free.shape[1] + 1),
        method="highs-ds",
    )
    return np.concatenate([fixed, got.x[:-1] / scale ** np.arange(start, degree + 1)])


def fit(name: str, f: Function, low: float, high: float, degree: int, weight: Function | None = None) -> None:
    """Print float32 coefficients. weight: 1 / (what the error is relative to), 1/|f| by default."""
    weight = weight or (lambda x: 1 / np.abs(f(x)))
    fixed: list[float] = []
    for _ in range(degree + 1):
        c = minimax(f, weight, low, high, degree, fixed)
        fixed.append(float(np.float32(c[len(fixed)])))
    x = np.linspace(low, high, 100001)[1:]
    value = np.polynomial.polynomial.polyval(x, fixed)
    error = np.abs((value - f(x)) * weight(x)).max()
    print(f"{name}: on [{low:.5g}, {high:.5g}], relative error 2^{np.log2(error):.1f}")
    print("   ", ", ".join(f"{c:.9g}" for c in fixed))


def expm1_tail(r: np.ndarray) -> np.ndarray:
    """(expm1(r) - r) / r², by its series near 0."""
    series = sum(r**k / special.factorial(k + 2) for k in range(14))
    return np.asarray(series)


def log1p_tail(s: np.ndarray) -> np.ndarray:
    """(atanh(t)/t - 1) / s with s = t²."""
    return np.asarray(sum(s**k / (2 * k + 3) for k in range(40)))


def tanh_tail(s: np.ndarray) -> np.ndarray:
    """(x - tanh x) / x³ with s = x²."""
    x = np.sqrt(np.asarray(s, np.longdouble))
    series = 1 / 3 - 2 * s / 15 + 17 * s**2 / 315 - 62 * s**3 / 2835 + 1382 * s**4 / 155925
    return np.where(s < 1e-3, series, (x - np.tanh(x)) / np.maximum(x, 1e-9) ** 3).astype(float)


def erf_over_x(s: np.ndarray) -> np.ndarray:
    x = np.sqrt(np.maximum(s, 1e-12))
    return np.asarray(special.erf(x) / x)


def erfcx(t: np.ndarray) -> np.ndarray:
    """(1 + 2z)·exp(z²)·erfc(z), whose size stays near 1, with t = (z - 2)/(z + 2)."""
    z = 2 * (1 + t) / (1 - t)
    return np.asarray(special.erfcx(z) * (1 + 2 * z))


def sin_tail(s: np.ndarray) -> np.ndarray:
    """(sin(r)/r - 1) / s with s = r²."""
    return np.asarray(-sum((-s) ** k / special.factorial(2 * k + 3) for k in range(9)))


def cos_tail(s: np.ndarray) -> np.ndarray:
    """(cos(r) - 1) / s with s = r²."""
    return np.asarray(-sum((-s) ** k / special.factorial(2 * k + 2) for k in range(9)))


if __name__ == "__main__":
    half = np.log(2) / 2 * 1.0001
    fit("EXP", expm1_tail, -half, half, 5, lambda r: np.maximum(np.abs(r), 1e-6))
    fit("LOG1P", log1p_tail, 0, 1 / 9, 5, lambda s: np.maximum(s, 1e-9))
    fit("TANH", lambda s: -tanh_tail(s), 0, (half / 2) ** 2, 2, lambda s: np.maximum(s, 1e-9))
    fit("TANH_SHRINK", tanh_tail, 0, 2.26, 10)
    fit("ERFCX", erfcx, -1, (10.7 - 2) / (10.7 + 2), 9)
    fit("ERF", erf_over_x, 0, 0.5626, 5)
    eighth = (np.pi / 4 * 1.01) ** 2  # more than an eighth of a turn: x·2/π is rounded
    fit("SIN", sin_tail, 0, eighth, 2, lambda s: s / (1 + s * sin_tail(s)))
    fit("COS", cos_tail, 0, eighth, 3, lambda s: s / (1 + s * cos_tail(s)))
