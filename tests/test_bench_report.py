"""What bench says and draws of a result."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_files import PAIR

import npinfer
from npinfer.bench import measure, plots, report
from npinfer.bench.plots import apart
from npinfer.bench.profile import profiled
from npinfer.errors import EngineError, FormatError


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
