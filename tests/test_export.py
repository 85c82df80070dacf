"""Networks exported to ONNX: every golden file in ONNX Runtime, what is written, what is refused, the command."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import Case, cases
from export_layer_cases import lstm
from export_op_case import w
from onnx_runs import SERIES, close, run, session
from test_golden import arrays, load

import npinfer
from npinfer import inputs as arrange
from npinfer.cli import main
from npinfer.export import onnx as target
from npinfer.export import registry
from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.dense import Dense
from npinfer.ops.functions import FunctionActivation
from npinfer.ops.recurrent import Recurrent
from npinfer.ops.resize import Resize


def whole(case: Case) -> list[Path]:
    """The files that hold a whole network; those of weights alone are one with their architecture beside them."""
    files = [f for f in case.files() if f.name.endswith((".h5", ".keras"))]
    parts = (".wonly.h5", ".weights.h5")
    beside = (case.folder / f"{case.base}.json").exists()
    return sorted((f for f in files if beside or not f.name.endswith(parts)), key=lambda f: f.name.endswith(parts))


JUDGED = [c for c in cases() if c.row["expect"] in ("ok", "ok-or-refuse") and whole(c)]


def judged(model: npinfer.Model, data: Any, batch: str, made: Any, states: list[Array], rtol: float, where: str) -> list[Array]:
    """One golden batch through both; returns the next states."""
    xs = arrays(data, batch, "in")
    xs, _ = arrange.batch(arrange.flatten(xs[0] if len(xs) == 1 else xs, model.inputs, model._structure_in), model.inputs)
    names = [i.name for i in made.get_inputs()]
    if model._graph.states and not states:
        states = [np.zeros((len(xs[0]), *s.shape), s.dtype) for s in model._graph.inputs[len(xs) :]]  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        want = model._graph.run([*xs, *states])
    got = made.run(None, dict(zip(names, [np.ascontiguousarray(x) for x in (*xs, *states)])))
    assert len(got) == len(want)
    for k, (g, expected) in enumerate(zip(got, want)):
        assert (g.shape, g.dtype) == (expected.shape, expected.dtype), f"{where}, output {k}"
        for i, row in enumerate(np.float64(expected)):
            mine = np.float64(g[i])
            finite = np.isfinite(row) & (np.abs(row) < 1e30)
            if batch == "bx":  # extreme inputs: where numbers overflow is the runtime's affair, row by row
                finite &= np.isfinite(mine)
            else:
                np.testing.assert_array_equal(np.where(finite, 0, mine), np.where(finite, 0, row), f"{where}, output {k}")
            scale = float(np.abs(row)[finite].max(initial=0))
            error = float(np.abs(mine[finite] - row[finite]).max(initial=0))
            assert error <= rtol * scale + (SERIES if rtol > 1e-9 else 1e-15), (
                f"{where}, output {k}, row {i}: {error:.3g} of {scale:.3g}"
            )
    return list(got[len(model._graph.outputs) :])


def exported(model: npinfer.Model, path: Path) -> Any:
    target.export(model, path)
    return session(onnx.load(path))


def every_batch(case: Case, path: Path, rtol: float, **options: Any) -> None:
    meta, data = case.io()
    file = whole(case)[0]
    model = load(file, case, engine="reference", **options)
    made = exported(model, path)
    states: list[Array] = []
    for batch in meta["batches"]:
        if batch == "bq" or not arrays(data, batch, "in"):
            continue
        kept = judged(model, data, batch, made, states, rtol, f"{file.name}, {batch}")
        states = kept if batch == "s0" else []


@pytest.mark.parametrize("case", JUDGED, ids=str)
def test_golden(case: Case, tmp_path: Path) -> None:
    every_batch(case, tmp_path / "net.onnx", 1e-5)


@pytest.mark.parametrize("case", [c for c in JUDGED if c.row["env"] == "k3new" and c.row["rtol64"]], ids=str)
def test_golden_in_float64(case: Case, tmp_path: Path) -> None:
    bilinear = any(name in case.row["model"] for name in ("resizing", "bilinear"))  # computed in float32 by TensorFlow too
    every_batch(case, tmp_path / "net.onnx", 1e-6 if bilinear else 1e-10, dtype="float64")


def network(name: str, env: str = "k3new", **options: Any) -> npinfer.Model:
    case = next(c for c in JUDGED if c.row["env"] == env and c.row["model"] == name)
    return load(whole(case)[0], case, **{"engine": "reference", **options})


def kinds(model: npinfer.Model) -> list[str]:
    return [n.kind for n in target.translate(model._optimised(model._graph)).nodes]


def test_names_shapes_and_metadata(tmp_path: Path) -> None:
    for name in ("multi-io-order", "conv1d-varlen", "lstm-basic", "dict-outputs"):
        model = network(name)
        path = tmp_path / "net.onnx"
        target.export(model, path)
        made = onnx.load(path)
        assert made.producer_name == "npinfer"
        assert made.producer_version == npinfer.__version__
        assert {p.key: p.value for p in made.metadata_props}["keras_version"] == str(model._archive.version)
        assert [(o.domain, o.version) for o in made.opset_import] == [("", target.OPSET)]
        assert made.ir_version == target.IR_VERSION
        for infos, specs in ((made.graph.input, model.inputs), (made.graph.output, model.outputs)):
            assert len(infos) == len(specs)
            for info, spec in zip(infos, specs):
                first, *rest = info.type.tensor_type.shape.dim
                assert info.name.startswith(spec.name)
                assert first.dim_param == "batch"
                assert [d.dim_value or None for d in rest] == list(spec.shape)
                assert all(d.dim_param.startswith(info.name) for d in rest if not d.dim_value)


def test_the_batch_and_open_sizes_are_free(tmp_path: Path) -> None:
    model = network("conv1d-varlen")
    made = exported(model, tmp_path / "net.onnx")
    for rows, steps in ((1, 9), (7, 12)):
        (spec,) = model.inputs
        x = w(rows, steps, spec.shape[-1] or 1)
        close(made.run(None, {spec.name: x})[0], np.asarray(model(x)), 1e-5, f"{rows} x {steps}")


def test_batchnorm_is_folded_unless_the_model_was_loaded_as_it_is() -> None:
    assert kinds(network("bn-after", optimize=True)).count("Gemm") == kinds(network("bn-after", optimize=False)).count("Gemm")
    assert len(kinds(network("bn-after", optimize=True))) < len(kinds(network("bn-after", optimize=False)))


def test_layouts_meet_without_transpositions() -> None:
    """Channels-last in, channels-last out: two at most for a chain of convolutions, pools, sums and padding."""
    assert kinds(network("conv2d-lenet")).count("Transpose") <= 2
    assert kinds(network("resblock-conv")).count("Transpose") <= 2
    assert kinds(network("lstm-stacked")).count("Transpose") <= 1
    assert kinds(network("bi-lstm-concat")).count("Slice") == 0


def test_states_go_in_and_out(tmp_path: Path) -> None:
    model = network("lstm-stateful")
    path = tmp_path / "net.onnx"
    made = exported(model, path)
    inputs, outputs = [i.name for i in made.get_inputs()], [o.name for o in made.get_outputs()]
    assert inputs[1:] == ["state_0", "state_1"]
    assert outputs[1:] == ["state_0_next", "state_1_next"]
    (spec,) = model.inputs
    x = w(2, *(n or 6 for n in spec.shape))
    states = [np.zeros((2, *s.shape), np.float32) for s in model._graph.inputs[1:]]  # type: ignore[arg-type]
    for _ in range(3):
        y, *states = made.run(None, dict(zip(inputs, [x, *states])))
        close(y, np.asarray(model(x)), 1e-5, "a call")


def test_outputs_that_are_inputs_or_the_same() -> None:
    spec = Spec((3,), np.dtype("float32"), "x")
    graph = Graph([spec], [Node(Activation("tanh"), (0,), "x")], [0, 1, 1])
    made = target.translate(graph)
    assert [s.name for s in made.inputs] == ["x"]
    assert len({"x", *(s.name for s in made.outputs)}) == 4
    x = w(2, 3)
    for got, want in zip(run(graph, [x]), graph(x)):
        close(got, want, 1e-5, "outputs")


def test_what_can_not_be_exported_is_named_layer_by_layer() -> None:
    class Own(Op):
        def infer(self, x: Spec) -> Spec:
            return x

        def __call__(self, x: Array) -> Array:
            return x

    f32 = np.dtype("float32")
    nodes = [
        Node(FunctionActivation(np.sin), (0,), "mine"),
        Node(Dense(w(8, 8)), (2,), "dense"),
        Node(Own(), (3,), "other"),
        Node(Resize((4, 4), "bicubic"), (1,), "enlarged"),
    ]
    graph = Graph([Spec((8,), f32, "x"), Spec((None, 2, 2), f32, "y")], nodes, [4, 5])
    with pytest.raises(npinfer.UnsupportedError) as caught:
        target.translate(graph)
    assert [p.split("'")[1] for p in caught.value.problems] == ["mine", "other", "enlarged"]
    assert "Python" in caught.value.problems[0]
    assert "npinfer.export.exports" in caught.value.problems[1]
    assert "open" in caught.value.problems[2]
    assert all(p in str(caught.value) for p in caught.value.problems)


def test_an_op_inside_another_is_refused_too() -> None:
    cell = lstm(activation=FunctionActivation(np.tanh))
    graph = Graph([Spec((5, 3), np.dtype("float32"), "x")], [Node(Recurrent(cell), (0,), "walk")], [1])
    with pytest.raises(npinfer.UnsupportedError, match=r"'walk'.*Python"):
        target.translate(graph)


def test_a_new_op_needs_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(Op):
        def infer(self, x: Spec) -> Spec:
            return x

        def __call__(self, x: Array) -> Array:
            return x * 2

    monkeypatch.setattr(registry, "TRANSLATORS", dict(registry.TRANSLATORS))
    registry.exports(Twice)(lambda net, op, x: x * 2.0)
    graph = Graph([Spec((3,), np.dtype("float32"), "x")], [Node(Twice(), (0,), "twice")], [1])
    x = w(2, 3)
    close(run(graph, [x])[0], x * 2, 1e-7, "twice")


def test_weights_too_large_for_one_message_go_to_a_second_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "LARGEST", 100)
    monkeypatch.setattr(target, "SMALL", 64)
    model = network("conv2d-lenet")
    made = exported(model, tmp_path / "net.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]
    big = sum(a.nbytes for a in model._archive.arrays() if a.nbytes >= 64)
    assert (tmp_path / "net.onnx.data").stat().st_size == big
    (spec,) = model.inputs
    x = w(2, *(n or 1 for n in spec.shape))
    close(made.run(None, {spec.name: x})[0], np.asarray(model(x)), 1e-5, "external data")


def test_nothing_is_left_when_the_graph_is_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.load_families()
    monkeypatch.setitem(registry.TRANSLATORS, Dense, lambda net, op, x: x.do("NoSuchOperator"))
    with pytest.raises(npinfer.EngineError, match="isn't valid"):
        target.export(network("mlp-seed"), tmp_path / "net.onnx")
    assert list(tmp_path.iterdir()) == []


# the command line


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = next(c for c in JUDGED if c.row["env"] == "k3new" and c.row["model"] == "mlp-seed")
    file, out = whole(case)[0], tmp_path / "net.onnx"
    assert main(["export", str(file), str(out)]) == 0
    assert out.name in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [out]
    session(onnx.load(out))
    assert main(["export", str(file), str(tmp_path / "missing" / "net.onnx")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["export", str(file), str(file)]) == 2


def test_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == "onnx":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    case = next(c for c in JUDGED if c.row["env"] == "k3new" and c.row["model"] == "mlp-seed")
    assert main(["export", str(whole(case)[0]), str(tmp_path / "net.onnx")]) == 1
    assert capsys.readouterr().err == "npinfer: export to ONNX needs onnx: pip install npinfer[onnx]\n"
    assert list(tmp_path.iterdir()) == []


def test_translating_needs_no_onnx_and_no_keras() -> None:
    code = "from npinfer.export import onnx, registry; registry.load_families(); import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert not {"onnx", "keras", "tensorflow"} & set(done.stdout.split())
