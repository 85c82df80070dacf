"""`predict`: many samples, from memory, from arrays larger than memory, or from an iterator of batches; with progress."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer import inputs as arrange
from npinfer.errors import ShapeError
from npinfer.graph import Array
from npinfer.progress import progress

if TYPE_CHECKING:
    from npinfer.model import Model

CHUNK_BYTES = 8 << 20  # of input a chunk: long enough to hide the loop, short enough for a live progress bar


def predict(model: Model, x: Any, batch_size: int | None, verbose: Any) -> Any:
    """See Model.predict."""
    if batch_size is not None and (not isinstance(batch_size, (int, np.integer)) or batch_size < 1):
        raise ShapeError(f"predict(batch_size={batch_size!r}): needs a whole number of at least 1")
    if isinstance(x, Iterator):
        parts = [model._run(_checked(model, b)) for b in progress(x, None, verbose, "batches")]
        if not parts:
            raise ShapeError("predict: the iterator gave no batch")
        results = [np.concatenate(columns) for columns in zip(*parts)]
    else:
        sources = [v if _sliceable(v) else np.asarray(v) for v in arrange.flatten(x, model.inputs, model._structure_in)]
        results = _in_chunks(model, sources, batch_size, verbose)
    return arrange.restore(results, model._structure_out)


def _checked(model: Model, batch: Any) -> list[Array]:
    values = arrange.flatten(batch, model.inputs, model._structure_in)
    arrays, single = arrange.batch(values, model.inputs)
    if single and any(len(s.shape) > 0 for s in model.inputs):
        raise ShapeError("predict takes batches: got one sample without its batch axis; use model(x) or x[None]")
    return arrays


def _sliceable(value: Any) -> bool:
    """An array, or something that reads like one (memmap, h5py or zarr dataset) and is best read piece by piece."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__getitem__")


def _in_chunks(model: Model, sources: list[Any], batch_size: int | None, verbose: Any) -> list[Array]:
    counts = {len(s) if getattr(s, "shape", ()) else 0 for s in sources}
    if len(counts) != 1:
        _checked(model, sources if len(sources) > 1 else sources[0])  # raises the right error
    total = counts.pop()
    if batch_size is None:
        row = max(1, sum(int(np.prod(s.shape[1:], dtype=np.int64)) * np.dtype(s.dtype).itemsize for s in sources))
        batch_size = max(1, CHUNK_BYTES // row)
    if total <= batch_size:
        whole = [np.asarray(s[...]) if s.shape else np.asarray(s) for s in sources]
        return model._run(_checked(model, whole if len(whole) > 1 else whole[0]))
    results: list[Array] = []
    for start in progress(range(0, total, batch_size), -(-total // batch_size), verbose, "batches"):
        cut = [np.asarray(s[start : start + batch_size]) for s in sources]
        part = model._run(_checked(model, cut if len(cut) > 1 else cut[0]))
        if not results:
            results = [np.empty((total, *y.shape[1:]), y.dtype) for y in part]
        for whole_y, y in zip(results, part):
            whole_y[start : start + len(y)] = y
    return results
