"""`predict`: many samples, from memory, from arrays or files larger than memory, or from an iterator of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npinfer import inputs as arrange
from npinfer.errors import NpinferError, ShapeError, shown
from npinfer.graph import Array
from npinfer.options import is_count
from npinfer.prefetch import prefetch
from npinfer.progress import Progress

if TYPE_CHECKING:
    from npinfer.arrays_io import Chunk, Source
    from npinfer.model import Model

CHUNK_BYTES = 8 << 20  # of input a chunk: long enough to hide the loop, short enough for a live progress bar
OPEN_SIZE = 64  # the guess for an unknown size when chunks are measured out


class Part(NamedTuple):
    """The results for some consecutive rows, one array an output."""

    first: int
    results: list[Array]


def predict(model: Model, x: Any, batch_size: int | None, verbose: Any) -> Any:
    """See Model.predict."""
    from npinfer.arrays_io import open_source

    source = open_source(x, model.inputs, model._structure_in)
    total = source.total
    whole: list[Array] = []
    parts: list[list[Array]] = []
    for part in run(model, source, batch_size, verbose):
        if total is None or len(part.results[0]) == total:
            parts.append(part.results)
            continue
        if not whole:
            whole = [np.empty((total, *y.shape[1:]), y.dtype) for y in part.results]
        for y, results in zip(whole, part.results):
            if results.shape[1:] != y.shape[1:]:
                raise ShapeError(f"samples give results of shapes {y.shape[1:]} and {results.shape[1:]}; predict them apart")
            y[part.first : part.first + len(results)] = results
    if not whole:
        if not parts:
            raise ShapeError("predict: got no samples, the iterator or file is empty; needed is at least one")
        whole = parts[0] if len(parts) == 1 else [np.concatenate(columns) for columns in zip(*parts)]
    return arrange.restore(whole, model._structure_out)


def run(model: Model, source: Source, batch_size: int | None, verbose: Any, skip: int = 0) -> Iterator[Part]:
    """The results chunk by chunk from row `skip` on, the next chunk being read while one is computed.

    Errors about the data name the rows and the file they come from.
    """
    if batch_size is not None and not is_count(batch_size):
        raise ShapeError(f"predict(batch_size={shown(batch_size)}): needs a whole number of at least 1")
    chunks = source.chunks(int(batch_size or chunk_rows(model)), skip)
    ahead = chunks if source.cheap else prefetch(chunks)
    with Progress(source.total, verbose, "samples") as progress:
        progress.advance(skip)
        try:
            for chunk in ahead:
                results = model._run(checked(model, chunk))
                yield Part(chunk.first, results)
                progress.advance(len(results[0]))
        finally:
            ahead.close()  # type: ignore[attr-defined]


def chunk_rows(model: Model) -> int:
    """Rows of a chunk where the caller names none: by the size of the inputs."""
    row = sum(s.dtype.itemsize * int(np.prod([n or OPEN_SIZE for n in s.shape], dtype=np.int64)) for s in model.inputs)
    return max(1, CHUNK_BYTES // max(row, 1))


def checked(model: Model, chunk: Chunk) -> list[Array]:
    """A chunk's arrays as the executor takes them. Raises ShapeError or DtypeError naming the place."""
    try:
        arrays, single = arrange.batch(chunk.arrays, model.inputs)
    except NpinferError as e:
        raise type(e)(f"{_place(model, chunk)}: {e}") from None
    if single and any(len(s.shape) > 0 for s in model.inputs):
        raise ShapeError("predict takes batches: got one sample without its batch axis; use model(x) or x[None]")
    return arrays


def _place(model: Model, chunk: Chunk) -> str:
    """The first row that is wrong by itself, else the whole chunk."""
    for k in range(min(len(a) for a in chunk.arrays)):
        try:
            arrange.batch([a[k : k + 1] for a in chunk.arrays], model.inputs)
        except ShapeError:
            break  # every row has that shape
        except NpinferError:
            return f"{chunk.where}: row {chunk.first + k}"
    return chunk.where
