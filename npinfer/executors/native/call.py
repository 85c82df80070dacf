"""The two compiled functions around the entry: `run` finds scratch for it, `vectorcall` is what `step(x)` executes.

build.py joins them with the entry in one object file. Addresses are plain integers; every function of CPython and NumPy is
called by an address from the record, so that the object file has no undefined symbol.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from npinfer.executors.native import abi, record
from npinfer.executors.native.vector import i32_at, i64_at, i64_put, jit

I8, I64 = ir.IntType(8), ir.IntType(64)
STACK_BYTES = 12 << 10  # scratch of small networks: taking it from the stack saves two atomic exchanges
ENTRY = "npinfer_entry"
WORDS = 8
POINTER_BYTES = WORDS * abi.MAX_POINTERS
#: PyVectorcall_NARGS: the top bit says that args[-1] may be overwritten
COUNT_MASK = (1 << 63) - 1


def _call(context: Any, function: Any, arguments: Any) -> Any:
    """Call the C function at an address with a tuple of integers; its result as an integer."""

    def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
        values = [b.extract_value(args[1], k) for k in range(len(s.args[1]))]
        kind = ir.FunctionType(I64, [I64] * len(values))
        return b.call(b.inttoptr(args[0], kind.as_pointer()), values)

    parameters: Any = types.UniTuple
    return types.intp(types.intp, parameters(types.intp, len(arguments))), codegen


def _stack(context: Any, n_bytes: Any) -> Any:
    """The address of that many bytes (a constant) of the function's own stack frame, 64-byte aligned."""

    def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
        with b.goto_entry_block():  # cgutils.alloca_once would fill it with zeros in each call
            place = b.alloca(ir.ArrayType(I8, n_bytes.literal_value))
        place.align = 64
        return b.ptrtoint(place, I64)

    return types.intp(n_bytes), codegen


def _exchange(context: Any, where: Any, value: Any) -> Any:
    """Write an int64 and return what was there, as one step that other threads see whole."""

    def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
        return b.atomic_rmw("xchg", b.inttoptr(args[0], I64.as_pointer()), args[1], "acq_rel")

    return types.intp(types.intp, types.intp), codegen


def _entry(context: Any, ctx: Any, ins: Any, outs: Any, rows: Any, scratch: Any) -> Any:
    """The entry, by its name: compiled for itself, and joined with these functions in the object file."""

    def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
        found = b.module.globals.get(ENTRY) or ir.Function(b.module, ir.FunctionType(I64, [I64] * 5), ENTRY)
        return b.call(found, args)

    return types.intp(*(types.intp,) * 5), codegen


call: Any = intrinsic(_call)
entry: Any = intrinsic(_entry)
stack: Any = intrinsic(prefer_literal=True)(_stack)
exchange: Any = intrinsic(_exchange)


@jit
def run(r: int, ins: int, outs: int) -> int:
    """The entry on scratch of this call's own: the stack's, the parked block, or a fresh one. Returns the entry's status."""
    context, rows = i64_at(r, abi.CONTEXT), i64_at(r, abi.ROWS)
    own = stack(STACK_BYTES)
    while True:
        need = i64_at(context, record.SCRATCH_FIXED) + i64_at(context, record.SCRATCH_ROW) * min(
            rows, i64_at(context, record.TILE)
        )
        scratch, parked, block = own, 0, 0
        if need > STACK_BYTES:
            parked = exchange(r + WORDS * abi.PARKED, 0)
            scratch = parked
            if parked == 0 or i64_at(r, abi.PARKED_BYTES) < need:
                block = call(i64_at(r, abi.MALLOC), (need + 64,))
                if block == 0:
                    if parked != 0:
                        exchange(r + WORDS * abi.PARKED, parked)
                    return abi.NO_MEMORY
                scratch = (block + 63) & -64
                i64_put(scratch, 0, need)
        else:
            i64_put(scratch, 0, STACK_BYTES)
        status = entry(context, ins, outs, rows, scratch)
        if parked != 0:
            exchange(r + WORDS * abi.PARKED, parked)
        if block != 0:
            call(i64_at(r, abi.FREE), (block,))
        if status != record.NO_SCRATCH:
            return int(status)


@jit
def fits(r: int, a: int, x: int) -> bool:
    """Whether an object is the ndarray that argument block `a` asks for. Nothing is read that earlier answers don't cover."""
    if i64_at(x, abi.TYPE) != i64_at(r, abi.ARRAY_TYPE) or i64_at(x, abi.DESCR) != i64_at(a, abi.A_DESCR):
        return False
    flags = i64_at(a, abi.A_FLAGS)
    ndim = i64_at(a, abi.A_NDIM)
    if i32_at(x, abi.FLAGS_32) & (flags | abi.WARN_ON_WRITE) != flags or i32_at(x, abi.NDIM_32) != ndim:
        return False
    have, want = i64_at(x, abi.DIMS), i64_at(a, abi.A_DIMS)
    for k in range(ndim):  # noqa: SIM110
        if i64_at(have, k) != i64_at(want, k):
            return False
    return True


@jit
def gather(r: int, args: int, n: int, pointers: int) -> bool:
    """Data addresses of inputs, states, outputs and next states into `pointers`. False if an argument doesn't fit or overlaps
    an output; outputs that are still to be made stay 0."""
    inputs, outputs, states = i64_at(r, abi.INPUTS), i64_at(r, abi.OUTPUTS), i64_at(r, abi.STATES)
    a = r + WORDS * abi.ARGUMENTS
    for k in range(inputs + outputs):
        at = k if k < inputs else k + states
        if k < n:
            x = i64_at(args, k)
            if not fits(r, a, x):
                return False
            data = i64_at(x, abi.DATA)
        else:
            data = i64_at(a, abi.A_KEPT)
        i64_put(pointers, at, data)
        if k >= inputs and data != 0:
            end, b = data + i64_at(a, abi.A_BYTES), r + WORDS * abi.ARGUMENTS
            for j in range(k):
                other = i64_at(pointers, j if j < inputs else j + states)
                if other < end and data < other + i64_at(b, abi.A_BYTES):
                    return False
                b += WORDS * abi.ARGUMENT_WORDS
        a += WORDS * abi.ARGUMENT_WORDS
    places = i64_at(r, abi.STATES_AT)
    for k in range(states):
        i64_put(pointers, inputs + k, i64_at(places, k))
        i64_put(pointers, inputs + states + outputs + k, i64_at(places, states + k))
    return True


@jit
def drop(r: int, objects: int, count: int) -> None:
    for k in range(count):
        call(i64_at(r, abi.API + 2), (i64_at(objects, k),))


@jit
def make_outputs(r: int, objects: int, pointers: int) -> bool:
    """A new array for each output; False with Python's exception set."""
    first = i64_at(r, abi.INPUTS)
    a = r + WORDS * (abi.ARGUMENTS + first * abi.ARGUMENT_WORDS)
    for k in range(i64_at(r, abi.OUTPUTS)):
        descr = i64_at(a, abi.A_DESCR)
        call(i64_at(r, abi.API + 1), (descr,))  # PyArray_NewFromDescr takes over a reference to it
        made = call(
            i64_at(r, abi.API + 3), (i64_at(r, abi.ARRAY_TYPE), descr, i64_at(a, abi.A_NDIM), i64_at(a, abi.A_DIMS), 0, 0, 0, 0)
        )
        if made == 0:
            drop(r, objects, k)
            return False
        i64_put(objects, k, made)
        i64_put(pointers, first + i64_at(r, abi.STATES) + k, i64_at(made, abi.DATA))
        a += WORDS * abi.ARGUMENT_WORDS
    return True


@jit
def as_result(r: int, objects: int) -> int:
    """One object or a tuple of several; takes over the references. 0 with Python's exception set."""
    count = i64_at(r, abi.OUTPUTS)
    if count == 1:
        only: int = i64_at(objects, 0)
        return only
    several: int = call(i64_at(r, abi.API + 4), (count,))
    if several == 0:
        drop(r, objects, count)
        return 0
    for k in range(count):
        call(i64_at(r, abi.API + 5), (several, k, i64_at(objects, k)))
    return several


@jit
def advance(r: int) -> None:
    """What was written becomes what is read next."""
    places, states = i64_at(r, abi.STATES_AT), i64_at(r, abi.STATES)
    for k in range(states):
        old = i64_at(places, k)
        i64_put(places, k, i64_at(places, states + k))
        i64_put(places, states + k, old)


@jit
def vectorcall(self: int, args: int, flagged: int, names: int) -> int:
    """PyObject *step(self, args, nargsf, kwnames): what fits as it is runs here, all else goes to the slow path."""
    r = i64_at(self, abi.RECORD // WORDS)
    n = flagged & COUNT_MASK
    inputs, outputs, kept = i64_at(r, abi.INPUTS), i64_at(r, abi.OUTPUTS), i64_at(r, abi.KEPT)
    pointers, objects = stack(POINTER_BYTES), stack(POINTER_BYTES)
    if names == 0 and (n == inputs or n == inputs + outputs) and gather(r, args, n, pointers):
        fresh = n == inputs and kept == 0
        if fresh and not make_outputs(r, objects, pointers):
            return 0
        outs = pointers + WORDS * (inputs + i64_at(r, abi.STATES))
        if i64_at(r, abi.LONG) != 0:
            thread = call(i64_at(r, abi.API + 6), ())
            status = run(r, pointers, outs)
            call(i64_at(r, abi.API + 7), (thread,))
        else:
            status = run(r, pointers, outs)
        if status == 0:
            advance(r)
            if fresh:
                return int(as_result(r, objects))
            if n == inputs:
                call(i64_at(r, abi.API + 1), (kept,))
                return int(kept)
            for k in range(outputs):
                call(i64_at(r, abi.API + 1), (i64_at(args, inputs + k),))
            return int(as_result(r, args + WORDS * inputs))
        if fresh:
            drop(r, objects, outputs)
    # a failed run is repeated there, to raise the error that names the input
    result: int = call(i64_at(r, abi.API), (i64_at(r, abi.SLOW), args, n, names))
    return result
