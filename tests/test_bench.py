"""Measuring. No test looks at how long anything took: results have all their parts, fits find what was put in, and so on."""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npinfer
from npinfer.bench import measure, peers, plots, report
from npinfer.bench.command import shapes_of
from npinfer.bench.flops import graph_numbers, node_numbers
from npinfer.bench.options import ENGINES, bench_options
from npinfer.bench.plots import apart
from npinfer.bench.profile import profiled
from npinfer.checking import flatten_outputs
from npinfer.cli import main
from npinfer.cli_parser import make_parser
from npinfer.errors import EngineError, FormatError, ShapeError
from npinfer.graph import Array, Graph, Node, Spec
from npinfer.ops.dense import Dense
from npinfer.ops.einsum import EinsumDense

GOLDEN = Path(__file__).resolve().parent / "golden"
DENSE = str(GOLDEN / "k35/t1-dense-inputlayer.h5")
PAIR = str(GOLDEN / "k3np/t2-multi-io.h5")
JAX = [
    str(GOLDEN / f"k3new/{name}.h5")
    for name in (
        "t1-act-gelu", "t1-Embedding-Flatten-Dense", "t1-ln", "t2-dueling", "t3-conv2d-lenet",
        "t3-averagepool2d-same", "t3-maxpool1d-same", "t3-conv1d-causal", "t3-depthwise-mult2-same", "t3-lstm-backwards-seq",
        "t3-gru-return_state", "t1-dense-f64",
    )
]  # fmt: skip
SHORT = ("--calls", "100", "--rounds", "2", "--batches", "1,2,4,8", "-q")


class Fake:
    """A runner whose times are made up."""

    version, note, load, first = "1.0", "", 0.1, 0.01

    def __init__(self, name: str, a: float, b: float) -> None:
        self.name, self.a, self.b, self.calls = name, a, b, []  # type: ignore[var-annotated]

    def latency(self, count: int) -> Array:
        self.calls.append(count)
        return np.full(count, self.a + self.b)

    def loop(self, count: int) -> float:
        return self.a + self.b

    def batch(self, rows: int, count: int) -> Array:
        return np.full(count, self.a + self.b * rows)

    def outputs(self, arrays: Sequence[Array]) -> list[Array]:
        return [np.zeros(1)]

    def close(self) -> None:
        pass


# fits and jumps


@pytest.mark.parametrize(("a", "b"), [(1e3, 10.0), (0.0, 500.0), (5e6, 0.0), (123.0, 456.0)])
def test_fit_finds_cost_a_call_and_cost_a_sample(a: float, b: float) -> None:
    sizes = [2**k for k in range(11)]
    found = measure.fit({n: a + b * n for n in sizes})
    assert found is not None
    assert math.isclose(found.a, a, rel_tol=1e-6, abs_tol=1e-3)
    assert math.isclose(found.b, b, rel_tol=1e-6, abs_tol=1e-3)
    assert math.isclose(found.worst, 1, rel_tol=1e-6)


def test_fit_with_noise_stays_physical() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        points = {2**k: float((rng.exponential(1e3) + rng.exponential(1e2) * 2**k) * rng.uniform(0.5, 2)) for k in range(8)}
        found = measure.fit(points)
        assert found is not None
        assert found.a >= 0
        assert found.b >= 0
        assert found.worst >= 1


def test_fit_needs_three_sizes() -> None:
    assert measure.fit({1: 1.0, 2: 2.0}) is None


def test_jumps_are_where_a_sample_gets_dearer() -> None:
    points = {n: 100 + 10.0 * n for n in (1, 2, 4, 8)} | {n: 100 + 30.0 * n for n in (16, 32)}
    (jump,) = measure.jumps(points)
    assert (jump.before, jump.after) == (8, 16)
    assert math.isclose(jump.factor, (580 / 16) / (180 / 8))
    assert measure.jumps({n: 100 + 10.0 * n for n in (1, 2, 4, 8, 16)}) == []


# taking turns


def test_turns() -> None:
    order: list[str] = []

    class Noted(Fake):
        def latency(self, count: int) -> Array:
            order.append(self.name)
            return super().latency(count)

    runners = [Noted(n, 100.0, 1.0) for n in "abc"]
    ticks: list[int] = []
    found = measure.one_sample(runners, 90, 3, 10.0, lambda: ticks.append(1))
    assert [len(f.times) for f in found] == [90, 90, 90]
    assert len(ticks) == 9
    turns = "".join(order[6:])  # after the two trial calls each
    assert turns == "aabbccbbccaaccaabb"


def test_slow_runners_get_fewer_calls() -> None:
    slow, fast = Fake("slow", 1e9, 0.0), Fake("fast", 1e3, 0.0)
    found = measure.one_sample([slow, fast], 10_000, 10, 5.0, lambda: None)
    assert len(found[0].times) == 100
    assert len(found[1].times) == 10_000


def test_batches_stop_where_they_would_last() -> None:
    slow, fast = Fake("slow", 0.0, 1e9), Fake("fast", 0.0, 10.0)
    found = measure.batches([slow, fast], [1, 2, 4, 8], 2, lambda: None)
    assert list(found[0]) == [1, 2]
    assert list(found[1]) == [1, 2, 4, 8]
    assert found[1][4] == (40.0, 40.0)


def test_local_runner_uses_all_samples() -> None:
    seen: list[Any] = []
    samples = [(k,) for k in range(5)]
    runner = measure.Local("x", "", seen.append, samples, None, lambda n: [], 0.0)
    runner.latency(7)
    assert seen == [0, 0, 1, 2, 3, 4, 0, 1]  # the first is the first call
    runner.loop(6)
    assert seen[8:] == [0, 1, 2, 3, 4, 0]
    several = measure.Local("x", "", lambda a, b: seen.append(a + b), [(1, 2), (3, 4)], None, lambda n: [], 0.0)
    seen.clear()
    several.latency(2)
    several.loop(2)
    assert seen == [3, 7, 3, 7]
    with pytest.raises(ValueError, match="takes no batches"):
        runner.batch(2, 1)


def test_bandwidth_and_peak_are_positive() -> None:
    found = measure.bandwidth()
    assert [s for s, _ in found] == sorted(s for s, _ in found)
    assert all(b > 0 for _, b in found)
    assert measure.peak_flops() > 0
    assert measure.clock_cost() >= 0
    assert measure.resident() is None or measure.resident() > 1 << 20  # type: ignore[operator]


# flops


def test_flops_of_golden_networks() -> None:
    model = npinfer.load(DENSE, engine="numpy")
    kernels = [w for w in model.get_weights() if w.ndim == 2]
    flops, weight_bytes = graph_numbers(model._executor.graph)
    assert weight_bytes == sum(w.nbytes for w in model.get_weights())
    assert flops >= 2 * sum(w.size for w in kernels)


EXAMPLES = {
    "k3new/t3-conv1d-varlen.h5": "Conv",
    "k3new/t3-lstm-varlen.h5": "Recurrent",
    "k3new/t3-attention.h5": "Attention",
    "k3new/t3-mha-cross-scores.h5": "HeadAttention",
    "k3new/t2-dot-3d-21.h5": "BatchDot",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_flops_by_rule(name: str) -> None:
    graph = npinfer.load(GOLDEN / name, engine="reference", optimize=False)._executor.graph
    found = {type(n.op).__name__: node_numbers(graph, k)[0] for k, n in enumerate(graph.nodes)}
    assert found[EXAMPLES[name]] > 0


def test_flops_of_an_einsum() -> None:
    op = EinsumDense("abc,cde->abde", np.ones((3, 4, 5), np.float32))
    graph = Graph([Spec((7, 3), np.dtype(np.float32), "x")], [Node(op, (0,), "d")], [1])
    assert node_numbers(graph, 0)[0] == 2 * 7 * 3 * 4 * 5


def test_flops_of_an_op_that_tells() -> None:
    class Told(Dense):
        def flops(self, x: Spec) -> int:
            return 123

    kernel = np.ones((3, 2), np.float32)
    graph = Graph([Spec((3,), np.dtype(np.float32), "x")], [Node(Told(kernel), (0,), "d")], [1])
    assert node_numbers(graph, 0) == (123, kernel.nbytes, 20)


def test_golden_networks_can_be_counted() -> None:
    for path in sorted(GOLDEN.glob("k3new/*.h5"))[::6]:
        try:
            model = npinfer.load(path, engine="numpy")
        except npinfer.NpinferError:
            continue
        flops, weight_bytes = graph_numbers(model._executor.graph)
        assert flops >= 0
        assert weight_bytes >= 0


# the command


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the JSON, CSV, printed text and pictures of one run of bench."""
    folder = tmp_path_factory.mktemp("bench")
    args = ["bench", PAIR, *SHORT, "--engines", "numpy,reference", "--against", "onnxruntime,litert,jax,keras"]
    args += ["--json", str(folder / "r.json"), "--csv", str(folder / "r.csv"), "--plot", str(folder / "r.svg")]
    assert main(args) == 0
    return folder


def test_bench_results(measured: Path) -> None:
    result = json.loads((measured / "r.json").read_text())
    rows = {r["name"]: r for r in result["rows"]}
    assert {"npinfer numpy", "npinfer reference"} <= set(rows)
    for r in rows.values():
        t = r["latency"]
        assert t["calls"] >= 100
        assert t["min"] <= t["p50"] <= t["p90"] <= t["p99"] <= t["p99.9"] <= t["max"]
        assert r["error"] <= 1e-5
        assert [b["n"] for b in r["batches"]] == [1, 2, 4, 8]
        assert sum(r["histogram"]["counts"]) > 0
        assert r["fit"]["a"] >= 0
    own = rows["npinfer numpy"]
    assert own["memory"]["weights"] == result["network"]["weight_bytes"]
    assert own["start"]["whole"] > own["start"]["first"]
    assert own["door"] is None or own["door"] > 0
    assert result["machine"]["threads"] == 1
    for name in ("litert", "jax", "keras"):
        assert name in result["absent"] or name in rows
    assert all(len(reason) > 10 for reason in result["absent"].values())


def test_bench_report(measured: Path) -> None:
    result = json.loads((measured / "r.json").read_text())
    text = report.text(result)
    for part in ("one sample", "time per sample in a batch", "fitted: time of a call = a + b·n", "start and memory"):
        assert part in text
    for name, why in result["absent"].items():
        assert f"not measured: {name}: {why}" in text
    assert len({line.count("\n") for line in text.splitlines()}) == 1
    rows = list(csv.DictReader((measured / "r.csv").read_text().splitlines()))
    metrics = {r["metric"] for r in rows}
    assert {"latency p50", "latency max", "batch min", "fit a", "difference", "bytes weights"} <= metrics
    assert all(float(r["value"]) >= 0 for r in rows)
    assert "one sample, median" in report.picture(result, "bench")


def made_up(peers_too: bool = True) -> dict[str, Any]:
    """A result with a peer that wins and one that loses."""

    def row(name: str, a: float, b: float) -> dict[str, Any]:
        batches = {n: a + b * n for n in (1, 2, 4, 8, 16)}
        fitted = measure.fit(batches)
        assert fitted is not None
        return {
            "name": name, "own": name.startswith("npinfer"), "version": "", "note": "",
            "load": 0.1, "first": 0.01, "error": 1e-7,
            "latency": {"calls": 10, "loop": a + b, "min": a, "p50": a + b, "p90": a + 2 * b, "p99": a + 3 * b,
                        "p99.9": a + 4 * b, "max": a + 9 * b},
            "histogram": {"edges": np.geomspace(a, a + 9 * b, 11).tolist(), "counts": [1] * 10},
            "batches": [{"n": n, "min": t, "median": t} for n, t in batches.items()],
            "fit": fitted._asdict(), "jumps": [{"before": 8, "after": 16, "factor": 1.7}],
        }  # fmt: skip

    rows = [row("npinfer native", 1000.0, 500.0)]
    if peers_too:
        rows += [row("slowpeer", 9000.0, 900.0), row("fastpeer", 900.0, 100.0)]
    machine = {"cpu": "x", "cores": 1, "load": 0.0, "python": "p", "numpy": "n", "threads": 1, "blas_threads": 1}
    network = {"weights": 10, "weight_bytes": 40, "flops": 100, "stream": False}
    return {
        "kind": "bench", "file": "net.h5", "machine": machine, "network": network, "rounds": 3, "rows": rows,
        "absent": {"jax": "not installed"}, "resident": {"before": None, "loaded": None, "after_calls": None},
        "bandwidth": [[1 << k, 1e10] for k in range(12, 20)], "peak_flops": 1e10,
    }  # fmt: skip


def test_losses_are_printed() -> None:
    text = report.text(made_up())
    assert "lost to: fastpeer (one sample, 1, 2, 4, 8, 16)" in text
    assert "▼" in text
    assert "jump: from 8 to 16 the time per sample rises 1.7×" in text
    assert "not measured: jax: not installed" in text
    alone = report.text(made_up(False))
    assert "lost to" not in alone


@pytest.mark.parametrize(
    ("ns", "text"), [(3, "3 ns"), (1240, "1.24 µs"), (53_100_000, "53.1 ms"), (2.5e9, "2.50 s"), (None, "-")]
)
def test_durations(ns: float | None, text: str) -> None:
    assert report.duration(ns) == text


@pytest.mark.parametrize(
    ("kind", "ending"),
    [("bench", "png"), ("bench", "svg"), ("bench", "html"), ("alone", "svg"), ("singles", "svg"), ("profile", "html")],
)
def test_pictures(tmp_path: Path, kind: str, ending: str) -> None:
    result = made_up(kind != "alone")
    if kind == "singles":
        for r in result["rows"]:
            r["batches"], r["fit"], r["jumps"] = [], None, []
    if kind == "profile":
        result = profiled(npinfer.load(PAIR, engine="numpy"), 2, None, [(6,), (4,)])
    target = tmp_path / f"x.{ending}"
    plots.draw(result, "profile" if kind == "profile" else "bench", str(target))
    data = target.read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!DOCTYPE html>"}[ending]
    assert data.startswith(start)
    if ending == "html":
        text = data.decode()
        assert "<svg" in text
        assert "http://" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
            "http://creativecommons.org", ""
        )


def test_pictures_are_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match=r"\.png, \.svg, \.html"):
        plots.check("x.gif")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(EngineError, match=r"npinfer\[plot\]"):
        plots.check("x.png")


def test_names_are_pushed_apart() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        heights = sorted(rng.uniform(0, 100, rng.integers(1, 6)).tolist())
        found = apart(heights, 10.0, 0.0, 100.0)
        assert all(b - a >= 10 - 1e-9 for a, b in itertools.pairwise(found))
        assert found[0] >= -1e-9
        assert found[-1] <= 100 + 1e-9
    assert apart([10.0, 50.0, 90.0], 10.0, 0.0, 100.0) == [10.0, 50.0, 90.0]


def test_sizes_that_the_model_leaves_open(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(GOLDEN / "k3new/t3-conv1d-varlen.h5")
    assert main(["bench", path, *SHORT, "--engines", "numpy", "--shape", "12,3", "--json", "-"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["network"]["inputs"] == ["input_layer: float32[12, 3]"]
    assert main(["bench", path, *SHORT, "--shape", "12"]) == 1
    assert "2 axes" in capsys.readouterr().err
    with pytest.raises(ShapeError, match="leaves no size open"):
        shapes_of([Spec((3,), np.dtype("f4"), "x")], [3])


def test_streams_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(GOLDEN / "k3new/t3-lstm-varlen.h5")
    args = ["bench", path, *SHORT, "--engines", "numpy", "--stream", "--against", "onnxruntime", "--json", "-"]
    assert main(args) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rows"][0]["batches"] == []
    assert "onnxruntime" in result["absent"]
    assert report.text(result)


# profile


@pytest.mark.parametrize("name", ["numpy", "reference", "native"])
@pytest.mark.parametrize("batch", [None, 4])
def test_profile(name: str, batch: int | None) -> None:
    model = npinfer.load(PAIR, engine=name)
    ticks: list[int] = []
    result = profiled(model, 3, batch, [s.shape for s in model.inputs], lambda: ticks.append(1))  # type: ignore[misc]
    assert len(ticks) == 3
    assert len(result["nodes"]) == len(model._executor.graph.nodes)
    assert math.isclose(sum(n["share"] for n in result["nodes"]), 1, abs_tol=1e-6) or result["sum"] == 0
    assert all(n["time"] >= 0 for n in result["nodes"])
    assert result["whole"] > 0
    assert {n["engine"] for n in result["nodes"]} <= {name, "numpy (meaning)"}


def test_profile_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    args = ["profile", DENSE, "--engine", "numpy", "--rounds", "3", "--plot", "-", "--json", str(tmp_path / "p.json"), "-q"]
    assert main(args) == 0
    shown = capsys.readouterr().out
    result = json.loads((tmp_path / "p.json").read_text())
    for n in result["nodes"]:
        assert n["layer"] in shown
    assert "█" in shown or "▏" in shown


def test_profile_of_many_layers_is_gathered() -> None:
    from npinfer.bench.plots_profile import _most

    nodes = [
        {"layer": f"l{k}", "op": "Dense", "engine": "numpy", "time": float(k), "share": k / 780, "flops": k} for k in range(40)
    ]
    shown = _most(nodes, 10)
    assert len(shown) == 10
    assert shown[-1]["layer"] == "31 others"
    assert math.isclose(sum(n["share"] for n in shown), 1)


# peers


def context(path: str, **changes: Any) -> peers.Context:
    model = npinfer.load(path, engine="numpy")

    def pool(rows: int) -> list[Array]:
        rng = np.random.default_rng(0)
        return [np.abs(rng.normal(size=(rows, *(n or 8 for n in s.shape)))).astype(s.dtype) for s in model.inputs]

    samples = [tuple(x[k] for x in pool(4)) for k in range(4)]
    made = peers.Context(model, path, {}, {}, 1, pool, samples)
    return made._replace(**changes)


def test_inputs_are_matched() -> None:
    c = context(PAIR)  # in_a (6,), in_b (4,)
    assert peers.match(["in_b", "in_a"], [[1, 4], [1, 6]], c) == [1, 0]
    assert peers.match(["serving_default_in_b:0", "serving_default_in_a:0"], [[-1, 4], [-1, 6]], c) == [1, 0]
    assert peers.match(["p", "q"], [["n", 4], ["n", 6]], c) == [1, 0]
    with pytest.raises(peers.Absent, match="3 inputs"):
        peers.match(["p", "q", "r"], [["n", 4], ["n", 6], ["n", 6]], c)


@pytest.mark.parametrize("path", [DENSE, PAIR, *JAX], ids=lambda p: Path(p).stem)
def test_jax_has_the_same_numbers(path: str) -> None:
    """Chains and graphs, several inputs and outputs, convolutions, pooling, recurrent layers, an embedding, normalization."""
    c = context(path)
    runner = peers.open_peer("jax", c)
    x = c.pool(8)
    want = list(flatten_outputs(c.model(x if len(x) > 1 else x[0])))
    for got, y in zip(runner.outputs(x), want, strict=True):
        np.testing.assert_allclose(got, y, rtol=1e-4, atol=1e-5)
    assert runner.batch(3, 1)
    runner.close()


def test_what_jax_cannot_run_is_named() -> None:
    with pytest.raises(peers.Absent, match=r"StepsKept \(layer 'masking'\) has no form in JAX here"):
        peers.open_peer("jax", context(str(GOLDEN / "k3new/t3-mask-lstm.h5")))


def test_a_traced_array_refuses_what_would_be_wrong() -> None:
    from npinfer.bench.jax_net import Traced

    x = Traced(np.ones(3, np.float32))
    for wrong in (
        lambda: np.add(x, 1, out=np.zeros(3)),
        lambda: np.asarray(x),
        lambda: bool(x),
        lambda: np.add.reduceat(x, [0]),
    ):
        with pytest.raises(TypeError):
            wrong()
    y = x
    y += 1  # a new array, as JAX has it
    assert (x.value[0], y.value[0], len(y)) == (1, 2, 3)


def test_peers_say_why_they_are_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("onnxruntime", "jax", "litert"):
        with monkeypatch.context() as patched:
            for module in (name, "ai_edge_litert.interpreter", "tensorflow"):
                patched.setitem(sys.modules, module, None)
            with pytest.raises(peers.Absent, match="not installed"):
                peers.open_peer(name, context(DENSE))
    junk = tmp_path / "junk.tflite"
    junk.write_bytes(b"junk")
    with pytest.raises(peers.Absent):
        peers.open_peer("litert", context(DENSE, files={"litert": str(junk)}))
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no such thing >&2\n")
    python.chmod(0o755)
    with pytest.raises(peers.Absent, match="its process ended: no such thing"):
        peers.open_peer("keras", context(DENSE, pythons={"keras": str(python)}))


KERAS = """
import numpy as np
__version__ = "0.0"
class Model:
    def predict(self, x, verbose=0):
        return 2 * x
    __call__ = predict
class models:
    @staticmethod
    def load_model(path, compile):
        print("chatter that must not reach the answers")
        return Model()
"""


TENSORFLOW = """
import sys
print("chatter that must not reach standard output")
class keras:
    class models:
        @staticmethod
        def load_model(path, compile):
            if "refuse" in path:
                raise ValueError("unknown layer")
            return path
class lite:
    class TFLiteConverter:
        def __init__(self, model):
            self.model = model
        @classmethod
        def from_keras_model(cls, model):
            return cls(model)
        def convert(self):
            return b"TFL3 of " + self.model.encode()
"""


def test_tflite_is_made_where_tensorflow_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By a TensorFlow of a few lines, in the process of the interpreter that was given."""
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    c = context(DENSE, pythons={"litert": str(python)})
    assert peers._tflite(c) == b"TFL3 of " + DENSE.encode()
    with pytest.raises(peers.Absent, match=r"ValueError: unknown layer\); pass --model litert=FILE"):
        peers._tflite(c._replace(path="refuse.h5"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("how", ["predict", "call"])
def test_keras_in_a_process(tmp_path: Path, how: str) -> None:
    """The worker with a Keras of eight lines: the protocol, not Keras, is under test."""
    from npinfer.bench.keras_peer import KerasRunner

    (tmp_path / "keras.py").write_text(KERAS)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nshift\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    runner = KerasRunner(context(DENSE, pythons={"keras": str(python)}), how)
    try:
        x = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
        np.testing.assert_array_equal(runner.outputs([x])[0], 2 * x)
        assert len(runner.latency(5)) == 5
        assert len(runner.batch(100, 2)) == 2
        assert runner.loop(2) > 0
        assert runner.version == "0.0"
    finally:
        runner.close()
    assert runner.process.poll() == 0


def test_the_worker_is_alone() -> None:
    """It runs in other environments, so it imports nothing of npinfer and parses under old Pythons."""
    path = Path(peers.__file__).with_name("keras_worker.py")
    text = path.read_text()
    assert "npinfer" not in text.partition('"""')[2].partition('"""')[2]
    compile(text, str(path), "exec")


def test_options_parse() -> None:
    parser = argparse.ArgumentParser()
    bench_options(parser)
    args = parser.parse_args(["--engines", ",".join(ENGINES), "--model", "litert=a=b.tflite", "--batches", "1,2"])
    assert args.engines == list(ENGINES)
    assert args.model == [("litert", "a=b.tflite")]
    assert args.batches == [1, 2]
    from npinfer.cli import COMMANDS

    assert make_parser(COMMANDS).parse_args(["bench", "x.h5"]).threads == 1


def test_threads_are_pinned_before_numpy() -> None:
    options = ["--engines", "numpy", "--calls", "20", "--rounds", "1", "--batches", "1", "-q", "--json", "-"]
    code = f"import sys; from npinfer.cli import main; sys.exit(main(['bench', {DENSE!r}, *{options!r}]))"
    root = str(Path(__file__).resolve().parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": root, "PATH": ""}
    )
    assert json.loads(done.stdout)["machine"]["blas_threads"] in (1, None)


def test_layers_written_by_hand() -> None:
    c = context(DENSE)
    runner = peers.open_peer("numpy", c)
    assert runner.note == "f(x @ W + b)"
    xs = c.pool(5)
    np.testing.assert_allclose(runner.outputs(xs)[0], c.model(xs[0]), rtol=1e-5, atol=1e-6)
    with pytest.raises(peers.Absent, match="chains of Dense layers"):
        peers.open_peer("numpy", context(str(GOLDEN / "k3new/t3-mask-lstm.h5")))
