"""Pieces of Keras configs, and versions to read them as."""

from __future__ import annotations

from typing import Any

from npinfer.readers.archive import Version

K1, K2, TF, K3 = Version(1), Version(2, (2, 2, 4)), Version(2, (2, 15, 0), True), Version(3, (3, 15, 1))


def keras_tensor(layer: str, node: int = 0, tensor: int = 0) -> dict[str, Any]:
    config = {"shape": [None, 3], "dtype": "float32", "keras_history": [layer, node, tensor]}
    return {"class_name": "__keras_tensor__", "config": config}


def named_policy(class_name: str, **config: Any) -> dict[str, Any]:
    return {"module": "keras", "class_name": class_name, "config": config, "registered_name": None}
