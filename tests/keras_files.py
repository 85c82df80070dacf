"""The files of tests/recurrent: what they hold, and archives made by hand for what no file shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import npinfer
from npinfer.checking import flatten_outputs
from npinfer.graph import Array
from npinfer.readers.archive import Archive, Call, Layer, Model, TensorRef, Version

FOLDER = Path(__file__).resolve().parent / "recurrent"
KERAS3, TF215, OLD = Version(3, (3, 15, 1)), Version(2, (2, 15, 0), True), Version(2, (2, 2, 4))
ATTENTION = ("mha", "gqa", "att", "additive")


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def files(attention: bool) -> list[Path]:
    """The model files, of attention layers or of the recurrent ones."""
    found = sorted(p for p in FOLDER.glob("*/*") if p.suffix in (".h5", ".keras"))
    return [p for p in found if p.name.startswith(ATTENTION) == attention]


def name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def arrays(path: Path, kind: str) -> list[Array]:
    with np.load(path.with_suffix(".npz")) as data:
        return [data[f"{kind}{k}"] for k in range(9) if f"{kind}{k}" in data.files]


def call(model: npinfer.Model, xs: Sequence[Array]) -> list[Array]:
    return list(flatten_outputs(model(xs[0] if len(xs) == 1 else list(xs))))


def assert_near(got: Sequence[Array], want: Sequence[Array], rtol: float) -> None:
    """Each output within rtol of its largest entry."""
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=0, atol=rtol * max(np.abs(w).max(), 1e-30))


def archive(
    layer: Layer,
    inputs: Sequence[tuple[int | None, ...]],
    weights: Mapping[str, Array],
    version: Version = KERAS3,
    calls: Sequence[Call] | None = None,
    before: Sequence[Layer] = (),
) -> Archive:
    """A model of one layer, called once on all inputs unless `calls` says otherwise. before: layers in front of it."""
    entries = [Layer("InputLayer", f"in{k}", {"shape": s}, (Call(),)) for k, s in enumerate(inputs)]
    refs = [TensorRef(e.name, 0, 0) for e in entries]
    for k in before:
        entries.append(Layer(k.class_name, k.name, k.config, (Call((refs[0],)),)))
        refs[0] = TensorRef(k.name, 0, 0)
    made = tuple(calls) if calls is not None else (Call((refs if len(refs) > 1 else refs[0],)),)
    whole = Layer(layer.class_name, layer.name, layer.config, made, dtype=layer.dtype)
    outputs = [TensorRef(layer.name, k, 0) for k in range(len(made))]
    ins = [TensorRef(f"in{k}", 0, 0) for k in range(len(inputs))]
    model = Model("model", (*entries, whole), ins, outputs)
    stored = {(layer.name,): dict(weights)}
    return Archive(model, stored, tuple(((layer.name,), n) for n in weights), version, "test")


def random_weights(rng: np.random.Generator, features: int, units: int, parts: int, prefix: str = "cell/") -> dict[str, Any]:
    shapes = {"kernel": (features, parts * units), "recurrent_kernel": (units, parts * units), "bias": (parts * units,)}
    return {prefix + n: rng.normal(scale=0.5, size=s).astype(np.float32) for n, s in shapes.items()}
