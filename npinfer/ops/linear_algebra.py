"""keras.ops.linalg inside functional models: factors, inverses and solutions of square matrices of each sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.arithmetic import operands, unary
from npinfer.ops.cast import as_float
from npinfer.ops.registry import LayerCall, Value, operation
from npinfer.ops.shapes import agree


def _triangular(lower: bool) -> Callable[[Array, Array], Array]:
    """NumPy has no triangular solver: the other triangle is left out and the rest solved."""
    return lambda a, b: np.linalg.solve(np.tril(a) if lower else np.triu(a), b)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "cholesky": np.linalg.cholesky,
    "solve": np.linalg.solve,
    "solve_lower": _triangular(True),
    "solve_upper": _triangular(False),
}


class LinearAlgebra(Op):
    """FUNCTIONS[kind] of square matrices (…, n, n); the solvers take right-hand sides (…, n, k) too. Where NumPy finds a matrix
    singular, or not positive definite, that is an error of the call (numpy.linalg.LinAlgError), as in Keras."""

    kind: str

    def infer(self, a: Spec, *b: Spec) -> Spec:
        if len(a.shape) < 2:
            raise ShapeError("square matrices are needed")
        agree(a.shape[-2], a.shape[-1])
        if not b:
            return Spec(a.shape[:-2] if self.kind == "det" else a.shape, a.dtype)
        if len(b[0].shape) != len(a.shape):
            raise ShapeError("right-hand sides of equal rank are needed")
        agree(a.shape[-1], b[0].shape[-2])
        return Spec((*(agree(m, n) for m, n in zip(a.shape[:-2], b[0].shape[:-2])), *b[0].shape[-2:]), a.dtype)

    def __call__(self, a: Array, *b: Array) -> Array:
        return np.asarray(FUNCTIONS[self.kind](a, *b), a.dtype)


@operation("Inv", "Det", "Cholesky", "Logdet")
def of_one(call: LayerCall, *args: Any) -> Value:
    """Of square matrices of each sample."""
    (x,) = operands(call, args, "x")
    name = call.layer.class_name
    if call.config.get("upper"):
        call.refuse("option upper=True")
    if name == "Logdet":
        return unary(call, "log", call.emit(LinearAlgebra("det"), as_float(call, x)))
    return call.emit(LinearAlgebra(name.lower()), as_float(call, x))


@operation("Solve", "SolveTriangular")
def of_two(call: LayerCall, *args: Any) -> Value:
    """Of square matrices and right-hand sides of each sample."""
    a, b = operands(call, args, "a", "b")
    if not (isinstance(a, Value) and isinstance(b, Value)):
        call.refuse("takes two tensors")
    kind = "solve"
    if call.layer.class_name == "SolveTriangular":
        kind = "solve_lower" if call.config.get("lower", False) else "solve_upper"
    return call.emit(LinearAlgebra(kind), as_float(call, a), as_float(call, b))
