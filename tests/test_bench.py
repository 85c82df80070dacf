"""Measuring. No test looks at how long anything took: results have all their parts, fits find what was put in, and so on."""

from __future__ import annotations

import argparse
import csv
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_files import DENSE, PAIR
from conftest import GOLDEN

from npinfer.bench import measure, report
from npinfer.bench.command import shapes_of
from npinfer.bench.options import ENGINES, bench_options
from npinfer.cli import main
from npinfer.cli_parser import make_parser
from npinfer.errors import ShapeError
from npinfer.graph import Array, Spec

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
