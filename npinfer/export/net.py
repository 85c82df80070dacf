"""An ONNX graph under construction, as plain data: no `onnx` is needed before the graph is written (onnx.py).

Conversions between channels-last and channels-first vanish where they meet: `Net.transpose` looks through the transposition
that made its input, equal nodes are made once, and nodes that nothing reads are dropped in the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from npinfer.errors import UnsupportedError
from npinfer.export.values import BEFORE_FIRST, BOOL, INT32, INT64, LAST, Body, NodeRecord, Operand, Value, ints
from npinfer.graph import Array, Op, Shape


class Net:
    """The nodes and weights made so far. `apply` translates one of npinfer's ops (registry.py hands it in)."""

    def __init__(self, apply: Callable[[Net, Op, Sequence[Value]], tuple[Value, ...]]) -> None:
        self.nodes: list[NodeRecord] = []
        self.weights: dict[str, Array] = {}
        self.layer = ""  # of the layer at hand, for names
        self._apply = apply
        self._names: dict[str, int] = {}
        self._constants: dict[object, str] = {}
        self._made: dict[object, tuple[Value, ...]] = {}

    def apply(self, op: Op, *values: Value) -> Value:
        """The translation of an op; its first result."""
        return self._apply(self, op, values)[0]

    def apply_all(self, op: Op, *values: Value) -> tuple[Value, ...]:
        return self._apply(self, op, values)

    def refuse(self, reason: str) -> NoReturn:
        """Give up on this op: the export goes on, to name all such ops, and fails in the end."""
        raise UnsupportedError(reason)

    def unique(self, name: str) -> str:
        """`name`, or name_1, name_2 … where it is taken."""
        wanted = name
        while name in self._names:
            self._names[wanted] += 1
            name = f"{wanted}_{self._names[wanted]}"
        self._names[name] = 0
        return name

    def constant(self, array: Array, hint: str = "constant") -> str:
        """The name of a stored array; equal arrays are stored once."""
        array = np.ascontiguousarray(array) if array.ndim else array
        key = (array.dtype.str, array.shape, hashlib.blake2b(array.tobytes() if array.nbytes < 4096 else array.data).digest())
        if key not in self._constants:
            name = self._constants[key] = self.unique(f"{self.layer or 'network'}/{hint}")
            self.weights[name] = array
        return self._constants[key]

    def fixed(self, array: Array, hint: str = "constant") -> Value:
        """A stored array as a Value (without a batch axis)."""
        return Value(self, self.constant(array, hint), array.dtype)

    def node(self, kind: str, *inputs: Operand, dtype: np.dtype[Any] | None = None, **attributes: Any) -> Value:
        """A node of one result, whose dtype is that of its first Value unless another is given."""
        return self.nodes_of(kind, inputs, 1, dtype, attributes)[0]

    def nodes_of(
        self, kind: str, inputs: Sequence[Operand], count: int, dtype: np.dtype[Any] | None, attributes: dict[str, Any]
    ) -> tuple[Value, ...]:
        """A node of `count` results of one dtype. Among the inputs None is one that is left out."""
        like = next((i.dtype for i in inputs if isinstance(i, Value)), dtype)
        names = [self._name(i, like) for i in inputs]
        while names and not names[-1]:
            names.pop()
        key = (
            kind,
            tuple(names),
            count,
            *((k, v if isinstance(v, (int, float, str)) else repr(v)) for k, v in attributes.items()),
        )
        unshared = any(isinstance(v, Body) for v in attributes.values())
        if key in self._made and not unshared:
            return self._made[key]
        outputs = tuple(self.unique(f"{self.layer}/{kind}:{k}" if count > 1 else f"{self.layer}/{kind}") for k in range(count))
        self.nodes.append(NodeRecord(kind, tuple(names), outputs, attributes, outputs[0]))
        assert dtype is not None or like is not None
        made = tuple(Value(self, o, np.dtype(dtype or like)) for o in outputs)
        if not unshared:
            self._made[key] = made
        return made

    def _name(self, operand: Operand, like: np.dtype[Any] | None) -> str:
        if operand is None:
            return ""
        if isinstance(operand, Value):
            return operand.name
        if isinstance(operand, str):
            return operand
        return self.constant(operand if isinstance(operand, np.ndarray) else np.asarray(operand, like))

    def where(self, condition: Value, x: Operand, y: Operand) -> Value:
        dtype = next(np.dtype(o.dtype) for o in (x, y) if isinstance(o, (Value, np.ndarray)))
        x, y = (o if isinstance(o, (Value, np.ndarray)) else np.asarray(o, dtype) for o in (x, y))
        if dtype in (BOOL, np.dtype("int16")):  # for which ONNX Runtime has no Where
            wide = (o.cast(INT32) if isinstance(o, Value) else o.astype(INT32) for o in (x, y))
            return self.node("Where", condition, *wide, dtype=INT32).cast(dtype)
        return self.node("Where", condition, x, y, dtype=dtype)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """x with its axes (batch counted) in another order; no node where the order comes back to one that exists."""
        order = tuple(order)
        if x.origin is not None:
            source, before = x.origin
            order, x = tuple(before[a] for a in order), source
        if order == tuple(range(len(order))):
            return x
        y = x.do("Transpose", perm=order)
        made = Value(self, y.name, y.dtype, None if x.shape is None or order[0] else tuple(x.shape[a - 1] for a in order[1:]))
        made.origin = (x, order)
        return made

    def flip(self, x: Value, axis: int) -> Value:
        """x with an axis (batch counted) turned around; twice is not at all."""
        if x.origin is not None:
            source, order = x.origin
            return self.transpose(self.flip(source, order[axis]), order)
        if x.flipped is not None and x.flipped[1] == axis:
            return x.flipped[0]
        y = x.slice(axis, LAST, BEFORE_FIRST, -1)
        made = Value(self, y.name, y.dtype, x.shape)
        made.flipped = (x, axis)
        return made

    def copy(self, x: Value, name: str = "copy") -> Value:
        """x under a name of its own, as the outputs of bodies need it."""
        made = Value(self, self.unique(f"{self.layer}/{name}"), x.dtype, x.shape)
        self.nodes.append(NodeRecord("Identity", (x.name,), (made.name,), {}, made.name))
        return made

    def size(self, x: Value, axis: int) -> int | Value:
        """The size of an axis (batch counted): a number where it is known, else an int64 vector of one entry."""
        known = None if axis == 0 or x.shape is None else x.shape[axis - 1]
        return known if known is not None else x.do("Shape", dtype=INT64, start=axis, end=axis + 1)

    def shape(self, x: Value) -> list[int | Value]:
        """All sizes of x, the batch's too."""
        return [self.size(x, a) for a in range(x.rank)]

    def vector(self, sizes: Sequence[int | Value]) -> Operand:
        """Sizes as one int64 vector, stored where all are numbers."""
        if not any(isinstance(n, Value) for n in sizes):
            return ints([n for n in sizes if isinstance(n, int)])
        parts = [n if isinstance(n, Value) else ints([n]) for n in sizes]
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, dtype=INT64, axis=0)

    def reshape(self, x: Value, sizes: Sequence[int | Value]) -> Value:
        """x in another shape; as in ONNX, 0 is the input's own size of that axis and -1 whatever is left."""
        return x.do("Reshape", self.vector(sizes))

    def filled(self, value: float, sizes: Sequence[int | Value], dtype: np.dtype[Any]) -> Value:
        return self.node("ConstantOfShape", self.vector(sizes), dtype=dtype, value=np.asarray([value], dtype))

    def arange(self, n: int | Value, dtype: np.dtype[Any] = INT64) -> Value:
        """0 … n-1 (no batch axis)."""
        if isinstance(n, int):
            return self.fixed(np.arange(n, dtype=dtype))
        zero, one = np.asarray(0, INT64), np.asarray(1, INT64)
        return self.node("Range", zero, n.squeeze(0), one, dtype=INT64).cast(dtype)

    @contextmanager
    def body(self) -> Iterator[list[NodeRecord]]:
        """Nodes that are made inside go into the list that is given; what they make isn't known outside."""
        nodes, made = self.nodes, dict(self._made)
        self.nodes = inner = list[NodeRecord]()
        try:
            yield inner
        finally:
            self.nodes, self._made = nodes, made

    def placeholder(self, dtype: np.dtype[Any], shape: Shape | None = None, name: str = "step") -> Value:
        """A value that comes from outside: an input of the graph, or of a body."""
        return Value(self, self.unique(name), dtype, shape)


def channels_first(x: Value) -> Value:
    """A channels-last value with its channels after the batch axis."""
    return x.net.transpose(x, (0, x.rank - 1, *range(1, x.rank - 1)))


def channels_last(y: Value, rank: int) -> Value:
    """A channels-first value of `rank` axes with its channels last."""
    return y.net.transpose(y, (0, *range(2, rank), 1))


def beneath(x: Value, *numbers: Array | None) -> tuple[Value, list[Array | None], Callable[[Value], Value]]:
    """What x is a transposition of (x itself if of nothing), arrays that broadcast against x in that order of axes, and the way
    back: so that elementwise work with weights happens before the transposition."""
    if x.origin is None:
        return x, list(numbers), lambda y: y
    source, order = x.origin
    back = np.argsort(order)

    def turned(n: Array | None) -> Array | None:
        if n is None or n.size == 1:
            return n
        return n.reshape((1,) * (len(order) - n.ndim) + n.shape).transpose(back)

    return source, [turned(n) for n in numbers], lambda y: x.net.transpose(y, order)
