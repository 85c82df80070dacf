"""Makers of small sound files, for the attacks to damage, and what they all share."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import npinfer

KERNEL = np.linspace(-1, 1, 48, dtype="f4").reshape(6, 8)
BIAS = np.linspace(0, 1, 8, dtype="f4")
ARRAYS = {"dense": (KERNEL, BIAS), "dense_1": (KERNEL[:3].T.copy(), BIAS[:3].copy())}
SECONDS, MEGABYTES = 1.0, 300.0


def dense(name: str, units: Any, activation: Any = "relu", **more: Any) -> dict[str, Any]:
    config = {"name": name, "trainable": True, "dtype": "float32", "units": units, "activation": activation, "use_bias": True}
    return {"class_name": "Dense", "config": {**config, **more}}


def config(*layers: dict[str, Any]) -> dict[str, Any]:
    """The architecture of a Sequential of 6 inputs; two Dense layers unless others are given."""
    first = {"class_name": "InputLayer", "config": {"batch_input_shape": [None, 6], "dtype": "float32", "name": "input_1"}}
    chosen = layers or (dense("dense", 8), dense("dense_1", 3, "linear"))
    return {"class_name": "Sequential", "config": {"name": "sequential", "layers": [first, *chosen]}}


def old(path: Path, architecture: Any = None, **options: Any) -> Path:
    """A full .h5 in the old layout, as tf.keras writes it."""
    with h5py.File(path, "w", **options) as f:
        f.attrs["keras_version"], f.attrs["backend"] = "2.15.0", "tensorflow"
        f.attrs["model_config"] = json.dumps(config() if architecture is None else architecture)
        group = f.create_group("model_weights")
        group.attrs["layer_names"] = np.array([name.encode() for name in ARRAYS])
        for name, arrays in ARRAYS.items():
            layer = group.create_group(name)
            layer.attrs["weight_names"] = np.array([f"{name}/{v}:0".encode() for v in ("kernel", "bias")])
            for variable, array in zip(("kernel", "bias"), arrays):
                layer[f"{name}/{variable}:0"] = array
    return path


def store(path: Any, arrays: dict[str, tuple[np.ndarray, ...]] = ARRAYS, names: bool = False) -> Any:
    """A Keras 3 .weights.h5, to a path or a file object."""
    with h5py.File(path, "w") as f:
        for name, values in arrays.items():
            group = f.create_group(f"layers/{name}/vars")
            if names:
                group.attrs["name"] = f"my_{name}"
            for k, array in enumerate(values):
                group[str(k)] = array
    return path


def members(**changes: bytes | None) -> dict[str, bytes]:
    """The members of a .keras file; keyword names have "_" for ".", None drops one."""
    memory = io.BytesIO()
    store(memory)
    found = {
        "config.json": json.dumps(config()).encode(),
        "metadata.json": json.dumps({"keras_version": "3.5.0", "date_saved": "2024-01-01"}).encode(),
        "model.weights.h5": memory.getvalue(),
    }
    for key, content in changes.items():
        name = key.replace("_", ".")
        if content is None:
            del found[name]
        else:
            found[name] = content
    return found


def pack(path: Path, content: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as z:
        for name, data in content.items():
            z.writestr(name, data)
    return path


def patch(path: Path, old_bytes: bytes, new_bytes: bytes, count: int = 1) -> Path:
    """Replace bytes in a file; they must be there `count` times."""
    data = path.read_bytes()
    assert data.count(old_bytes) == count
    path.write_bytes(data.replace(old_bytes, new_bytes))
    return path


def outcome(call: Callable[[], Any]) -> npinfer.NpinferError | None:
    """The NpinferError of a call, if any; the call may take little time and memory only. Another exception passes through."""
    before, start = peak(), time.process_time()
    error = None
    try:
        call()
    except npinfer.NpinferError as e:
        error = e
    # The processor's time, not the clock's: the machine may be busy.
    assert time.process_time() - start < SECONDS, f"took {time.process_time() - start:.1f} s"
    assert peak() - before < MEGABYTES, f"took {peak() - before:.0f} MB"
    return error


def peak() -> float:
    """The most memory this process has used, in MB; 0 where the system doesn't say."""
    try:
        import resource
        import sys
    except ImportError:
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
