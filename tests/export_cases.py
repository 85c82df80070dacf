"""Ops for the tests of export: each op class with shapes of its inputs, as data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from export_layer_cases import attention_cases, image_cases, recurrent_cases
from export_op_case import SEED, F, OpCase, w

from npinfer.graph import Graph, Node, Spec
from npinfer.ops.activations import ACTIVATIONS, Activation
from npinfer.ops.affine import Affine
from npinfer.ops.arithmetic import BINARY, UNARY, Binary, NanToNum, Unary, Where
from npinfer.ops.cast import Cast
from npinfer.ops.causal import Window, WindowDense
from npinfer.ops.dense import Dense
from npinfer.ops.einsum import EinsumDense
from npinfer.ops.embedding import Embedding
from npinfer.ops.encoding import Count, Digitize, Lookup
from npinfer.ops.indexing import GetItem, OneHot, Take, TakeAlongAxis, TakeRows
from npinfer.ops.joining import Concatenate, FullLike, Pad, Repeat, Roll, Tile
from npinfer.ops.legacy import Highway, Maxout
from npinfer.ops.masking import Differs, StepsKept, ZeroUnless
from npinfer.ops.merge import Merge
from npinfer.ops.norm import GroupNorm, LayerNorm, RMSNorm, UnitNorm
from npinfer.ops.parametric import ParametricSoftplus, PReLU, SReLU
from npinfer.ops.products import BatchDot, Einsum, Matmul
from npinfer.ops.quantized import Float8Round, Int8Dense
from npinfer.ops.reductions import REDUCTIONS as REDUCED
from npinfer.ops.reductions import Along, Reduce, TopK, Triangle
from npinfer.ops.reshape import Reshape, Transpose
from npinfer.ops.sized import PerSample, SizedReshape, SizedTile, SizeOf
from npinfer.ops.softmax import Glu, LogSoftmax, Softmax, Sparsemax
from npinfer.ops.wrappers import TimeDistributed

PARAMETERS: dict[str, tuple[float, ...]] = {
    "relu_max": (1.5,), "leaky_relu": (0.25,), "relu_general": (0.1, 1.5, 0.3), "thresholded_relu": (0.7,), "elu": (0.7,),
    "celu": (0.7,), "hard_shrink": (0.4,), "soft_shrink": (0.4,), "squareplus": (3.0,), "threshold": (0.3, -0.7),
}  # fmt: skip
#: where functions are defined
DOMAINS = {
    **dict.fromkeys(("sqrt", "rsqrt", "log", "log2", "log10"), (0.01, 9.0)),
    **dict.fromkeys(("arcsin", "arccos", "arctanh"), (-0.95, 0.95)),
    "log1p": (-0.9, 2.0),
    "arccosh": (1.01, 9.0),
    "power": (0.1, 2.0),
}
INTEGER_UNARY = ("bitwise_not",)


def unary_cases() -> Iterator[OpCase]:
    for kind, parameters in ((k, PARAMETERS.get(k, ())) for k in ACTIVATIONS):
        yield OpCase(f"activation {kind}", Activation(kind, parameters), ((3, 8),), low=-7, high=7)
    for kind, rule in UNARY.items():
        dtype = "bool" if rule.takes == "bool" else "int32" if kind in INTEGER_UNARY else F
        # float32's cube roots and powers are a few roundings off
        yield OpCase(f"unary {kind}", Unary(kind), ((dtype, 3, 8),), (), *DOMAINS.get(kind, (-3.0, 3.0)), rtol64=4e-12)
    yield OpCase("int abs", Unary("abs"), (("int32", 6),))
    yield OpCase("int signbit", Unary("signbit"), (("int32", 6),))
    yield OpCase("int isfinite", Unary("isfinite"), (("int32", 6),))
    yield OpCase("int isnan", Unary("isnan"), (("int32", 6),))
    yield OpCase("int trunc", Unary("trunc"), (("int32", 6),))
    yield OpCase("int relu", Activation("relu"), (("int32", 6),))


def binary_cases() -> Iterator[OpCase]:
    for kind, rule in BINARY.items():
        low, high = DOMAINS.get(kind, (-3.0, 3.0))
        dtype = "bool" if rule.takes == "bool" else "int32" if kind.startswith("bitwise") else F
        yield OpCase(f"binary {kind}", Binary(kind), ((dtype, 3, 4), (dtype, 1, 4)), ((0, 0),), low, high)
        if rule.takes == "number" and kind not in ("power",):
            yield OpCase(f"int32 {kind}", Binary(kind), (("int32", 9), ("int32", 9)))
            yield OpCase(f"int16 {kind}", Binary(kind), (("int16", 9), ("int16", 9)))
    for kind in ("add", "multiply", "maximum", "minimum", "greater", "bitwise_xor"):
        yield OpCase(f"bool {kind}", Binary(kind), (("bool", 5), ("bool", 5)))
    yield OpCase("int power", Binary("power", np.asarray(2, np.int32)), (("int32", 5),))
    yield OpCase("constant on the left", Binary("subtract", w(4), True), ((3, 4),), ((0, 0),))
    yield OpCase("where", Where(), (("bool", 3, 1), (3, 4), (1, 4)), ((0, 0), (1, 0)))
    yield OpCase("where with a number", Where(x2=np.asarray(1, np.float32)), (("bool", 3), (3,)))
    yield OpCase("where of bool", Where(), (("bool", 3), ("bool", 3), ("bool", 3)))
    yield OpCase("nan_to_num", NanToNum(1.0, None, -5.0), ((4,),))
    for kind in ("add", "subtract", "multiply", "average", "maximum", "minimum"):
        count = 2 if kind == "subtract" else 3
        yield OpCase(f"merge {kind}", Merge(kind), ((3, 4),) * count, tuple((k, 0) for k in range(count)))


def dense_cases() -> Iterator[OpCase]:
    relu = Activation("relu")
    yield OpCase("dense", Dense(w(5, 3), w(3), relu), ((5,),))
    yield OpCase("dense over steps", Dense(w(5, 3), w(3), relu), ((4, 5),), ((0, 0),))
    yield OpCase("dense of integers", Dense(np.arange(6, dtype=np.int32).reshape(3, 2)), (("int32", 3),))
    yield OpCase("affine", Affine(w(5), w(5), w(5), relu), ((4, 5),), ((0, 0),))
    yield OpCase("einsum dense", EinsumDense("abc,bcd->ad", w(4, 5, 3), w(3)), ((4, 5),))
    yield OpCase("einsum dense turned", EinsumDense("aBc,cd->aBd", w(5, 3)), ((4, 5),), ((0, 0),))
    yield OpCase("matmul", Matmul(), ((2, 3, 4), (2, 4, 5)), ((0, 1),))
    yield OpCase("einsum", Einsum("nij,njk->nik"), ((3, 4), (4, 5)), ((0, 0),))
    yield OpCase("einsum with a constant", Einsum("ij,njk->nik", w(3, 4), 0), ((4, 5),), ((0, 1),))
    yield OpCase("dot", BatchDot((1, 0)), ((3, 4), (4, 2, 5)), ((0, 0),))
    yield OpCase("dot of vectors", BatchDot((0, 0)), ((4,), (4,)))
    yield OpCase("highway", Highway(w(5, 5), w(5, 5), w(5), w(5), Activation("tanh")), ((5,),))
    yield OpCase("highway plain", Highway(w(5, 5), w(5, 5)), ((5,),))
    yield OpCase("maxout", Maxout(w(3, 5, 4), w(3, 4)), ((5,),))
    yield OpCase("maxout without bias", Maxout(w(3, 5, 4)), ((5,),))
    whole = SEED.integers(-127, 127, (6, 4)).astype(np.float32)
    # a rounding to integers may fall to either side of a half
    yield OpCase("int8 dense", Int8Dense(whole, np.abs(w(4)) + 9, w(4)), ((6,),), rtol=2e-2)
    yield OpCase("float8", Float8Round(0.37), ((60,),), low=-99, high=99)
    yield OpCase("float8 small", Float8Round(2.0), ((60,),), low=-0.05, high=0.05)
    yield OpCase("embedding", Embedding(w(7, 3)), (("int32:7", 4),), ((0, 0),))
    yield OpCase("embedding of bytes", Embedding(w(7, 3)), (("uint8:7", 4),))
    yield OpCase("prelu", PReLU(w(5)), ((4, 5),), ((0, 0),))
    yield OpCase("parametric softplus", ParametricSoftplus(w(5), w(5)), ((4, 5),))
    yield OpCase("srelu", SReLU(w(5) - 1, w(5), w(5) + 3, w(5)), ((4, 5),))


def shape_cases() -> Iterator[OpCase]:
    yield OpCase("cast", Cast(np.dtype("int32")), ((4,),))
    yield OpCase("cast to bool", Cast(np.dtype(bool)), ((4,),))
    yield OpCase("reshape", Reshape((2, -1)), ((4, 3),), ((0, 0),))
    yield OpCase("flatten", Reshape((-1,)), ((4, 3, 2),), ((0, 0), (0, 1)))
    yield OpCase("transpose", Transpose((2, 0, 1)), ((4, 3, 2),), ((0, 0),))
    s = slice
    for key in (
        (s(1, -1), s(None, None, -1)), (0, None, s(None, None, 2)), (Ellipsis, -1), (s(None), 1, None),
        (s(-3, None), Ellipsis, 0), (s(None, None, -1),), (s(3, 0, -2),), (None,), (1, 2),
    ):  # fmt: skip
        yield OpCase(f"item {key}", GetItem(key), ((5, 4),), ((0, 0),))
    yield OpCase("take", Take(np.array([[0, -1], [2, 1]]), 0), ((4, 3),))
    yield OpCase("take rows", TakeRows(w(6, 2)), (("int32:6", 3),), ((0, 0),))
    yield OpCase("take rows of bytes", TakeRows(w(6)), (("uint8:6", 3),))
    yield OpCase("take along", TakeAlongAxis(0), ((4, 3), ("int64:4", 2, 3)))
    yield OpCase("one hot", OneHot(5, 1, np.dtype("float32")), (("int32:6", 3),), ((0, 0),))
    yield OpCase("one hot in front", OneHot(5, 0, np.dtype("int32")), (("int32:6", 3),))
    yield OpCase("tile", Tile((2, 3)), ((4, 3),), ((0, 0),))
    yield OpCase("repeat", Repeat(3, 0), ((4, 3),), ((0, 0), (0, 1)))
    yield OpCase("size of an axis", SizeOf(0, 2), ((4, 3),), ((0, 0),))
    yield OpCase("constant for each sample", PerSample(w(2, 3)), ((4,),), ((0, 0),))
    yield OpCase("reshape by sizes", SizedReshape(((0, 1), 2, -1)), ((6, 3), (5, 3)), ((0, 0), (0, 1), (1, 1)))
    yield OpCase("tile by sizes", SizedTile((2, (0, 0))), ((4, 3), (5,)), ((0, 1), (1, 0)))
    yield OpCase("roll", Roll((1, -5), (0, 1)), ((4, 3),), ((0, 0), (0, 1)))
    yield OpCase("concatenate", Concatenate(0), ((4, 3), (2, 3)), ((0, 0),))
    yield OpCase("full", FullLike(7.0, np.dtype("float32")), ((4, 3),), ((0, 0),))
    yield OpCase("full of bool", FullLike(1.0, np.dtype(bool)), ((4,),))
    yield OpCase("pad", Pad(((1, 2), (0, 1)), "constant", 0.5), ((4, 3),), ((0, 0),))
    yield OpCase("pad int16", Pad(((1, 2),)), (("int16", 4),))
    yield OpCase("pad reflect", Pad(((1, 2), (2, 0)), "reflect"), ((4, 3),), ((0, 0),))
    yield OpCase("pad symmetric", Pad(((1, 2), (2, 0)), "symmetric"), ((4, 3),), ((0, 0),))
    yield OpCase("pad nothing symmetric", Pad(((0, 0), (2, 0)), "symmetric"), ((4, 3),))
    yield OpCase("differs", Differs(1.0), (("int32", 6),))
    yield OpCase("differs by a fraction", Differs(0.5), (("int32", 6),))
    yield OpCase("steps kept", StepsKept(0.0), (("int32:2", 9, 2),), ((0, 0),))
    yield OpCase("zero unless", ZeroUnless(), ((4, 3), ("bool", 4)))
    yield OpCase("window", Window(2), ((3,), (4, 3)))
    yield OpCase("window dense", WindowDense(w(5, 3), w(3)), ((5,),))
    yield OpCase("window undilated", Window(), ((3,), (4, 3)))
    yield OpCase("count", Count(5, False, np.dtype("float32")), (("int32:7", 9),), ((0, 0),))
    yield OpCase("count once", Count(5, True, np.dtype("int64")), (("int32:7", 9),))
    yield OpCase("digitize", Digitize(np.array([-1, 0, 0.5, 1], np.float32)), ((9,),), ((0, 0),))
    yield OpCase("lookup", Lookup(np.array([1, 3, 4]), np.array([9, 8, 7]), 1), (("int32:6", 9),))
    graph = Graph([Spec((4, 3), np.dtype("float32"))], [Node(Reshape((-1,)), (0,)), Node(Dense(w(12, 2)), (1,))], [2])
    yield OpCase("time distributed", TimeDistributed(graph), ((5, 4, 3),), ((0, 0),))


def along_cases() -> Iterator[OpCase]:
    for kind, rule in REDUCED.items():
        axes = (1,) if kind.startswith("arg") else (0, 1)
        free = () if kind == "median" else ((0, 0), (0, 2))
        dtype = "bool" if rule.takes == "bool" else F
        yield OpCase(f"reduce {kind}", Reduce(kind, axes), ((dtype, 3, 5, 2),), free)
        yield OpCase(f"reduce {kind} kept", Reduce(kind, (1,), True), ((dtype, 3, 4),), free[:1])
    for kind in ("max", "min", "nanmax", "nansum", "argmax", "count_nonzero", "ptp"):
        yield OpCase(f"int reduce {kind}", Reduce(kind, (1,)), (("int32", 3, 5),))
    for kind in ("max", "argmin"):
        yield OpCase(f"int16 reduce {kind}", Reduce(kind, (1,)), (("int16", 3, 5),))
    yield OpCase("reduce nothing", Reduce("sum", ()), ((3,),))
    for kind in ("cumsum", "cumprod", "sort", "argsort"):
        for axis in (0, 1):
            yield OpCase(f"{kind} {axis}", Along(kind, axis), ((4, 5),), ((0, 0), (0, 1)))
    yield OpCase("argsort of equals", Along("argsort", 0), (("int32:3", 9),))
    yield OpCase("top k", TopK(3), ((4, 5),), ((0, 1),))
    yield OpCase("top k of equals", TopK(4), (("int32:3", 9),))
    yield OpCase("lower", Triangle(1), ((4, 5),), ((0, 0),))
    yield OpCase("upper", Triangle(-1, True), ((4, 5),))
    for axes in ((-1,), (-2,), (-2, -1)):
        yield OpCase(f"softmax {axes}", Softmax(axes), ((4, 5),), ((0, 0),))
        yield OpCase(f"log softmax {axes}", LogSoftmax(axes), ((4, 5),), ((0, 0),))
        yield OpCase(f"layer norm {axes}", LayerNorm(axes, 1e-3, w(5), w(5)), ((4, 5),), ((0, 0),))
        yield OpCase(f"rms norm {axes}", RMSNorm(axes, 1e-6, w(5)), ((4, 5),), ((0, 0),))
        yield OpCase(f"unit norm {axes}", UnitNorm(axes), ((4, 5),), ((0, 0),))
        if len(axes) == 1:
            yield OpCase(f"sparsemax {axes}", Sparsemax(axes), ((4, 5),), ((0, 0), (0, 1)))
            yield OpCase(f"glu {axes}", Glu(axes), ((4, 6),), ((0, 0),) if axes == (-1,) else ())
    yield OpCase("layer norm far from zero", LayerNorm((-1,), 1e-3), ((3, 8),), low=4999, high=5001, rtol=1e-3, rtol64=1e-11)
    yield OpCase("rms scaling", LayerNorm((-1,), 1e-3, w(5), None, True), ((4, 5),))
    yield OpCase("group norm", GroupNorm(2, -1, 1e-3, w(6), w(6)), ((3, 4, 6),), ((0, 0), (0, 1)))
    yield OpCase("group norm inside", GroupNorm(3, -3, 1e-3), ((6, 4, 5),), ((0, 1), (0, 2)))


CASES = [
    c
    for maker in (
        *(unary_cases, binary_cases, dense_cases, shape_cases, along_cases, attention_cases, image_cases, recurrent_cases),
    )
    for c in maker()
]
