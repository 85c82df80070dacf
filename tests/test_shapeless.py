"""Files of a Sequential that don't give its input's shape (Keras 2.2 with an InputLayer, or built by its first call)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import npinfer

RNG = np.random.default_rng(0)
BATCH_NORM = {n: RNG.uniform(0.5, 2, 3).astype("f4") for n in ("gamma", "beta", "moving_mean", "moving_variance")}
DENSE = {"kernel": RNG.normal(size=(12, 2)).astype("f4"), "bias": np.ones(2, "f4")}
LAYERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("BatchNormalization", {"axis": -1, "epsilon": 1e-3}, BATCH_NORM),
    ("Flatten", {}, {}),
    ("Dense", {"units": 2, "activation": "linear"}, DENSE),
]


def save(path: Path, layers: Sequence[tuple[str, dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    """A file of Keras 2.2.4 without a shape; its architecture."""
    entries = [{"class_name": c, "config": {"name": c.lower(), **config}} for c, config, _ in layers]
    architecture = {"class_name": "Sequential", "config": {"name": "net", "layers": entries}}
    with h5py.File(path, "w") as f:
        f.attrs["keras_version"], f.attrs["backend"], f.attrs["model_config"] = "2.2.4", "tensorflow", json.dumps(architecture)
        top = f.create_group("model_weights")
        top.attrs["layer_names"] = [c.lower().encode() for c, _, _ in layers]
        for c, _, weights in layers:
            group = top.create_group(c.lower())
            names = [f"{c.lower()}/{n}:0" for n in weights]
            group.attrs["weight_names"] = [n.encode() for n in names] or np.zeros(0, "S1")
            for name, array in zip(names, weights.values()):
                group[name] = array
    return architecture


def test_weights_that_tell_too_little(tmp_path: Path) -> None:
    architecture = save(tmp_path / "m.h5", LAYERS)
    with pytest.raises(npinfer.ShapeError, match=r"doesn't say which shape .* \[3\], .* pass the architecture .* config="):
        npinfer.load(tmp_path / "m.h5")
    architecture["config"]["layers"][0]["config"]["batch_input_shape"] = [None, 4, 3]
    model = npinfer.load(tmp_path / "m.h5", config=architecture, engine="numpy")
    x = RNG.normal(size=(5, 4, 3))
    b = BATCH_NORM
    normal = b["gamma"] * (x - b["moving_mean"]) / np.sqrt(b["moving_variance"] + 1e-3) + b["beta"]
    np.testing.assert_allclose(model(x), normal.reshape(5, 12) @ DENSE["kernel"] + 1, rtol=1e-5, atol=1e-5)


def test_no_weights_that_tell(tmp_path: Path) -> None:
    save(tmp_path / "m.h5", LAYERS[1:])
    with pytest.raises(npinfer.FormatError, match=r"neither the config nor the weights .* config="):
        npinfer.load(tmp_path / "m.h5")


def test_a_declared_shape_is_not_called_a_guess(tmp_path: Path) -> None:
    architecture = save(tmp_path / "m.h5", LAYERS)
    architecture["config"]["layers"][0]["config"]["batch_input_shape"] = [None, 5, 3]
    with pytest.raises(npinfer.ShapeError, match="takes 12 inputs") as caught:
        npinfer.load(tmp_path / "m.h5", config=architecture)
    assert "doesn't say" not in str(caught.value)
