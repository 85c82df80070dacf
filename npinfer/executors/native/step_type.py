"""The type of compiled steps: a heap type whose objects Python calls directly at a C address, made without a C compiler.

`PyType_FromSpec` makes it from a description; `__vectorcalloffset__` says where an object holds the address that a call jumps
to. An object holds that address, its record's address (abi.py), and one reference to a tuple that owns all that the record
points to. The garbage collector sees the tuple through the functions that CPython uses for classes with `__slots__`.
Python code can't replace the tuple, and can't make, subclass or copy such an object without a record.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from npinfer.executors.native import abi

# Include/typeslots.h, object.h, structmember.h: part of the stable ABI
TP_CALL, TP_DEALLOC, TP_TRAVERSE, TP_MEMBERS = 50, 52, 71, 72
DEFAULT, HAVE_GC, HAVE_VECTORCALL, NO_INSTANTIATION = 1 << 18, 1 << 14, 1 << 11, 1 << 7
T_OBJECT_EX, T_PYSSIZET, READONLY = 16, 19, 1


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("pfunc", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Slotted:
    """A class as Python makes them: the source of the functions that find and free an object's slots."""

    __slots__ = ("one",)


def _owner_of(step: Any) -> Any:
    """The Python-level step that a compiled one stands for (step.py): the first of the tuple it owns."""
    return make_type()[1].__get__(step)[0]


def _look_up(step: Any, name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"a compiled step has no attribute {name!r}")
    return getattr(_owner_of(step), name)


def _forward(name: str) -> Any:
    return property(lambda self: getattr(_owner_of(self), name), lambda self, value: setattr(_owner_of(self), name, value))


@cache
def make_type() -> tuple[type, Any]:
    """The type and the descriptor of its objects' hidden owner. Call only where abi.unfit() is None."""
    members = (_Member * 4)(
        _Member(b"__vectorcalloffset__", T_PYSSIZET, abi.VECTORCALL, READONLY, None),
        _Member(b"__weaklistoffset__", T_PYSSIZET, abi.WEAKREFS, READONLY, None),
        _Member(b"_owner", T_OBJECT_EX, abi.OWNER, 0, None),
        _Member(),
    )
    get_slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(("PyType_GetSlot", ctypes.pythonapi))
    # no tp_clear: a cycle is broken elsewhere, and a step never outlives what its record points to
    slots = (_Slot * 5)(
        _Slot(TP_CALL, abi.address(ctypes.pythonapi.PyVectorcall_Call)),
        _Slot(TP_MEMBERS, ctypes.addressof(members)),
        *(_Slot(which, get_slot(_Slotted, which)) for which in (TP_DEALLOC, TP_TRAVERSE)),
        _Slot(0, None),
    )
    flags = DEFAULT | HAVE_GC | HAVE_VECTORCALL | NO_INSTANTIATION
    spec = _Spec(f"{__name__}.Step".encode(), abi.SIZE, 0, flags, slots)
    from_spec = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Spec))(("PyType_FromSpec", ctypes.pythonapi))
    made: Any = from_spec(ctypes.byref(spec))
    # CPython copies all but, before 3.14, the members' and the type's names: those stay for good
    _kept.extend((members, spec))
    owner = made._owner
    del made._owner
    made.__doc__ = (
        "A compiled callable for a fixed number of samples: step(x) → array, step(x, out) → out; several inputs, then several "
        "outputs, all positional; a tuple for several outputs."
    )
    made.__reduce__ = lambda self: _owner_of(self).__reduce__()
    made.__repr__ = lambda self: repr(_owner_of(self))
    made.__getattr__ = _look_up
    made.state = _forward("state")
    return made, owner


_kept: list[Any] = []


def make_step(code_address: int, record_address: int, owner: tuple[Any, ...]) -> Any:
    """A callable object. owner: what it owns, first the Python-level step that attributes are looked up in."""
    kind, hidden = make_type()
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_ssize_t)
    allocate = prototype(("PyType_GenericAlloc", ctypes.pythonapi))
    step = allocate(kind, 0)
    hidden.__set__(step, owner)
    ctypes.c_int64.from_address(id(step) + abi.RECORD).value = record_address
    ctypes.c_int64.from_address(id(step) + abi.VECTORCALL).value = code_address
    return step
