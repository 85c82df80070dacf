"""Recurrence: cells (one time step) and Recurrent, which walks a cell along a sequence. The layers are in rnn_layers.py.

A cell splits its step in two. `project` is what doesn't depend on the state, done for all steps in one matrix product;
`advance` is the rest, done step by step. A stream and the whole-sequence run use the same `advance`.

States that decay into subnormal numbers keep their exact values here; an engine that flushes them says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from npinfer.errors import DtypeError, ShapeError
from npinfer.graph import Array, Op, Shape, Spec, Streamed


class Cell(Op):
    """One step of a recurrence: (x, *states) -> (y, *next states). Arrays carry a batch axis in front."""

    #: names of the states, for people
    state_names: ClassVar[tuple[str, ...]] = ("h",)

    def state_shapes(self, x: Spec) -> tuple[Shape, ...]:
        """The states' shapes a sample, for inputs x of one step; raises ShapeError where x or the weights don't fit."""
        raise NotImplementedError

    def project(self, x: Array) -> Array:
        """The part of a step that needs no state. x: (..., *step shape), any axes in front."""
        raise NotImplementedError

    def advance(self, projected: Array, *states: Array) -> tuple[Array, ...]:
        """(y, *next states) from one step's projection and the states."""
        raise NotImplementedError

    def infer(self, x: Spec, *states: Spec) -> tuple[Spec, ...]:
        shapes = self.state_shapes(x)
        if x.dtype.kind != "f":
            raise DtypeError(f"the input is {x.dtype}; a floating-point dtype is needed")
        if len(states) != len(shapes):
            raise ShapeError(f"{len(states)} states given; the cell has {len(shapes)} ({', '.join(self.state_names)})")
        for name, state, shape in zip(self.state_names, states, shapes):
            if not _fits(state.shape, shape) or state.dtype != x.dtype:
                raise ShapeError(f"state {name} is {state.dtype}{list(state.shape)}; {x.dtype}{list(shape)} is needed")
        return tuple(Spec(shape, x.dtype) for shape in (shapes[0], *shapes))

    def __call__(self, x: Array, *states: Array) -> tuple[Array, ...]:
        return self.advance(self.project(x), *states)


def _fits(given: Shape, needed: Shape) -> bool:
    return len(given) == len(needed) and all(a is None or b is None or a == b for a, b in zip(given, needed))


class GatedCell(Cell):
    """A cell with activations: ops on states (n, *state shape), None: linear."""

    activation: Op | None
    recurrent_activation: Op | None

    def act(self, x: Array) -> Array:
        return x if self.activation is None else self.activation(x)

    def gates(self, z: Array, count: int) -> list[Array]:
        """The recurrent activation of `count` parts of z's last axis: at once where it is elementwise, else part by part (a
        softmax is over the units of one gate)."""
        op = self.recurrent_activation
        if op is None or op.elementwise:
            return np.split(z if op is None else op(z), count, axis=-1)
        return [op(part) for part in np.split(z, count, axis=-1)]

    def lstm(self, z: Array, c: Array) -> tuple[Array, ...]:
        """(y, h', c') from the sum of all products, z = input, forget, candidate, output gate one after another:
        c' = gate(z_f) * c + gate(z_i) * activation(z_c); h' = gate(z_o) * activation(c'); y = h'."""
        units = c.shape[-1]
        i, f = self.gates(z[..., : 2 * units], 2)
        c = f * c + i * self.act(z[..., 2 * units : 3 * units])
        h = self.gates(z[..., 3 * units :], 1)[0] * self.act(c)
        return h, h, c


class MatrixCell(GatedCell):
    """A cell of matrix products. kernel: (inputs, parts·units); recurrent_kernel: (units, parts·units); bias: (parts·units,)
    or None."""

    kernel: Array
    recurrent_kernel: Array
    bias: Array | None = None
    parts: ClassVar[int] = 1

    def state_shapes(self, x: Spec) -> tuple[Shape, ...]:
        if self.kernel.ndim != 2 or self.recurrent_kernel.ndim != 2:
            raise ShapeError(f"kernels of shape {self.kernel.shape} and {self.recurrent_kernel.shape}; two axes are needed")
        units = self.recurrent_kernel.shape[0]
        wide = self.parts * units
        if self.recurrent_kernel.shape[1] != wide or self.kernel.shape[1] != wide:
            raise ShapeError(
                f"kernels of shape {self.kernel.shape} and {self.recurrent_kernel.shape}; {units} units need (…, {wide})"
            )
        for bias in (self.bias, getattr(self, "recurrent_bias", None)):
            if bias is not None and bias.shape != (wide,):
                raise ShapeError(f"the bias has shape {bias.shape}; ({wide},) is needed")
        if len(x.shape) != 1 or x.shape[0] not in (None, self.kernel.shape[0]):
            raise ShapeError(f"a step has shape {list(x.shape)}; the kernel takes ({self.kernel.shape[0]},)")
        return ((units,),) * len(self.state_names)

    def project(self, x: Array) -> Array:
        p: Array = np.matmul(x, self.kernel)
        if self.bias is not None:
            p += self.bias
        return p


class SimpleRNNCell(MatrixCell):
    """h' = activation(x @ kernel + bias + h @ recurrent_kernel); y = h'."""

    def advance(self, projected: Array, *states: Array) -> tuple[Array, ...]:
        z = np.matmul(states[0], self.recurrent_kernel)
        z += projected
        h = self.act(z)
        return h, h


class LSTMCell(MatrixCell):
    """z = x @ kernel + bias + h @ recurrent_kernel, then GatedCell.lstm."""

    state_names: ClassVar[tuple[str, ...]] = ("h", "c")
    parts: ClassVar[int] = 4

    def advance(self, projected: Array, *states: Array) -> tuple[Array, ...]:
        z = np.matmul(states[0], self.recurrent_kernel)
        z += projected
        return self.lstm(z, states[1])


class GRUCell(MatrixCell):
    """z, r = gate(x @ kernel + bias + h @ recurrent_kernel) in parts (update, reset, candidate):
    h' = z * h + (1 - z) * activation(x_c + candidate); y = h'.

    reset_after: candidate = r * (h @ recurrent_kernel_c + recurrent_bias_c), else (r * h) @ recurrent_kernel_c.
    recurrent_bias: (3·units,), only with reset_after.
    """

    recurrent_bias: Array | None = None
    reset_after: bool = False
    parts: ClassVar[int] = 3

    def advance(self, projected: Array, *states: Array) -> tuple[Array, ...]:
        h = states[0]
        two = 2 * h.shape[-1]
        own = self.recurrent_kernel[:, two:]
        m = np.matmul(h, self.recurrent_kernel if self.reset_after else self.recurrent_kernel[:, :two])
        if self.reset_after and self.recurrent_bias is not None:
            m += self.recurrent_bias
        z, r = self.gates(projected[:, :two] + m[:, :two], 2)
        candidate = r * m[:, two:] if self.reset_after else np.matmul(r * h, own)
        candidate += projected[:, two:]
        h = z * h + (1 - z) * self.act(candidate)
        return h, h


#: What a masked step gives out instead of its own output. Its states always stay as they were.
MASKED = {
    "previous": "the output of the step before, zeros before the first",
    "state": "the first state",
    "zero": "zeros",
}


class Recurrent(Op):
    """Walk a cell along the first axis of each sample: (x, *states[, mask]) -> (y, *last states).

    x: (t, *step shape). states: the cell's, or none at all (zeros). y: (t, *output shape), in the order of the walk, or the
    last output without return_sequences. masked: None, or a key of MASKED; the last input is then a boolean (t,), False at
    the steps to skip. go_backwards: walk from the last step to the first.
    """

    cell: Cell
    return_sequences: bool = False
    go_backwards: bool = False
    masked: str | None = None

    def time_inputs(self) -> tuple[int, ...]:
        return (0,) if self.masked is None else (0, -1)

    def split(self, rest: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """The inputs after x, as (states, mask or None)."""
        return (tuple(rest), None) if self.masked is None else (tuple(rest[:-1]), rest[-1])

    def infer(self, x: Spec, *rest: Spec) -> tuple[Spec, ...]:
        states, mask = self.split(rest)
        if len(x.shape) < 2:
            raise ShapeError(f"a sequence of shape {list(x.shape)}; (time steps, features) is needed")
        step = Spec(x.shape[1:], x.dtype)
        if not states:
            states = tuple(Spec(shape, x.dtype) for shape in self.cell.state_shapes(step))
        y, *last = self.cell.infer(step, *states)
        if mask is not None and (mask.dtype != bool or not _fits(mask.shape, x.shape[:1])):
            raise ShapeError(f"the mask is {mask.dtype}{list(mask.shape)}; bool[{x.shape[0]}] is needed")
        return (Spec((x.shape[0], *y.shape), x.dtype) if self.return_sequences else y, *last)

    def __call__(self, x: Array, *rest: Array) -> tuple[Array, ...]:
        states, mask = self.split(rest)
        n, steps = x.shape[:2]
        projected = self.cell.project(np.ascontiguousarray(x.swapaxes(0, 1)))
        if not states:
            shapes = self.cell.state_shapes(Spec(x.shape[2:], x.dtype))
            states = tuple(np.zeros((n, *s), x.dtype) for s in shapes)
        y, ys = np.zeros_like(states[0]), []
        for k in reversed(range(steps)) if self.go_backwards else range(steps):
            if mask is None:
                y, *new = self.cell.advance(projected[k], *states)
            else:
                y, *new = masked_step(self.cell, self.masked, projected[k], mask[:, k], y, states)
            states = tuple(new)
            if self.return_sequences:
                ys.append(y)
        if self.return_sequences:
            y = np.stack(ys, axis=1) if ys else np.zeros((n, 0, *y.shape[1:]), y.dtype)
        return (y, *states)

    def stream(self, x: Spec, *rest: Spec) -> Streamed | None:
        if self.go_backwards:
            raise ShapeError("it reads the sequence from its end (go_backwards)")
        states, mask = self.split(rest)
        specs = [s._replace(name=n) for s, n in zip(self.infer(x, *rest)[1:], self.cell.state_names)]
        count = len(specs)
        starts: list[int | None] = [k + 1 if states else None for k in range(count)]
        own = tuple(-1 - k for k in range(count))
        timed = (self.return_sequences, *(False,) * count)
        following = tuple(range(1, count + 1))
        results = tuple(range(count + 1))
        if mask is None:
            return Streamed(self.cell, (0, *own), tuple(specs), tuple(starts), following, results, timed)
        # the output before the first step is zero: that is the first state too, unless the caller gave one
        kept = self.masked == "previous" and bool(states)
        op = MaskedStep(self.cell, "state" if self.masked == "previous" and not kept else str(self.masked))
        if kept:
            specs.append(specs[0]._replace(name="y"))
            starts.append(None)
            own, following = (*own, -1 - count), (*following, 0)
        return Streamed(op, (0, *own, len(rest)), tuple(specs), tuple(starts), following, results, timed)


def masked_step(
    cell: Cell, masked: str | None, projected: Array, mask: Array, before: Array, states: Sequence[Array]
) -> tuple[Array, ...]:
    """A step where samples whose mask (n,) is False keep their states; `before` is the output of the step before."""
    y, *new = cell.advance(projected, *states)
    at = mask.reshape(-1, *(1,) * (y.ndim - 1))
    other = {"previous": before, "state": states[0], "zero": np.zeros((), y.dtype)}[masked or "previous"]
    return (np.where(at, y, other), *(np.where(at, a, b) for a, b in zip(new, states)))


class MaskedStep(Op):
    """One step of a cell where a boolean says whether it counts: (x, *states[, previous y], mask) -> (y, *next states).

    masked: a key of MASKED; "previous" reads the previous output after the states.
    """

    cell: Cell
    masked: str

    def infer(self, x: Spec, *rest: Spec) -> tuple[Spec, ...]:
        states, mask = rest[:-1], rest[-1]
        if mask.dtype != bool or mask.shape != ():
            raise ShapeError(f"the mask is {mask.dtype}{list(mask.shape)}; one bool a step is needed")
        return self.cell.infer(x, *(states[:-1] if self.masked == "previous" else states))

    def __call__(self, x: Array, *rest: Array) -> tuple[Array, ...]:
        states, mask = rest[:-1], rest[-1]
        before = states[-1]
        if self.masked == "previous":
            states = states[:-1]
        return masked_step(self.cell, self.masked, self.cell.project(x), mask, before, states)
