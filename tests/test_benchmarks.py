"""benchmarks/: its networks are what they say, results have their parts, comparisons find what became slower."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npinfer
from npinfer.checking import flatten_outputs, random_inputs

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import child, compare, tables  # noqa: E402
from benchmarks.__main__ import main, parser  # noqa: E402
from benchmarks.networks import NETWORKS, Network, weights, write_h5  # noqa: E402
from benchmarks.runs import tidy  # noqa: E402
from benchmarks.tflite import Unwritable, write_tflite  # noqa: E402

SMALL = [n for n in NETWORKS.values() if n.name not in ("wide", "mobilenet", "sweep-1024", "sweep-768", "512x3", "sweep-512")]


@pytest.mark.parametrize("network", SMALL, ids=lambda n: n.name)
def test_networks_are_what_they_say(network: Network, tmp_path: Path) -> None:
    write_h5(network, tmp_path / "net.h5")
    model = npinfer.load(tmp_path / "net.h5", engine="numpy")
    held = [a for arrays in weights(network).values() for a in arrays.values()]
    assert [s.name for s in model.inputs] == [s.name for s in network.inputs]
    for got, want in zip(model.get_weights(), held, strict=True):
        np.testing.assert_array_equal(got, want)
    if not network.stream:
        reference = npinfer.load(tmp_path / "net.h5", engine="reference")
        xs = random_inputs(model._graph, 3, model.inputs)
        given: Any = xs if len(xs) > 1 else xs[0]
        for y, want in zip(flatten_outputs(model(given)), flatten_outputs(reference(given)), strict=True):
            assert np.ptp(want) > 0, "an output that never changes compares nothing"
            np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["tiny", "rl", "linear", "lenet", "image4", "mobilenet"])
def test_litert_gets_the_same_network(name: str, tmp_path: Path) -> None:
    """Where ai-edge-litert is installed its outputs are compared; elsewhere the writer says what is missing."""
    network, path = NETWORKS[name], tmp_path / "net.tflite"
    if find_spec("ai_edge_litert") is None:
        with pytest.raises(ImportError):
            write_tflite(network, path)
        return
    write_tflite(network, path)
    write_h5(network, tmp_path / "net.h5")
    model = npinfer.load(tmp_path / "net.h5", engine="numpy")
    xs = random_inputs(model._graph, 1, model.inputs)
    np.savez(tmp_path / "x.npz", *xs)
    code = (  # a process of its own: LiteRT prints, and keeps threads
        "import sys, numpy as np; from ai_edge_litert.interpreter import Interpreter\n"
        "net = Interpreter(model_path=sys.argv[1]); net.allocate_tensors(); data = np.load(sys.argv[2])\n"
        "for d, name in zip(net.get_input_details(), data.files): net.set_tensor(d['index'], data[name])\n"
        "net.invoke(); np.savez(sys.argv[3], *(net.get_tensor(d['index']) for d in net.get_output_details()))"
    )
    subprocess.run([sys.executable, "-c", code, path, tmp_path / "x.npz", tmp_path / "y.npz"], check=True, capture_output=True)
    with np.load(tmp_path / "y.npz") as got:
        want = flatten_outputs(model(xs if len(xs) > 1 else xs[0]))
        for y, w in zip((got[n] for n in got.files), want, strict=True):
            np.testing.assert_allclose(y, w, rtol=0, atol=1e-5)


def test_litert_lacks_recurrent_layers(tmp_path: Path) -> None:
    with pytest.raises((Unwritable, ImportError)):
        write_tflite(NETWORKS["lstm64"], tmp_path / "net.tflite")


def test_run_report_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "result.json"
    assert main(["run", "--quick", "--cases", "tiny,gru", "--peers", "", "--engines", "numpy", "--out", str(out)]) == 0
    result = json.loads(out.read_text("utf-8"))
    assert set(result["cases"]) == {"tiny", "gru32"}
    assert {r["name"] for r in result["cases"]["tiny"]["rows"]} >= {"npinfer numpy"}
    assert all(r["latency"]["min"] > 0 and r["latency"]["p99"] >= r["latency"]["p50"] for r in result["cases"]["tiny"]["rows"])
    assert main(["report", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "4-16-16-2 tanh" in shown
    assert "NumPy only" in shown
    assert str(Path.home()) not in out.read_text("utf-8")
    assert main(["compare", str(out), str(out)]) == 0
    assert "0 of " in capsys.readouterr().out


def row(name: str, loop: float, batches: dict[int, float], error: float = 1e-7) -> dict[str, Any]:
    latency = {"loop": loop, "min": loop * 0.9, "p50": loop * 1.1, "p99": loop * 2}
    listed = [{"n": n, "min": t, "median": t} for n, t in batches.items()]
    return {"name": name, "own": name.startswith("npinfer"), "latency": latency, "batches": listed, "error": error}


def result(own: float, peer: float | None, batch: float = 4000.0) -> dict[str, Any]:
    rows = [row("npinfer native", own, {64: batch})]
    if peer is not None:
        rows.append(row("litert", peer, {64: 5000.0}))
    machine = {
        "cpu": "a CPU",
        "cores": 2,
        "load": 0.1,
        "threads": 1,
        "system": "s",
        "python": "p",
        "numpy": "2",
        "versions": {},
    }
    case = {"rows": rows, "what": "40-64-128-128-1 relu", "jit": None}
    return {"cases": {"seed": case}, "machine": machine, "commit": "abc", "date": "2026-01-01"}


@pytest.mark.parametrize(
    ("before", "after", "factor"),
    [
        (result(4000, None), result(6000, None), 1.5),  # no peer: the times themselves
        (result(4000, 8000), result(8000, 16000), 1.0),  # everything was slower: the machine was
        (result(4000, 8000), result(4000, 4000), 2.0),  # the machine was quicker, npinfer wasn't
    ],
)
def test_files_are_compared_by_the_best_peer(before: Any, after: Any, factor: float) -> None:
    found = {c.what: c.factor for c in compare.of_files(before, after, [])}
    assert found["seed, npinfer native, one sample"] == pytest.approx(factor)


def test_a_regression_is_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_text(json.dumps(result(1000, None)), "utf-8")
    b.write_text(json.dumps(result(1000, None, 6000.0)), "utf-8")
    assert main(["compare", str(a), str(b)]) == 1
    assert "SLOWER" in capsys.readouterr().out
    assert main(["compare", str(a), str(b), "--allow", "2"]) == 0
    assert main(["compare", str(a), str(b), "--cases", "nothing"]) == 1


def test_losses_are_said() -> None:
    assert tables.losses(result(2500, 4000)) == []
    (lost,) = tables.losses(result(6000, 4000, 7000.0))
    assert "one sample (1.50×)" in lost
    assert "batch 64 (1.40×)" in lost
    assert "LiteRT" in lost
    assert "none" in tables.details(result(2500, 4000))
    assert "none" not in tables.details(result(3000, 2000))


def test_short_calls_go_by_the_loop() -> None:
    assert tables.best(row("x", 100, {})) == 100
    assert tables.best(row("x", 10_000, {})) == pytest.approx(9000)


def test_commits_are_compared_in_turns(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", ".", ".", "--cases", "tiny,gru", "--engines", "numpy", "--rounds", "1", "--allow", "1000"]
    assert compare.compare(parser().parse_args(words)) == 0
    shown = capsys.readouterr().out
    assert "tiny, numpy, one sample" in shown
    assert "gru32, numpy, one step" in shown


@pytest.mark.parametrize(
    ("before", "after", "factor"),
    [
        ([10, 11, 12], [20, 22, 24], 2.0),
        ([10, 20, 20], [19, 20, 21], 1.05),  # one lucky turn before
        ([10, 10, 10], [10, 30, 30], 1.0),  # the machine was busy in two turns
        ([20, 20, 40], [10, 12, 10], 0.5),
    ],
)
def test_turns_are_compared_by_what_agrees(before: list[float], after: list[float], factor: float) -> None:
    assert compare.change("x", before, after).factor == pytest.approx(factor)


def test_a_commit_is_checked_out_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, folder = tmp_path / "repo", tmp_path / "folder"
    root.mkdir()
    folder.mkdir()
    identity = ("-c", "user.name=n", "-c", "user.email=e")

    def git(*words: str) -> None:
        subprocess.run(["git", *identity, "-C", str(root), *words], check=True, capture_output=True)

    git("init", "-q")
    (root / "file").write_text("first", "utf-8")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    (root / "file").write_text("changed", "utf-8")
    monkeypatch.setattr(compare, "ROOT", root)
    with compare.checked_out("HEAD", str(folder)) as tree, compare.checked_out(".", str(folder)) as here:
        assert (tree / "file").read_text("utf-8") == "first"
        assert here == root
    assert not tree.exists()


def test_least_takes_the_best_round() -> None:
    assert 0 < child.least(lambda: None) < 1e6


def test_numbers_are_kept_short() -> None:
    assert tidy({"a": [1.23456789, 2], "b": (float("inf"), "x")}) == {"a": [1.2346, 2], "b": [None, "x"]}


def test_streams_have_an_open_axis() -> None:
    for network in (n for n in NETWORKS.values() if n.stream):
        assert network.steps[0].config["batch_shape"][1] is None


def test_words() -> None:
    assert parser().parse_args(["run", "--cases", "a,b"]).cases == ["a", "b"]
    with pytest.raises(SystemExit):
        parser().parse_args(["measure"])
    assert isinstance(parser(), argparse.ArgumentParser)
