"""What is known of a network without timing it, its flops and bytes, and the profile of its layers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from bench_files import DENSE, PAIR
from conftest import GOLDEN

import npinfer
from npinfer.bench.flops import graph_numbers, node_numbers
from npinfer.bench.profile import profiled
from npinfer.cli import main
from npinfer.graph import Graph, Node, Spec
from npinfer.ops.dense import Dense
from npinfer.ops.einsum import EinsumDense

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
