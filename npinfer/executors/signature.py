"""Checking and casting of the arrays that callers hand in: shared by Model's calls and every engine's bound callables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.errors import ArgumentError, DtypeError, ShapeError
from npinfer.graph import Array, Shape, Spec


def cast(value: Any, spec: Spec, where: str) -> Array:
    """value as a C-contiguous, aligned array of spec.dtype in native byte order; its shape isn't looked at.

    Floats and integers are converted as Keras converts inputs. Raises DtypeError for complex numbers, text and objects, and
    for integers that the input's dtype can't hold.
    """
    given = value if type(value) is np.ndarray else _array(value, where)
    if given.dtype.kind not in "fiub":
        if given.dtype.kind == "O":
            raise ShapeError(f"{where}: got objects or a ragged list; needs numbers of shape {show(spec.shape)} a sample")
        raise DtypeError(f"{where}: got {given.dtype}; needs {spec.dtype}; convert it with .astype first")
    if spec.dtype.kind in "iu" and given.dtype != spec.dtype and given.size:
        limits = np.iinfo(spec.dtype)
        if given.dtype.kind == "f" and not np.isfinite(given).all():
            raise DtypeError(f"{where}: holds NaN or infinity; needs {spec.dtype}")
        if given.dtype.kind in "fiu" and (given.max() > limits.max or given.min() < limits.min):
            raise DtypeError(f"{where}: holds values that {spec.dtype} can't hold ({given.min()} … {given.max()})")
    with np.errstate(over="ignore", invalid="ignore"):
        return np.require(given, spec.dtype, ("C", "A"))


def _array(value: Any, where: str) -> Array:
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError, RuntimeError) as e:
        raise ShapeError(f"{where}: not an array of numbers: {e}") from None


def fits(shape: Sequence[int], expected: Shape) -> bool:
    """Whether sizes agree with a spec's, unknown ones with anything."""
    return len(shape) == len(expected) and all(b is None or a == b for a, b in zip(shape, expected))


def show(shape: Sequence[int | None]) -> str:
    """A shape for a message: (50, ?, 3)."""
    return "(" + ", ".join("?" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"


class Signature:
    """The arguments of a bound callable: step(x0, x1, …) or step(x0, x1, …, out0, out1, …), all positional.

    inputs, outputs: specs with every size known; rows: the fixed batch size, or None for one sample without a batch axis.
    """

    def __init__(self, inputs: Sequence[Spec], outputs: Sequence[Spec], rows: int | None) -> None:
        self.inputs, self.outputs, self.rows = tuple(inputs), tuple(outputs), rows
        lead = () if rows is None else (rows,)
        self.input_shapes = tuple((*lead, *sizes(s)) for s in inputs)
        self.output_shapes = tuple((*lead, *sizes(s)) for s in outputs)

    def arrays(self, args: Sequence[Any]) -> list[Array]:
        """The input arguments, cast and checked. Raises ShapeError or DtypeError naming the input."""
        found = []
        for spec, shape, value in zip(self.inputs, self.input_shapes, args):
            where = f"input {spec.name!r}"
            array = cast(value, spec, where)
            if array.shape != shape:
                raise ShapeError(f"{where}: expected shape {show(shape)}, got {show(array.shape)}{self._hint(array, shape)}")
            found.append(array)
        return found

    def split(self, args: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any] | None]:
        """args as (inputs, outs or None). Raises ArgumentError (a TypeError) where their number fits neither form."""
        k, n = len(self.inputs), len(self.inputs) + len(self.outputs)
        if len(args) == k:
            return args, None
        if len(args) == n:
            return args[:k], args[k:]
        raise ArgumentError(f"step() takes {k} arguments, or {n} with outputs, got {len(args)}: {self.usage()}")

    def outs(self, outs: Sequence[Any]) -> list[Array]:
        """The output arguments, checked: they are written to, so nothing is cast. Raises TypeError, ShapeError, DtypeError."""
        for spec, shape, out in zip(self.outputs, self.output_shapes, outs):
            where = f"out for {spec.name!r}"
            if not isinstance(out, np.ndarray):
                raise DtypeError(f"{where}: needs a NumPy array to write to, got {type(out).__name__}")
            if out.shape != shape:
                raise ShapeError(f"{where}: expected shape {show(shape)}, got {show(out.shape)}")
            if out.dtype.kind not in "fiubc" or not np.can_cast(spec.dtype, out.dtype, "same_kind"):
                raise DtypeError(f"{where}: {out.dtype} can't hold {spec.dtype}")
            if not out.flags.writeable:
                raise DtypeError(f"{where}: is read-only")
        if any(np.shares_memory(a, b) for k, a in enumerate(outs) for b in outs[:k]):
            raise ShapeError("outs: two of them share memory; give each output an array of its own")
        return list(outs)

    def usage(self) -> str:
        ins, outs = ", ".join(s.name for s in self.inputs), ", ".join(f"out_{s.name}" for s in self.outputs)
        return f"step({ins}) or step({ins}, {outs})"

    def _hint(self, array: Array, shape: Sequence[int]) -> str:
        if self.rows is None and array.shape[1:] == tuple(shape):
            return "; bind() makes a callable for one sample: use model(x) or bind(batch=…) for batches"
        return ""


def sizes(spec: Spec) -> tuple[int, ...]:
    """A spec's shape, which must be known."""
    if any(n is None for n in spec.shape):
        raise ShapeError(f"{spec.name!r} has shape {show(spec.shape)} a sample; fix the unknown sizes with bind(shape=…)")
    return tuple(n for n in spec.shape if n is not None)


def fix(inputs: Sequence[Spec], shapes: Sequence[Sequence[int]]) -> tuple[Spec, ...]:
    """The specs with all sizes given."""
    return tuple(s._replace(shape=tuple(int(n) for n in shape)) for s, shape in zip(inputs, shapes))
