"""The Keras that is installed, and of its models what the makers of cases share: weights by layer, a file's bytes.

make_golden.py has a kit of its own (golden_models/kit.py), which works from Keras 1.2 and Python 3.6 on.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

try:
    import keras
except ImportError:  # TensorFlow holds one of its own
    from tensorflow import keras

KERAS3 = keras.__version__.startswith("3")


def weights(model: Any) -> list[tuple[str, list[tuple[str, Any]]]]:
    """(layer, [(name, variable), …]) for all layers; variables are in the order of the layer's get_weights."""
    held = ((k.name, [*k.trainable_weights, *k.non_trainable_weights]) for k in model.layers)
    return [(layer, [(getattr(v, "path", None) or v.name, v) for v in variables]) for layer, variables in held]


def file_of(model: Any, suffix: str) -> np.ndarray:
    """The bytes of the file that model.save writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model" + suffix)
        model.save(path)
        return np.frombuffer(Path(path).read_bytes(), np.uint8)
