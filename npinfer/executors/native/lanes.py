"""Sixteen float32 lanes as a Python object that writes instructions: arithmetic on it is compiled, not computed.

A function of `Lanes` runs once, when the engine is compiled; each + or * in it adds one LLVM instruction for 16 lanes, which
LLVM turns into one AVX-512, two AVX, or four SSE or NEON instructions. So such functions hold straight-line arithmetic only;
loops and branches over run-time values are Numba's part (vector.py). Numbers stand for vectors of that number.

Nothing is reassociated, nothing assumes that NaN doesn't occur, and nothing becomes a call: no libm function is ever needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

LANES = 16
F32, F64, I1, I32, I64 = ir.FloatType(), ir.DoubleType(), ir.IntType(1), ir.IntType(32), ir.IntType(64)
FLOATS, DOUBLES, INTS, BITS = (ir.VectorType(t, LANES) for t in (F32, F64, I32, I1))


class Lanes:
    """A vector of 16 floats, integers or truth values (`value.type` says which). Comparisons with NaN are false, as in
    NumPy."""

    __slots__ = ("b", "has_fma", "value")

    def __init__(self, b: Any, value: Any, has_fma: bool) -> None:
        self.b, self.value, self.has_fma = b, value, has_fma

    def like(self, value: Any) -> Lanes:
        return Lanes(self.b, value, self.has_fma)

    def of(self, x: Lanes | float) -> Any:
        """The LLVM value of an operand of this vector."""
        return x.value if isinstance(x, Lanes) else ir.Constant(self.value.type, [x] * LANES)

    def _do(self, for_floats: str, for_ints: str, x: Lanes | float, y: Lanes | float) -> Lanes:
        name = for_ints if self.value.type == INTS or self.value.type == BITS else for_floats
        return self.like(getattr(self.b, name)(self.of(x), self.of(y)))

    def __add__(self, y: Lanes | float) -> Lanes:
        return self._do("fadd", "add", self, y)

    def __sub__(self, y: Lanes | float) -> Lanes:
        return self._do("fsub", "sub", self, y)

    def __rsub__(self, y: float) -> Lanes:
        return self._do("fsub", "sub", y, self)

    def __mul__(self, y: Lanes | float) -> Lanes:
        return self._do("fmul", "mul", self, y)

    def __truediv__(self, y: Lanes | float) -> Lanes:
        return self._do("fdiv", "", self, y)

    def __rtruediv__(self, y: float) -> Lanes:
        return self._do("fdiv", "", y, self)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Lanes:
        return self.like(self.b.fneg(self.value))

    def __abs__(self) -> Lanes:
        return self.call("fabs", self)

    def __and__(self, y: Lanes | int) -> Lanes:
        return self._do("", "and_", self, y)

    def __or__(self, y: Lanes | int) -> Lanes:
        return self._do("", "or_", self, y)

    def __xor__(self, y: Lanes | int) -> Lanes:
        return self._do("", "xor", self, y)

    def __lshift__(self, y: int) -> Lanes:
        return self._do("", "shl", self, y)

    def __rshift__(self, y: int) -> Lanes:
        return self._do("", "ashr", self, y)

    def compare(self, sign: str, y: Lanes | float) -> Lanes:
        if self.value.type == INTS:
            return self.like(self.b.icmp_signed(sign, self.value, self.of(y)))
        test = self.b.fcmp_unordered if sign == "!=" else self.b.fcmp_ordered
        return self.like(test(sign, self.value, self.of(y)))

    def __lt__(self, y: Lanes | float) -> Lanes:
        return self.compare("<", y)

    def __le__(self, y: Lanes | float) -> Lanes:
        return self.compare("<=", y)

    def __gt__(self, y: Lanes | float) -> Lanes:
        return self.compare(">", y)

    def __ge__(self, y: Lanes | float) -> Lanes:
        return self.compare(">=", y)

    def equals(self, y: Lanes | float) -> Lanes:
        return self.compare("==", y)

    def is_nan(self) -> Lanes:
        return self.compare("!=", self)

    def call(self, name: str, *args: Lanes | float) -> Lanes:
        """An LLVM intrinsic that every target has as an instruction."""
        full = f"llvm.{name}.v{LANES}f32"
        function = self.b.module.globals.get(full)
        if function is None:
            function = ir.Function(self.b.module, ir.FunctionType(FLOATS, [FLOATS] * len(args)), full)
        return self.like(self.b.call(function, [self.of(a) for a in args]))


def fma(x: Lanes, y: Lanes | float, z: Lanes | float) -> Lanes:
    """x·y + z, rounded once where the CPU can; in two steps elsewhere (`llvm.fma` would call libm there)."""
    return x.call("fma", x, y, z) if x.has_fma else x * y + z


def plus_product(total: Lanes, x: Lanes, y: Lanes) -> Lanes:
    """total + x·y, total in float64, which holds the product of two float32 exactly: the same bits with and without FMA."""
    b = x.b
    u, v = (b.fpext(z.value, DOUBLES) for z in (x, y))
    if not x.has_fma:
        return total + total.like(b.fmul(u, v))
    name = f"llvm.fma.v{LANES}f64"
    function = b.module.globals.get(name) or ir.Function(b.module, ir.FunctionType(DOUBLES, [DOUBLES] * 3), name)
    return total.like(b.call(function, [u, v, total.value]))


def select(mask: Lanes, x: Lanes | float, y: Lanes | float) -> Lanes:
    """x where the mask is true, y elsewhere; at least one of them is a vector."""
    like = x if isinstance(x, Lanes) else y
    assert isinstance(like, Lanes)
    return like.like(like.b.select(mask.value, like.of(x), like.of(y)))


def maximum(x: Lanes, y: Lanes | float) -> Lanes:
    """The larger one; NaN if either is, as numpy.maximum. With a number for y it is one instruction."""
    return select((x > y) | x.is_nan(), x, y) if isinstance(y, Lanes) else select(x < y, y, x)


def at_least(x: Lanes, least: Lanes) -> Lanes:
    """`maximum` where `least` isn't NaN, in one instruction."""
    return select(x < least, least, x)


def minimum(x: Lanes, y: Lanes | float) -> Lanes:
    return select((x < y) | x.is_nan(), x, y) if isinstance(y, Lanes) else select(x > y, y, x)


def copysign(x: Lanes, y: Lanes) -> Lanes:
    return x.call("copysign", x, y)


def sqrt(x: Lanes) -> Lanes:
    return x.call("sqrt", x)


def bits(x: Lanes) -> Lanes:
    """The same 64 bytes seen as integers."""
    return x.like(x.b.bitcast(x.value, INTS))


def floats(x: Lanes) -> Lanes:
    """The same 64 bytes seen as floats."""
    return x.like(x.b.bitcast(x.value, FLOATS))


def all_or_nothing(mask: Lanes) -> Lanes:
    """Floats of 32 ones where the mask is true, of 32 zeros elsewhere."""
    return floats(mask.like(mask.b.sext(mask.value, INTS)))


def widened(x: Lanes) -> Lanes:
    """In float64."""
    return x.like(x.b.fpext(x.value, DOUBLES))


def narrowed(x: Lanes) -> Lanes:
    """In float32 again, rounded."""
    return x.like(x.b.fptrunc(x.value, FLOATS))


def to_float(x: Lanes) -> Lanes:
    return x.like(x.b.sitofp(x.value, FLOATS))


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """c[0] + x·(c[1] + x·(c[2] + …)), by Horner's rule."""
    total = x * coefficients[-1] + coefficients[-2] if not x.has_fma else fma(x, coefficients[-1], coefficients[-2])
    for c in coefficients[-3::-1]:
        total = fma(total, x, c)
    return total


def paired(x: Lanes, square: Lanes, coefficients: Sequence[float]) -> Lanes:
    """The same of an even number of coefficients, by Horner's rule in x² over pairs c[k] + c[k + 1]·x: as many operations, in
    half as many steps that wait for one another."""
    pairs = [fma(x, c, x.like(x.of(d))) for d, c in zip(coefficients[::2], coefficients[1::2])]
    total = pairs[-1]
    for pair in pairs[-2::-1]:
        total = fma(total, square, pair)
    return total


def across(x: Lanes, combine: Callable[[Lanes, Lanes], Lanes]) -> Any:
    """One LLVM number of all lanes: 0…7 with 8…15, then 0…3 with 4…7, and so on, the same order on every machine."""
    half = LANES // 2
    while half:
        order = ir.Constant(INTS, [k % half + half for k in range(LANES)])
        x, half = combine(x, x.like(x.b.shuffle_vector(x.value, x.value, order))), half // 2
    return x.b.extract_element(x.value, I32(0))


# ---- addresses are integers


def pointer(b: Any, address: Any, kind: Any = FLOATS) -> Any:
    return b.inttoptr(address, kind.as_pointer())


def read(b: Any, address: Any, kind: Any = FLOATS) -> Any:
    return b.load(pointer(b, address, kind), align=4)


def write(b: Any, value: Any, address: Any) -> None:
    b.store(value, pointer(b, address, value.type), align=4)


def prefetch(b: Any, address: Any) -> None:
    """Ask for the cache line at an address, which need not be memory at all, to come to the second-level cache."""
    place = pointer(b, address, ir.IntType(8))
    kind = ir.FunctionType(ir.VoidType(), [place.type, I32, I32, I32])
    b.call(b.module.declare_intrinsic("llvm.prefetch", [place.type], kind), [place, I32(0), I32(2), I32(1)])


def broadcast(b: Any, scalar: Any) -> Any:
    """The LLVM vector with a scalar in all lanes."""
    kind = ir.VectorType(scalar.type, LANES)
    if isinstance(scalar, ir.Constant):
        return ir.Constant(kind, [scalar] * LANES)
    nothing = ir.Constant(kind, ir.Undefined)
    return b.shuffle_vector(b.insert_element(nothing, scalar, I32(0)), nothing, ir.Constant(INTS, [0] * LANES))


def read_tail(b: Any, address: Any, n: Any) -> Any:
    """The first n (0 … 15) floats from memory, zeros in the other lanes; nothing beyond them is read.

    By pieces of 1, 2, 4 and 8 from the end, for the bits of n: masked loads exist on some machines only.
    """

    def step(k: int, values: list[Any]) -> list[Any]:
        v, end = values
        start = b.sub(end, I64(4 * k))
        piece = read(b, start, ir.VectorType(F32, k))
        wide = _part(b, piece, piece, [min(j, k - 1) for j in range(LANES)])
        return [_part(b, wide, v, [*range(k), *range(LANES, 2 * LANES - k)]), start]

    zeros = ir.Constant(FLOATS, [0.0] * LANES)
    return _pieces(b, n, (1, 2, 4, 8), [zeros, b.add(address, b.shl(n, I64(2)))], step)[0]


def write_tail(b: Any, v: Any, address: Any, n: Any) -> None:
    """The first n (0 … 15) lanes to memory; nothing beyond them is written."""

    def step(k: int, values: list[Any]) -> list[Any]:
        v, start = values
        write(b, _part(b, v, v, list(range(k))), start)
        return [_part(b, v, v, [min(j + k, LANES - 1) for j in range(LANES)]), b.add(start, I64(4 * k))]

    _pieces(b, n, (8, 4, 2, 1), [v, address], step)


def _part(b: Any, x: Any, y: Any, indices: list[int]) -> Any:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(indices)), indices))


def _pieces(
    b: Any, n: Any, sizes: tuple[int, ...], values: list[Any], step: Callable[[int, list[Any]], list[Any]]
) -> list[Any]:
    """values = step(k, values) for each k of `sizes` whose bit is set in n."""
    for k in sizes:
        before = b.block
        with b.if_then(b.icmp_signed("!=", b.and_(n, I64(k)), I64(0))):
            changed = step(k, values)
            inside = b.block
        merged = []
        for old, new in zip(values, changed):
            phi = b.phi(old.type)
            phi.add_incoming(old, before)
            phi.add_incoming(new, inside)
            merged.append(phi)
        values = merged
    return values
