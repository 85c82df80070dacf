"""The networks of keras.applications, as Keras 2.15 and 3.15 made them, with drawn weights: against real Keras."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import keras_files
import numpy as np
import pytest
from application_weights import weight
from draws import draw
from keras_files import KERAS3 as K3
from keras_files import TF215

import npinfer
from npinfer.graph import Array
from npinfer.model import Model, Options
from npinfer.readers import dialect, interpret
from npinfer.readers.archive import Archive, Layer, Version
from npinfer.readers.raw import RawFile, stored

FOLDER = Path(__file__).resolve().parent / "applications"
UNIT = 2.0**-24  # the relative rounding of float32
#: how .weights.h5 calls the layers of a class; from the second on with a number
STORES = {
    "Conv2D": "conv2d",
    "DepthwiseConv2D": "depthwise_conv2d",
    "BatchNormalization": "batch_normalization",
    "Dense": "dense",
}


class Case(NamedTuple):
    """A network: its architecture, its weights' names and shapes by layer, Keras's outputs in float32 and float64."""

    version: str
    name: str
    config: str
    layers: list[Any]
    input: list[int]
    y: Array
    y64: Array

    def x(self) -> Array:
        return np.asarray(draw(f"{self.name}/input", tuple(self.input)))

    def weights(self) -> list[tuple[str, list[tuple[str, Array]]]]:
        """By layer, as old-layout files list them."""
        return [(layer, [(n, weight(self.name, layer, n, tuple(s))) for n, s in held]) for layer, held in self.layers]


def cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.npz")):
        with np.load(path) as data:
            held, y, y64 = json.loads(lzma.decompress(data["cases"].tobytes())), data["y"], data["y64"]
        for k, (name, case) in enumerate(held["cases"].items()):
            yield pytest.param(Case(held["version"], name, **case, y=y[k], y64=y64[k]), id=f"{path.stem}-{name}")


CASES = list(cases())
SMALL = [c for c in CASES if c.id.endswith("MobileNetV2")]


def archive(case: Case, weights: list[tuple[str, list[tuple[str, Array]]]]) -> Archive:
    config = json.loads(case.config)
    legacy = [(layer, [(n, stored(a)) for n, a in held]) for layer, held in weights]
    return interpret(RawFile(case.name, config, case.version, legacy=legacy), config, case.version, None)


def off(got: Array, want: Array) -> float:
    return float(np.abs(got - want).max() / np.abs(want).max())


@pytest.mark.parametrize("case", CASES)
def test_equals_keras(case: Case) -> None:
    """All engines, in one test: drawing the weights takes longest.

    float64: 1e-9 of the output's scale. float32: the forward error is the network's condition times the backward error of its
    sums and functions. The condition is Keras's too, so Keras's own error (its float32 run against its float64 run) shows the
    product; engines differ in the order of summation alone, and a sum of some hundreds of numbers, in blocks or one after
    another, is off by at most 8 times as much in one order as in the other. Where Keras's errors happened to cancel, two units
    a layer stand for them.
    """
    drawn = case.weights()
    read = archive(case, drawn)
    x = case.x()
    for engine in ("reference", "numpy"):
        model = Model(read, Options(dtype="float64", engine=engine))
        assert off(model(np.float64(x)), case.y64) < 1e-9, engine
    for mine, (_, theirs) in zip(model.get_weights(), [w for _, held in drawn for w in held], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    bound = max(8 * off(case.y, case.y64), 2 * UNIT * len(case.layers))
    assert bound < 1e-4
    for engine in ("reference", "numpy", "native"):
        y = Model(read, Options(engine=engine))(x)
        assert y.dtype == np.float32
        assert off(y, case.y64) < bound, engine
    assert np.ptp(case.y64, 0).max() > 1e-3 * np.abs(case.y64).max()  # a network that ignores its input would prove little


@pytest.mark.parametrize("case", SMALL)
def test_real_files(case: Case, tmp_path: Path) -> None:
    """Weights alone in both layouts, beside the architecture's JSON."""
    drawn = case.weights()
    with h5py.File(tmp_path / "old.h5", "w") as f:
        f.attrs["keras_version"] = case.version
        f.attrs["layer_names"] = [layer for layer, _ in drawn]
        for layer, held in drawn:
            group = f.create_group(layer)
            group.attrs["weight_names"] = [f"{layer}/{n}:0" for n, _ in held]
            for name, a in held:
                group[f"{layer}/{name}:0"] = a
    classes = {k["config"]["name"]: k["class_name"] for k in json.loads(case.config)["config"]["layers"]}
    seen: Counter[str] = Counter()
    with h5py.File(tmp_path / "new.weights.h5", "w") as f:
        for layer, held in drawn:
            kind = STORES[classes[layer]]
            place = kind if not seen[kind] else f"{kind}_{seen[kind]}"
            seen[kind] += 1
            for k, (_, a) in enumerate(held):
                f[f"layers/{place}/vars/{k}"] = a
    (tmp_path / "model.json").write_text(case.config, encoding="utf-8")
    wanted = Model(archive(case, drawn), Options(engine="numpy"))(case.x())
    for name in ("old.h5", "new.weights.h5"):
        model = npinfer.load(tmp_path / name, config=tmp_path / "model.json", engine="numpy")
        np.testing.assert_array_equal(model(case.x()), wanted)


@pytest.mark.parametrize("case", SMALL)
def test_set_weights(case: Case) -> None:
    """The list that Keras's get_weights gives is the one that set_weights takes."""
    drawn = case.weights()
    zeros = [(layer, [(n, np.ones_like(a)) for n, a in held]) for layer, held in drawn]
    model = Model(archive(case, zeros), Options(engine="numpy", dtype="float64"))
    model.set_weights([a for _, held in drawn for _, a in held])
    assert off(model(np.float64(case.x())), case.y64) < 1e-9


CUSTOM_SCALE = {"name": "x", "trainable": True, "dtype": "float32", "scale": 0.17}


@pytest.mark.parametrize(
    ("own", "extra"),
    [
        (True, {"module": "keras.src.applications.inception_resnet_v2", "registered_name": "Custom>CustomScaleLayer"}),
        (True, {"module": "keras.src.applications.inception_resnet_v2", "registered_name": "CustomScaleLayer"}),
        (True, {"class_name": "Custom>CustomScaleLayer"}),
        (False, {"class_name": "Custom>CustomScaleLayer", "config": {**CUSTOM_SCALE, "bias": 1}}),
        (False, {"class_name": "mine>CustomScaleLayer"}),
        (False, {"module": "mine", "registered_name": "Custom>CustomScaleLayer"}),
        (False, {"module": "keras.src.applicationsmine", "registered_name": "Custom>CustomScaleLayer"}),
        (False, {"module": None, "registered_name": "Custom>CustomScaleLayer"}),
    ],
)
def test_what_keras_applications_register(own: bool, extra: dict[str, Any]) -> None:
    """InceptionResNetV2's own layer, as .keras, .json and .h5 files of Keras 2.15 and 3 have it."""
    raw = {"class_name": "CustomScaleLayer", "config": CUSTOM_SCALE, **extra}
    made = dialect.layer(raw, K3, "test", lambda *_: pytest.fail("no layer is inside"))
    assert (made.class_name, made.module) == ("CustomScaleLayer", "" if own else "custom")


def test_a_scaled_sum(engine: str) -> None:
    read = keras_files.archive(Layer("CustomScaleLayer", "sum", {"scale": 0.17}), [(3,), (3,)], {})
    a, b = (keras_files.numbers(4, 3) * k for k in (np.float32(1), np.float32(2)))
    y = Model(read, Options(engine=engine))([a, b])
    assert off(y, a + b * np.float32(0.17)) < 1e-6
    for config in ({}, {"scale": "x"}):
        with pytest.raises(npinfer.UnsupportedError, match="option scale="):
            Model(keras_files.archive(Layer("CustomScaleLayer", "sum", config), [(3,), (3,)], {}), Options())
    with pytest.raises(npinfer.ShapeError, match="a list of two tensors, got 3"):
        Model(keras_files.archive(Layer("CustomScaleLayer", "sum", {"scale": 1}), [(3,)] * 3, {}), Options())


RESCALING = Layer("Rescaling", "x", {"scale": 1 / 255, "offset": 0.1})
NORMALIZATION = Layer("Normalization", "x", {"axis": -1, "mean": [0.485], "variance": [0.052441]})
#: what Keras 3.15 and 2.15 give for 1.0
PREPROCESSED = [
    (RESCALING, K3, 0.10392157034948468),
    (RESCALING, TF215, 0.10392157034948468),
    (NORMALIZATION, K3, 2.248908214353722),
    (NORMALIZATION, TF215, 2.2489082969432315),
]


@pytest.mark.parametrize(("layer", "version", "want"), PREPROCESSED)
def test_preprocessing_in_float64(layer: Layer, version: Version, want: float, engine: str) -> None:
    """TensorFlow makes float32 tensors of Python's floats; only tf.keras's Normalization keeps all digits."""
    model = Model(keras_files.archive(layer, [(1,)], {}, version), Options(engine=engine, dtype="float64"))
    assert abs(float(model(np.ones((1, 1)))[0, 0]) / want - 1) < 1e-14
