"""The cases of tests/graphs, which tools/make_graph_cases.py made with several versions of Keras."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npinfer
from npinfer.graph import Array, Graph
from npinfer.readers.archive import Archive, Call, Layer, Model, TensorRef, Version
from npinfer.readers.lower import lower

FOLDER = Path(__file__).resolve().parent / "graphs"
KERAS3 = Version(3, (3, 15, 1))


def numbers(*shape: int, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def cases(wanted: Callable[[str], bool]) -> Iterator[Any]:
    """(file, name) of each saved model whose name is wanted."""
    for path in sorted(FOLDER.glob("*.npz")):
        with np.load(path) as data:
            for key in data.files:
                name = key.removesuffix("/file")
                if name != key and name != "operations" and wanted(name):
                    yield pytest.param(path, name, id=f"{path.stem}-{name}")


def load(path: Path, name: str, **options: Any) -> tuple[npinfer.Model, list[Array], Array]:
    """The model of a case, its inputs and Keras's output."""
    with np.load(path) as data:
        model = npinfer.load(data[f"{name}/file"].tobytes(), **options)
        return model, [data[f"{name}/x{k}"] for k in range(2) if f"{name}/x{k}" in data.files], data[f"{name}/y"]


def assert_near(got: Array, want: Array, rtol: float, what: str = "") -> None:
    """Same shape, NaN and inf at the same places, the rest within rtol of the largest number."""
    assert got.shape == want.shape, what
    judged = np.isfinite(want) if want.dtype.kind == "f" else np.ones(want.shape, bool)
    np.testing.assert_array_equal(np.where(judged, 0, got), np.where(judged, 0, want), what)
    near, exact = np.where(judged, got, 0).astype(np.float64), np.where(judged, want, 0).astype(np.float64)
    np.testing.assert_allclose(near, exact, rtol=0, atol=rtol * max(np.abs(exact).max(initial=0), 1e-30), err_msg=what)


def graph_of(
    layer: Layer,
    *inputs: tuple[int | None, ...],
    weights: Mapping[str, Array] | None = None,
    version: Version = KERAS3,
    dtypes: tuple[str, ...] = (),
) -> Graph:
    """A model of one layer, lowered. The layer's own call decides how its inputs (in0, in1 …) are passed; without one, it is
    called on the only input, or on the list of several."""
    kinds = (*dtypes, *("float32",) * len(inputs))
    entries = [
        Layer("InputLayer", f"in{k}", {"shape": s, "dtype": d}, (Call(),)) for k, (s, d) in enumerate(zip(inputs, kinds))
    ]
    refs = [TensorRef(e.name, 0, 0) for e in entries]
    if not layer.calls:
        call = Call((refs[0] if len(refs) == 1 else refs,))
        layer = Layer(layer.class_name, layer.name, layer.config, (call,), None, layer.module, True, layer.dtype)
    model = Model("model", (*entries, layer), refs, TensorRef(layer.name, 0, 0))
    return lower(Archive(model, {(layer.name,): weights or {}}, (), version, "file")).graph
