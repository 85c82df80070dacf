"""`model.jit`: a network that code compiled by Numba calls like a function, as an argument or as a captured global.

Compiled callers hold one address, that of the record (abi.py), so new weights are seen at once and nothing is compiled again.
What a caller is compiled for (numbers of dimensions, dtypes) is in the Numba type; sizes are read from the record at run time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed, impl_ret_new_ref, lower_constant
from numba.core.typing.templates import signature
from numba.extending import NativeValue, lower_builtin, models, register_model, typeof_impl, unbox

from npinfer.errors import ShapeError
from npinfer.executors.native import abi
from npinfer.executors.native.abi import Network
from npinfer.executors.native.step import NativeStep, Record
from npinfer.executors.signature import Signature
from npinfer.executors.steps import Rebind, graph_signature
from npinfer.graph import Graph

I64 = ir.IntType(64)
SHAPES = "npinfer: an array's shape isn't the network's"
OVERLAP = "npinfer: an output shares memory with an input or with another output"
INDEX = "npinfer: an embedding index is out of range"
MEMORY = "npinfer: no memory for a run's intermediate results"

#: Networks whose address is a constant of machine code, which may live as long as the process.
_captured: list[Any] = []


def _layout() -> str:
    """Stands for what compiled callers know of the record: one cached by Numba must not meet another npinfer's."""
    digest = hashlib.sha256()
    for name in ("abi.py", "jit.py"):
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()[:16]


Argument = tuple[str, int]  # dtype, number of dimensions


class NetworkType(types.Callable):
    """The Numba type of networks that take and give arrays of these dtypes and numbers of dimensions."""

    def __init__(self, inputs: tuple[Argument, ...], outputs: tuple[Argument, ...], layout: str) -> None:
        self.inputs, self.outputs, self.layout = inputs, outputs, layout
        super().__init__(name=f"npinfer.jit({inputs} -> {outputs}, {layout})")

    @property
    def key(self) -> Any:
        return self.inputs, self.outputs, self.layout

    def get_call_type(self, context: Any, args: Sequence[Any], kws: Any) -> Any:
        n, m = len(self.inputs), len(self.outputs)
        if kws or len(args) not in (n, n + m):
            raise TypingError(f"npinfer: the network takes {n} arrays, or {n + m} with outputs, all positional")
        for k, (got, (dtype, ndim)) in enumerate(zip(args, (*self.inputs, *self.outputs))):
            where = f"input {k}" if k < n else f"output {k - n}"
            if not isinstance(got, types.Array) or got.ndim != ndim or got.dtype != from_dtype(np.dtype(dtype)):
                raise TypingError(f"npinfer: {where} must be a {ndim}-dimensional array of {dtype}, not {got}")
            if got.layout != "C":
                raise TypingError(f"npinfer: {where} must be C-contiguous (np.ascontiguousarray), not {got}")
            if k >= n and not got.mutable:
                raise TypingError(f"npinfer: {where} is read-only")
        outs = args[n:] or [types.Array(from_dtype(np.dtype(d)), ndim, "C") for d, ndim in self.outputs]
        return signature(outs[0] if m == 1 else types.Tuple(tuple(outs)), *args, recvr=self)

    def get_call_signatures(self) -> Any:
        return (), True

    def get_impl_key(self, sig: Any) -> Any:
        return NetworkType, "call"


class Jit:
    """A network for code compiled by Numba: `jit(x)` or `jit(x, out)`, positional as in `bind()`; one sample, any thread.

    Arrays must be C-contiguous, of exactly the input's dtype and number of dimensions (else Numba's TypingError while
    it compiles), and of its shape (else ShapeError when it runs, as for outputs that share memory with other arguments;
    IndexError for an embedding index out of range). Numba loses exceptions raised inside `prange`. A function that captures it
    as a global isn't cached by `cache=True`; pass it as an argument there. In plain Python it does what `bind()` does.

    A network with states keeps none here, so that any thread may call it: `jit(x, *states)` gives (*outputs, *next states),
    `jit(x, *states, *outs, *next_states)` fills them. Begin with zeros; a next state can't be written over the one before.
    """

    def __init__(self, network: Network, rebind: Rebind) -> None:
        network = without_states(network)
        self._record, self._rebind = Record(network, None), rebind
        self._step = NativeStep(network, None, False, rebind)
        self.signature: Signature = graph_signature(network.graph, None)
        sides = (self.signature.inputs, self.signature.outputs)
        inputs, outputs = (tuple((s.dtype.name, len(s.shape)) for s in side) for side in sides)
        # made once: Numba asks for it at each call from Python that has the network as an argument
        self._numba_type_ = NetworkType(inputs, outputs, _LAYOUT)
        self.address: int = self._record.address

    def __call__(self, *args: Any) -> Any:
        return self._step(*args)

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(str, side)) for side in (self.signature.inputs, self.signature.outputs))
        return f"<npinfer function for njit: {ins} -> {outs}; {self._rebind}>"

    def __reduce__(self) -> Any:
        return _restore, (self._rebind,)


def without_states(network: Network) -> Network:
    """The same network with its states as inputs and outputs like others, behind them, where the entry has them anyway."""
    graph = network.graph
    outputs = (*graph.outputs, *(s.output for s in graph.states))
    return network.replace(graph=Graph(graph.inputs, graph.nodes, outputs))


_LAYOUT = _layout()


def _restore(rebind: Rebind) -> Any:
    return rebind()


@typeof_impl.register(Jit)
def _typeof(value: Jit, context: Any) -> NetworkType:
    return value._numba_type_


@register_model(NetworkType)
class _Address(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, I64)


@unbox(NetworkType)
def _unbox(kind: Any, value: Any, c: Any) -> Any:
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    return NativeValue(address, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@lower_constant(NetworkType)
def _constant(context: Any, builder: Any, kind: Any, value: Jit) -> Any:
    _captured.append(value)
    # "dynamic": Numba then doesn't write the caller, with an address of this process, into a cache file
    return builder.ptrtoint(context.add_dynamic_addr(builder, value.address, info="npinfer network"), I64)


@lower_builtin((NetworkType, "call"), types.VarArg(types.Any))
def _lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind: NetworkType = sig.recvr or sig.args[0]
    given = [(t, v) for t, v in zip(sig.args[-(len(args) - 1) :], args[1:])]
    call = _Call(context, builder, args[0], kind)
    n = len(kind.inputs)
    places = [call.check(k, *pair) for k, pair in enumerate(given)]
    fresh = len(given) == n
    results = call.make_outputs() if fresh else [v for _, v in given[n:]]
    if fresh:
        outs = sig.return_type if len(results) > 1 else (sig.return_type,)
        places += [call.data(t, v) for t, v in zip(outs, results)]
    else:
        call.check_overlap(places)
    call.run(places[:n], places[n:])
    result = results[0] if len(results) == 1 else context.make_tuple(builder, sig.return_type, results)
    return (impl_ret_new_ref if fresh else impl_ret_borrowed)(context, builder, sig.return_type, result)


def _empty(dtype: Any) -> Any:
    def new(shape: Any) -> Any:
        return np.empty(shape, dtype)

    return new


class _Call:
    """Emits the machine code of one call of a network whose record is at an address."""

    def __init__(self, context: Any, builder: Any, record: Any, kind: NetworkType) -> None:
        self.context, self.b, self.kind = context, builder, kind
        self.record = builder.inttoptr(record, I64.as_pointer())
        self.address = record

    def word(self, k: int) -> Any:
        return self.b.load(self.b.gep(self.record, [I64(k)]))

    def block(self, k: int, word: int) -> Any:
        """A word of argument k's block."""
        return self.word(abi.ARGUMENTS + abi.ARGUMENT_WORDS * k + word)

    def sizes(self, k: int, ndim: int) -> list[Any]:
        dims = self.b.inttoptr(self.block(k, abi.A_DIMS), I64.as_pointer())
        return [self.b.load(self.b.gep(dims, [I64(j)])) for j in range(ndim)]

    def refuse(self, condition: Any, error: type[Exception], message: str) -> None:
        with self.b.if_then(condition, likely=False):
            self.context.call_conv.return_user_exc(self.b, error, (message,))

    def data(self, kind: Any, value: Any) -> Any:
        array = self.context.make_array(kind)(self.context, self.b, value)
        return self.b.ptrtoint(array.data, I64)

    def check(self, k: int, kind: Any, value: Any) -> Any:
        """Raise unless argument k has the network's shape; its data's address."""
        array = self.context.make_array(kind)(self.context, self.b, value)
        for j, size in enumerate(self.sizes(k, kind.ndim)):
            got = self.b.extract_value(array.shape, j)
            self.refuse(self.b.icmp_signed("!=", got, size), ShapeError, SHAPES)
        return self.b.ptrtoint(array.data, I64)

    def check_overlap(self, places: list[Any]) -> None:
        b = self.b
        ends = [b.add(at, self.block(k, abi.A_BYTES)) for k, at in enumerate(places)]
        for k in range(len(self.kind.inputs), len(places)):
            for j in range(k):
                both = b.and_(b.icmp_unsigned("<", places[j], ends[k]), b.icmp_unsigned("<", places[k], ends[j]))
                self.refuse(both, ShapeError, OVERLAP)

    def make_outputs(self) -> list[Any]:
        made = []
        for k, (name, ndim) in enumerate(self.kind.outputs):
            sizes = types.UniTuple(types.intp, ndim)
            shape = self.context.make_tuple(self.b, sizes, self.sizes(len(self.kind.inputs) + k, ndim))
            result = types.Array(from_dtype(np.dtype(name)), ndim, "C")
            made.append(self.context.compile_internal(self.b, _empty(np.dtype(name)), signature(result, sizes), [shape]))
        return made

    def run(self, ins: list[Any], outs: list[Any]) -> None:
        b = self.b
        with b.goto_entry_block():
            space = b.alloca(ir.ArrayType(I64, len(ins) + len(outs)))
        for k, at in enumerate([*ins, *outs]):
            b.store(at, b.gep(space, [I64(0), I64(k)]))
        kind = ir.FunctionType(I64, [I64] * 3)
        first = b.ptrtoint(space, I64)
        function = b.inttoptr(self.word(abi.RUN), kind.as_pointer())
        status = b.call(function, [self.address, first, b.add(first, I64(8 * len(ins)))])
        with b.if_then(b.icmp_signed("!=", status, I64(0)), likely=False):
            self.refuse(b.icmp_signed("==", status, I64(abi.NO_MEMORY)), MemoryError, MEMORY)
            self.context.call_conv.return_user_exc(b, IndexError, (INDEX,))
