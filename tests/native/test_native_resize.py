"""Images in another size and normalization of groups in the compiled engine."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from native_chains import chain
from test_native_images import check, normal

from npinfer.executors.native.executor import NativeExecutor
from npinfer.graph import Op
from npinfer.ops.activations import Activation
from npinfer.ops.norm import GroupNorm
from npinfer.ops.resize import Resize

RESIZED: list[tuple[tuple[int, ...], Op]] = [
    *(
        ((4, 5, c), Resize(None, method, centered=middle, factors=f))
        for method, c, middle, f in product(
            ("nearest", "bilinear"), (1, 3, 16, 17), (True, False), ((1, 1), (2, 2), (3, 1), (1, 4), (5, 3))
        )
    ),
    *(((1, 1, 3), Resize((4, 3), method)) for method in ("nearest", "bilinear")),
    *(((6, 8, 3), Resize((3, 2), method)) for method in ("nearest", "bilinear")),
]
NORMS: list[tuple[tuple[int, ...], Op]] = [
    *(
        ((5, 4, 12), GroupNorm(g, -1, gamma=gamma, beta=beta))
        for g in (1, 3, 4, 12)
        for gamma, beta in ((None, None), (normal(12), None), (normal(12), normal(12)))
    ),
    ((6, 4), GroupNorm(2, -2, 1e-5, normal(6, 1), normal(6, 1))),
    ((3, 4, 36), GroupNorm(2, -1, gamma=normal(36), beta=normal(4, 1))),
    ((7, 5, 8), GroupNorm(4, -1, gamma=normal(8), beta=normal(5, 8))),
    ((6,), GroupNorm(3, -1, 0.1)),
    ((3, 4, 5, 6), GroupNorm(2, -1, gamma=normal(6))),
]


@pytest.mark.parametrize(("shape", "op"), [*RESIZED, *NORMS], ids=repr)
def test_one_op(shape: tuple[int, ...], op: Op) -> None:
    x = normal(5, *shape)
    check(chain(shape, op), x)
    check(chain(shape, Activation("tanh"), op, Activation("relu")), x)


@pytest.mark.parametrize("factors", [(1, 1), (2, 3)])
@pytest.mark.parametrize("method", ["nearest", "bilinear"])
def test_not_a_number_and_infinity(method: str, factors: tuple[int, int]) -> None:
    x = normal(4, 4, 5, 3)
    x[0, 2, 3, 1], x[1, 0, 0, 0], x[2, 3, 4, 2], x[2, 0, 0, 2] = np.nan, np.inf, -np.inf, np.nan
    graph = chain((4, 5, 3), Resize(None, method, factors=factors))
    with np.errstate(invalid="ignore"):
        expected = graph(x)[0]
    np.testing.assert_allclose(NativeExecutor(graph, 1).run([x])[0], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "op", [Resize((7, 9)), Resize(None, factors=(7, 1)), Resize((8, 10), "bicubic"), Resize((2, 10), antialias=True)], ids=repr
)
def test_sizes_whose_places_are_uneven_run_through_their_meaning_run_through_their_meaning(op: Op) -> None:
    check(chain((4, 5, 3), op), normal(3, 4, 5, 3), covered=False)
