"""The vector type against NumPy, and the engine compiled for other CPUs than this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba as nb
import numpy as np
import pytest

from npinfer.executors.native import lanes
from npinfer.executors.native.vector import (
    f32_put,
    fma,
    lane_sum,
    load,
    load_tail,
    maximum,
    minimum,
    select,
    splat_at,
    store,
    store_tail,
    traced,
)

SPECIAL = np.array(
    [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, 1e-38, 7.0, -7.0, 0.1, 1e20, -1e20], "f"
)
PAIRS = np.stack([np.repeat(SPECIAL, 16), np.tile(SPECIAL, 16)])


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """function(x, y, out) of three addresses, run over 16 floats at a time of two arrays."""
    c = nb.cfunc("void(intp, intp, intp)", error_model="numpy")(function)

    def over(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = np.zeros_like(x)
        for k in range(0, len(x), 16):
            c.ctypes(x[k:].ctypes.data, y[k:].ctypes.data, out[k:].ctypes.data)
        return out

    return over


def _sum(x: int, y: int, out: int) -> None:
    store(out, load(x) + load(y))


def _difference(x: int, y: int, out: int) -> None:
    store(out, load(x) - load(y))


def _product(x: int, y: int, out: int) -> None:
    store(out, load(x) * load(y))


def _quotient(x: int, y: int, out: int) -> None:
    store(out, load(x) / load(y))


def _maximum(x: int, y: int, out: int) -> None:
    store(out, maximum(load(x), load(y)))


def _minimum(x: int, y: int, out: int) -> None:
    store(out, minimum(load(x), load(y)))


def _select(x: int, y: int, out: int) -> None:
    store(out, select(load(x) < load(y), load(x), 3.0))


def _mixed(x: int, y: int, out: int) -> None:
    store(out, 2.0 * load(x) + 1.0 - load(y) / 4)


@pytest.mark.parametrize(
    ("function", "meaning"),
    [
        (_sum, np.add),
        (_difference, np.subtract),
        (_product, np.multiply),
        (_quotient, np.divide),
        (_maximum, np.maximum),
        (_minimum, np.minimum),
        (_select, lambda x, y: np.where(x < y, x, np.float32(3))),
        (_mixed, lambda x, y: np.float32(2) * x + np.float32(1) - y / np.float32(4)),
    ],
)
def test_arithmetic_is_numpys(function: Any, meaning: Any) -> None:
    x, y = PAIRS
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compiled(function)(x, y), meaning(x, y))


def test_fma_rounds_once_or_twice() -> None:
    def run(x: int, y: int, out: int) -> None:
        store(out, fma(load(x), load(y), splat_at(x)))

    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 160)).astype("f")
    first = np.repeat(x[::16], 16)
    once = (x.astype(np.float64) * y + first).astype("f")
    twice = x * y + first
    got = compiled(run)(x, y)
    assert np.all((got == once) | (got == twice))


@pytest.mark.parametrize(
    ("trace", "meaning"),
    [
        (lambda x: abs(x), np.abs),
        (lambda x: -x, np.negative),
        (lambda x: lanes.copysign(lanes.sqrt(abs(x)), x), lambda x: np.copysign(np.sqrt(np.abs(x)), x)),
        (lambda x: lanes.select(x.is_nan(), 0, x), lambda x: np.where(np.isnan(x), 0, x)),
        (lambda x: lanes.floats(lanes.bits(x) & 0x7FFFFFFF), np.abs),
        (lambda x: lanes.to_float((lanes.bits(x) >> 23) - 5), lambda x: ((x.view(np.int32) >> 23) - 5).astype("f")),
        (lambda x: lanes.to_float(lanes.bits(x) << 1), lambda x: (x.view(np.int32) << 1).astype("f")),
    ],
)
def test_lanes_do_what_numpy_does(trace: Any, meaning: Any) -> None:
    f = traced(trace)

    def run(x: int, y: int, out: int) -> None:
        store(out, f(load(x)))

    x = PAIRS[1]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compiled(run)(x, x), meaning(x))


def test_lane_sum_has_a_fixed_order() -> None:
    def run(x: int, y: int, out: int) -> None:
        f32_put(out, 0, lane_sum(load(x)))

    v = (np.random.default_rng(2).normal(size=16) * 10.0 ** np.arange(16)).astype("f")
    tree = v
    while len(tree) > 1:
        half = len(tree) // 2
        tree = tree[:half] + tree[half:]
    assert compiled(run)(v, v)[0] == tree[0]
    assert np.float32(v.sum(dtype=np.float64)) != tree[0], "the case must tell orders apart"


@pytest.mark.parametrize("n", range(16))
def test_tails_touch_nothing_beyond(n: int) -> None:
    @nb.cfunc("void(intp, intp, intp)", error_model="numpy")
    def move(x: int, n: int, y: int) -> None:
        store_tail(y, n, load_tail(x, n))

    @nb.cfunc("void(intp, intp, intp)", error_model="numpy")
    def whole(x: int, n: int, y: int) -> None:
        store(y, load_tail(x, n))

    x = np.full(20, np.nan, "f")
    x[:n] = np.arange(1, n + 1)
    y = np.full(20, -1, "f")
    move.ctypes(x.ctypes.data, n, y.ctypes.data)
    assert y.tolist() == [*range(1, n + 1), *[-1] * (20 - n)]
    whole.ctypes(x.ctypes.data, n, y.ctypes.data)
    assert y.tolist() == [*range(1, n + 1), *[0] * (16 - n), *[-1] * 4]


# ---- other CPUs: the machine code for the least and the usual x86 runs here, that for AVX-512 and ARM is looked at

RUN = """
import numpy as np
from npinfer.executors.native.executor import NativeExecutor
from npinfer.graph import Graph, Node, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.dense import Dense
from npinfer.ops.softmax import Softmax
rng = np.random.default_rng(0)
sizes = [(37, 150), (150, 70), (70, 33), (33, 3)]
kinds = ["tanh", "gelu", "sigmoid", "linear"]
nodes = [
    Node(Dense(rng.normal(0, n ** -0.5, (n, m)).astype("f"), rng.normal(size=m).astype("f"), Activation(kind)), (k,))
    for k, ((n, m), kind) in enumerate(zip(sizes, kinds))
]
nodes.append(Node(Softmax(), (4,)))
graph = Graph([Spec((37,), np.dtype("f"))], nodes, [4, 5])
executor = NativeExecutor(graph)
assert not executor.uncovered()
x = rng.normal(size=(61, 37)).astype("f")
got = executor.run([x])
for a, b in zip(got, graph(x)):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
for k in range(61):
    for a, b in zip(got, executor.run([x[k:k + 1]])):
        assert np.array_equal(a[k], b[0])
"""

LOOK = """
import sys
import llvmlite.binding as llvm
from npinfer.executors.native import build
from npinfer.executors.native.entry import entry
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
text = build.c_functions({"entry": entry}).get_llvm_str()
triple, cpu, features, expected = sys.argv[1:]
machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=2)
lines = [line for line in text.splitlines() if not line.startswith(("target triple", "target datalayout"))]
module = llvm.parse_assembly(chr(10).join(lines))
module.triple = triple
module.data_layout = str(machine.target_data)
for value in [*module.functions, *module.global_variables]:
    if not value.is_declaration and not value.name.startswith("npinfer_"):
        value.linkage = "internal"
builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
builder.getModulePassManager().run(module, builder)
assembly = machine.emit_assembly(module)
calls = set()
for line in assembly.splitlines():
    words = line.split()
    if len(words) > 1 and words[0] in ("bl", "b", "call", "callq", "jmp"):
        calls.add(words[1].split("@")[0])
maths = {f for f in calls if f.rstrip("f") in ("fma", "exp", "expm1", "log", "tanh", "sqrt", "rint", "roundeven", "pow")}
assert not maths, maths
assert expected in assembly
"""


def python(code: str, cpu: str, features: str, folder: Path, *args: str) -> None:
    root = Path(__file__).resolve().parents[2]
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": cpu,
        "NUMBA_CPU_FEATURES": features,
        "NPINFER_CACHE_DIR": str(folder),
        "PYTHONPATH": str(root),
    }
    done = subprocess.run([sys.executable, "-c", code, *args], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]


X86 = sys.platform.startswith("linux") and os.uname().machine == "x86_64"
AVX2 = "+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+fma,+bmi,+bmi2,+popcnt"


HERE = llvm.get_host_cpu_features()
#: what this CPU runs as well; where its best is AVX2, all other tests run that
OTHERS = [("x86-64", ""), *([("haswell", AVX2)] if HERE.get("avx2") and HERE.get("avx512f") else [])]


@pytest.mark.skipif(not X86, reason="machine code for x86")
@pytest.mark.parametrize(("cpu", "features"), OTHERS)
def test_code_for_other_x86_runs(cpu: str, features: str, tmp_path: Path) -> None:
    python(RUN, cpu, features, tmp_path)


@pytest.mark.skipif(not X86, reason="Numba writes code for the machine it runs on")
@pytest.mark.parametrize(
    ("triple", "cpu", "features", "expected"),
    [
        ("x86_64-unknown-linux-gnu", "skylake-avx512", AVX2 + ",+avx512f,+avx512vl,+avx512bw,+avx512dq", "%zmm"),
        ("aarch64-unknown-linux-gnu", "cortex-a72", "", "fmla"),
    ],
)
def test_code_for_other_machines_calls_nothing(triple: str, cpu: str, features: str, expected: str, tmp_path: Path) -> None:
    here = features or AVX2  # what the lanes are written for: with fma, as on ARM
    python(LOOK, "skylake-avx512" if features else "haswell", here, tmp_path, triple, cpu, features, expected)
