"""From what callers pass to `model(x)` to the arrays an executor takes, and back to the structure Keras returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npinfer.errors import ShapeError, shown
from npinfer.executors.signature import cast, fits, show
from npinfer.graph import Array, Spec


def flatten(x: Any, specs: Sequence[Spec], structure: Any) -> list[Any]:
    """The values for each input, in the graph's order, from one array, a list or tuple, or a dict by input name.

    Raises ShapeError where their number or names don't fit.
    """
    if isinstance(x, Mapping):
        return _by_name(x, specs, structure)
    if len(specs) == 1:
        alone = (
            isinstance(x, (list, tuple)) and len(x) == 1 and isinstance(x[0], np.ndarray) and x[0].ndim >= len(specs[0].shape)
        )
        shapes = [v.shape for v in x if isinstance(v, np.ndarray)] if isinstance(x, (list, tuple)) else []
        if len(set(shapes)) > 1 and any(len(s) != len(specs[0].shape) for s in shapes):  # several inputs, or Keras's (x, y)
            sizes = ", ".join(map(show, shapes[:4]))
            raise ShapeError(f"the model takes 1 input ({_names(specs)}), got {len(x)} arrays: {sizes}")
        return [x[0] if alone and x[0].ndim > 0 else x]
    if not isinstance(x, (list, tuple)):
        raise ShapeError(
            f"the model takes {len(specs)} inputs ({_names(specs)}): pass a list or a dict, got {type(x).__name__}"
        )
    if len(x) != len(specs):
        raise ShapeError(
            f"the model takes {len(specs)} inputs ({_names(specs)}), got {len(x)}; pass one array for each, or a dict by name"
        )
    return list(x)


def _by_name(x: Mapping[str, Any], specs: Sequence[Spec], structure: Any) -> list[Any]:
    keys = {s.name: k for k, s in enumerate(specs)}
    if isinstance(structure, Mapping):  # Keras takes the keys of the dict that the model was made with
        keys = {**keys, **{n: k for n, k in structure.items() if isinstance(k, int)}}
    found: dict[int, Any] = {}
    for name, value in x.items():
        if name not in keys:
            raise ShapeError(f"no input called {shown(name)}; the model takes {_names(specs)}")
        if keys[name] in found:
            raise ShapeError(f"input {specs[keys[name]].name!r} is given twice")
        found[keys[name]] = value
    missing = [s.name for k, s in enumerate(specs) if k not in found]
    if missing:
        raise ShapeError(f"input(s) {', '.join(map(repr, missing))} missing; the model takes {_names(specs)}")
    return [found[k] for k in range(len(specs))]


def _names(specs: Sequence[Spec]) -> str:
    return ", ".join(f"{s.name!r} {show(s.shape)}" for s in specs)


def batch(values: Sequence[Any], specs: Sequence[Spec]) -> tuple[list[Array], bool]:
    """The arrays with their batch axis, cast and checked, and whether they were one sample without it.

    For an input of shape (1,) a 1-D array is a batch of scalars, as in Keras. Raises ShapeError or DtypeError.
    """
    arrays = [cast(v, s, f"input {s.name!r}") for v, s in zip(values, specs)]
    alone = [a.ndim == len(s.shape) and s.shape != (1,) and fits(a.shape, s.shape) for a, s in zip(arrays, specs)]
    if all(alone):
        return [a[None] for a in arrays], True
    if any(alone):
        _one_of_each(arrays, specs)
    batched = [_batched(a, s) for a, s in zip(arrays, specs)]
    counts = {len(a) for a in batched}
    if len(counts) > 1:
        if all(a.ndim == len(s.shape) and fits(a.shape, s.shape) for a, s in zip(arrays, specs)):
            return [a[None] for a in arrays], True
        sizes = ", ".join(f"{s.name!r} has {len(a)}" for a, s in zip(batched, specs))
        raise ShapeError(f"the inputs hold different numbers of samples: {sizes}; they must agree")
    return batched, False


def _one_of_each(arrays: Sequence[Array], specs: Sequence[Spec]) -> None:
    """Some inputs are one sample: blame the input that is neither that nor a batch before those that are right."""
    for array, spec in zip(arrays, specs):
        if array.ndim != len(spec.shape) or not fits(array.shape, spec.shape):
            _batched(array, spec)


def _batched(array: Array, spec: Spec) -> Array:
    rank = len(spec.shape)
    if array.ndim == rank and rank and spec.shape[-1] == 1 and fits(array.shape[1:], spec.shape[:-1]):
        array = array[..., None]
    if array.ndim != rank + 1 or not fits(array.shape[1:], spec.shape):
        raise ShapeError(
            f"input {spec.name!r}: expected {show((None, *spec.shape))} for a batch or {show(spec.shape)} for one sample, "
            f"got {show(array.shape)}"
        )
    return array


def restore(results: Sequence[Any], structure: Any) -> Any:
    """Results in the structure that Keras returns: one array, a tuple, a dict, nested as the model's outputs are."""
    if isinstance(structure, int):
        return results[structure]
    if isinstance(structure, Mapping):
        return {k: restore(results, v) for k, v in structure.items()}
    if len(structure) == 1 and isinstance(structure[0], int):
        return results[structure[0]]
    return tuple(restore(results, v) for v in structure)


def bind_shapes(specs: Sequence[Spec], shape: Any) -> tuple[tuple[int, ...], ...] | None:
    """bind's `shape` as one tuple an input, checked against the specs."""
    if shape is None:
        return None
    if isinstance(shape, Mapping):
        unknown = [n for n in shape if n not in {s.name for s in specs}]
        if unknown:
            names = ", ".join(map(shown, unknown))
            raise ShapeError(f"bind(shape=…): no input called {names}; the model takes {_names(specs)}")
        given = [shape.get(s.name, s.shape) for s in specs]
    elif len(specs) == 1:
        given = [shape if isinstance(shape, (tuple, list)) else (shape,)]
    elif isinstance(shape, (tuple, list)):
        given = list(shape)
    else:
        raise ShapeError(f"bind(shape={shown(shape)}): needs a list of {len(specs)} shapes, or a dict by name")
    if len(given) != len(specs):
        raise ShapeError(f"bind(shape=…): {len(given)} shapes for {len(specs)} inputs")
    for spec, got in zip(specs, given):
        sizes = got if isinstance(got, (tuple, list)) else (got,)
        if any(not isinstance(n, (int, np.integer)) or n < 0 for n in sizes) or not fits(sizes, spec.shape):
            raise ShapeError(f"bind(shape=…): input {spec.name!r} takes {show(spec.shape)}, got {shown(got)}")
    return tuple(tuple(int(n) for n in got) for got in given)
