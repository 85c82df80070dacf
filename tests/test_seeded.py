"""LocallyConnected layers, attention over several axes, products of tensors: against real Keras (tests/seeded)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import graph_cases as gc
import numpy as np
import pytest
from draws import draw

from npinfer.graph import Array
from npinfer.model import Model, Options
from npinfer.readers import interpret
from npinfer.readers.raw import RawFile, stored

FOLDER = Path(__file__).resolve().parent / "seeded"


def cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.npz")):
        with np.load(path) as data:
            held = json.loads(zlib.decompress(data["cases"].tobytes()))
            y, place = data["y"], 0
        for name, case in held["cases"].items():
            outputs = []
            for shape in case["outputs"]:
                outputs.append(y[place : place + int(np.prod(shape))].reshape(shape))
                place += outputs[-1].size
            yield pytest.param(held["version"], name, case, outputs, id=f"{path.stem}-{name}")


CASES = list(cases())


def loaded(version: str, name: str, case: dict[str, Any], **options: Any) -> tuple[Model, list[Array]]:
    """The model with its weights, and its inputs."""
    groups = [
        (layer, [(n, stored(draw(f"{name}/{layer}/{k}", tuple(s)))) for k, (n, s) in enumerate(weights)])
        for layer, weights in case["layers"]
    ]
    config = json.loads(case["config"])
    raw = RawFile(name, config, version, "tensorflow", legacy=groups)
    xs = [draw(f"{name}/in{k}", tuple(s), d) for k, (s, d) in enumerate(case["inputs"])]
    for x in xs:
        if x.ndim > 2 and x.dtype != bool:
            x[0, -1] = x[1, 0, 0] = 0.5  # what Masking hides
    return Model(interpret(raw, config, version, "tensorflow"), Options(**options)), xs


def call(model: Model, xs: list[Array]) -> list[Array]:
    got = model(xs if len(xs) > 1 else xs[0])
    return list(got) if isinstance(got, tuple) else [got]


@pytest.mark.parametrize(("version", "name", "case", "want"), CASES)
def test_equals_keras(version: str, name: str, case: dict[str, Any], want: list[Array], engine: str) -> None:
    """Within 2e-6 of the output's scale, in Keras's dtype; no rows give no rows."""
    model, xs = loaded(version, name, case, engine=engine)
    for mine, y in zip(call(model, xs), want, strict=True):
        assert mine.dtype == y.dtype
        gc.assert_near(mine, y, 2e-6)
    for mine, y in zip(call(model, [x[:0] for x in xs]), want, strict=True):
        assert mine.shape == (0, *y.shape[1:])


@pytest.mark.parametrize(("version", "name", "case", "want"), CASES)
def test_float64(version: str, name: str, case: dict[str, Any], want: list[Array]) -> None:
    """The same network in float64 lies within Keras's float32 rounding of it."""
    model, xs = loaded(version, name, case, engine="reference", dtype="float64")
    for mine, y in zip(call(model, [x if x.dtype == bool else np.float64(x) for x in xs]), want, strict=True):
        assert mine.dtype == np.float64
        if "mask" in name:  # -1e9 keeps a masked row's digits in float64, and loses them in float32
            continue
        gc.assert_near(mine, y, 2e-6)
