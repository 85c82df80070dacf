"""Embedding: rows of a table by index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from npinfer.errors import DtypeError, ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.affine import Affine
from npinfer.ops.cast import Cast, as_float
from npinfer.ops.dense import Dense
from npinfer.ops.masking import Differs
from npinfer.ops.registry import LayerCall, Value, layer


class Embedding(Op):
    """table[x]: integers of any shape give one row of the table each.

    table: (rows, width). An index below 0 or beyond the last row is a ShapeError of the call that brings it: no row is right.
    """

    table: Array
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        if self.table.ndim != 2:
            raise ShapeError(f"the table has shape {list(self.table.shape)}; it must be (rows, width)")
        if x.dtype.kind not in "iu":
            raise DtypeError(f"indices must be integers, the input is {x.dtype}")
        return Spec((*x.shape, self.table.shape[1]), self.table.dtype)

    def __call__(self, x: Array) -> Array:
        # as unsigned numbers, negative indices are beyond the table too: one check, which take makes anyway
        unsigned = x.view(f"u{x.dtype.itemsize}") if x.dtype.itemsize < 8 else x
        try:
            if unsigned is x and x.size and not 0 <= x.min() <= x.max() < len(self.table):
                raise IndexError
            return self.table.take(unsigned, axis=0)
        except IndexError:
            raise ShapeError(
                f"Embedding: indices from {x.min()} to {x.max()}; the table's rows are 0 to {len(self.table) - 1}"
            ) from None


def _variables(config: Mapping[str, Any]) -> Iterator[str]:
    yield "embeddings"
    if config.get("tie_weights") is False:
        yield "reverse_embeddings"


def _indices(call: LayerCall, x: Value) -> Value:
    return x if x.spec.dtype.kind in "iu" else call.emit(Cast(np.dtype("int32")), x)


def _table(call: LayerCall) -> Array:
    if not call.quantization:
        return call.weights["embeddings"]
    from npinfer.ops import quantized

    return quantized.table(call)


def _looked_up(call: LayerCall, x: Value, mask: bool) -> Value:
    y = call.emit(Embedding(_table(call)), _indices(call, x))
    return y._replace(mask=call.emit(Differs(0.0), x) if mask else None)


@layer("Embedding", variables=_variables, mask="own", quantized=("int8", "int4"))
def embedding(call: LayerCall, x: Value) -> Value:
    """Indices are checked; mask_zero; LoRA; quantized to int8 or int4. Fractions are cut off, as Keras does."""
    call.take("mask")
    return _looked_up(call, x, bool(call.config.get("mask_zero", False)))


@layer("ReversibleEmbedding", variables=_variables, mask="own")
def reversible_embedding(call: LayerCall, x: Value) -> Value:
    """As Embedding; reverse=True multiplies by the table's transpose, with logit_soft_cap."""
    call.take("mask")
    if not call.take("reverse", False):
        return _looked_up(call, x, bool(call.config.get("mask_zero", False)))
    kernel = call.weights["reverse_embeddings"] if call.config.get("tie_weights") is False else call.weights["embeddings"].T
    y = call.emit(Dense(np.ascontiguousarray(kernel)), as_float(call, x))
    cap = call.config.get("logit_soft_cap")
    if cap is None:
        return y
    none = np.zeros((), call.dtype)
    y = call.emit(Affine(np.asarray(1 / float(cap), call.dtype), none), y)
    y = call.emit(Activation("tanh"), y)
    return call.emit(Affine(np.asarray(cap, call.dtype), none), y)
