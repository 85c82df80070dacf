"""Saved files made by hand: architectures, arrays as old files list them, stores of Keras 3; and archives read from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer import readers
from npinfer.graph import Array
from npinfer.readers.archive import Archive
from npinfer.readers.raw import RawFile, stored

rng = np.random.default_rng(7)


def numbers(*shape: int, dtype: str = "float32") -> Array:
    return rng.normal(size=shape).astype(dtype)


def model(*layers: tuple[str, str, dict[str, Any]], shape: tuple[int, ...] = (3,)) -> dict[str, Any]:
    made = [{"class_name": c, "config": {"name": n, **config}} for c, n, config in layers]
    made[0]["config"]["batch_input_shape"] = [None, *shape]
    return {"class_name": "Sequential", "config": {"name": "s", "layers": made}}


def read(config: Any, legacy: Any, version: str | None = "2.2.4", backend: str | None = "tensorflow", **more: Any) -> Archive:
    groups = [(layer, [(n, stored(a, n)) for n, a in held]) for layer, held in legacy]
    raw = RawFile("file", config=config, keras_version=version, backend=backend, legacy=groups, **more)
    return readers.interpret(raw, config, version, backend)


def dense(name: str, n_in: int = 3, n_out: int = 2, written: str | None = None, suffix: str = ":0") -> tuple[str, list[Any]]:
    prefix = name if written is None else written
    return name, [(f"{prefix}/kernel{suffix}", numbers(n_in, n_out)), (f"{prefix}/bias{suffix}", numbers(n_out))]


TWO = model(("Dense", "a", {"units": 2}), ("Activation", "act", {"activation": "relu"}), ("Dense", "b", {"units": 2}))


def dense_entry(name: str) -> dict[str, Any]:
    return {"class_name": "Dense", "config": {"name": name, "units": 2}}


def assert_same_list(found: list[Array], expected: list[Array]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


def store(config: Any, arrays: dict[str, Array], names_: dict[str, str] | None = None, version: str = "3.15.1") -> Archive:
    held = {path: stored(a, path) for path, a in arrays.items()}
    raw = RawFile("file", config=config, keras_version=version, store=held, store_names=names_ or {})
    return readers.interpret(raw, config, version, None)


def k3(*layers: tuple[str, str, dict[str, Any]], shape: tuple[int, ...] = (3,)) -> dict[str, Any]:
    return model(*((c, n, {"trainable": True, **config}) for c, n, config in layers), shape=shape)


def pair(path: str, n_in: int = 3, n_out: int = 2) -> dict[str, Array]:
    return {f"{path}/vars/0": numbers(n_in, n_out), f"{path}/vars/1": numbers(n_out)}
