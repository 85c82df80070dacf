"""`load`, `from_keras`, `read_weights`: from a file, or a live Keras model, to a Model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from npinfer.errors import NpinferWarning
from npinfer.model import Model
from npinfer.options import options


def load(
    source: Any,
    config: Any = None,
    *,
    dtype: str | None = None,
    engine: str = "auto",
    optimize: bool = True,
    outputs: Sequence[str] | str | None = None,
    threads: int | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    limits: Any = None,
) -> Model:
    """Load a network that Keras (or `Model.save`) wrote.

    source: a path, bytes or binary file: .h5/.hdf5 of Keras 1, 2 and 3, .keras, .weights.h5, .npz; told apart by content.
    config: the architecture for files of weights alone: to_json()'s text, its path, or the dict.
    dtype: "float32" or "float64" for the whole network; None follows the file (half precision is computed in float32).
    engine: "auto" (native where Numba is installed, else numpy), "native", "numpy" or "reference".
    optimize: False keeps the file's own sequence of operations.
    outputs: names of layers to return instead of the model's outputs.
    threads: how many the native engine may use for large batches. functions: NumPy functions for Lambda layers, by layer name.
    limits: npinfer.Limits for the size of what is read.

    Raises FormatError for damaged or foreign files, LimitError for files that declare too much, UnsupportedError naming every
    layer and option of the file that isn't supported, EngineError where the engine can't run here, ArgumentError for options
    that make no sense.
    """
    asked = options(dtype, engine, optimize, outputs, threads, functions)
    from npinfer.readers import read_all

    found = read_all(source, config, limits)
    if asked.dtype is None:
        asked = asked.replace(dtype=found.meta.get("dtype"))
    if asked.outputs is None and found.meta.get("outputs") is not None:
        asked = asked.replace(outputs=tuple(found.meta["outputs"]))
    model = Model(found.archive, asked)
    _warn_subnormal(model)
    if found.pairs is not None:
        model.verify(*found.pairs)
    return model


def from_keras(
    keras_model: Any,
    *,
    dtype: str | None = None,
    engine: str = "auto",
    optimize: bool = True,
    outputs: Sequence[str] | str | None = None,
    threads: int | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Model:
    """A Model of a live Keras 2 or 3 model of this process, with its present weights; npinfer itself imports no Keras.

    The options are those of `load`.
    """
    from npinfer.readers.live import from_keras as archive_of

    return Model(archive_of(keras_model), options(dtype, engine, optimize, outputs, threads, functions))


def _warn_subnormal(model: Model) -> None:
    """Files with subnormal weights are right, but slow on every engine: say so once, at load."""
    tiny = 0
    for a in model._archive.arrays():
        if a.dtype.kind == "f":
            tiny += int(np.count_nonzero((a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny)))
    if tiny:
        warnings.warn(
            f"{tiny:,} weights are subnormal numbers (below {np.finfo(np.float32).tiny:.1e}): results are right, but "
            "arithmetic on them can be many times slower; set them to zero with set_weights if that matters",
            NpinferWarning,
            stacklevel=3,
        )
