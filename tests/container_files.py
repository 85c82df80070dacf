"""Small files in each layout, written without Keras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

KERNEL = np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4)
CONFIG = json.dumps({"class_name": "Sequential", "config": {"name": "s", "layers": []}})


def old(path: Path, layers: dict[str, dict[str, Any]], text: str = CONFIG, **options: Any) -> Path:
    """An old-layout file; `layers` gives weight names and arrays, or keywords of create_dataset."""
    with h5py.File(path, "w", **options) as f:
        f.attrs["model_config"] = text
        group = f.create_group("model_weights")
        group.attrs["layer_names"] = np.array([n.encode() for n in layers] or [], "S")
        for layer, weights in layers.items():
            inner = group.require_group(layer)
            inner.attrs["weight_names"] = np.array([n.encode() for n in weights] or [], "S")
            for name, value in weights.items():
                inner.create_dataset(name, **(value if isinstance(value, dict) else {"data": value}))
    return path


def store(path: Any, groups: dict[str, dict[str, Any]], names: dict[str, str] | None = None) -> Any:
    with h5py.File(path, "w") as f:
        for group, arrays in groups.items():
            for name, array in arrays.items():
                f[f"{group}/{name}"] = array
        for group, name in (names or {}).items():
            f[group].attrs["name"] = name
    return path
