"""What a file computes from the shapes of its tensors: numbers, and sizes that only a call knows (tf.shape(x)[0]).

These never are arrays of the graph: lowering keeps them beside it as `Sizes` and evaluates what can be (size_operations.py).
The size of the batch stays a symbol, which may say where the batch goes in a new shape and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer.frozen import Frozen
from npinfer.graph import Array
from npinfer.ops.registry import Value
from npinfer.trees import holds

BATCH = "the size of the batch would enter its arithmetic; npinfer computes each sample alone"


class Size(Frozen):
    """A size that a call knows. kind: "batch" (of the Value in operands), "axis" (Value, sample axis), "cast" (Size, dtype), or
    an elementwise function of arithmetic.py whose operands are numbers and Sizes."""

    kind: str
    operands: tuple[Any, ...]

    def __repr__(self) -> str:
        return {"batch": "batch size", "axis": "unknown size"}.get(self.kind, f"{self.kind} of {list(self.operands)}")

    @property
    def of_batch(self) -> bool:
        return self.kind == "batch" or any(isinstance(o, Size) and o.of_batch for o in self.operands)

    def same(self, other: Any) -> bool:
        """Whether both are sure to be equal."""
        if not isinstance(other, Size) or other.kind != self.kind:
            return False
        if self.kind == "batch":
            return True
        if self.kind == "axis":
            return bool(self.operands[0].number == other.operands[0].number and self.operands[1] == other.operands[1])
        return all(a.same(b) if isinstance(a, Size) else a == b for a, b in zip(self.operands, other.operands))


class Sizes(Frozen):
    """An array of numbers, or (dtype object) of numbers and Sizes; it has no batch axis."""

    array: Array

    @property
    def known(self) -> bool:
        return self.array.dtype != object

    def plain(self) -> Any:
        """A Python number for a single one, else the array."""
        return self.array.item() if not self.array.ndim else self.array


def shape_of(x: Value | Folded) -> Sizes:
    """The shape of a tensor as the file sees it, with the batch in front."""
    if isinstance(x, Folded):
        first, steps, *rest = shape_of(x.value).array
        return Sizes(np.array([Size("multiply", (first, steps)), *rest], object))
    sizes = [Size("axis", (x, k)) if n is None else n for k, n in enumerate(x.shape)]
    return Sizes(np.array([Size("batch", (x,)), *sizes], object))


class Folded(Frozen):
    """A tensor whose batch, as the file sees it, counts the steps of all samples (tf.reshape(x, [-1, size])): the first axis of
    `value` are the steps. What is computed from it is computed for each step alone, until a reshape gives the batch back."""

    value: Value


def has_values(tree: Any) -> bool:
    """Whether a tree holds a tensor."""
    return holds(tree, (Value, Folded))


def within(args: Any, kwargs: Any) -> bool:
    """Whether a call holds Sizes, or no tensor at all."""
    return not has_values([args, kwargs]) or holds([args, kwargs], Sizes)
