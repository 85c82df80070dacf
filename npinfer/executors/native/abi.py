"""What compiled code knows of CPython's and NumPy's objects, and the record that a bound callable runs from.

Nothing here needs Numba or llvmlite. Offsets are compiled in and compared with probe arrays when the engine starts; where they
or the interpreter don't fit (free-threaded builds, PyPy, 32 bits, subinterpreters) a step takes the ordinary Python path.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from npinfer.frozen import Frozen
from npinfer.graph import Array, Graph

# ---- CPython and NumPy: in 8-byte words of an object, flags and nd in 4-byte words
HEAD: Final = 16  # bytes of a plain object: reference count and type
TYPE: Final = 1
DATA: Final = 2
NDIM_32: Final = 6
DIMS: Final = 4
DESCR: Final = 7
FLAGS_32: Final = 16
CARRAY_RO: Final = 0x0101  # C-contiguous and aligned
CARRAY: Final = 0x0501  # and writeable
WARN_ON_WRITE: Final = 1 << 31  # NumPy wants a say before such an array is written to

# ---- our callable's object: after the head (step_type.py lays it out)
VECTORCALL: Final = 16
RECORD: Final = 24
OWNER: Final = 32
WEAKREFS: Final = 40
SIZE: Final = 48

# ---- the record of a bound callable, in 8-byte words
CONTEXT: Final = 0  # first argument of the entry (record.py)
ROWS: Final = 1
PARKED: Final = 2  # address of a scratch block that one call at a time takes (by an atomic exchange with 0) and puts back
PARKED_BYTES: Final = 3
MALLOC: Final = 4  # scratch for calls that find it taken
FREE: Final = 5
RUN: Final = 6  # address of the compiled `run`, for jitted callers
INPUTS: Final = 7  # numbers of positional inputs, of outputs, of states
OUTPUTS: Final = 8
STATES: Final = 9
STATES_AT: Final = 10  # address of the states' addresses: those to read, then those to write; exchanged after each good run
LONG: Final = 11  # 1: a run takes longer than letting other threads have the interpreter meanwhile
SLOW: Final = 12  # the checked Python function that everything else goes to
KEPT: Final = 13  # the object returned each time with reuse_output, else 0
ARRAY_TYPE: Final = 14
API: Final = 15  # eight addresses, in the order of `Api`
ARGUMENTS: Final = 24  # a block for each input, then for each output:
A_DESCR: Final = 0  # the dtype object
A_NDIM: Final = 1
A_DIMS: Final = 2  # address of the expected sizes
A_FLAGS: Final = 3
A_BYTES: Final = 4
A_KEPT: Final = 5  # reuse_output: address of this output's memory
ARGUMENT_WORDS: Final = 6

MAX_POINTERS: Final = 32  # inputs + outputs + 2 · states that the compiled call has room for; more take the ordinary path
LONG_WORK: Final = 1_000_000  # multiply-adds, about 50 µs
NO_MEMORY: Final = -2  # a status of `run` beside the entry's


class Code(NamedTuple):
    """Addresses of the compiled functions (code.py); they stay valid until the process ends."""

    entry: int  # entry(ctx, ins, outs, rows, scratch) -> status, see record.py
    run: int  # run(record, ins, outs) -> status: the entry with scratch found for it
    vectorcall: int


class Network(Frozen):
    """What a bound callable or a jitted caller needs of the executor.

    context: address of the executor's context record (record.py), the same for the executor's whole life. graph: the graph it
    runs, every size known. owner: keeps alive all that the context's addresses reach. work: multiply-adds a sample.
    explain(status, arrays): the exception for a status of the entry that isn't 0, arrays as they were given to it.
    """

    code: Code
    context: int
    graph: Graph
    owner: object
    work: int
    explain: Callable[[int, Sequence[Array]], Exception]


class Api(NamedTuple):
    """Addresses of the C functions that the compiled call uses."""

    vectorcall: int
    incref: int
    decref: int
    new_array: int
    new_tuple: int
    set_item: int
    save_thread: int
    restore_thread: int


def address(function: Any) -> int:
    """Where a C function that ctypes found lives."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def allocator() -> tuple[int, int]:
    """malloc and free that need no GIL."""
    return address(ctypes.pythonapi.PyMem_RawMalloc), address(ctypes.pythonapi.PyMem_RawFree)


@cache
def numpy_table() -> int:
    """Address of NumPy's C-API table."""
    module = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    return int(get(vars(module)["_ARRAY_API"], None) or 0)


def _table_entry(index: int) -> int:
    return ctypes.c_void_p.from_address(numpy_table() + ctypes.sizeof(ctypes.c_void_p) * index).value or 0


@cache
def api() -> Api:
    """The addresses; call it only where `unfit()` is None."""
    c = ctypes.pythonapi
    new_array = _table_entry(94)  # PyArray_NewFromDescr: numpy/_core/code_generators/numpy_api.py
    # what calls the slow path, which is a plain function; 3.10 exports no PyObject_Vectorcall
    vectorcall = getattr(c, "PyObject_Vectorcall", None) or c._PyFunction_Vectorcall
    return Api(
        address(vectorcall),
        address(c.Py_IncRef),
        address(c.Py_DecRef),
        new_array,
        address(c.PyTuple_New),
        address(c.PyTuple_SetItem),
        address(c.PyEval_SaveThread),
        address(c.PyEval_RestoreThread),
    )


@cache
def unfit() -> str | None:
    """Why the compiled call can't be used in this process, or None. Reads probe arrays, never writes."""
    if sys.implementation.name != "cpython":
        return f"the interpreter is {sys.implementation.name}, not CPython"
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "the machine isn't 64-bit little-endian"
    if "free-threading" in sys.version:
        return "this Python is free-threaded"
    if object.__basicsize__ != HEAD:
        return "this Python was built with other object headers"
    try:
        current, main = (getattr(ctypes.pythonapi, f"PyInterpreterState_{n}") for n in ("Get", "Main"))
        current.restype = main.restype = ctypes.c_void_p
        if current() != main():
            return "this is a subinterpreter"
        if _table_entry(2) != id(np.ndarray):
            return "NumPy's C-API table has another order"
        api()
    except (AttributeError, KeyError, ValueError) as e:
        return f"an address of CPython or NumPy wasn't found: {e}"
    if np.ndarray.__basicsize__ < FLAGS_32 * 4 + 4 or not all(_as_expected(a) for a in _probes()):
        return "NumPy's arrays are laid out differently"
    return None


def _probes() -> list[Array]:
    base = np.arange(60, dtype=np.float32)
    frozen = base.reshape(3, 4, 5)
    frozen.flags.writeable = False
    shifted = np.zeros(17, np.uint8)[1:].view(np.float32)
    return [base, frozen, base[::2], base.reshape(6, 10).T, shifted, np.zeros((), np.int32), np.zeros((2, 1, 7), np.float64)]


def _as_expected(a: Array) -> bool:
    """Whether the compiled-in offsets read the same of `a` as NumPy says."""
    at = id(a)
    words = (ctypes.c_int64 * 9).from_address(at)
    halves = (ctypes.c_uint32 * 18).from_address(at)
    if (words[TYPE], words[DESCR], words[DATA], halves[NDIM_32]) != (id(np.ndarray), id(a.dtype), a.ctypes.data, a.ndim):
        return False
    if a.ndim and tuple((ctypes.c_int64 * a.ndim).from_address(words[DIMS])) != a.shape:
        return False
    flags = halves[FLAGS_32]
    carray = a.flags.c_contiguous and a.flags.aligned
    return (flags & CARRAY_RO == CARRAY_RO) == carray and (flags & CARRAY == CARRAY) == (carray and a.flags.writeable)
