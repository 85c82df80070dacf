"""Layers whose names are those of Keras's own groups."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np

import npinfer


def test_a_layer_called_model_weights_in_a_file_of_weights(tmp_path: Path) -> None:
    """A weights-only file whose layer has the name of a full file's group of all weights."""
    names, widths = ("kernel", "model_weights", "layer_names"), (3, 4, 2, 5)
    rng = np.random.default_rng(0)
    layers, held = [], []
    with h5py.File(tmp_path / "w.h5", "w") as f:
        f.attrs["layer_names"], f.attrs["keras_version"] = [n.encode() for n in names], "2.15.0"
        for name, a, b in zip(names, widths, widths[1:]):
            kernel, bias = rng.normal(size=(a, b)).astype("float32"), rng.normal(size=b).astype("float32")
            group = f.create_group(name)
            group.attrs["weight_names"] = [f"{name}/kernel:0".encode(), f"{name}/bias:0".encode()]
            group[f"{name}/kernel:0"], group[f"{name}/bias:0"] = kernel, bias
            held += [kernel, bias]
            config = {"name": name, "units": b, "activation": "linear", "batch_input_shape": [None, a]}
            layers.append({"class_name": "Dense", "config": config})
    text = json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": layers}, "keras_version": "2.15.0"})
    model = npinfer.load(tmp_path / "w.h5", config=text)
    for got, want in zip(model.get_weights(), held, strict=True):
        np.testing.assert_array_equal(got, want)
    assert len(npinfer.read_weights(tmp_path / "w.h5")) == 3
