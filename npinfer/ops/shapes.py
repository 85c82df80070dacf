"""Rules that many ops share: how shapes broadcast, how Keras promotes dtypes, which axis of a sample a file's axis means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from npinfer.errors import DtypeError, ShapeError
from npinfer.graph import Shape
from npinfer.ops.registry import LayerCall


def broadcast(*shapes: Shape) -> Shape:
    """NumPy's broadcasting, with unknown sizes; an unknown size against a known one above 1 must turn out to be that or 1."""
    rank = max(map(len, shapes))
    result: list[int | None] = []
    for sizes in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes)):
        known = {n for n in sizes if n is not None and n != 1}
        if len(known) > 1:
            raise ShapeError(f"shapes {', '.join(str(list(s)) for s in shapes)} can't be broadcast together")
        result.append(known.pop() if known else None if None in sizes else 1)
    return tuple(result)


def agree(a: int | None, b: int | None) -> int | None:
    """The common size of two axes that must be equal; ShapeError where they can't be."""
    if a is not None and b is not None and a != b:
        raise ShapeError(f"sizes {a} and {b} should be equal")
    return b if a is None else a


def product(sizes: Iterable[int | None]) -> int | None:
    """The number of elements, or None where a size is unknown."""
    total = 1
    for n in sizes:
        if n is None:
            return None
        total *= n
    return total


def promote(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """Keras's result_type: as NumPy's, but an integer beside a float takes the float's type (int64 with float32: float32)."""
    floats = [d for d in dtypes if d.kind == "f"]
    if any(d.kind not in "fiub" for d in dtypes):
        raise DtypeError(f"dtypes {', '.join(map(str, dtypes))} can't be combined")
    result: np.dtype[Any] = np.result_type(*(floats or dtypes))
    return result


def sample_axis(call: LayerCall, axis: Any, rank: int, what: str = "axis") -> int:
    """The axis of a sample (0 is its first) that a file's axis means, which counts the batch axis too.

    rank: of the batched array that the axis counts in. Refuses the batch axis; ShapeError where there is no such axis."""
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool):
        call.refuse(f"{what}={axis!r}; one whole number is needed")
    place = int(axis) + rank if axis < 0 else int(axis)
    if not 0 <= place < rank:
        raise ShapeError(f"layer {call.name!r}: {what}={axis} of an array with {rank} axes")
    if place == 0:
        call.refuse(f"{what}={axis} is the batch axis; npinfer never mixes samples")
    return place - 1


def sample_axes(call: LayerCall, axes: Any, rank: int, what: str = "axis") -> tuple[int, ...]:
    """As sample_axis for one or several axes, sorted. None, all of them, holds the batch axis and is refused."""
    if axes is None:
        call.refuse(f"{what}=None takes in the batch axis; npinfer never mixes samples")
    several = axes if isinstance(axes, (list, tuple)) else [axes]
    return tuple(sorted({sample_axis(call, a, rank, what) for a in several}))
