"""Compute the polynomial tables of npinfer/ops/special.py, and the values its test compares with. Needs mpmath.

    python tools/make_erf_table.py            the two tables, ready to paste
    python tools/make_erf_table.py --values   x, erf(x), gelu(x) to 20 digits, for tests/test_activations.py

Tail: (1 + 2z)·exp(z²)·erfc(z) for z from 0 to infinity runs between 1 and 1.25. With t = (z - K)/(z + K) it becomes a smooth
function on [-1, 1] whose Chebyshev series falls off quickly (M. M. Shepherd and J. G. Laframboise, Mathematics of Computation
36, 1981, use the same substitution with K = 3.75); the series is summed at 60 digits and rewritten in powers of t.
Centre: erf(x)/x as a series in x² over [0, 1], made the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp

K = mp.mpf("3.75")
POINTS = [0.0, 1e-9, 0.01, 0.25, 0.5, 0.99, 1.0, 1.01, 1.5, 2.0, 3.0, 4.5, 6.0, 8.0, 12.0, 20.0, 26.0, 36.0]


def series(function: Callable[[Any], Any], terms: int, nodes: int = 80) -> list[Any]:
    """The first coefficients, in powers of t, of the function's truncated Chebyshev series on [-1, 1]."""
    angles = [mp.pi * (mp.mpf(j) + 0.5) / nodes for j in range(nodes)]
    values = [function(mp.cos(a)) for a in angles]
    polynomials = [[mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]]
    while len(polynomials) < terms:
        doubled = [mp.mpf(0), *(2 * c for c in polynomials[-1])]
        for i, c in enumerate(polynomials[-2]):
            doubled[i] -= c
        polynomials.append(doubled)
    result = [mp.mpf(0)] * terms
    for k in range(terms):
        c = mp.fsum(v * mp.cos(k * a) for v, a in zip(values, angles)) * (2 if k else 1) / nodes
        for i, p in enumerate(polynomials[k]):
            result[i] += c * p
    return result


def tail(t: Any) -> Any:
    z = K * (1 + t) / (1 - t)
    if z > 150:  # erfc underflows nowhere in mpmath, but exp(z²) takes long: the asymptotic series has 60 digits here
        term, total = mp.mpf(1), mp.mpf(0)
        for k in range(1, 40):
            total += term
            term *= -(2 * k - 1) / (2 * z * z)
        return (1 + 2 * z) * total / (z * mp.sqrt(mp.pi))
    return (1 + 2 * z) * mp.exp(z * z) * mp.erfc(z)


def centre(t: Any) -> Any:
    x = mp.sqrt((1 + t) / 2)
    return mp.erf(x) / x


def shifted(coefficients: list[Any]) -> list[Any]:
    """A polynomial in t = 2u - 1 as one in u."""
    result = [mp.mpf(0)] * len(coefficients)
    for n, c in enumerate(coefficients):
        for i in range(n + 1):
            result[i] += c * mp.binomial(n, i) * mp.mpf(2) ** i * (-1) ** (n - i)
    return result


def main() -> None:
    mp.mp.dps = 60
    if "--values" in sys.argv:
        for x in sorted({s * p for p in POINTS for s in (-1, 1)}):
            exact = mp.mpf(x)
            print(f"({x!r}, {mp.nstr(mp.erf(exact), 20)}, {mp.nstr(exact * mp.ncdf(exact), 20)}),")
        return
    for name, coefficients in (
        ("TAIL", series(tail, 25)),
        ("TAIL_SHORT", series(tail, 14)),
        ("CENTRE", shifted(series(centre, 14))),
    ):
        print(f"{name} = (")
        for c in coefficients:
            print(f"    {float(c)!r},")
        print(")")


if __name__ == "__main__":
    main()
