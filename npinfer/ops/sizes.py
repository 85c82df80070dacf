"""Shapes and constants that a file computes with (`tf.shape(x)[0]`, `tf.range(4)`), while lowering.

A call takes and gives, beside Values (tensors of the graph):

- `Sizes`, an array of numbers that need no call: constants and shapes. An entry that only a call knows is a `Size`, a symbol;
- `StepsInBatch`, a tensor of the graph whose batch, as the file sees it, counts the steps of all samples.

evaluation.py computes what needs Sizes alone: to add an operation, add a line to its table EVALUATED. An operation that takes
Sizes beside tensors says so where it is registered (`takes=("sizes",)`), as those of size_operations.py do; sized.py holds the
ops that they become where sizes are unknown. The size of the batch stays a symbol: it may say where the batch goes in a new
shape, and enters no arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npinfer.frozen import Frozen
from npinfer.graph import Array
from npinfer.ops.registry import LayerCall, Value
from npinfer.trees import holds, mapped

BATCH = "the size of the batch would enter its arithmetic; npinfer computes each sample alone"
LARGEST = 1 << 24  # entries of a constant


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


def is_batch(size: Any) -> bool:
    """Whether this is the size of the batch itself, not a number computed from it."""
    return isinstance(size, Size) and size.kind == "batch"


class Sizes(Frozen):
    """An array of numbers, or (dtype object) of numbers and Sizes; it has no batch axis."""

    array: Array

    @property
    def known(self) -> bool:
        return self.array.dtype != object

    def plain(self) -> Any:
        """A Python number for a single one, else the array."""
        return self.array.item() if not self.array.ndim else self.array


class StepsInBatch(Frozen):
    """A tensor whose batch, as the file sees it, counts the steps of all samples (tf.reshape(x, [-1, size])): the first axis of
    `value` are the steps. What is computed from it is computed for each step alone, until a reshape gives the batch back."""

    value: Value


def has_tensors(tree: Any) -> bool:
    return holds(tree, (Value, StepsInBatch))


def needs_evaluation(args: Any, kwargs: Any) -> bool:
    """Whether a call holds Sizes, or no tensor at all."""
    return not has_tensors([args, kwargs]) or holds([args, kwargs], Sizes)


def shape_of(x: Value | StepsInBatch) -> Sizes:
    """The shape of a tensor as the file sees it, with the batch in front."""
    if isinstance(x, StepsInBatch):
        first, steps, *rest = shape_of(x.value).array
        return Sizes(np.array([Size("multiply", (first, steps)), *rest], object))
    sizes = [Size("axis", (x, k)) if n is None else n for k, n in enumerate(x.shape)]
    return Sizes(np.array([Size("batch", (x,)), *sizes], object))


def plain(tree: Any) -> Any:
    """The tree with Sizes that are known as numbers and arrays."""
    return mapped(tree, Sizes, lambda s: s.plain() if s.known else s)


def entries(call: LayerCall, given: Any) -> list[Any]:
    """A shape of the file as a list of numbers (None: -1) and Sizes."""
    if isinstance(given, Sizes):
        return [n if isinstance(n, Size) else int(n) for n in given.array.reshape(-1)]
    made = list[Any]()
    for n in given if isinstance(given, (list, tuple, np.ndarray)) else [given]:
        if isinstance(n, Sizes):
            made += entries(call, n)
        elif n is None or isinstance(n, Size):
            made.append(-1 if n is None else n)
        elif isinstance(n, (int, np.integer)) and not isinstance(n, bool):
            made.append(int(n))
        else:
            call.refuse(f"the shape {given!r}")
    return made


def bounded(call: LayerCall, *sizes: Any) -> None:
    """Refuse a constant of so many entries that only a damaged or hostile file asks for it."""
    count = math.prod(abs(int(n)) for n in sizes if not isinstance(n, Size))
    if count > LARGEST:
        call.refuse(f"a constant of {count} entries")
